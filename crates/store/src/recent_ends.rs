//! How objects ended that are no longer there, as far as it is remembered.

use std::collections::{HashMap, VecDeque};

use plasmon_proto::limits::RECENT_ENDS_MAX;
use plasmon_proto::{ObjectId, ObjectState};

/// The last ends, each with the number of its entry in the queue. The map is never iterated, so
/// that the random order of a hash map cannot make two runs differ.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds {
    ends: HashMap<ObjectId, (ObjectState, u64)>,
    queue: VecDeque<(ObjectId, u64)>,
    count: u64,
}

impl RecentEnds {
    /// Remembers an end, and forgets the oldest one beyond the limit.
    pub(crate) fn add(&mut self, id: ObjectId, state: ObjectState) {
        self.count += 1;
        self.ends.insert(id, (state, self.count));
        self.queue.push_back((id, self.count));
        if self.queue.len() > RECENT_ENDS_MAX
            && let Some((oldest, number)) = self.queue.pop_front()
            && self.ends.get(&oldest).is_some_and(|(_, newest)| *newest == number)
        {
            self.ends.remove(&oldest);
        }
    }

    /// How the object ended.
    pub(crate) fn state(&self, id: &ObjectId) -> Option<ObjectState> {
        self.ends.get(id).map(|(state, _)| *state)
    }

    /// The id lives again.
    pub(crate) fn forget(&mut self, id: &ObjectId) {
        self.ends.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ObjectId {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        ObjectId::new(bytes)
    }

    #[test]
    fn the_oldest_is_forgotten_at_the_limit_and_the_newest_end_counts() {
        let mut recent_ends = RecentEnds::default();
        recent_ends.add(id(0), ObjectState::Deleted);
        recent_ends.add(id(1), ObjectState::Deleted);
        recent_ends.add(id(0), ObjectState::Evicted);
        for number in 2..RECENT_ENDS_MAX - 1 {
            recent_ends.add(id(number), ObjectState::CreatorDied);
        }
        assert_eq!(recent_ends.state(&id(0)), Some(ObjectState::Evicted));
        // Its first end leaves the queue, its second stays.
        recent_ends.add(id(RECENT_ENDS_MAX), ObjectState::Deleted);
        assert_eq!(recent_ends.state(&id(0)), Some(ObjectState::Evicted));
        assert_eq!(recent_ends.state(&id(1)), Some(ObjectState::Deleted));
        recent_ends.add(id(RECENT_ENDS_MAX + 1), ObjectState::Deleted);
        assert_eq!(recent_ends.state(&id(1)), None);
        recent_ends.forget(&id(2));
        assert_eq!(recent_ends.state(&id(2)), None);
    }
}
