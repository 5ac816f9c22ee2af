//! Questions of this node about ids: for clients that wait, for deletes, and to verify copies, by
//! itself or for clients that create what has a copy here.
//!
//! ```text
//!   wanted ──► asking the home (of a homed id) ──► asking the primary ──► answered
//!                                                        ▲      │ absent
//!                                                        └── watching
//! ```
//!
//! However many clients want an id, one question is under way; what is wanted after it was sent
//! needs an answer that was given later, so it is asked next.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::event::{Class, Fate, Told};
use crate::limits::{PREFETCH_MS, PREFETCHES_MAX, RETRY_MS, UNREACHABLE_MS};
use crate::message::{Message, QuestionNo};
use crate::record::Birth;
use crate::time::{Mono, Timers};
use crate::view::Context;

/// So often a watched id is asked about again.
const WATCH_MS: u64 = 2_000;

/// So often an object that is on its way here is asked about again: its sources may change.
const PULL_MS: u64 = 1_000;

/// Clients that ask for an object.
#[derive(Clone, Copy, Debug)]
struct Seek {
    /// The last call of the store.
    number: u64,
    class: Class,
    deadline: Mono,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Home(Slot),
    Primary,
    /// The primary said that the object is absent, and will say when it is not.
    Watching,
}

/// A question that was sent, and what it is asked for.
#[derive(Clone, Copy, Debug)]
struct Question {
    no: QuestionNo,
    stage: Stage,
    seek: Option<u64>,
    delete: Option<u64>,
    verify: Option<Birth>,
    check: Option<Check>,
}

/// Clients that want an object deleted.
#[derive(Clone, Copy, Debug)]
struct Delete {
    /// The last call of the store.
    number: u64,
    deadline: Mono,
}

/// Clients that create an object.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// The last call of the store.
    number: u64,
    deadline: Mono,
}

/// What is wanted of one id.
#[derive(Clone, Copy, Debug, Default)]
struct Want {
    seek: Option<Seek>,
    /// Until when it is to be brought here, though no client waits for it.
    prefetch: Option<Mono>,
    delete: Option<Delete>,
    verify: Option<Birth>,
    check: Option<Check>,
    question: Option<Question>,
    /// Whether clients that still wait were told that it is absent.
    was_absent: bool,
}

impl Want {
    fn is_empty(&self) -> bool {
        self.seek.is_none()
            && self.prefetch.is_none()
            && self.delete.is_none()
            && self.verify.is_none()
            && self.check.is_none()
    }

    /// Whether something is wanted that the question does not ask for.
    fn exceeds(&self, question: &Question) -> bool {
        self.seek.is_some_and(|seek| question.seek.is_none_or(|number| number < seek.number))
            || self.delete.is_some_and(|want| question.delete.is_none_or(|no| no < want.number))
            || (self.verify.is_some() && question.verify != self.verify)
            || self
                .check
                .is_some_and(|want| question.check.is_none_or(|it| it.number < want.number))
    }
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Clients want the object, in this class.
    pub(crate) seek: Option<Class>,
    /// The last call of clients for it.
    pub(crate) number: Option<u64>,
    /// Whether they were told that it is absent.
    pub(crate) was_absent: bool,
    /// Clients want it deleted: the last call that this answers.
    pub(crate) delete: Option<u64>,
    /// Whether this copy is right.
    pub(crate) verify: Option<Birth>,
    /// Clients create it: the last call that this answers.
    pub(crate) check: Option<u64>,
}

/// The questions of this node.
#[derive(Debug)]
pub(crate) struct Lookups {
    wants: BTreeMap<ObjectId, Want>,
    next: u64,
    timers: Timers<ObjectId>,
}

impl Lookups {
    /// No questions; they are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self { wants: BTreeMap::new(), next: first, timers: Timers::new() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// A client asks for an object.
    pub(crate) fn seek(&mut self, cx: &mut Context<'_>, id: ObjectId, number: u64, class: Class) {
        let deadline = cx.now.after_ms(UNREACHABLE_MS);
        let want = self.wants.entry(id).or_default();
        let class = want.seek.map_or(class, |seek| seek.class.min(class));
        want.seek = Some(Seek { number, class, deadline });
        self.go_on(cx, id);
    }

    /// No client asks for it any more.
    pub(crate) fn unseek(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let Some(want) = self.wants.get_mut(&id) else { return };
        want.seek = None;
        if want.question.is_some_and(|question| question.stage == Stage::Watching) {
            cx.send_to_primary(&id, Message::Unwatch { id });
            want.question = None;
        }
        self.tidy(id);
    }

    /// A client will need an object. What is not here after a minute without progress is given up;
    /// so is what would be too much at a time.
    pub(crate) fn prefetch(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        if self.wants.len() >= PREFETCHES_MAX && !self.wants.contains_key(&id) {
            return;
        }
        let want = self.wants.entry(id).or_default();
        want.prefetch = Some(cx.now.after_ms(PREFETCH_MS));
        self.go_on(cx, id);
    }

    /// There is a copy here, or there will be one without this: nothing is to be brought.
    pub(crate) fn arrived(&mut self, id: ObjectId) {
        if let Some(want) = self.wants.get_mut(&id) {
            want.prefetch = None;
            self.tidy(id);
        }
    }

    pub(crate) fn delete(&mut self, cx: &mut Context<'_>, id: ObjectId, number: u64) {
        let deadline = cx.now.after_ms(UNREACHABLE_MS);
        self.wants.entry(id).or_default().delete = Some(Delete { number, deadline });
        self.go_on(cx, id);
    }

    /// The deletes up to this call have ended: the object was found otherwise.
    pub(crate) fn deletes_ended(&mut self, id: ObjectId, number: u64) {
        if let Some(want) = self.wants.get_mut(&id) {
            want.delete = want.delete.filter(|delete| delete.number > number);
            self.tidy(id);
        }
    }

    pub(crate) fn verify(&mut self, cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
        self.wants.entry(id).or_default().verify = Some(birth);
        self.go_on(cx, id);
    }

    /// Clients create an object: does one of the id exist?
    pub(crate) fn check(&mut self, cx: &mut Context<'_>, id: ObjectId, number: u64) {
        let deadline = cx.now.after_ms(UNREACHABLE_MS);
        let want = self.wants.entry(id).or_default();
        let number = want.check.map_or(number, |check| check.number.max(number));
        want.check = Some(Check { number, deadline });
        self.go_on(cx, id);
    }

    /// The class in which clients of this node ask for an object.
    pub(crate) fn class_of(&self, id: &ObjectId) -> Option<Class> {
        let want = self.wants.get(id)?;
        want.seek.map(|seek| seek.class).or(want.prefetch.map(|_| Class::Prefetch))
    }

    /// The pull of an object has no source any more.
    pub(crate) fn ask_later(&mut self, now: Mono, id: ObjectId) {
        if self.wants.get(&id).is_some_and(|want| want.question.is_none()) {
            self.timers.set(id, now.after_ms(RETRY_MS));
        }
    }

    /// A part of the copy arrived.
    pub(crate) fn progressed(&mut self, now: Mono, id: ObjectId) {
        let Some(Want { seek, prefetch, .. }) = self.wants.get_mut(&id) else { return };
        if let Some(seek) = seek {
            seek.deadline = now.after_ms(UNREACHABLE_MS);
        }
        if let Some(until) = prefetch {
            *until = now.after_ms(PREFETCH_MS);
        }
    }

    /// The clients that ask for an object end with this.
    pub(crate) fn fail(&mut self, cx: &mut Context<'_>, id: ObjectId, fate: Fate) {
        let Some(want) = self.wants.get_mut(&id) else { return };
        want.prefetch = None;
        if let Some(Seek { number, .. }) = want.seek.take() {
            cx.out.tell(Told::Sought { id, number, fate });
        }
        self.tidy(id);
    }

    fn tidy(&mut self, id: ObjectId) {
        if self.wants.get(&id).is_some_and(Want::is_empty) {
            self.wants.remove(&id);
            self.timers.clear(id);
        }
    }

    /// Asks unless a question is under way.
    pub(crate) fn go_on(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let Some(want) = self.wants.get(&id) else { return };
        match want.question {
            Some(Question { stage: Stage::Home(_) | Stage::Primary, .. }) => {}
            Some(Question { stage: Stage::Watching, .. }) | None => self.ask(cx, id),
        }
    }

    /// Asks again what is wanted; answers to earlier questions are not taken any more.
    pub(crate) fn ask_anew(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        if self.wants.contains_key(&id) {
            self.ask(cx, id);
        }
    }

    /// Asks a new question.
    fn ask(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let home = id.home().map(Slot).filter(|home| *home != cx.view.me());
        let home = home.filter(|home| cx.view.is_live(*home));
        self.next += 1;
        let Some(want) = self.wants.get_mut(&id) else { return };
        let is_watching = want.question.is_some_and(|before| before.stage == Stage::Watching);
        if let Some(seek) = want.seek.as_mut().filter(|_| is_watching) {
            seek.deadline = cx.now.after_ms(UNREACHABLE_MS);
        }
        want.question = Some(Question {
            no: QuestionNo(self.next),
            stage: home.map_or(Stage::Primary, Stage::Home),
            seek: want.seek.map(|seek| seek.number),
            delete: want.delete.map(|delete| delete.number),
            verify: want.verify,
            check: want.check,
        });
        self.send(cx, id);
    }

    fn send(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let Some(want) = self.wants.get(&id) else { return };
        let Some(Question { no: question, stage, .. }) = want.question else { return };
        let watch = want.seek.is_some();
        let wait_ms = if stage == Stage::Watching { WATCH_MS } else { RETRY_MS };
        self.timers.set(id, cx.now.after_ms(wait_ms));
        match stage {
            Stage::Home(home) => cx.send(home, Message::Open { id, question }),
            Stage::Primary | Stage::Watching => {
                cx.send_to_primary(&id, Message::Find { id, question, watch });
            }
        }
    }

    /// Asks everything again: another node may be the primary, or a connection was made.
    pub(crate) fn ask_all(&mut self, cx: &mut Context<'_>) {
        let ids: Vec<_> = self.wants.keys().copied().collect();
        for id in ids {
            self.ask(cx, id);
        }
    }

    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(id) = self.timers.pop(cx.now) {
            let Some(want) = self.wants.get_mut(&id) else { continue };
            let stage = want.question.map(|question| question.stage);
            want.prefetch = want.prefetch.filter(|until| *until > cx.now);
            if let Some(Delete { number, .. }) = want.delete.filter(|d| d.deadline <= cx.now) {
                want.delete = None;
                cx.out.tell(Told::DeleteUnreachable { id, number });
            }
            if let Some(Check { number, .. }) = want.check.filter(|it| it.deadline <= cx.now) {
                want.check = None;
                cx.out.tell(Told::Verified { id, number, known: false });
            }
            let late = want.seek.is_some_and(|seek| seek.deadline <= cx.now);
            if late && stage != Some(Stage::Watching) {
                self.fail(cx, id, Fate::Unreachable);
            }
            self.tidy(id);
            match stage {
                _ if !self.wants.contains_key(&id) => {}
                None => self.ask(cx, id),
                Some(Stage::Home(home)) if !cx.view.is_live(home) => self.ask(cx, id),
                Some(_) => self.send(cx, id),
            }
        }
    }

    /// The home of an id does not have it: the primary is asked.
    pub(crate) fn not_opened(&mut self, cx: &mut Context<'_>, id: ObjectId, no: QuestionNo) {
        let question = self.wants.get_mut(&id).and_then(|want| want.question.as_mut());
        if let Some(question) = question.filter(|question| question.no == no) {
            question.stage = Stage::Primary;
            self.send(cx, id);
        }
    }

    /// Takes an answer to the question that is under way, and says what it is for. Without a fate
    /// the object was found; clients that ask for it are answered once it is here.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        no: QuestionNo,
        fate: Option<Fate>,
    ) -> Option<Asked> {
        let want = self.wants.get_mut(&id)?;
        let question = want.question.filter(|question| question.no == no)?;
        let seek = want.seek.filter(|_| question.seek.is_some()).map(|seek| seek.class);
        let asked = Asked {
            seek: seek.or(want.prefetch.map(|_| Class::Prefetch)),
            number: want.seek.map(|seek| seek.number),
            was_absent: want.was_absent,
            delete: question.delete.filter(|_| want.delete.is_some()),
            verify: question.verify.and_then(|_| want.verify.take()),
            check: want.check.and(question.check).map(|check| check.number),
        };
        want.check = want.check.filter(|check| asked.check.is_none_or(|no| no < check.number));
        want.delete = want.delete.filter(|delete| question.delete != Some(delete.number));
        want.question = None;
        want.prefetch = want.prefetch.filter(|_| fate.is_none());
        if let (Some(seek), Some(number), Some(fate)) = (want.seek, question.seek, fate) {
            cx.out.tell(Told::Sought { id, number, fate });
            if fate == Fate::Absent {
                want.was_absent = true;
                want.question = Some(Question { stage: Stage::Watching, ..question });
            } else if seek.number == number {
                want.seek = None;
            }
        }
        let is_more = fate.is_some()
            || want.delete.is_some()
            || want.verify.is_some()
            || want.check.is_some();
        if is_more && want.exceeds(&question) {
            self.ask(cx, id);
        } else {
            let wait_ms = if fate == Some(Fate::Absent) { WATCH_MS } else { PULL_MS };
            self.timers.set(id, cx.now.after_ms(wait_ms));
        }
        self.tidy(id);
        Some(asked)
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.wants.is_empty()
    }
}
