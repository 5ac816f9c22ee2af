//! Ids that nobody else makes.

use plasmon_proto::ObjectId;

/// A maker of ids: 12 random bytes of its own, and a count.
#[derive(Debug)]
pub(crate) struct Ids {
    random: [u8; 12],
    count: u64,
}

impl Ids {
    /// A maker whose ids no other one makes, in this process or elsewhere.
    pub(crate) fn new() -> Self {
        Self { random: random_bytes(), count: 0 }
    }

    /// The next id.
    #[inline]
    pub(crate) fn next(&mut self) -> ObjectId {
        let mut bytes = [0; 20];
        bytes[..12].copy_from_slice(&self.random);
        bytes[12..].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        ObjectId::new(bytes)
    }
}

fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    // So few bytes come at once and whole, once the machine has booted.
    assert!(filled == Ok(BYTES), "the kernel gives random bytes: {filled:?}");
    bytes
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
}
