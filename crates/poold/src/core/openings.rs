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
    Whole {
        peer: Slot,
        transfer: TransferNo,
        /// `None` when the copy is not there any more.
        bytes: Option<InlineBytes>,
    },
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
    /// still wanted. Where the copy is gone, the receiver asks another node.
    pub(super) fn opened(&mut self, number: u64, source: Option<SharedSource>) -> Option<Opened> {
        let Opening { peer, transfer, wanted } = self.pending.remove(&number)?;
        match wanted {
            Wanted::Segments(ranges) => {
                Some(Opened::Serve(Serve { peer, transfer, source: source?, ranges }))
            }
            Wanted::Whole => {
                let whole = |source: SharedSource| source.part(0, source.bytes() as usize).to_vec();
                let bytes = source.map(|source| InlineBytes(whole(source)));
                Some(Opened::Whole { peer, transfer, bytes })
            }
        }
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
        let gone = begin(&mut openings, 3, 2);
        assert!(openings.opened(gone, None).is_none());
        let whole = openings.begin(Slot(3), TransferNo(2), Wanted::Whole);
        let opened = openings.opened(whole, None);
        assert!(matches!(opened, Some(Opened::Whole { bytes: None, .. })), "the receiver is told");
        assert!(openings.pending.is_empty());
    }
}
