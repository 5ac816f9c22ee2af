//! What programs of this node ask of regions, wherever these are.
//!
//! The home of a region answers. A question is asked again until then, but for a write: the
//! program, which has the bytes, asks that again when the connection was lost meanwhile. What is
//! not answered ends as unreachable, and as lost when the home was given up.
//!
//! This node knows which of its programs allocated what. When one is gone, its regions are given up
//! at their homes; that is asked until it is answered.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_proto::region::{RegionFailure, RegionReply, RegionRequest};
use plasmon_proto::{Code, ObjectId};

use crate::event::Effect;
use crate::limits::{REGION_ASKS_MAX, RETRY_MS, UNREACHABLE_MS};
use crate::message::{Message, QuestionNo};
use crate::time::{Mono, Timers};
use crate::view::{Context, View};

/// What is asked again.
#[derive(Debug)]
enum Again {
    Request(RegionRequest),
    /// A write, whose bytes are not kept.
    Write,
}

#[derive(Debug)]
struct Ask {
    /// What the answer is given with; `None` where no program waits for it.
    number: Option<u64>,
    home: Slot,
    again: Again,
    /// Whether it was sent more than once.
    is_repeated: bool,
    deadline: Mono,
}

/// The questions of this node, and what its programs allocated.
#[derive(Debug)]
pub(crate) struct RegionAsks {
    asks: BTreeMap<QuestionNo, Ask>,
    next: u64,
    timers: Timers<QuestionNo>,
    /// The owners of regions, which are not known to be over.
    owners: BTreeMap<ObjectId, u64>,
    /// Regions that were allocated here, or may have been, on homes that were given up: a home that
    /// comes back with them has to end them.
    lost: BTreeSet<ObjectId>,
    /// Nodes that are connected.
    linked: BTreeSet<Slot>,
}

impl RegionAsks {
    /// No questions; they are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            asks: BTreeMap::new(),
            next: first,
            timers: Timers::new(),
            owners: BTreeMap::new(),
            lost: BTreeSet::new(),
            linked: BTreeSet::new(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// A program asks something; [`Effect::Region`] answers.
    pub(crate) fn ask(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        owner: u64,
        request: RegionRequest,
    ) {
        let id = request.id();
        let Some(home) = id.home().map(Slot) else {
            return tell(cx, Some(number), RegionFailure::Unknown);
        };
        let is_write = matches!(request, RegionRequest::Write { .. });
        let failure = match cx.view.map().node(home) {
            _ if home == cx.view.me() => None,
            None => Some(RegionFailure::NoNode),
            Some(_) if cx.view.is_out(home) => Some(RegionFailure::Lost),
            Some(_) if is_write && !self.linked.contains(&home) => Some(RegionFailure::Interrupted),
            Some(_) => None,
        };
        let is_full = self.asks.len() >= REGION_ASKS_MAX;
        if let Some(failure) = failure.or(is_full.then_some(RegionFailure::Busy)) {
            return tell(cx, Some(number), failure);
        }
        if matches!(request, RegionRequest::Allocate { .. }) {
            self.owners.insert(id, owner);
        }
        self.begin(cx, Some(number), home, request);
    }

    fn begin(
        &mut self,
        cx: &mut Context<'_>,
        number: Option<u64>,
        home: Slot,
        request: RegionRequest,
    ) {
        let question = QuestionNo(self.next);
        self.next = self.next.wrapping_add(1);
        let deadline = cx.now.after_ms(UNREACHABLE_MS);
        let (again, at) = match &request {
            RegionRequest::Write { .. } => (Again::Write, deadline),
            other => (Again::Request(other.clone()), cx.now.after_ms(RETRY_MS)),
        };
        let is_repeated = false;
        self.asks.insert(question, Ask { number, home, again, is_repeated, deadline });
        self.timers.set(question, at);
        cx.send(home, Message::Region { question, request });
    }

    /// A home answers.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        question: QuestionNo,
        reply: RegionReply,
    ) {
        let Some(ask) = self.asks.get_mut(&question).filter(|ask| ask.home == from) else { return };
        if reply == RegionReply::Pending {
            ask.deadline = cx.now.after_ms(UNREACHABLE_MS);
            return;
        }
        self.end(cx, question, reply);
    }

    fn end(&mut self, cx: &mut Context<'_>, question: QuestionNo, reply: RegionReply) {
        self.timers.clear(question);
        let Some(Ask { number, again, is_repeated, .. }) = self.asks.remove(&question) else {
            return;
        };
        match (&again, reply) {
            (Again::Request(RegionRequest::Allocate { id, .. }), RegionReply::Failed(failure)) => {
                match failure {
                    // It may have come through.
                    RegionFailure::Unreachable => self.abandon(cx, *id),
                    // That it was sent again may reach a home that was started meanwhile and does
                    // not know that it was refused.
                    RegionFailure::Refused(code) if is_repeated && code != Code::Exists => {
                        self.abandon(cx, *id);
                    }
                    RegionFailure::Lost => _ = self.lost.insert(*id),
                    _ => {}
                }
                self.owners.remove(id);
            }
            (
                Again::Request(RegionRequest::Free { id, is_abandoned: true }),
                RegionReply::Failed(RegionFailure::Lost),
            ) => _ = self.lost.insert(*id),
            (
                Again::Request(RegionRequest::Seal { id } | RegionRequest::Free { id, .. }),
                RegionReply::Done,
            ) => _ = self.owners.remove(id),
            _ => {}
        }
        if let Some(number) = number {
            cx.out.effect(Effect::Region { number, reply });
        }
    }

    /// A region that was allocated here is over.
    pub(crate) fn over(&mut self, from: Slot, id: &ObjectId) {
        // The answer to its allocation may be under way.
        if id.home() == Some(from.0) {
            self.owners.remove(id);
        }
    }

    /// A program that may have allocated regions is gone. What it asked for is not asked again: an
    /// allocation that came after the end of the region would stay.
    pub(crate) fn owner_gone(&mut self, cx: &mut Context<'_>, owner: u64) {
        let owned = self.owners.iter().filter(|(_, of)| **of == owner);
        let ids: Vec<ObjectId> = owned.map(|(id, _)| *id).collect();
        let is_allocation = |ask: &Ask| match &ask.again {
            Again::Request(RegionRequest::Allocate { id, .. }) => ids.contains(id),
            _ => false,
        };
        let asked = self.asks.iter().filter(|(_, ask)| is_allocation(ask));
        let asked: Vec<QuestionNo> = asked.map(|(question, _)| *question).collect();
        for question in asked {
            self.timers.clear(question);
            if let Some(Ask { number, .. }) = self.asks.remove(&question) {
                tell(cx, number, RegionFailure::AllocatorGone);
            }
        }
        for id in ids {
            self.owners.remove(&id);
            self.abandon(cx, id);
        }
    }

    fn abandon(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        if let Some(home) = id.home() {
            let request = RegionRequest::Free { id, is_abandoned: true };
            self.begin(cx, None, Slot(home), request);
        }
    }

    /// A connection was made or lost.
    pub(crate) fn link(&mut self, cx: &mut Context<'_>, peer: Slot, up: bool) {
        if up {
            self.linked.insert(peer);
            return self.ask_again(cx, peer);
        }
        self.linked.remove(&peer);
        let is_lost =
            |(_, ask): &(&QuestionNo, &Ask)| ask.home == peer && matches!(ask.again, Again::Write);
        let lost: Vec<_> = self.asks.iter().filter(is_lost).map(|(no, _)| *no).collect();
        for question in lost {
            self.end(cx, question, RegionReply::Failed(RegionFailure::Interrupted));
        }
    }

    fn ask_again(&mut self, cx: &mut Context<'_>, home: Slot) {
        let asked = self.asks.iter_mut().filter(|(_, ask)| ask.home == home);
        for (question, ask) in asked {
            send_again(cx, *question, ask);
        }
    }

    /// Questions end whose home was given up. It may come back with its regions: those of this node
    /// are over all the same, since their programs were told so.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        let is_asked = |(_, ask): &(&QuestionNo, &Ask)| is_lost(cx.view, ask.home);
        let lost: Vec<_> = self.asks.iter().filter(is_asked).map(|(no, _)| *no).collect();
        for question in lost {
            self.end(cx, question, RegionReply::Failed(RegionFailure::Lost));
        }
        let home = |id: &ObjectId| id.home().map(Slot);
        let is_there = |id: &ObjectId| home(id).is_some_and(|home| !is_lost(cx.view, home));
        self.lost.extend(self.owners.keys().filter(|id| !is_there(id)));
        self.owners.retain(|id, _| is_there(id));
        // One that was forgotten never comes back with its slot.
        let is_known = |id: &ObjectId| home(id).is_some_and(|home| cx.view.has(home));
        let back: Vec<_> = self.lost.iter().copied().filter(is_there).collect();
        self.lost.retain(|id| is_known(id) && !is_there(id));
        for id in back {
            self.abandon(cx, id);
        }
    }

    /// Asks again, and ends what was not answered in time.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(question) = self.timers.pop(cx.now) {
            let Some(ask) = self.asks.get_mut(&question) else { continue };
            if ask.deadline <= cx.now && ask.number.is_some() {
                self.end(cx, question, RegionReply::Failed(RegionFailure::Unreachable));
                continue;
            }
            send_again(cx, question, ask);
            self.timers.set(question, cx.now.after_ms(RETRY_MS));
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.asks.is_empty()
    }
}

fn is_lost(view: &View, home: Slot) -> bool {
    home != view.me() && view.is_out(home)
}

fn send_again(cx: &mut Context<'_>, question: QuestionNo, ask: &mut Ask) {
    ask.is_repeated = true;
    if let Again::Request(request) = &ask.again {
        cx.send(ask.home, Message::Region { question, request: request.clone() });
    }
}

fn tell(cx: &mut Context<'_>, number: Option<u64>, failure: RegionFailure) {
    if let Some(number) = number {
        cx.out.effect(Effect::Region { number, reply: RegionReply::Failed(failure) });
    }
}
