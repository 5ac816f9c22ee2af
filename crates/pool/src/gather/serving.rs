//! The side of a gather that has the objects.

use std::collections::BTreeSet;

use plasmon_cluster::Slot;

use crate::copies::Copies;
use crate::event::{Assembled, Effect};
use crate::limits::{GATHERS_PER_PEER_MAX, GATHERS_SERVED_MAX};
use crate::message::{Message, ObjectParts, ReadRefusal, TransferNo};
use crate::view::Context;

/// The gathers that this node serves. As with reads of one object, the bytes of an incarnation
/// cannot be wrong.
#[derive(Debug, Default)]
pub(crate) struct GatherServes {
    under_way: BTreeSet<(Slot, TransferNo)>,
}

/// Whether an object with this copy has the parts. A damaged one has none.
fn has_parts(copies: &Copies, parts: &ObjectParts) -> bool {
    let end = parts.spans.last().map_or(0, |last| last.end());
    let copy = copies.of(&parts.id, parts.birth).filter(|_| !copies.is_damaged(&parts.id));
    copy.is_some_and(|copy| {
        end <= copy.content.data_bytes.saturating_add(copy.content.metadata_bytes.into())
    })
}

impl GatherServes {
    /// A node asks for parts of several objects.
    pub(crate) fn begin(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        (peer, transfer): (Slot, TransferNo),
        parts: Vec<ObjectParts>,
    ) {
        let is_missing = |(at, parts): (usize, &ObjectParts)| {
            (!has_parts(copies, parts)).then(|| u16::try_from(at).unwrap_or(u16::MAX))
        };
        let missing: Vec<u16> = parts.iter().enumerate().filter_map(is_missing).collect();
        if !missing.is_empty() {
            return cx.send(peer, Message::GatherRefused { transfer, missing });
        }
        let of_peer = self.under_way.iter().filter(|(other, _)| *other == peer).count();
        let is_full = of_peer >= GATHERS_PER_PEER_MAX || self.under_way.len() >= GATHERS_SERVED_MAX;
        if is_full && !self.under_way.contains(&(peer, transfer)) {
            let refusal = ReadRefusal::Busy;
            return cx.send(peer, Message::ReadRefused { transfer, refusal });
        }
        self.under_way.insert((peer, transfer));
        cx.out.effect(Effect::Gather { peer, transfer, parts });
    }

    /// The parts are put together for a message, or some of the objects are gone: the transfer ends
    /// with that.
    pub(crate) fn assembled(
        &mut self,
        cx: &mut Context<'_>,
        (peer, transfer): (Slot, TransferNo),
        outcome: Assembled,
    ) {
        if self.under_way.remove(&(peer, transfer)) {
            cx.send(
                peer,
                match outcome {
                    Assembled::Whole(bytes) => Message::Whole { transfer, bytes },
                    Assembled::Missing(missing) => Message::GatherRefused { transfer, missing },
                },
            );
        }
    }

    /// The receiver has everything, or wants nothing more.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, peer: Slot, transfer: TransferNo) {
        if self.under_way.remove(&(peer, transfer)) {
            cx.out.effect(Effect::EndServe { peer, transfer });
        }
    }

    pub(crate) fn link_down(&mut self, cx: &mut Context<'_>, peer: Slot) {
        let ended = self.under_way.iter().filter(|(other, _)| *other == peer);
        let ended: Vec<_> = ended.map(|(_, transfer)| *transfer).collect();
        for transfer in ended {
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
    use plasmon_proto::ObjectId;
    use plasmon_proto::parts::Span;

    use super::*;
    use crate::config::Config;
    use crate::copies::Copy;
    use crate::message::InlineBytes;
    use crate::outbox::Outbox;
    use crate::record::{Birth, Content};
    use crate::time::Mono;
    use crate::view::View;

    fn parts(number: u8, end: u64) -> ObjectParts {
        let birth = Birth { slot: Slot(0), boot: 1, serial: number.into() };
        let spans = vec![Span { offset: 3, bytes: end - 3 }];
        ObjectParts { id: ObjectId::pooled([number; 12], None), birth, spans }
    }

    #[test]
    fn parts_that_are_here_are_put_together_and_others_are_named() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), GatherServes::default(), Copies::default());
        for number in [1, 2] {
            let ObjectParts { id, birth, .. } = parts(number, 4);
            let content = Content { data_bytes: 10, metadata_bytes: 5, ..Content::default() };
            copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        }
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        let mut begin = |cx: &mut Context<'_>, number, parts| {
            serves.begin(cx, &copies, (Slot(1), TransferNo(number)), parts);
            serves.is_idle()
        };
        let mut other = parts(2, 4);
        other.birth.boot = 2;
        assert!(begin(cx, 1, vec![parts(1, 15), parts(1, 16), parts(3, 4), parts(2, 4), other]));
        let (transfer, missing) = (TransferNo(1), vec![1, 2, 4]);
        let refused = Message::GatherRefused { transfer, missing };
        assert_eq!(cx.out.remote[&Slot(1)], [refused]);
        cx.out.remote.clear();

        let both = vec![parts(1, 15), parts(2, 4)];
        for number in 0..=GATHERS_PER_PEER_MAX as u64 {
            assert!(!begin(cx, number, both.clone()));
        }
        assert_eq!(cx.out.effects.len(), GATHERS_PER_PEER_MAX);
        let (transfer, refusal) = (TransferNo(GATHERS_PER_PEER_MAX as u64), ReadRefusal::Busy);
        assert_eq!(cx.out.remote[&Slot(1)], [Message::ReadRefused { transfer, refusal }]);
        cx.out.remote.clear();
        cx.out.effects.clear();

        serves.end(cx, Slot(1), TransferNo(0));
        let ended = Effect::EndServe { peer: Slot(1), transfer: TransferNo(0) };
        assert_eq!(cx.out.effects, [ended]);
        let bytes = InlineBytes(vec![1]);
        serves.assembled(cx, (Slot(1), TransferNo(0)), Assembled::Whole(bytes.clone()));
        serves.assembled(cx, (Slot(1), TransferNo(1)), Assembled::Whole(bytes.clone()));
        serves.assembled(cx, (Slot(1), TransferNo(2)), Assembled::Missing(vec![1]));
        let sent = [
            Message::Whole { transfer: TransferNo(1), bytes },
            Message::GatherRefused { transfer: TransferNo(2), missing: vec![1] },
        ];
        assert_eq!(cx.out.remote[&Slot(1)], sent, "one that has ended is not answered");
        serves.link_down(cx, Slot(1));
        assert!(serves.is_idle());
    }

    /// A copy that a comparison had found to be wrong was read by gathers still.
    #[test]
    fn a_copy_that_is_damaged_is_not_gathered_from() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), GatherServes::default(), Copies::default());
        for number in [1, 2] {
            let ObjectParts { id, birth, .. } = parts(number, 4);
            let content = Content { data_bytes: 10, ..Content::default() };
            copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        }
        let ObjectParts { id, birth, .. } = parts(2, 4);
        assert!(copies.damage(&id, birth));
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        serves.begin(cx, &copies, (Slot(1), TransferNo(1)), vec![parts(1, 4), parts(2, 4)]);
        let refused = Message::GatherRefused { transfer: TransferNo(1), missing: vec![1] };
        assert_eq!(cx.out.remote[&Slot(1)], [refused]);
        assert!(serves.is_idle());
    }

    #[test]
    fn so_many_are_served_in_all() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (mut out, mut serves, mut copies) =
            (Outbox::default(), GatherServes::default(), Copies::default());
        let ObjectParts { id, birth, .. } = parts(1, 4);
        let content = Content { data_bytes: 10, ..Content::default() };
        copies.insert(id, Copy { birth, content, visible: true, kept: true, logged: false });
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        for number in 0..=GATHERS_SERVED_MAX as u64 {
            let key = (Slot(1 + number as u16), TransferNo(1));
            serves.begin(cx, &copies, key, vec![parts(1, 4)]);
        }
        assert_eq!(cx.out.effects.len(), GATHERS_SERVED_MAX);
        assert_eq!(cx.out.remote.len(), 1);
    }
}
