//! Durable copies: which are in the log of this node, and which ends its log notes.

use plasmon_proto::ObjectId;

use super::Node;
use crate::event::Told;
use crate::message::HoldOutcome;
use crate::record::Birth;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// How this node says that it keeps a copy: of a durable one, whether it is in the log. Where
    /// it is not the copy does not count.
    pub(super) fn as_logged(
        &self,
        id: &ObjectId,
        birth: Birth,
        outcome: HoldOutcome,
    ) -> HoldOutcome {
        let copy = self.copies.of(id, birth).filter(|copy| copy.content.durable.is_some());
        match copy {
            Some(copy) if outcome == HoldOutcome::Held && !copy.logged => HoldOutcome::Unlogged,
            _ => outcome,
        }
    }

    /// The log does not take a copy: the node refuses to hold it. What was only brought here to be
    /// held is dropped. What was made here is the commit's, and of a copy that clients see the
    /// primary says whether it may be evicted.
    pub(super) fn not_logged(&mut self, now: Mono, (id, birth): (ObjectId, Birth), is_full: bool) {
        let Some(copy) = self.copies.of(&id, birth).copied() else { return };
        let outcome = if is_full { HoldOutcome::NoRoom } else { HoldOutcome::NoLog };
        if is_full {
            self.copies.not_logged(&id, birth);
        }
        self.send_held(now, id, birth, outcome);
        if !copy.visible && !self.requests.has_commit(&id) {
            self.out.tell(Told::Drop { id, birth });
        }
    }

    /// An object that was made here exists, and the log of this node had no room for it: those of
    /// other nodes have it. The copy here does not count, and may be evicted like a cached one.
    pub(super) fn let_unlogged_go(&mut self, id: ObjectId, birth: Birth) {
        if self.copies.is_unlogged(&id, birth) {
            self.release(id, birth);
        }
    }

    /// A primary knows that the end of an incarnation need not be noted any more.
    pub(super) fn remove_tombstone(&mut self, now: Mono, id: ObjectId, birth: Birth) {
        self.directory.remove_tombstone(context!(self, now), id, birth);
    }
}
