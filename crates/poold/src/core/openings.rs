//! Copies that the store is opening, to be served.
//!
//! The store answers when it likes; the node may have ended the transfer by then, or the connection
//! to its receiver. What is opened for such a transfer is closed at once.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_pool::message::{InlineBytes, SegmentRange, TransferNo};

use crate::memory::SharedSource;
use crate::movers::Serve;

/// What the store is opening copies for, by the number of the question.
#[derive(Debug, Default)]
pub(super) struct Openings {
    last: u64,
    pending: BTreeMap<u64, Opening>,
}

#[derive(Debug)]
struct Opening {
    peer: Slot,
    transfer: TransferNo,
    wanted: Wanted,
}

/// What is wanted of a copy.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Segments, over a bulk lane.
    Segments(Vec<SegmentRange>),
    /// The whole of a small object, in a message.
    Whole,
}

/// What is to be done with a copy that was opened.
pub(super) enum Opened {
    /// A mover sends it.
    Serve(Serve),
    /// The node sends it.
    Whole { peer: Slot, transfer: TransferNo, bytes: InlineBytes },
    /// The copy is not there any more: the node says so, and the receiver asks another node.
    Gone { peer: Slot, transfer: TransferNo },
}

impl Openings {
    /// A copy is opened for a transfer; the number of the question. It takes the place of an
    /// earlier one for the same transfer.
    pub(super) fn begin(&mut self, peer: Slot, transfer: TransferNo, wanted: Wanted) -> u64 {
        self.end(peer, transfer);
        self.last += 1;
        self.pending.insert(self.last, Opening { peer, transfer, wanted });
        self.last
    }

    /// The transfer ended.
    pub(super) fn end(&mut self, peer: Slot, transfer: TransferNo) {
        self.pending.retain(|_, opening| (opening.peer, opening.transfer) != (peer, transfer));
    }

    /// The connection to a node ended, and its transfers with it.
    pub(super) fn end_peer(&mut self, peer: Slot) {
        self.pending.retain(|_, opening| opening.peer != peer);
    }

    /// The store has opened a copy, or does not have it any more: what is to be done, if it is
    /// still wanted.
    pub(super) fn opened(&mut self, number: u64, source: Option<SharedSource>) -> Option<Opened> {
        let Opening { peer, transfer, wanted } = self.pending.remove(&number)?;
        Some(match (wanted, source) {
            (_, None) => Opened::Gone { peer, transfer },
            (Wanted::Segments(ranges), Some(source)) => {
                Opened::Serve(Serve { peer, transfer, source, ranges })
            }
            (Wanted::Whole, Some(source)) => {
                let bytes = InlineBytes(source.part(0, source.bytes() as usize).to_vec());
                Opened::Whole { peer, transfer, bytes }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::Source;

    struct Empty;

    impl Source for Empty {
        fn bytes(&self) -> u64 {
            0
        }

        fn part(&self, _: u64, _: usize) -> &[u8] {
            &[]
        }
    }

    #[test]
    fn only_what_is_still_wanted_is_served() {
        let mut openings = Openings::default();
        let source = || Some(Arc::new(Empty) as SharedSource);
        let begin = |openings: &mut Openings, peer, transfer| {
            openings.begin(Slot(peer), TransferNo(transfer), Wanted::Segments(Vec::new()))
        };
        let first = begin(&mut openings, 1, 1);
        let again = begin(&mut openings, 1, 1);
        let other = begin(&mut openings, 2, 1);
        assert!(openings.opened(first, source()).is_none(), "another question took its place");
        let Some(Opened::Serve(served)) = openings.opened(again, source()) else {
            panic!("it is served");
        };
        assert_eq!((served.peer, served.transfer), (Slot(1), TransferNo(1)));
        assert!(openings.opened(again, source()).is_none(), "once");
        openings.end_peer(Slot(2));
        assert!(openings.opened(other, source()).is_none());
        let ended = begin(&mut openings, 3, 1);
        openings.end(Slot(3), TransferNo(1));
        assert!(openings.opened(ended, source()).is_none());
        assert!(openings.pending.is_empty());
    }

    /// The receiver of a large object was not told, and noticed only when nothing came.
    #[test]
    fn a_receiver_is_told_that_a_copy_is_gone_whatever_its_size() {
        let mut openings = Openings::default();
        for wanted in [Wanted::Segments(Vec::new()), Wanted::Whole] {
            let number = openings.begin(Slot(3), TransferNo(2), wanted);
            let opened = openings.opened(number, None);
            assert!(matches!(
                opened,
                Some(Opened::Gone { peer: Slot(3), transfer: TransferNo(2) })
            ));
        }
        assert!(openings.pending.is_empty());
    }
}
