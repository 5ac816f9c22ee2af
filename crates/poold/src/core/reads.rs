//! Reads of parts that programs wait for.
//!
//! The node answers a read when it has told the store to seal the local object; the program is
//! answered once the store has done it. An object that no program waits for any more is deleted.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use plasmon_proto::ObjectId;
use plasmon_proto::parts::{Parts, ReadFailure, ReadReply};

/// The reads of a node, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: BTreeMap<u64, SyncSender<ReadReply>>,
    sealing: BTreeMap<ObjectId, (u64, ReadReply)>,
}

impl Reads {
    /// A program waits for the answer.
    pub(super) fn begin(&mut self, number: u64, answer: SyncSender<ReadReply>) {
        self.waiting.insert(number, answer);
    }

    /// The program does not wait any more.
    pub(super) fn end(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The node answers a read.
    pub(super) fn answered(&mut self, number: u64, reply: ReadReply) {
        match reply {
            ReadReply::Parts(Parts { object: Some(id), .. }) => {
                self.sealing.insert(id, (number, reply));
            }
            _ => _ = self.tell(number, reply),
        }
    }

    /// The store has sealed a local object, or cannot; what is to be deleted.
    pub(super) fn sealed(&mut self, id: ObjectId, is_sealed: bool) -> Option<ObjectId> {
        let (number, reply) = self.sealing.remove(&id)?;
        if !is_sealed {
            self.tell(number, ReadReply::Failed(ReadFailure::NoRoom));
            return None;
        }
        (!self.tell(number, reply)).then_some(id)
    }

    /// Whether a program takes the answer. There is room for it.
    fn tell(&mut self, number: u64, reply: ReadReply) -> bool {
        self.waiting.remove(&number).is_some_and(|answer| answer.try_send(reply).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use plasmon_cluster::Slot;
    use plasmon_pool::{Birth, Content};

    use super::*;

    #[test]
    fn a_program_is_answered_when_its_object_is_sealed_and_else_it_is_deleted() {
        let id = |number| ObjectId::new([number; 20]);
        let birth = Birth { slot: Slot(1), boot: 1, serial: 1 };
        let parts = |number| {
            let object = Some(id(number));
            ReadReply::Parts(Parts { object, birth, content: Content::default() })
        };
        let mut reads = Reads::default();
        let begin = |reads: &mut Reads, number| {
            let (sender, answer) = sync_channel(1);
            reads.begin(number, sender);
            answer
        };
        let answer = begin(&mut reads, 1);
        reads.answered(1, parts(1));
        assert!(answer.try_recv().is_err(), "it is not sealed");
        assert_eq!(reads.sealed(id(2), true), None, "another object");
        assert_eq!(reads.sealed(id(1), true), None);
        assert_eq!(answer.try_recv(), Ok(parts(1)));

        let answer = begin(&mut reads, 2);
        reads.answered(2, parts(2));
        assert_eq!(reads.sealed(id(2), false), None);
        assert_eq!(answer.try_recv(), Ok(ReadReply::Failed(ReadFailure::NoRoom)));
        let answer = begin(&mut reads, 3);
        reads.answered(3, ReadReply::Here);
        assert_eq!(answer.try_recv(), Ok(ReadReply::Here));

        // One has ended its read, one is gone.
        let _waits = begin(&mut reads, 4);
        reads.answered(4, parts(4));
        reads.end(4);
        drop(begin(&mut reads, 5));
        reads.answered(5, parts(5));
        assert_eq!(reads.sealed(id(4), true), Some(id(4)));
        assert_eq!(reads.sealed(id(5), true), Some(id(5)));
        assert!(reads.waiting.is_empty() && reads.sealing.is_empty());
    }
}
