//! Unique ids.

use std::sync::{Mutex, PoisonError};

use plasmon_proto::ObjectId;

/// A maker of ids: 20 random bytes of its own, of which the first eight are changed by a count.
///
/// The count changes the beginning, so that the first digits tell ids of one maker apart, as they
/// are shown and typed. Ids of two makers differ in the other bytes.
#[derive(Debug)]
pub(crate) struct Ids {
    /// As words of 64 bits, because the bytes of an id are read as words next.
    random: [u64; 3],
    count: u64,
}

impl Ids {
    /// A maker whose ids no other one makes, in this process or elsewhere.
    pub(crate) fn new() -> Self {
        Self { random: ObjectId::new(random_bytes()).words(), count: 0 }
    }

    /// The next id.
    #[inline]
    pub(crate) fn next(&mut self) -> ObjectId {
        let [first, second, third] = self.random;
        let id = ObjectId::from_words([first ^ self.count, second, third]);
        self.count += 1;
        id
    }
}

fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    // So few bytes come at once and whole, once the machine has booted.
    plasmon_shm::edge::random().expect("the kernel gives random bytes")
}

/// Ids for all threads of a process.
#[derive(Debug)]
pub(crate) struct SharedIds(Mutex<Ids>);

impl SharedIds {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Ids::new()))
    }

    /// A unique id.
    pub(crate) fn next(&self) -> ObjectId {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_id_comes_twice() {
        let (mut one, mut other) = (Ids::new(), Ids::new());
        let ids: HashSet<_> = (0..1000).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ids.len(), 2000);
    }

    /// Ids of one client had their first 24 digits in common: nothing short told them apart.
    #[test]
    fn the_first_digits_distinguish_ids_of_one_maker() {
        let mut ids = Ids::new();
        let starts: HashSet<_> =
            (0..70_000).map(|_| ids.next().to_string()[..8].to_owned()).collect();
        assert_eq!(starts.len(), 70_000);
    }
}
