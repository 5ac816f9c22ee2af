//! The side of a transfer that has the bytes.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::parts::{self, Span};

use crate::copies::Copies;
use crate::event::Effect;
use crate::limits::{INLINE_BYTES_MAX, SERVES_PER_OBJECT_MAX, SERVES_PER_PEER_MAX};
use crate::message::{InlineBytes, Message, ReadRefusal, SegmentRange, TransferNo};
use crate::record::{Birth, Content};
use crate::view::Context;

/// What a node asks to read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) transfer: TransferNo,
    pub(crate) id: ObjectId,
    pub(crate) birth: Birth,
    /// What is read of the object; `None`: all of it.
    pub(crate) spans: Option<Vec<Span>>,
    pub(crate) ranges: Vec<SegmentRange>,
}

/// How many bytes are read of an object; `None` where it does not have them.
fn bytes_read(content: &Content, spans: Option<&[Span]>) -> Option<u64> {
    let Some(spans) = spans else { return Some(content.bytes()) };
    // The attributes of a copy are this node's own.
    let end = content.data_bytes.saturating_add(content.metadata_bytes.into());
    let is_within = spans.last().is_none_or(|last| last.end() <= end);
    parts::bytes_of(spans).filter(|_| is_within)
}

/// The transfers that this node serves. Bytes of an incarnation cannot be wrong, so this needs
/// neither the lease nor the map.
#[derive(Debug, Default)]
pub(crate) struct Serves {
    under_way: BTreeMap<(Slot, TransferNo), ObjectId>,
}

impl Serves {
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, copies: &Copies, peer: Slot, read: Read) {
        let Read { transfer, id, birth, spans, ranges } = read;
        let key = (peer, transfer);
        let of_object = self.under_way.values().filter(|other| **other == id).count();
        let of_peer = self.under_way.keys().filter(|(other, _)| *other == peer).count();
        let is_full = of_object >= SERVES_PER_OBJECT_MAX || of_peer >= SERVES_PER_PEER_MAX;
        let found = copies.of(&id, birth).filter(|_| !copies.is_damaged(&id));
        let bytes = found.and_then(|copy| bytes_read(&copy.content, spans.as_deref()));
        let refusal = match bytes {
            // Not here, or not so long.
            None => ReadRefusal::Absent,
            Some(_) if is_full && !self.under_way.contains_key(&key) => ReadRefusal::Busy,
            Some(bytes) => {
                self.under_way.insert(key, id);
                return cx.out.effect(if bytes <= INLINE_BYTES_MAX {
                    Effect::Fetch { peer, transfer, id, birth, spans }
                } else {
                    Effect::Serve { peer, transfer, id, birth, spans, ranges }
                });
            }
        };
        cx.send(peer, Message::ReadRefused { transfer, refusal });
    }

    /// A small object is read, or an object is gone. The transfer ends with that.
    pub(crate) fn fetched(
        &mut self,
        cx: &mut Context<'_>,
        (peer, transfer): (Slot, TransferNo),
        bytes: Option<InlineBytes>,
    ) {
        if self.under_way.remove(&(peer, transfer)).is_none() {
            return;
        }
        let refusal = ReadRefusal::Absent;
        cx.send(
            peer,
            match bytes {
                Some(bytes) => Message::Whole { transfer, bytes },
                None => Message::ReadRefused { transfer, refusal },
            },
        );
    }

    pub(crate) fn end(&mut self, cx: &mut Context<'_>, peer: Slot, transfer: TransferNo) {
        if self.under_way.remove(&(peer, transfer)).is_some() {
            cx.out.effect(Effect::EndServe { peer, transfer });
        }
    }

    pub(crate) fn link_down(&mut self, cx: &mut Context<'_>, peer: Slot) {
        let ended: Vec<_> = self.under_way.keys().filter(|(other, _)| *other == peer).collect();
        let ended: Vec<_> = ended.into_iter().copied().collect();
        for (_, transfer) in ended {
            self.end(cx, peer, transfer);
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::copies::Copy;
    use crate::outbox::Outbox;
    use crate::time::Mono;
    use crate::view::View;

    fn read(number: u64) -> Read {
        let birth = Birth { slot: Slot(0), boot: 1, serial: 1 };
        let (id, ranges) = (ObjectId::pooled([1; 12], None), Vec::new());
        Read { transfer: TransferNo(number), id, birth, spans: None, ranges }
    }

    #[test]
    fn one_object_is_served_to_so_many_and_the_next_when_one_has_ended() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), Serves::default(), Copies::default());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        serves.read(cx, &copies, Slot(1), read(0));
        assert!(serves.is_idle(), "there is no copy");
        let Read { id, birth, .. } = read(0);
        let content = Content { data_bytes: INLINE_BYTES_MAX + 1, ..Content::default() };
        copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        for number in 0..=SERVES_PER_OBJECT_MAX as u64 {
            serves.read(cx, &copies, Slot(1), read(number));
        }
        assert_eq!(cx.out.effects.len(), SERVES_PER_OBJECT_MAX);
        serves.end(cx, Slot(1), TransferNo(0));
        serves.read(cx, &copies, Slot(2), read(0));
        let last = cx.out.effects.last();
        assert!(matches!(last, Some(Effect::Serve { peer: Slot(2), .. })), "{last:?}");
        serves.link_down(cx, Slot(1));
        serves.link_down(cx, Slot(2));
        assert!(serves.is_idle());
    }

    /// The receiver noticed only when nothing came for a while.
    #[test]
    fn a_large_object_that_is_gone_is_refused_at_once() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), Serves::default(), Copies::default());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        let Read { transfer, id, birth, .. } = read(0);
        let content = Content { data_bytes: INLINE_BYTES_MAX + 1, ..Content::default() };
        copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        serves.read(cx, &copies, Slot(1), read(0));
        serves.fetched(cx, (Slot(1), transfer), None);
        assert!(serves.is_idle());
        let refusal = ReadRefusal::Absent;
        assert_eq!(cx.out.remote[&Slot(1)], [Message::ReadRefused { transfer, refusal }]);
    }

    #[test]
    fn parts_are_served_when_the_object_has_all_of_them() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), Serves::default(), Copies::default());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        let Read { id, birth, .. } = read(0);
        let content = Content { data_bytes: 1 << 20, metadata_bytes: 5, ..Content::default() };
        copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        let end = (1 << 20) + 5;
        let mut asked = 0;
        let mut ask = |spans: &[(u64, u64)]| {
            asked += 1;
            let spans = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
            serves.read(cx, &copies, Slot(1), Read { spans: Some(spans), ..read(asked) });
            serves.end(cx, Slot(1), TransferNo(asked));
            std::mem::take(&mut cx.out.effects).into_iter().next()
        };
        let small = ask(&[(3, 1), (end - INLINE_BYTES_MAX + 1, INLINE_BYTES_MAX - 1)]);
        assert!(matches!(small, Some(Effect::Fetch { spans: Some(_), .. })), "{small:?}");
        let large = ask(&[(3, 1), (end - INLINE_BYTES_MAX, INLINE_BYTES_MAX)]);
        assert!(matches!(large, Some(Effect::Serve { spans: Some(_), .. })), "{large:?}");
        for wrong in [&[(end - 1, 2)][..], &[(u64::MAX, 1)], &[(5, 1), (4, 1)], &[(0, 0)]] {
            assert_eq!(ask(wrong), None, "{wrong:?}");
        }
        assert!(serves.is_idle());
    }

    #[test]
    fn a_small_object_is_sent_in_a_message_unless_its_transfer_has_ended() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), Serves::default(), Copies::default());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        let Read { id, birth, .. } = read(0);
        let content = Content { data_bytes: INLINE_BYTES_MAX, ..Content::default() };
        copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        for number in 0..3 {
            serves.read(cx, &copies, Slot(1), read(number));
        }
        let fetches = |effect: &Effect| matches!(effect, Effect::Fetch { .. });
        assert!(cx.out.effects.iter().all(fetches) && cx.out.effects.len() == 3);
        serves.end(cx, Slot(1), TransferNo(0));
        for (number, bytes) in [(0, Some(1)), (1, Some(2)), (2, None), (1, Some(3))] {
            let bytes = bytes.map(|byte| InlineBytes(vec![byte]));
            serves.fetched(cx, (Slot(1), TransferNo(number)), bytes);
        }
        assert!(serves.is_idle());
        let (bytes, refusal) = (InlineBytes(vec![2]), ReadRefusal::Absent);
        let sent = [
            Message::Whole { transfer: TransferNo(1), bytes },
            Message::ReadRefused { transfer: TransferNo(2), refusal },
        ];
        assert_eq!(cx.out.remote[&Slot(1)], sent);
    }
}
