//! Copies that are known to be damaged.
//!
//! A node that finds its copy damaged says so, again and again. Such a copy is no source and does
//! not count. As soon as a holder is known to have what is right, the node is told to end it; then
//! a copy is missing, and is made again as any other (`repair.rs`). Where no holder has, a node
//! with a cached copy is asked to become one first. Where no node has, the damaged copies stay, and
//! the object is one with too few copies. What follows is in `replacement.rs`.
//!
//! ```text
//!   Held(Damaged) --> a holder has it --> Discard --> Gone --> another copy
//!                 `-> a cache has it  --> Hold    --> Held --> Discard
//! ```

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::directory::counted;
use crate::directory::led::Led;
use crate::message::Message;
use crate::record::{Birth, Record, State};
use crate::view::Context;

/// A node says that its copy is damaged.
pub(super) fn said(led: &mut Led, cx: &mut Context<'_>, from: Slot, id: ObjectId, birth: Birth) {
    let Some(record) = led.record_of(&id, birth) else { return };
    let (is_live, is_cache) = (record.state == State::Live, counted::is_cache(record));
    if !is_live {
        return;
    }
    if is_cache {
        // It ends with the copy of its creator's node, and that is not made again.
        if from != birth.slot {
            cx.send(from, Message::Discard { id, birth });
        }
        return;
    }
    led.damaged.entry(id).or_default().insert(from);
    led.work.entry(id).or_default().missing.remove(&from);
}

impl Led {
    /// Whether the copy of a node is known to be damaged.
    pub(super) fn is_damaged(&self, id: &ObjectId, slot: Slot) -> bool {
        !self.damaged.is_empty() && self.damaged.get(id).is_some_and(|it| it.contains(&slot))
    }

    /// Whether any copy is.
    pub(super) fn has_damaged(&self, id: &ObjectId) -> bool {
        !self.damaged.is_empty() && self.damaged.contains_key(id)
    }

    /// The record with those holders alone whose copies are not known to be damaged.
    pub(super) fn sound(&self, id: &ObjectId, record: &Record) -> Record {
        let mut sound = record.clone();
        sound.holders.retain(|slot| !self.is_damaged(id, *slot));
        sound
    }

    /// A node has no damaged copy any more. It can be asked to hold another one at once.
    pub(super) fn forget_damaged(&mut self, id: &ObjectId, slot: Slot) {
        let Some(damaged) = self.damaged.get_mut(id) else { return };
        if damaged.remove(&slot)
            && let Some(work) = self.work.get_mut(id)
        {
            work.rest_until = None;
        }
        if damaged.is_empty() {
            self.damaged.remove(id);
        }
    }
}
