//! Ids that say what an object holds, and the bytes that follow from them.
//!
//! ```text
//! bytes 0-3    the worker's number          bytes 8-15   a counter
//! byte  4      the worker's thread          bytes 16-19  bytes of data
//! byte  5      what is special: see below   (numbers are little-endian)
//! ```

use plasmon_client::ObjectId;
use plasmon_testkit::mix;

/// The maker of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The worker's number.
    pub(crate) worker: u32,
    /// Its thread.
    pub(crate) thread: u8,
}

/// What is special about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Nothing.
    Plain = 0,
    /// The store may evict it.
    Cache = 1,
    /// It has no metadata; the others' is their id.
    Bare = 2,
}

/// The id of an object.
pub(crate) fn id(origin: Origin, counter: u64, bytes: u32, kind: Kind) -> ObjectId {
    let mut id = [0; 20];
    id[..4].copy_from_slice(&origin.worker.to_le_bytes());
    id[4] = origin.thread;
    id[5] = kind as u8;
    id[8..16].copy_from_slice(&counter.to_le_bytes());
    id[16..].copy_from_slice(&bytes.to_le_bytes());
    ObjectId::new(id)
}

/// How many bytes of data the object has.
pub(crate) fn bytes(id: &ObjectId) -> usize {
    let [.., a, b, c, d] = *id.as_bytes();
    u32::from_le_bytes([a, b, c, d]) as usize
}

/// Whether the store may evict it.
pub(crate) fn is_cache(id: &ObjectId) -> bool {
    id.as_bytes()[5] == Kind::Cache as u8
}

/// Its metadata.
pub(crate) fn metadata(id: &ObjectId) -> &[u8] {
    if id.as_bytes()[5] == Kind::Bare as u8 { &[] } else { id.as_bytes() }
}

/// Writes its data.
pub(crate) fn fill(id: &ObjectId, data: &mut [u8]) {
    let seed = seed(id);
    for (at, chunk) in data.chunks_mut(8).enumerate() {
        let word = mix(seed ^ at as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Its data.
pub(crate) fn data(id: &ObjectId) -> Vec<u8> {
    let mut data = vec![0; bytes(id)];
    fill(id, &mut data);
    data
}

/// Whether these are its data and metadata.
pub(crate) fn matches(id: &ObjectId, data: &[u8], metadata: &[u8]) -> bool {
    let seed = seed(id);
    data.len() == bytes(id)
        && metadata == self::metadata(id)
        && data.chunks(8).enumerate().all(|(at, chunk)| {
            let word = mix(seed ^ at as u64).to_le_bytes();
            chunk == &word[..chunk.len()]
        })
}

fn seed(id: &ObjectId) -> u64 {
    let (words, _) = id.as_bytes().as_chunks::<4>();
    words.iter().fold(0, |seed, word| mix(seed ^ u64::from(u32::from_le_bytes(*word))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_by_its_id() {
        let origin = Origin { worker: 7, thread: 1 };
        for length in [0, 1, 7, 8, 4097] {
            let id = id(origin, 3, length, Kind::Cache);
            let mut data = data(&id);
            assert_eq!(data.len(), length as usize);
            assert!(is_cache(&id));
            assert!(matches(&id, &data, metadata(&id)));
            assert!(!matches(&id, &data, b"other"));
            if let Some(last) = data.last_mut() {
                *last ^= 1;
                assert!(!matches(&id, &data, metadata(&id)));
            }
        }
        let bare = id(origin, 4, 10, Kind::Bare);
        assert!(matches(&bare, &data(&bare), b"") && !is_cache(&bare));
        assert_ne!(
            data(&id(origin, 1, 64, Kind::Plain)),
            data(&id(origin, 2, 64, Kind::Plain)),
            "the bytes follow from the whole id"
        );
    }
}
