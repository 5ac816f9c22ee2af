//! The memory of the regions of this node, and the programs that wait for answers about regions.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::region::{RegionReply, RegionRequest};

use crate::memory::BoxedLanding;

/// What a program asks.
#[derive(Debug)]
pub enum RegionAsked {
    /// A new region.
    Allocate {
        /// Its home; `None`: this node.
        home: Option<Slot>,
        /// Bytes of its data.
        bytes: u64,
        /// How many nodes shall have the sealed object.
        copies: u8,
        /// How many at least.
        copies_min: u8,
    },
    /// Something of a region.
    Request(RegionRequest),
}

/// What a program asks about regions.
#[derive(Debug)]
pub struct RegionQuestion {
    /// The number of what asks: regions end with it.
    pub owner: u64,
    /// What it asks.
    pub asked: RegionAsked,
    /// Where the answer goes; it has room for it.
    pub answer: SyncSender<RegionAnswer>,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAnswer {
    /// The region.
    pub id: ObjectId,
    /// What became of it.
    pub reply: RegionReply,
}

/// The memory of the regions of this node, and what waits for answers.
#[derive(Default)]
pub(super) struct Regions {
    memories: BTreeMap<ObjectId, Memory>,
    waiting: BTreeMap<u64, (ObjectId, SyncSender<RegionAnswer>)>,
    /// The number of the last question.
    last: u64,
}

/// A region of this node.
struct Memory {
    /// `None` until it is there.
    landing: Option<BoxedLanding>,
    /// Whether its seal waits for the pool.
    settles: bool,
}

impl Regions {
    /// A program waits for an answer about a region; the number of its question.
    pub(super) fn begin(&mut self, id: ObjectId, answer: SyncSender<RegionAnswer>) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, (id, answer));
        self.last
    }

    /// The node answers.
    pub(super) fn answered(&mut self, number: u64, reply: RegionReply) {
        if let Some((id, answer)) = self.waiting.remove(&number) {
            // The connection may have ended.
            let _ = answer.try_send(RegionAnswer { id, reply });
        }
    }

    /// The memory of a region is asked for.
    pub(super) fn expect(&mut self, id: ObjectId, settles: bool) {
        self.memories.insert(id, Memory { landing: None, settles });
    }

    /// It is there, or cannot be had.
    pub(super) fn allocated(&mut self, id: &ObjectId, landing: Option<BoxedLanding>) {
        match (self.memories.get_mut(id), landing) {
            (Some(memory), Some(landing)) => memory.landing = Some(landing),
            _ => _ = self.memories.remove(id),
        }
    }

    /// Puts bytes into a region. The node has checked that they are within it.
    pub(super) fn write(&mut self, id: &ObjectId, offset: u64, bytes: &[u8]) {
        let memory = self.memories.get_mut(id).and_then(|memory| memory.landing.as_mut());
        let place = memory.and_then(|memory| {
            let from = usize::try_from(offset).ok()?;
            memory.bytes().get_mut(from..from.checked_add(bytes.len())?)
        });
        match place {
            Some(place) => place.copy_from_slice(bytes),
            None => tracing::error!(object = %id, offset, "a write is not within its region"),
        }
    }

    /// A region is over: its memory, and whether its seal waits for the pool.
    pub(super) fn end(&mut self, id: &ObjectId) -> Option<(BoxedLanding, bool)> {
        let Memory { landing, settles } = self.memories.remove(id)?;
        Some((landing?, settles))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::memory::Landing;

    struct Bytes(Vec<u8>, BTreeSet<u32>);

    impl Landing for Bytes {
        fn bytes(&mut self) -> &mut [u8] {
            &mut self.0
        }

        fn arrived(&mut self) -> &mut BTreeSet<u32> {
            &mut self.1
        }
    }

    #[test]
    fn bytes_go_where_they_belong_and_nowhere_else() {
        let id = |number| ObjectId::pooled([number; 12], Some(1));
        let mut regions = Regions::default();
        regions.expect(id(1), true);
        regions.write(&id(1), 0, &[1]);
        assert!(regions.end(&id(1)).is_none(), "its memory is not there");
        regions.expect(id(1), true);
        regions.allocated(&id(1), Some(Box::new(Bytes(vec![0; 4], BTreeSet::new()))));
        regions.write(&id(1), 1, &[1, 2]);
        regions.write(&id(1), 4, &[]);
        for (offset, bytes) in [(3, 2), (4, 1), (u64::MAX, 1), (u64::MAX, 0)] {
            regions.write(&id(1), offset, &vec![9; bytes]);
        }
        regions.write(&id(2), 0, &[9]);
        let (mut memory, settles) = regions.end(&id(1)).unwrap();
        assert_eq!((memory.bytes(), settles), (&mut [0, 1, 2, 0][..], true));
        regions.expect(id(3), false);
        regions.allocated(&id(3), None);
        assert!(regions.memories.is_empty());
    }

    #[test]
    fn an_answer_goes_to_the_program_that_asked_if_it_is_there() {
        let mut regions = Regions::default();
        let id = ObjectId::pooled([1; 12], Some(1));
        let (sender, answer) = sync_channel(1);
        let number = regions.begin(id, sender);
        regions.answered(number + 1, RegionReply::Done);
        assert!(answer.try_recv().is_err());
        regions.answered(number, RegionReply::Done);
        assert_eq!(answer.try_recv(), Ok(RegionAnswer { id, reply: RegionReply::Done }));
        let (sender, _) = sync_channel(1);
        let number = regions.begin(id, sender);
        regions.answered(number, RegionReply::Done);
        assert!(regions.waiting.is_empty());
    }
}
