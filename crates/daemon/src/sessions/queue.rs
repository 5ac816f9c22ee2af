//! Sessions in the order in which they were put in; each can leave from anywhere.

use std::collections::{BTreeMap, HashMap};

use super::session::SessionNo;

/// Sessions; the oldest is the one that was put in first.
#[derive(Debug, Default)]
pub(super) struct SessionQueue {
    by_age: BTreeMap<u64, SessionNo>,
    since: HashMap<SessionNo, u64>,
    /// Counts the sessions that were ever put in.
    clock: u64,
}

impl SessionQueue {
    /// Puts a session in as the youngest. One that is here stays where it is.
    pub(super) fn insert(&mut self, no: SessionNo) {
        if self.since.contains_key(&no) {
            return;
        }
        self.clock += 1;
        self.by_age.insert(self.clock, no);
        self.since.insert(no, self.clock);
    }

    /// Takes a session out, if it is here.
    pub(super) fn remove(&mut self, no: SessionNo) {
        if let Some(since) = self.since.remove(&no) {
            self.by_age.remove(&since);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// The oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = SessionNo> {
        self.by_age.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_come_first_and_one_that_returns_is_the_youngest() {
        let mut queue = SessionQueue::default();
        let numbers = |queue: &SessionQueue| queue.iter().map(|no| no.0).collect::<Vec<_>>();
        (0..3).for_each(|number| queue.insert(SessionNo(number)));
        queue.insert(SessionNo(0));
        assert_eq!(numbers(&queue), [0, 1, 2], "it is as old as it was");
        queue.remove(SessionNo(0));
        queue.remove(SessionNo(7));
        assert_eq!((numbers(&queue), queue.len()), (vec![1, 2], 2));
        queue.insert(SessionNo(0));
        assert_eq!(numbers(&queue), [1, 2, 0]);
    }
}
