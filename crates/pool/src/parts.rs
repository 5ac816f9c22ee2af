//! Parts of objects that programs of this node read from others, without a copy of the object.
//!
//! ```text
//!   asking the home (of a homed id) ──► asking the primary ──► pulling ──► sealed, answered
//!                      ▲                        │ absent          │ no source
//!                      └────────── resting ◄────┴─────────────────┘
//! ```
//!
//! The bytes come by a pull of their own (`pull.rs`) into a local object whose data are the spans,
//! one after the other; admission, checks of segments and other sources are those of any pull. The
//! directory remembers nothing of it: no copy of the object comes to be. So a read that found an
//! object may end after it was deleted, as the buffers of a program outlive it.
//!
//! Every read ends: questions that are not answered, and sources that all fail, after
//! [`UNREACHABLE_MS`]; an object that does not exist when the time of its request is over; a pull
//! by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::parts::{Parts, ReadFailure, ReadReply, ReadRequest};

use crate::copies::Copies;
use crate::event::{Class, Effect};
use crate::limits::{PARTS_READS_MAX, RETRY_MS, UNREACHABLE_MS};
use crate::message::{Answer, Message, QuestionNo};
use crate::pull::{Ended, PartsOf, Wish};
use crate::record::{Birth, Content};
use crate::time::{Mono, Timers};
use crate::view::Context;

/// What a question is for is in these bits of its number; other modules leave the first one clear.
pub(crate) const QUESTION_KIND: u64 = 3 << 62;

/// It is for a read of this module.
const OF_READ: u64 = 2 << 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The question, and the home that it was sent to; else it is at the primary.
    Asking(QuestionNo, Option<Slot>),
    /// It is asked again in a moment.
    Resting,
    Pulling(Birth, Content),
}

#[derive(Debug)]
struct Read {
    request: ReadRequest,
    /// The local object that the parts become.
    landing: ObjectId,
    stage: Stage,
    /// Until when an object that does not exist is waited for.
    until: Mono,
    /// When it ends without an answer.
    deadline: Mono,
    /// Since when every source has failed.
    failing_since: Option<Mono>,
}

/// The reads of this node.
#[derive(Debug)]
pub(crate) struct PartsReads {
    reads: BTreeMap<u64, Read>,
    by_question: BTreeMap<QuestionNo, u64>,
    by_landing: BTreeMap<ObjectId, u64>,
    next: u64,
    timers: Timers<u64>,
}

/// Whether an answer is to a question of a read.
pub(crate) fn is_of_read(question: QuestionNo) -> bool {
    question.0 & QUESTION_KIND == OF_READ
}

impl PartsReads {
    /// No reads; their questions are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            reads: BTreeMap::new(),
            by_question: BTreeMap::new(),
            by_landing: BTreeMap::new(),
            next: first & !QUESTION_KIND,
            timers: Timers::new(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// A program reads parts of an object; [`Effect::Read`] answers.
    pub(crate) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        (number, landing): (u64, ObjectId),
        request: ReadRequest,
    ) {
        let is_taken = self.reads.contains_key(&number) || self.by_landing.contains_key(&landing);
        if is_taken || landing.is_pooled() || self.reads.len() >= PARTS_READS_MAX {
            let reply = ReadReply::Failed(ReadFailure::Busy);
            return cx.out.effect(Effect::Read { number, reply });
        }
        let read = Read {
            landing,
            stage: Stage::Resting,
            until: cx.now.after_ms(request.timeout_ms),
            deadline: cx.now.after_ms(UNREACHABLE_MS),
            failing_since: None,
            request,
        };
        self.reads.insert(number, read);
        self.by_landing.insert(landing, number);
        self.ask(cx, copies, number);
    }

    /// The program does not want it any more: the pull that is to be ended, if it is pulled.
    pub(crate) fn cancel(&mut self, number: u64) -> Option<ObjectId> {
        self.remove(number).map(|read| read.landing)
    }

    fn remove(&mut self, number: u64) -> Option<Read> {
        let read = self.reads.remove(&number)?;
        if let Stage::Asking(question, _) = read.stage {
            self.by_question.remove(&question);
        }
        self.by_landing.remove(&read.landing);
        self.timers.clear(number);
        Some(read)
    }

    fn end(&mut self, cx: &mut Context<'_>, number: u64, reply: ReadReply) {
        if self.remove(number).is_some() {
            cx.out.effect(Effect::Read { number, reply });
        }
    }

    fn fail(&mut self, cx: &mut Context<'_>, number: u64, failure: ReadFailure) {
        self.end(cx, number, ReadReply::Failed(failure));
    }

    /// Asks where the object is, unless it is here.
    fn ask(&mut self, cx: &mut Context<'_>, copies: &Copies, number: u64) {
        let Some(read) = self.reads.get_mut(&number) else { return };
        let (id, wanted) = (read.request.id, read.request.birth);
        if let Some(copy) = copies.get(&id).filter(|copy| copy.visible) {
            return match wanted.is_none_or(|birth| birth == copy.birth) {
                true => self.end(cx, number, ReadReply::Here),
                false => self.fail(cx, number, ReadFailure::Deleted),
            };
        }
        if let Stage::Asking(before, _) = read.stage {
            self.by_question.remove(&before);
        }
        self.next = self.next.wrapping_add(1) & !QUESTION_KIND;
        let question = QuestionNo(self.next | OF_READ);
        let home = id.home().map(Slot).filter(|home| *home != cx.view.me());
        read.stage = Stage::Asking(question, home.filter(|home| cx.view.is_live(*home)));
        self.by_question.insert(question, number);
        self.send(cx, number);
    }

    fn send(&mut self, cx: &mut Context<'_>, number: u64) {
        let Some(read) = self.reads.get(&number) else { return };
        let Stage::Asking(question, home) = read.stage else { return };
        let id = read.request.id;
        self.timers.set(number, cx.now.after_ms(RETRY_MS));
        match home {
            Some(home) => cx.send(home, Message::Open { id, question }),
            None => cx.send_to_primary(&id, Message::Locate { id, question }),
        }
    }

    /// The home of an id does not have it: the primary is asked.
    pub(crate) fn not_opened(&mut self, cx: &mut Context<'_>, question: QuestionNo) {
        let Some(number) = self.by_question.get(&question).copied() else { return };
        if let Some(read) = self.reads.get_mut(&number) {
            read.stage = Stage::Asking(question, None);
            self.send(cx, number);
        }
    }

    /// Takes an answer; what is to be pulled.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        (id, question): (ObjectId, QuestionNo),
        answer: Answer,
    ) -> Option<Wish> {
        let number = *self.by_question.get(&question)?;
        let read = self.reads.get_mut(&number).filter(|read| read.request.id == id)?;
        let wanted = read.request.birth;
        match answer {
            Answer::Found { birth, .. } if wanted.is_some_and(|wanted| wanted != birth) => {
                self.fail(cx, number, ReadFailure::Deleted);
            }
            Answer::Found { birth, content, sources, .. } => {
                return self.found(cx, number, (birth, content), sources);
            }
            Answer::Absent if wanted.is_some() => self.fail(cx, number, ReadFailure::Deleted),
            Answer::Absent if cx.now < read.until => {
                read.deadline = cx.now.after_ms(UNREACHABLE_MS);
                self.rest(cx, number);
            }
            Answer::Absent => self.fail(cx, number, ReadFailure::Absent),
            Answer::Deleted => self.fail(cx, number, ReadFailure::Deleted),
            Answer::Lost(_) => self.fail(cx, number, ReadFailure::Lost),
            Answer::Damaged(_) => self.fail(cx, number, ReadFailure::Damaged),
        }
        None
    }

    fn found(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        (birth, content): (Birth, Content),
        sources: Vec<Slot>,
    ) -> Option<Wish> {
        let read = self.reads.get_mut(&number)?;
        let data_bytes = content.data_bytes;
        if read.request.end > data_bytes {
            self.fail(cx, number, ReadFailure::Beyond { data_bytes });
            return None;
        }
        let spans = read.request.spans_of(&content);
        let bytes = spans.iter().map(|span| span.bytes).sum();
        if bytes == 0 {
            let parts = Parts { object: None, birth, content };
            self.end(cx, number, ReadReply::Parts(parts));
            return None;
        }
        if let Stage::Asking(question, _) = read.stage {
            self.by_question.remove(&question);
        }
        read.stage = Stage::Pulling(birth, content);
        self.timers.clear(number);
        Some(Wish {
            id: read.landing,
            birth,
            content: Content { data_bytes: bytes, ..Content::default() },
            class: Class::Get,
            sources,
            visible: true,
            hold: false,
            parts: Some(PartsOf::One { of: read.request.id, spans: Arc::new(spans) }),
        })
    }

    fn rest(&mut self, cx: &mut Context<'_>, number: u64) {
        let Some(read) = self.reads.get_mut(&number) else { return };
        if let Stage::Asking(question, _) = read.stage {
            self.by_question.remove(&question);
        }
        read.stage = Stage::Resting;
        self.timers.set(number, cx.now.after_ms(RETRY_MS));
    }

    /// A part of the bytes arrived.
    pub(crate) fn progressed(&mut self, landing: ObjectId) {
        let number = self.by_landing.get(&landing);
        if let Some(read) = number.and_then(|number| self.reads.get_mut(number)) {
            read.failing_since = None;
        }
    }

    /// The pull of a read ended.
    pub(crate) fn pull_ended(&mut self, cx: &mut Context<'_>, landing: ObjectId, ended: Ended) {
        let Some(number) = self.by_landing.get(&landing).copied() else { return };
        let Some(read) = self.reads.get_mut(&number) else { return };
        let Stage::Pulling(birth, content) = read.stage else { return };
        match ended {
            Ended::Sealed => {
                let parts = Parts { object: Some(landing), birth, content };
                self.end(cx, number, ReadReply::Parts(parts));
            }
            Ended::NoRoom => self.fail(cx, number, ReadFailure::NoRoom),
            Ended::NoSource => {
                let since = *read.failing_since.get_or_insert(cx.now);
                if since.after_ms(UNREACHABLE_MS) <= cx.now {
                    return self.fail(cx, number, ReadFailure::Unreachable);
                }
                read.deadline = cx.now.after_ms(UNREACHABLE_MS);
                self.rest(cx, number);
            }
        }
    }

    /// Asks everything again: another node may be the primary, or a connection was made.
    pub(crate) fn ask_all(&mut self, cx: &mut Context<'_>, copies: &Copies) {
        let asking = |(_, read): &(&u64, &Read)| !matches!(read.stage, Stage::Pulling(..));
        let numbers: Vec<u64> =
            self.reads.iter().filter(asking).map(|(number, _)| *number).collect();
        for number in numbers {
            self.ask(cx, copies, number);
        }
    }

    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>, copies: &Copies) {
        while let Some(number) = self.timers.pop(cx.now) {
            let Some(read) = self.reads.get(&number) else { continue };
            let is_late = read.deadline <= cx.now;
            match read.stage {
                Stage::Pulling(..) => {}
                Stage::Asking(..) | Stage::Resting if is_late => {
                    self.fail(cx, number, ReadFailure::Unreachable);
                }
                Stage::Asking(_, Some(home)) if !cx.view.is_live(home) => {
                    self.ask(cx, copies, number);
                }
                Stage::Asking(..) => self.send(cx, number),
                Stage::Resting => self.ask(cx, copies, number),
            }
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.by_question.is_empty() && self.by_landing.is_empty()
    }
}

#[cfg(test)]
mod tests;
