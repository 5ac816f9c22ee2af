//! Gathers that programs wait for.
//!
//! The node tells of each local object when it has told the store to seal it, and answers after the
//! last; the program is answered once the store has sealed all of them. What no program waits for
//! any more is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;

use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, Gathered};
use plasmon_proto::parts::ReadFailure;

#[derive(Debug)]
struct Waiting {
    answer: SyncSender<GatherReply>,
    sealed: Vec<ObjectId>,
    /// Objects that the store could not seal.
    failed: BTreeSet<ObjectId>,
    unsealed: usize,
    reply: Option<GatherReply>,
}

/// The gathers of a node, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Gathers {
    waiting: BTreeMap<u64, Waiting>,
    /// What the store is sealing, and for which gather.
    sealing: BTreeMap<ObjectId, u64>,
}

impl Gathers {
    /// A program waits for the answer.
    pub(super) fn begin(&mut self, number: u64, answer: SyncSender<GatherReply>) {
        let (sealed, failed) = (Vec::new(), BTreeSet::new());
        self.waiting.insert(number, Waiting { answer, sealed, failed, unsealed: 0, reply: None });
    }

    /// The program does not wait any more; what is to be deleted.
    pub(super) fn end(&mut self, number: u64) -> Vec<ObjectId> {
        self.waiting.remove(&number).map(|waiting| waiting.sealed).unwrap_or_default()
    }

    /// The store is sealing a local object.
    pub(super) fn landed(&mut self, number: u64, object: ObjectId) {
        self.sealing.insert(object, number);
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.unsealed += 1;
        }
    }

    /// The store has sealed a local object, or cannot. `None` if it is of no gather, else what is
    /// to be deleted.
    pub(super) fn sealed(&mut self, id: ObjectId, is_sealed: bool) -> Option<Vec<ObjectId>> {
        let number = self.sealing.remove(&id)?;
        let Some(waiting) = self.waiting.get_mut(&number) else { return Some(vec![id]) };
        waiting.unsealed -= 1;
        if is_sealed {
            waiting.sealed.push(id);
        } else {
            waiting.failed.insert(id);
        }
        Some(self.answer(number))
    }

    /// The node answers; what is to be deleted.
    pub(super) fn answered(&mut self, number: u64, reply: GatherReply) -> Vec<ObjectId> {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.reply = Some(reply);
        }
        self.answer(number)
    }

    /// Answers the program, if everything is there; what is to be deleted, because it takes no
    /// answer.
    fn answer(&mut self, number: u64) -> Vec<ObjectId> {
        let is_ready = |waiting: &Waiting| waiting.unsealed == 0 && waiting.reply.is_some();
        if !self.waiting.get(&number).is_some_and(is_ready) {
            return Vec::new();
        }
        let Some(waiting) = self.waiting.remove(&number) else { return Vec::new() };
        let mut reply = waiting.reply.unwrap_or_default();
        for gathered in &mut reply.reads {
            if let Gathered::Parts { object, .. } = gathered
                && let Some(object) = reply.objects.get(usize::from(*object))
                && waiting.failed.contains(object)
            {
                *gathered = Gathered::Failed(ReadFailure::NoRoom);
            }
        }
        // There is room for it.
        if waiting.answer.try_send(reply).is_ok() { Vec::new() } else { waiting.sealed }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn id(number: u8) -> ObjectId {
        ObjectId::new([number; 20])
    }

    fn reply(objects: &[u8]) -> GatherReply {
        let part = |object| Gathered::Parts { object, offset: 0, data_bytes: 1 };
        let reads = (0..objects.len() as u16).map(part).collect();
        GatherReply { objects: objects.iter().copied().map(id).collect(), reads }
    }

    #[test]
    fn a_program_is_answered_when_all_its_objects_are_sealed() {
        let mut gathers = Gathers::default();
        let (sender, answer) = sync_channel(1);
        gathers.begin(1, sender);
        gathers.landed(1, id(1));
        assert_eq!(gathers.sealed(id(9), true), None, "it is of no gather");
        assert_eq!(gathers.sealed(id(1), true), Some(vec![]));
        gathers.landed(1, id(2));
        assert!(gathers.answered(1, reply(&[1, 2])).is_empty());
        assert!(answer.try_recv().is_err(), "one of them is not sealed");
        assert_eq!(gathers.sealed(id(2), false), Some(vec![]));
        let mut wanted = reply(&[1, 2]);
        wanted.reads[1] = Gathered::Failed(ReadFailure::NoRoom);
        assert_eq!(answer.try_recv(), Ok(wanted));
        let (sender, answer) = sync_channel(1);
        gathers.begin(2, sender);
        let nothing = GatherReply { objects: Vec::new(), reads: vec![Gathered::Here] };
        assert!(gathers.answered(2, nothing.clone()).is_empty());
        assert_eq!(answer.try_recv(), Ok(nothing));
        assert!(gathers.waiting.is_empty() && gathers.sealing.is_empty());
    }

    #[test]
    fn what_no_program_takes_is_deleted() {
        let mut gathers = Gathers::default();
        let (sender, _answer) = sync_channel(1);
        gathers.begin(1, sender);
        gathers.landed(1, id(1));
        gathers.landed(1, id(2));
        assert_eq!(gathers.sealed(id(1), true), Some(vec![]));
        assert_eq!(gathers.end(1), [id(1)]);
        assert_eq!(gathers.sealed(id(2), true), Some(vec![id(2)]));
        // One that went without a word.
        let (sender, answer) = sync_channel(1);
        gathers.begin(2, sender);
        drop(answer);
        gathers.landed(2, id(3));
        assert!(gathers.answered(2, reply(&[3])).is_empty());
        assert_eq!(gathers.sealed(id(3), true), Some(vec![id(3)]));
        assert!(gathers.waiting.is_empty() && gathers.sealing.is_empty());
    }
}
