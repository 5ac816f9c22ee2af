//! One read of a gather.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherRead, Gathered};
use plasmon_proto::parts::{ReadFailure, Span, within};

use super::queue::Size;
use crate::limits::UNREACHABLE_MS;
use crate::message::{ObjectParts, QuestionNo};
use crate::record::{Birth, Content};
use crate::time::Mono;

/// Where a read is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The question, and the home that it was sent to; else it is at the primary.
    Asking(QuestionNo, Option<Slot>),
    /// It is asked again in a moment.
    Resting,
    /// It waits for its turn at this node.
    Queued(Slot),
    /// It is on its way, with others in this local object.
    Pulling(ObjectId),
    Done(Gathered),
}

/// What was found of its object.
#[derive(Clone, Debug)]
struct Found {
    birth: Birth,
    data_bytes: u64,
    /// What there is of the spans that were asked for.
    spans: Vec<Span>,
    bytes: u64,
    /// The nodes that have it, the best first.
    sources: Vec<Slot>,
}

/// One read.
#[derive(Debug)]
pub(super) struct Entry {
    read: GatherRead,
    pub(super) stage: Stage,
    found: Option<Found>,
    /// The nodes that could not be read from since the last question.
    tried: Vec<Slot>,
    /// When it ends without an answer.
    pub(super) deadline: Mono,
    /// Since when every source has failed.
    failing_since: Option<Mono>,
}

/// What follows for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is read from this node.
    From(Slot),
    /// It is asked again in a moment.
    Rest,
    Done(Gathered),
}

const UNREACHABLE: Next = Next::Done(Gathered::Failed(ReadFailure::Unreachable));

impl Entry {
    pub(super) fn new(read: GatherRead, now: Mono) -> Self {
        Self {
            read,
            stage: Stage::Resting,
            found: None,
            tried: Vec::new(),
            deadline: now.after_ms(UNREACHABLE_MS),
            failing_since: None,
        }
    }

    pub(super) fn id(&self) -> ObjectId {
        self.read.id
    }

    pub(super) fn birth(&self) -> Option<Birth> {
        self.found.as_ref().map(|found| found.birth)
    }

    pub(super) fn question(&self) -> Option<QuestionNo> {
        match self.stage {
            Stage::Asking(question, _) => Some(question),
            _ => None,
        }
    }

    /// How much it brings.
    pub(super) fn size(&self) -> Size {
        let found = self.found.as_ref();
        let (bytes, spans) = found.map_or((0, 0), |found| (found.bytes, found.spans.len()));
        Size { bytes, spans }
    }

    /// How many bytes the data of its object has.
    pub(super) fn data_bytes(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.data_bytes)
    }

    /// What is to be read of its object.
    pub(super) fn parts(&self) -> Option<ObjectParts> {
        let Found { birth, spans, .. } = self.found.clone()?;
        Some(ObjectParts { id: self.read.id, birth, spans })
    }

    /// The sources that have not failed, this one first.
    pub(super) fn sources(&self, first: Slot) -> Vec<Slot> {
        let found = self.found.iter().flat_map(|found| found.sources.iter().copied());
        let others = found.filter(|slot| *slot != first && !self.tried.contains(slot));
        [first].into_iter().chain(others).collect()
    }

    /// Its object was found on these nodes.
    pub(super) fn found(
        &mut self,
        (birth, content): (Birth, Content),
        sources: Vec<Slot>,
    ) -> Option<Next> {
        let data_bytes = content.data_bytes;
        if self.read.end > data_bytes {
            let failure = ReadFailure::Beyond { data_bytes };
            return Some(Next::Done(Gathered::Failed(failure)));
        }
        let spans = within(&self.read.spans, data_bytes);
        let bytes = spans.iter().map(|span| span.bytes).sum();
        self.tried.clear();
        self.found = Some(Found { birth, data_bytes, spans, bytes, sources });
        (bytes == 0).then_some(Next::Done(Gathered::Parts { object: 0, offset: 0, data_bytes }))
    }

    /// Where it is to be read: from the first node that did not fail, and rather one that is
    /// connected. Without any it rests, and ends when that has gone on for too long.
    pub(super) fn next(&mut self, now: Mono, is_up: impl Fn(Slot) -> bool) -> Next {
        let found = self.found.iter().flat_map(|found| found.sources.iter().copied());
        let left: Vec<Slot> = found.filter(|slot| !self.tried.contains(slot)).collect();
        let up = left.iter().copied().find(|slot| is_up(*slot));
        if let Some(source) = up.or_else(|| left.first().copied()) {
            return Next::From(source);
        }
        let since = *self.failing_since.get_or_insert(now);
        if since.after_ms(UNREACHABLE_MS) <= now {
            return UNREACHABLE;
        }
        self.deadline = now.after_ms(UNREACHABLE_MS);
        Next::Rest
    }

    /// It could not be read from this node.
    pub(super) fn failed(&mut self, source: Slot) {
        self.tried.push(source);
    }

    /// Bytes of it arrived.
    pub(super) fn progressed(&mut self) {
        self.failing_since = None;
    }

    /// Whether it has gone on for so long without an answer that it ends.
    pub(super) fn is_late(&self, now: Mono) -> bool {
        self.deadline <= now
    }
}
