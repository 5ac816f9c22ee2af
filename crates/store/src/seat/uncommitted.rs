//! The objects with a home that the directory of the pool has not accepted yet.
//!
//! ```text
//!   put ──► waiting ──(told, while fewer than the limit are)──► told ──(Committed)──► forgotten
//!              ▲                                                  │
//!              └──────────────── the agent is gone ───────────────┘
//! ```
//!
//! Clients put such objects without waiting for the pool, so there may be any number of them. The
//! agent is told of so many at a time as it can keep under way; the others are told as it answers.
//! One that takes the seat is told of all that are here by then, along with the other copies.

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::ObjectId;
use plasmon_proto::limits::COMMITS_TOLD_MAX;

#[derive(Clone, Copy, Debug)]
struct State {
    /// Of its birth.
    serial: u64,
    is_told: bool,
}

/// Objects whose commit is not answered.
#[derive(Debug, Default)]
pub(crate) struct Uncommitted {
    by_id: BTreeMap<ObjectId, State>,
    /// Those that the agent was not told of, in their order. Some are gone, or told by now.
    waiting: VecDeque<ObjectId>,
    told: usize,
}

impl Uncommitted {
    /// An object was put.
    pub(crate) fn add(&mut self, id: ObjectId, serial: u64) {
        self.remove(&id);
        self.by_id.insert(id, State { serial, is_told: false });
        self.waiting.push_back(id);
    }

    /// The directory has answered, or the object is gone. Whether it was among them.
    pub(crate) fn remove(&mut self, id: &ObjectId) -> bool {
        let removed = self.by_id.remove(id);
        if removed.is_some_and(|state| state.is_told) {
            self.told -= 1;
        }
        removed.is_some()
    }

    /// How many there are.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        !self.by_id.is_empty() && self.by_id.contains_key(id)
    }

    /// Whether this incarnation is among them.
    pub(crate) fn has(&self, id: &ObjectId, serial: u64) -> bool {
        self.by_id.get(id).is_some_and(|state| state.serial == serial)
    }

    /// The next that the agent is to be told of, and is told of from now on.
    pub(crate) fn tell_next(&mut self) -> Option<ObjectId> {
        while self.told < COMMITS_TOLD_MAX {
            let id = self.waiting.pop_front()?;
            if self.tell(&id) {
                return Some(id);
            }
        }
        None
    }

    /// The agent is told of this one out of turn. Whether it was not told before.
    pub(crate) fn tell(&mut self, id: &ObjectId) -> bool {
        match self.by_id.get_mut(id) {
            Some(state) if !state.is_told => {
                state.is_told = true;
                self.told += 1;
                true
            }
            _ => false,
        }
    }

    /// The agent is gone: the next one is told of all of them.
    pub(crate) fn forget_told(&mut self) {
        self.told = 0;
        self.by_id.values_mut().for_each(|state| state.is_told = false);
        self.waiting = self.by_id.keys().copied().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ObjectId {
        let mut identity = [0; 12];
        identity[..4].copy_from_slice(&number.to_be_bytes());
        ObjectId::pooled(identity, Some(1))
    }

    #[test]
    fn so_many_are_told_at_a_time_and_the_others_in_their_order() {
        let most = COMMITS_TOLD_MAX as u32;
        let mut uncommitted = Uncommitted::default();
        (0..most + 3).for_each(|number| uncommitted.add(id(number), 0));
        for number in 0..most {
            assert_eq!(uncommitted.tell_next(), Some(id(number)));
        }
        assert_eq!(uncommitted.tell_next(), None);
        assert!(uncommitted.tell(&id(most + 1)), "out of turn");
        assert!(!uncommitted.tell(&id(most + 1)) && !uncommitted.tell(&id(0)));
        assert!(uncommitted.remove(&id(5)) && !uncommitted.remove(&id(5)));
        assert_eq!(uncommitted.tell_next(), None, "one was told out of turn");
        assert!(uncommitted.remove(&id(6)));
        assert_eq!(uncommitted.tell_next(), Some(id(most)));
        assert!(uncommitted.remove(&id(7)));
        assert_eq!(uncommitted.tell_next(), Some(id(most + 2)));
        assert!(uncommitted.remove(&id(8)));
        assert_eq!(uncommitted.tell_next(), None);
    }

    #[test]
    fn after_the_agent_all_wait_again_but_those_that_are_gone() {
        let mut uncommitted = Uncommitted::default();
        (0..3).for_each(|number| uncommitted.add(id(number), 7));
        assert_eq!(uncommitted.tell_next(), Some(id(0)));
        uncommitted.remove(&id(1));
        assert!(uncommitted.has(&id(0), 7) && !uncommitted.has(&id(0), 8));
        assert!(!uncommitted.contains(&id(1)));
        uncommitted.forget_told();
        assert_eq!(uncommitted.tell_next(), Some(id(0)));
        assert_eq!(uncommitted.tell_next(), Some(id(2)));
        assert_eq!(uncommitted.tell_next(), None);
    }
}
