//! The pooled copies in the node's own store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::event::Told;
use crate::outbox::Outbox;
use crate::record::{Birth, Content};
use crate::view::View;

/// A copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub(crate) birth: Birth,
    pub(crate) content: Content,
    /// Whether clients of this node can see it.
    pub(crate) visible: bool,
    /// Whether the store is known never to evict it.
    pub(crate) kept: bool,
    /// Whether the log of the store has it.
    pub(crate) logged: bool,
}

impl Copy {
    /// Whether it is here for as long as the pool wants it: one that is to be in the log is there.
    pub(crate) fn is_lasting(&self, view: &View) -> bool {
        self.kept && (self.logged || !view.logs(self.birth, &self.content))
    }
}

/// The copies of this node.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    by_id: BTreeMap<ObjectId, Copy>,
    /// Those that clients cannot see.
    hidden: BTreeSet<ObjectId>,
    /// Those that the store was told to seal and has not: it may end before it does.
    sealing: BTreeSet<ObjectId>,
    /// Those that came from their home, of which the primary has not said that it knows.
    unnoted: BTreeSet<ObjectId>,
    /// Those that are known to be damaged.
    damaged: BTreeSet<ObjectId>,
    /// Those that the log has refused since it was asked first, for want of room.
    unlogged: BTreeSet<ObjectId>,
    /// Of ids whose home this is: nodes that got a copy from here without asking the directory.
    openers: BTreeMap<ObjectId, BTreeSet<Slot>>,
}

impl Copies {
    pub(crate) fn insert(&mut self, id: ObjectId, copy: Copy) {
        self.sealing.remove(&id);
        if self.of(&id, copy.birth).is_none() {
            self.damaged.remove(&id);
            self.unlogged.remove(&id);
        }
        if copy.visible {
            self.hidden.remove(&id);
        } else {
            self.hidden.insert(id);
        }
        self.by_id.insert(id, copy);
    }

    /// The store is told to seal this copy.
    pub(crate) fn seal(&mut self, id: ObjectId, copy: Copy) {
        self.insert(id, copy);
        self.sealing.insert(id);
    }

    /// A copy came from the home of its id: the primary is to know.
    pub(crate) fn note(&mut self, id: ObjectId) {
        self.unnoted.insert(id);
    }

    /// The primary knows of this copy.
    pub(crate) fn noted(&mut self, id: &ObjectId, birth: Birth) {
        if self.of(id, birth).is_some() {
            self.unnoted.remove(id);
        }
    }

    /// The copies of which the primary may not know.
    pub(crate) fn unnoted(&self) -> impl Iterator<Item = (ObjectId, Birth)> {
        self.unnoted.iter().filter_map(|id| Some((*id, self.get(id)?.birth)))
    }

    /// The store has sealed this copy.
    pub(crate) fn sealed(&mut self, id: &ObjectId, birth: Birth) -> Option<Copy> {
        let copy = self.of(id, birth).copied()?;
        self.sealing.remove(id).then_some(copy)
    }

    /// Whether the store may end without having sealed the copy of this id.
    pub(crate) fn is_sealing(&self, id: &ObjectId) -> bool {
        self.sealing.contains(id)
    }

    /// The copy that a commit is about. One that is asked for again may have succeeded before.
    pub(crate) fn committing(&mut self, id: ObjectId, birth: Birth, content: Content) {
        let before = self.of(&id, birth).map(|copy| (copy.visible, copy.kept, copy.logged));
        let (was_visible, kept, logged) = before.unwrap_or_default();
        let visible = id.home().is_some() || was_visible;
        self.insert(id, Copy { birth, content, visible, kept, logged });
    }

    /// The commit of what was put here has succeeded. The store keeps it until it is told
    /// otherwise, also where the records were made again without this node; of an id with a home it
    /// says so.
    pub(crate) fn committed(&mut self, id: &ObjectId, birth: Birth) {
        let copy = self.by_id.get_mut(id).filter(|copy| copy.birth == birth);
        if let Some(copy) = copy.filter(|_| id.home().is_none()) {
            copy.kept |= copy.content.keeping != Keeping::Cache;
        }
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<&Copy> {
        self.by_id.get(id)
    }

    /// The copy of this incarnation.
    pub(crate) fn of(&self, id: &ObjectId, birth: Birth) -> Option<&Copy> {
        self.get(id).filter(|copy| copy.birth == birth)
    }

    pub(crate) fn remove(&mut self, id: &ObjectId, birth: Birth) -> bool {
        let is_there = self.of(id, birth).is_some();
        if is_there {
            self.by_id.remove(id);
            self.hidden.remove(id);
            self.sealing.remove(id);
            self.unnoted.remove(id);
            self.damaged.remove(id);
            self.unlogged.remove(id);
        }
        is_there
    }

    /// A copy is damaged; whether it is here.
    pub(crate) fn damage(&mut self, id: &ObjectId, birth: Birth) -> bool {
        let is_here = self.of(id, birth).is_some();
        if is_here {
            self.damaged.insert(*id);
        }
        is_here
    }

    /// Whether the copy of this id is known to be damaged.
    pub(crate) fn is_damaged(&self, id: &ObjectId) -> bool {
        !self.damaged.is_empty() && self.damaged.contains(id)
    }

    /// The copies that are known to be damaged.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = (ObjectId, Birth)> {
        self.damaged.iter().filter_map(|id| Some((*id, self.get(id)?.birth)))
    }

    /// The copies that clients cannot see.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (ObjectId, Birth)> {
        self.hidden.iter().filter_map(|id| Some((*id, self.get(id)?.birth)))
    }

    /// The sealed copies that clients can see, with ids after this one, in their order.
    pub(crate) fn seen_after(
        &self,
        after: Option<ObjectId>,
    ) -> impl Iterator<Item = (&ObjectId, &Copy)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let is_seen = |(id, copy): &(&ObjectId, &Copy)| copy.visible && !self.is_sealing(id);
        self.by_id.range((begin, Bound::Unbounded)).filter(is_seen)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Copy)> {
        self.by_id.iter()
    }

    /// Lets clients see a copy.
    pub(crate) fn publish(&mut self, out: &mut Outbox, id: ObjectId, birth: Birth) {
        let copy = self.by_id.get_mut(&id).filter(|copy| copy.birth == birth);
        if let Some(copy) = copy {
            if copy.visible && id.home().is_some() {
                // Nothing hides such a copy again.
                return;
            }
            copy.visible = true;
            self.hidden.remove(&id);
            out.tell(Told::Publish { id, birth });
        }
    }

    /// The store never evicts a copy; whether it is here.
    pub(crate) fn keep(&mut self, id: &ObjectId, birth: Birth) -> bool {
        let copy = self.by_id.get_mut(id).filter(|copy| copy.birth == birth);
        copy.map(|copy| copy.kept = true).is_some()
    }

    /// The log has a copy, which the store never evicts; whether it is here.
    pub(crate) fn logged(&mut self, id: &ObjectId, birth: Birth) -> bool {
        let copy = self.by_id.get_mut(id).filter(|copy| copy.birth == birth);
        let is_here = copy.map(|copy| (copy.kept, copy.logged) = (true, true)).is_some();
        if is_here {
            self.unlogged.remove(id);
        }
        is_here
    }

    /// The log has no room for a copy.
    pub(crate) fn not_logged(&mut self, id: &ObjectId, birth: Birth) {
        if self.of(id, birth).is_some_and(|copy| !copy.logged) {
            self.unlogged.insert(*id);
        }
    }

    /// Whether the log has said that it has no room for this copy, and has not taken it since.
    pub(crate) fn is_unlogged(&self, id: &ObjectId, birth: Birth) -> bool {
        self.unlogged.contains(id) && self.of(id, birth).is_some()
    }

    /// The store may evict a copy, and its log forgets it; whether it is here.
    pub(crate) fn release(&mut self, id: &ObjectId, birth: Birth) -> bool {
        let copy = self.by_id.get_mut(id).filter(|copy| copy.birth == birth);
        copy.map(|copy| (copy.kept, copy.logged) = (false, false)).is_some()
    }

    /// A node gets a copy from its home.
    pub(crate) fn opened(&mut self, id: ObjectId, by: Slot) {
        self.openers.entry(id).or_default().insert(by);
    }

    /// The nodes that got a copy from here, to be told that it ended.
    pub(crate) fn take_openers(&mut self, id: &ObjectId) -> BTreeSet<Slot> {
        self.openers.remove(id).unwrap_or_default()
    }
}
