//! Copies that nodes got from the home of an id before the directory knew the object.
//!
//! An object with a home is seen there, and opened by other nodes, before its commit comes. When it
//! comes, these nodes count as having cached copies. When it is refused, or its home lost the
//! object before, they are told to drop what they have: else it would be seen there for ever.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::message::Message;
use crate::record::Birth;
use crate::view::Context;

/// The nodes with such copies.
#[derive(Debug, Default)]
pub(super) struct EarlyCopies(BTreeMap<ObjectId, (Birth, BTreeSet<Slot>)>);

impl EarlyCopies {
    /// A node has a copy of an object without a record.
    pub(super) fn add(&mut self, cx: &mut Context<'_>, from: Slot, id: ObjectId, birth: Birth) {
        if !is_expected(cx, birth) {
            return cx.send(from, Message::Drop { id, birth, existed: false });
        }
        let (_, nodes) = self.0.entry(id).or_insert_with(|| (birth, BTreeSet::new()));
        nodes.insert(from);
    }

    /// A record of the object comes to exist: the nodes that have copies.
    pub(super) fn take(&mut self, id: &ObjectId) -> BTreeSet<Slot> {
        if self.0.is_empty() {
            return BTreeSet::new();
        }
        self.0.remove(id).map(|(_, nodes)| nodes).unwrap_or_default()
    }

    /// The object will not exist.
    pub(super) fn refuse(&mut self, cx: &mut Context<'_>, id: &ObjectId) {
        if let Some((birth, nodes)) = self.0.remove(id) {
            for slot in nodes {
                cx.send(slot, Message::Drop { id: *id, birth, existed: false });
            }
        }
    }

    /// Looks which objects have lost their home, after a map came.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        let is_lost = |(_, (birth, _)): &(&ObjectId, &(Birth, _))| !is_expected(cx, *birth);
        let lost: Vec<ObjectId> = self.0.iter().filter(is_lost).map(|(id, _)| *id).collect();
        for id in lost {
            self.refuse(cx, &id);
        }
    }
}

/// Whether the commit of an object may still come.
fn is_expected(cx: &Context<'_>, birth: Birth) -> bool {
    cx.view.has_store_of(birth)
}
