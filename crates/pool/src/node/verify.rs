//! What a node does when an operator has the pool compared.

use plasmon_cluster::Slot;
#[cfg(test)]
use plasmon_proto::ObjectId;

use super::Node;
#[cfg(test)]
use crate::copies::Copy;
use crate::message::Message;
#[cfg(test)]
use crate::record::{Birth, Content, Version};
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// A question of another node, or its answer.
    pub(super) fn verification(&mut self, now: Mono, from: Slot, message: Message) {
        match message {
            Message::Verify { question } => {
                self.directory.verify(context!(self, now), from, question);
            }
            Message::Verified { question, tally } => {
                self.verifications.answered(context!(self, now), from, question, tally);
            }
            _ => {}
        }
    }

    /// A copy is gone, and the node is not told.
    #[cfg(test)]
    pub(crate) fn forget_copy(&mut self, id: &ObjectId, birth: Birth) {
        assert!(self.copies.remove(id, birth));
    }

    /// There is a copy that clients see, and no record of it.
    #[cfg(test)]
    pub(crate) fn add_copy(&mut self, id: ObjectId, birth: Birth, content: Content) {
        self.copies.insert(id, Copy { birth, content, visible: true, kept: false, logged: false });
    }

    /// The holders of an incarnation by the record on this node, with the order of its last update.
    #[cfg(test)]
    pub(crate) fn holders_of(&self, id: &ObjectId, birth: Birth) -> Option<(Version, Vec<Slot>)> {
        self.directory.holders_of(id, birth)
    }
}
