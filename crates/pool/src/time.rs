//! Points in time and deadlines, as values.

use std::collections::{BTreeMap, BTreeSet};

/// A point in time on the node's monotonic clock, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// The point so many milliseconds later.
    pub fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }
}

/// At most one deadline for each key.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    by_key: BTreeMap<K, Mono>,
    by_time: BTreeSet<(Mono, K)>,
}

impl<K: Ord + Copy> Timers<K> {
    pub(crate) fn new() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    /// Sets the deadline of a key.
    pub(crate) fn set(&mut self, key: K, at: Mono) {
        self.clear(key);
        self.by_key.insert(key, at);
        self.by_time.insert((at, key));
    }

    /// Sets the deadline of a key that has none.
    pub(crate) fn set_if_clear(&mut self, key: K, at: Mono) {
        if !self.by_key.contains_key(&key) {
            self.set(key, at);
        }
    }

    /// Whether a key has a deadline.
    pub(crate) fn has(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    pub(crate) fn clear(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// A key whose deadline has passed; it has none any more.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<K> {
        let (at, key) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.clear(key);
        Some(key)
    }

    pub(crate) fn next(&self) -> Option<Mono> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_deadline_and_is_popped_once_it_has_passed() {
        let mut timers = Timers::new();
        timers.set('a', Mono(5));
        timers.set('b', Mono(3));
        timers.set('a', Mono(1));
        timers.set_if_clear('b', Mono(0));
        assert_eq!(timers.next(), Some(Mono(1)));
        assert_eq!(timers.pop(Mono(0)), None);
        assert_eq!(timers.pop(Mono(1)), Some('a'));
        assert_eq!(timers.pop(Mono(9)), Some('b'));
        assert_eq!(timers.next(), None);
        assert_eq!(Mono(u64::MAX).after_ms(1), Mono(u64::MAX));
    }
}
