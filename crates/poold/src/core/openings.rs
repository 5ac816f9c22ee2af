//! Copies that the store is opening, to be served.
//!
//! The store answers when it likes; the node may have ended the transfer by then, or the connection
//! to its receiver. What is opened for such a transfer is closed at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_pool::message::{InlineBytes, SegmentRange, TransferNo};
use plasmon_proto::parts::Span;

use crate::memory::SharedSource;
use crate::movers::Serve;
use crate::spans::Spans;

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
    /// What is wanted of the copy; `None`: all of it.
    spans: Option<Vec<Span>>,
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

/// What is made of a copy: these parts of it, or all.
fn made_of(source: SharedSource, spans: Option<Vec<Span>>) -> SharedSource {
    match spans {
        Some(spans) => Arc::new(Spans::new(source, spans)),
        None => source,
    }
}

/// All bytes of a small source; `None` where they are not all there.
fn whole(source: &SharedSource) -> Option<InlineBytes> {
    let (mut bytes, length) = (Vec::new(), source.bytes() as usize);
    let part = source.part(0, length);
    let is_there = if part.len() == length {
        bytes.extend_from_slice(part);
        true
    } else {
        source.gather(0, length, &mut bytes)
    };
    is_there.then_some(InlineBytes(bytes))
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
    /// A number for another question to the store.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A copy is opened for a transfer; the number of the question. It takes the place of an
    /// earlier one for the same transfer.
    pub(super) fn begin(
        &mut self,
        (peer, transfer): (Slot, TransferNo),
        spans: Option<Vec<Span>>,
        wanted: Wanted,
    ) -> u64 {
        self.end(peer, transfer);
        let number = self.next_number();
        self.pending.insert(number, Opening { peer, transfer, spans, wanted });
        number
    }

    /// The parts that are wanted of a copy, where the core sends them itself.
    pub(super) fn spans_here(&self, number: u64) -> Option<&[Span]> {
        let opening = self.pending.get(&number)?;
        opening.spans.as_deref().filter(|_| matches!(opening.wanted, Wanted::Whole))
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
        let Opening { peer, transfer, spans, wanted } = self.pending.remove(&number)?;
        let Some(source) = source.map(|source| made_of(source, spans)) else {
            return Some(Opened::Gone { peer, transfer });
        };
        Some(match wanted {
            Wanted::Segments(ranges) => Opened::Serve(Serve { peer, transfer, source, ranges }),
            Wanted::Whole => match whole(&source) {
                Some(bytes) => Opened::Whole { peer, transfer, bytes },
                None => Opened::Gone { peer, transfer },
            },
        })
    }
}

#[cfg(test)]
mod tests {
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
            let name = (Slot(peer), TransferNo(transfer));
            openings.begin(name, None, Wanted::Segments(Vec::new()))
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
            let number = openings.begin((Slot(3), TransferNo(2)), None, wanted);
            let opened = openings.opened(number, None);
            assert!(matches!(
                opened,
                Some(Opened::Gone { peer: Slot(3), transfer: TransferNo(2) })
            ));
        }

        // Parts that the copy does not have are as good as a copy that is gone.
        let spans = Some(vec![Span { offset: 0, bytes: 1 }]);
        let beyond = openings.begin((Slot(3), TransferNo(2)), spans, Wanted::Whole);
        let opened = openings.opened(beyond, Some(Arc::new(Empty)));
        assert!(matches!(opened, Some(Opened::Gone { .. })));
        assert!(openings.pending.is_empty());
    }
}
