//! Descriptions of objects that a log takes.

use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Attributes, ObjectId};
use plasmon_spill::FileMeta;

/// What one call of a log's own work may read and write.
pub(super) const WORK_BYTES: u64 = 8 << 20;

/// An object that was not there before.
pub(super) fn described(next: &mut u64, size: usize) -> FileMeta {
    *next += 1;
    let mut id = [0x5a; 20];
    // Spread as ids are, which are hashes or random.
    id[..8].copy_from_slice(&next.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    FileMeta {
        id: ObjectId::new(id),
        serial: *next,
        sizes: Sizes { data: size as u64, ..Sizes::default() },
        traits: Traits::default(),
        attributes: Attributes::default(),
        created_ms: 0,
        construct_ms: 0,
    }
}
