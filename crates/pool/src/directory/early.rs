//! Copies that nodes got from the home of an id before the directory knew the object.
//!
//! An object with a home is seen there, and opened by other nodes, before its commit comes. When it
//! comes, these nodes count as having cached copies. They are told to drop what they have, which
//! would be seen there for ever, when the commit is refused, when the home lost the object before,
//! and when no commit comes though a home asks for all of its own again and again: the object was
//! deleted and forgotten before the directory heard of the copy. What is dropped in error is only
//! read at its home again.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::limits::EARLY_MS;
use crate::message::Message;
use crate::record::Birth;
use crate::time::Mono;
use crate::view::Context;

/// The nodes with such copies.
#[derive(Debug, Default)]
pub(super) struct EarlyCopies(BTreeMap<ObjectId, Copies>);

#[derive(Debug)]
struct Copies {
    birth: Birth,
    nodes: BTreeSet<Slot>,
    /// Since when the home, which was live, has not asked for the commit.
    since: Mono,
}

impl EarlyCopies {
    /// A node has a copy of an object without a record.
    pub(super) fn add(&mut self, cx: &mut Context<'_>, from: Slot, id: ObjectId, birth: Birth) {
        if !is_expected(cx, birth) {
            return cx.send(from, Message::Drop { id, birth, existed: false });
        }
        let new = || Copies { birth, nodes: BTreeSet::new(), since: cx.now };
        self.0.entry(id).or_insert_with(new).nodes.insert(from);
    }

    /// A record of the object comes to exist: the nodes that have copies.
    pub(super) fn take(&mut self, id: &ObjectId) -> BTreeSet<Slot> {
        if self.0.is_empty() {
            return BTreeSet::new();
        }
        self.0.remove(id).map(|copies| copies.nodes).unwrap_or_default()
    }

    /// The object will not exist.
    pub(super) fn refuse(&mut self, cx: &mut Context<'_>, id: &ObjectId) {
        if let Some(Copies { birth, nodes, .. }) = self.0.remove(id) {
            for slot in nodes {
                cx.send(slot, Message::Drop { id: *id, birth, existed: false });
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks which objects have lost their home, after a map came or some time has passed, and for
    /// which it has not asked for so long that it has none to commit.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        let mut over = Vec::new();
        for (id, copies) in &mut self.0 {
            if !cx.view.is_live(copies.birth.slot) {
                copies.since = cx.now;
            }
            if !is_expected(cx, copies.birth) || copies.since.after_ms(EARLY_MS) <= cx.now {
                over.push(*id);
            }
        }
        for id in over {
            self.refuse(cx, &id);
        }
    }
}

/// Whether the commit of an object may still come.
fn is_expected(cx: &Context<'_>, birth: Birth) -> bool {
    cx.view.has_store_of(birth)
}
