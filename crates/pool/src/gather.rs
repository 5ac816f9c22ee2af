//! Parts of many objects that programs of this node read from others, in one request.
//!
//! ```text
//!   of each object:
//!     asking the home (of a homed id) ──► asking the primary ──► queued at a source ──► pulling
//!                        ▲                       │ absent           ▲  │ no source left   │
//!                        └──── resting ◄─────────┼──────────────────┼──┘                  │
//!                                                ▼                  └──── it failed ◄─────┤
//!                                              done ◄─────────────────────────────────────┘
//! ```
//!
//! What is read from one node comes together, in transfers of one segment (`object_parts.rs`): a
//! thousand small parts cost a few messages. Each transfer is a pull of its own (`pull.rs`) into a
//! local object, so admission and memory are those of any pull; a part that is longer than a
//! segment is a read of one object. What fails in a transfer is read from other nodes, object by
//! object, and what a holder does not have any more is asked of the directory again. So one object
//! that is gone ends nothing for the others.
//!
//! Every gather ends, because each of its reads does: one that does not exist at once, and one that
//! cannot be found out or read from any node after
//! [`UNREACHABLE_MS`](crate::limits::UNREACHABLE_MS).

mod entry;
mod queue;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, GatherRequest, Gathered};
use plasmon_proto::id::OBJECT_ID_BYTES;
use plasmon_proto::parts::ReadFailure;

use self::entry::{Entry, Next, Stage};
use self::queue::{Batch, Queues};
pub(crate) use self::serving::GatherServes;
use crate::copies::Copies;
use crate::event::{Class, Effect};
use crate::limits::{GATHERS_MAX, RETRY_MS};
use crate::message::{Answer, Message, QuestionNo};
use crate::object_parts::{self, next_start};
use crate::parts::QUESTION_KIND;
use crate::pull::{Ended, PartsOf, Wish};
use crate::record::Content;
use crate::time::{Mono, Timers};
use crate::view::Context;

/// The kind of the questions of this module.
const OF_GATHER: u64 = 3 << 62;

/// A read: the number of its gather, and its place in that.
type ReadNo = (u64, u16);

#[derive(Debug)]
struct Gather {
    entries: Vec<Entry>,
    /// The id that its local objects get theirs from, and how many did.
    landing: ObjectId,
    landings: u32,
    /// The local objects that are here.
    objects: Vec<ObjectId>,
    /// Reads that are not done.
    left: usize,
}

/// The gathers of this node.
#[derive(Debug)]
pub(crate) struct Gathers {
    gathers: BTreeMap<u64, Gather>,
    by_question: BTreeMap<QuestionNo, ReadNo>,
    by_landing: BTreeMap<ObjectId, Batch>,
    queues: Queues,
    next: u64,
    timers: Timers<ReadNo>,
    /// Nodes that are not connected: they are asked last.
    down: BTreeSet<Slot>,
}

/// Whether an answer is to a question of a gather.
pub(crate) fn is_of_gather(question: QuestionNo) -> bool {
    question.0 & QUESTION_KIND == OF_GATHER
}

impl Gathers {
    /// No gathers; their questions are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            gathers: BTreeMap::new(),
            by_question: BTreeMap::new(),
            by_landing: BTreeMap::new(),
            queues: Queues::default(),
            next: first & !QUESTION_KIND,
            timers: Timers::new(),
            down: BTreeSet::new(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// A program reads parts of several objects; [`Effect::Gathered`] answers.
    pub(crate) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        (number, landing): (u64, ObjectId),
        request: GatherRequest,
    ) {
        let left = request.reads.len();
        let is_taken = self.gathers.contains_key(&number);
        if is_taken || !request.is_valid() || self.gathers.len() >= GATHERS_MAX {
            let reads = vec![Gathered::Failed(ReadFailure::Busy); left];
            let reply = GatherReply { objects: Vec::new(), reads };
            return cx.out.effect(Effect::Gathered { number, reply });
        }
        let entries = request.reads.into_iter().map(|read| Entry::new(read, cx.now)).collect();
        let (landings, objects) = (0, Vec::new());
        self.gathers.insert(number, Gather { entries, landing, landings, objects, left });
        for at in 0..left {
            self.ask(cx, copies, (number, at as u16));
        }
    }

    /// The program does not want it any more: the pulls that are to be ended.
    pub(crate) fn cancel(&mut self, number: u64) -> Vec<ObjectId> {
        let Some(gather) = self.gathers.remove(&number) else { return Vec::new() };
        for (at, entry) in gather.entries.iter().enumerate() {
            self.timers.clear((number, at as u16));
            if let Some(question) = entry.question() {
                self.by_question.remove(&question);
            }
        }
        self.queues.forget(number);
        let pulled = self.by_landing.iter().filter(|(_, batch)| batch.number == number);
        let pulled: Vec<ObjectId> = pulled.map(|(landing, _)| *landing).collect();
        for landing in &pulled {
            if let Some(batch) = self.by_landing.remove(landing) {
                self.queues.end(batch.source);
            }
        }
        pulled
    }

    fn entry(&mut self, (number, at): ReadNo) -> Option<&mut Entry> {
        self.gathers.get_mut(&number)?.entries.get_mut(usize::from(at))
    }

    /// Asks where an object is, unless it is here.
    fn ask(&mut self, cx: &mut Context<'_>, copies: &Copies, no: ReadNo) {
        self.next = self.next.wrapping_add(1) & !QUESTION_KIND;
        let question = QuestionNo(self.next | OF_GATHER);
        let Some(entry) = self.entry(no) else { return };
        let (id, before) = (entry.id(), entry.question());
        let is_here = copies.get(&id).is_some_and(|copy| copy.visible);
        if !is_here {
            let home = id.home().map(Slot).filter(|home| *home != cx.view.me());
            entry.stage = Stage::Asking(question, home.filter(|home| cx.view.is_live(*home)));
        }
        if let Some(before) = before {
            self.by_question.remove(&before);
        }
        if is_here {
            return self.done(cx, no, Gathered::Here);
        }
        self.by_question.insert(question, no);
        self.send(cx, no);
    }

    fn send(&mut self, cx: &mut Context<'_>, no: ReadNo) {
        let Some(entry) = self.entry(no) else { return };
        let Stage::Asking(question, home) = entry.stage else { return };
        let id = entry.id();
        self.timers.set(no, cx.now.after_ms(RETRY_MS));
        match home {
            Some(home) => cx.send(home, Message::Open { id, question }),
            None => cx.send_to_primary(&id, Message::Locate { id, question }),
        }
    }

    /// The home of an id does not have it: the primary is asked.
    pub(crate) fn not_opened(&mut self, cx: &mut Context<'_>, question: QuestionNo) {
        let Some(no) = self.by_question.get(&question).copied() else { return };
        if let Some(entry) = self.entry(no) {
            entry.stage = Stage::Asking(question, None);
            self.send(cx, no);
        }
    }

    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        (id, question): (ObjectId, QuestionNo),
        answer: Answer,
    ) {
        let Some(no) = self.by_question.get(&question).copied() else { return };
        let Some(entry) = self.entry(no).filter(|entry| entry.id() == id) else { return };
        let failure = match answer {
            Answer::Found { birth, content, mut sources, .. } => {
                sources.retain(|slot| *slot != cx.view.me());
                let next = entry.found((birth, content), sources);
                return self.went_on(cx, no, next);
            }
            Answer::Absent => ReadFailure::Absent,
            Answer::Deleted => ReadFailure::Deleted,
            Answer::Lost(_) => ReadFailure::Lost,
            Answer::Damaged(_) => ReadFailure::Damaged,
        };
        self.done(cx, no, Gathered::Failed(failure));
    }

    /// A read goes on: as is said, or at the next source.
    fn went_on(&mut self, cx: &mut Context<'_>, no: ReadNo, next: Option<Next>) {
        let gather = self.gathers.get_mut(&no.0);
        let entry = gather.and_then(|gather| gather.entries.get_mut(usize::from(no.1)));
        let Some(entry) = entry else { return };
        let next = next.unwrap_or_else(|| entry.next(cx.now, |slot| !self.down.contains(&slot)));
        let (question, size) = (entry.question(), entry.size());
        match next {
            Next::From(source) => entry.stage = Stage::Queued(source),
            Next::Rest => entry.stage = Stage::Resting,
            Next::Done(_) => {}
        }
        if let Some(question) = question {
            self.by_question.remove(&question);
        }
        match next {
            Next::From(source) => {
                self.timers.clear(no);
                self.queues.push(source, no, size);
            }
            Next::Rest => self.timers.set(no, cx.now.after_ms(RETRY_MS)),
            Next::Done(gathered) => self.done(cx, no, gathered),
        }
    }

    /// A read is over, and its gather with the last of them.
    fn done(&mut self, cx: &mut Context<'_>, no: ReadNo, gathered: Gathered) {
        self.timers.clear(no);
        let Some(gather) = self.gathers.get_mut(&no.0) else { return };
        let Some(entry) = gather.entries.get_mut(usize::from(no.1)) else { return };
        if let Some(question) = entry.question() {
            self.by_question.remove(&question);
        }
        if !matches!(entry.stage, Stage::Done(_)) {
            gather.left -= 1;
        }
        entry.stage = Stage::Done(gathered);
        if gather.left > 0 {
            return;
        }
        let Some(gather) = self.gathers.remove(&no.0) else { return };
        let reads = gather.entries.into_iter().filter_map(|entry| match entry.stage {
            Stage::Done(gathered) => Some(gathered),
            _ => None,
        });
        let reply = GatherReply { objects: gather.objects, reads: reads.collect() };
        cx.out.effect(Effect::Gathered { number: no.0, reply });
    }

    /// The next pull, if one can be begun now.
    pub(crate) fn next_pull(&mut self) -> Option<Wish> {
        loop {
            let batch = self.queues.next()?;
            let source = batch.source;
            match self.pull_of(batch) {
                Some(wish) => return Some(wish),
                None => self.queues.end(source),
            }
        }
    }

    fn pull_of(&mut self, batch: Batch) -> Option<Wish> {
        let gather = self.gathers.get_mut(&batch.number)?;
        gather.landings += 1;
        let landing = derived(gather.landing, gather.landings);
        let mut parts = Vec::with_capacity(batch.reads.len());
        let mut sources = Vec::new();
        for at in &batch.reads {
            let entry = gather.entries.get_mut(usize::from(*at))?;
            entry.stage = Stage::Pulling(landing);
            parts.push(entry.parts()?);
            sources = entry.sources(batch.source);
        }
        let birth = parts.first()?.birth;
        let (parts, bytes, sources) = match object_parts::bytes_of(&parts) {
            Some(bytes) => (PartsOf::Many(Arc::new(parts)), bytes, vec![batch.source]),
            // Longer than a segment, and so alone.
            None => {
                let one = parts.pop()?;
                let bytes = one.bytes();
                (PartsOf::One { of: one.id, spans: Arc::new(one.spans) }, bytes, sources)
            }
        };
        self.by_landing.insert(landing, batch);
        Some(Wish {
            id: landing,
            birth,
            content: Content { data_bytes: bytes, ..Content::default() },
            class: Class::Get,
            sources,
            visible: true,
            hold: false,
            parts: Some(parts),
        })
    }

    /// Whether a pull with this id is one of a gather.
    pub(crate) fn has(&self, landing: &ObjectId) -> bool {
        self.by_landing.contains_key(landing)
    }

    /// A part of the bytes arrived.
    pub(crate) fn progressed(&mut self, landing: ObjectId) {
        let Some(Batch { number, reads, .. }) = self.by_landing.get(&landing) else { return };
        let Some(gather) = self.gathers.get_mut(number) else { return };
        for at in reads {
            if let Some(entry) = gather.entries.get_mut(usize::from(*at)) {
                entry.progressed();
            }
        }
    }

    fn end_batch(&mut self, landing: ObjectId) -> Option<Batch> {
        let batch = self.by_landing.remove(&landing)?;
        self.queues.end(batch.source);
        Some(batch)
    }

    /// The pull of a batch ended.
    pub(crate) fn pull_ended(&mut self, cx: &mut Context<'_>, landing: ObjectId, ended: Ended) {
        let Some(Batch { source, number, reads }) = self.end_batch(landing) else { return };
        match ended {
            Ended::Sealed => self.landed(cx, landing, (number, &reads)),
            Ended::NoRoom => {
                for at in reads {
                    self.done(cx, (number, at), Gathered::Failed(ReadFailure::NoRoom));
                }
            }
            Ended::NoSource => reads.into_iter().for_each(|at| self.fail(cx, (number, at), source)),
        }
    }

    /// The parts of these reads are in a local object, in this order.
    fn landed(&mut self, cx: &mut Context<'_>, object: ObjectId, (number, reads): (u64, &[u16])) {
        let Some(gather) = self.gathers.get_mut(&number) else { return };
        cx.out.effect(Effect::GatherLanded { number, object });
        let place = gather.objects.len() as u16;
        gather.objects.push(object);
        let mut end = 0;
        for at in reads {
            let Some(entry) = self.entry((number, *at)) else { continue };
            let (size, data_bytes) = (entry.size(), entry.data_bytes());
            let offset = next_start(end);
            end = offset + size.bytes;
            let parts = Gathered::Parts { object: place, offset, data_bytes };
            self.done(cx, (number, *at), parts);
        }
    }

    /// A read could not be done at this node.
    fn fail(&mut self, cx: &mut Context<'_>, no: ReadNo, source: Slot) {
        if let Some(entry) = self.entry(no) {
            entry.failed(source);
            self.went_on(cx, no, None);
        }
    }

    /// The source of a batch does not have some of the objects, and has sent none. Their primaries
    /// are told; the others are read from it all the same.
    pub(crate) fn refused(&mut self, cx: &mut Context<'_>, landing: ObjectId, missing: &[u16]) {
        let Some(Batch { source, number, reads }) = self.end_batch(landing) else { return };
        let missing: BTreeSet<u16> = missing.iter().copied().collect();
        let is_known = missing.iter().any(|at| usize::from(*at) < reads.len());
        for (place, at) in reads.into_iter().enumerate() {
            let is_missing = missing.contains(&(place as u16));
            let Some(entry) = self.entry((number, at)) else { continue };
            if is_missing && let Some(birth) = entry.birth() {
                let (id, holder) = (entry.id(), source);
                cx.send_to_primary(&id, Message::Missing { id, birth, holder });
            }
            // A source that names none of them does not send them, either.
            if is_missing || !is_known {
                self.fail(cx, (number, at), source);
            } else {
                self.went_on(cx, (number, at), Some(Next::From(source)));
            }
        }
    }

    pub(crate) fn link_up(&mut self, peer: Slot) {
        self.down.remove(&peer);
    }

    /// The connection to a node was lost: what waits for it is read elsewhere.
    pub(crate) fn link_down(&mut self, cx: &mut Context<'_>, peer: Slot) {
        self.down.insert(peer);
        for no in self.queues.take(peer) {
            self.went_on(cx, no, None);
        }
    }

    /// Asks everything again: another node may be the primary, or a connection was made.
    pub(crate) fn ask_all(&mut self, cx: &mut Context<'_>, copies: &Copies) {
        let mut asking = Vec::new();
        for (number, gather) in &self.gathers {
            for (at, entry) in gather.entries.iter().enumerate() {
                if matches!(entry.stage, Stage::Asking(..) | Stage::Resting) {
                    asking.push((*number, at as u16));
                }
            }
        }
        asking.into_iter().for_each(|no| self.ask(cx, copies, no));
    }

    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>, copies: &Copies) {
        while let Some(no) = self.timers.pop(cx.now) {
            let Some(entry) = self.entry(no) else { continue };
            let is_late = entry.is_late(cx.now);
            match entry.stage {
                Stage::Queued(_) | Stage::Pulling(_) | Stage::Done(_) => {}
                Stage::Asking(..) | Stage::Resting if is_late => {
                    self.done(cx, no, Gathered::Failed(ReadFailure::Unreachable));
                }
                Stage::Asking(_, Some(home)) if !cx.view.is_live(home) => self.ask(cx, copies, no),
                Stage::Asking(..) => self.send(cx, no),
                Stage::Resting => self.ask(cx, copies, no),
            }
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.gathers.is_empty()
            && self.by_question.is_empty()
            && self.by_landing.is_empty()
            && self.queues.is_empty()
    }
}

/// The id of a local object of a gather: no two of one have the same, as long as there are fewer
/// than 2^32.
fn derived(landing: ObjectId, number: u32) -> ObjectId {
    let mut bytes: [u8; OBJECT_ID_BYTES] = *landing.as_bytes();
    for (byte, mixed) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *byte ^= mixed;
    }
    ObjectId::new(bytes)
}

#[cfg(test)]
mod tests;
