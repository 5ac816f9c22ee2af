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
        let [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11] = self.random;
        // Put together in words: whoever reads these bytes next reads words, and one of them would
        // lie across the bytes of the random part and of the count.
        let first = u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7]);
        let second = u64::from(u32::from_le_bytes([r8, r9, r10, r11])) | self.count << 32;
        let third = (self.count >> 32) as u32;
        self.count += 1;
        ObjectId::from_words([first, second, third.into()])
    }
}

fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    // So few bytes come at once and whole, once the machine has booted.
    plasmon_shm::edge::random().expect("the kernel gives random bytes")
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
