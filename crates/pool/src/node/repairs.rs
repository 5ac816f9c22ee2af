//! Copies of this node that are damaged, and what an operator has found on others.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::pool_checksum::{CopyFault, CopyRepair};

use super::Node;
use crate::event::Told;
use crate::message::{HoldOutcome, Message};
use crate::record::Birth;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// A copy here is damaged. It serves no other node from now on, and its primary says what
    /// becomes of it.
    pub(super) fn damaged(&mut self, now: Mono, id: ObjectId, birth: Birth) {
        if self.copies.damage(&id, birth) {
            self.send_held(now, id, birth, HoldOutcome::Damaged);
        }
    }

    /// The primary knows of a copy that is right. A copy that is not known to be damaged any more
    /// stays: another one of the same object came since.
    pub(super) fn discard(&mut self, now: Mono, id: ObjectId, birth: Birth) {
        if self.copies.of(&id, birth).is_none() {
            return self.send_gone(now, id, birth);
        }
        if self.copies.is_damaged(&id) {
            self.out.tell(Told::Discard { id, birth });
        }
    }

    /// An operator has found that a copy here is not right.
    pub(super) fn repair_copy(&mut self, now: Mono, copy: CopyRepair) {
        let CopyRepair { id, birth, fault } = copy;
        match fault {
            CopyFault::Content => self.damaged(now, id, birth),
            CopyFault::Record if self.copies.of(&id, birth).is_some() => {
                self.out.tell(Told::Relog { id, birth });
            }
            CopyFault::Record => {}
        }
    }

    /// An operator has found that copies of a node are not right.
    pub(super) fn ask_to_repair(&mut self, now: Mono, node: Slot, copies: Vec<CopyRepair>) {
        let cx = context!(self, now);
        for copy in copies {
            cx.send(node, Message::Repair { copy });
        }
    }
}
