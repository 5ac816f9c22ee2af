//! Objects that programs do not need now: all nodes make their copies the first to go.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::limits::REQUEST_IDS_MAX;

use super::Node;
use crate::event::Effect;
use crate::message::Message;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// Tells every node that is up. No node says whether it has heard: what it is told changes
    /// only which of its copies leave the memory first.
    pub(super) fn demote(&mut self, now: Mono, ids: &[ObjectId]) {
        let ids: Vec<ObjectId> = ids.iter().filter(|id| id.is_pooled()).copied().collect();
        let nodes = self.view.map().nodes();
        let live: Vec<Slot> =
            nodes.filter(|(_, node)| node.is_live()).map(|(slot, _)| slot).collect();
        for ids in ids.chunks(REQUEST_IDS_MAX) {
            for slot in &live {
                context!(self, now).send(*slot, Message::Demote { ids: ids.to_vec() });
            }
        }
    }

    /// A node, or this one, says that objects are not needed.
    pub(super) fn demoted(&mut self, mut ids: Vec<ObjectId>) {
        ids.retain(|id| self.copies.get(id).is_some());
        if !ids.is_empty() {
            self.out.effect(Effect::Demote(ids));
        }
    }
}
