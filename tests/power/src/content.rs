//! Objects whose ids and bytes follow from their numbers.

use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Attributes, ObjectId};
use plasmon_spill::FileMeta;

/// The description of an object.
pub(crate) fn described(number: u64, size: u64) -> FileMeta {
    let mut id = [0x50; 20];
    id[..8].copy_from_slice(&number.to_le_bytes());
    FileMeta {
        id: ObjectId::new(id),
        serial: number,
        sizes: Sizes { data: size, ..Sizes::default() },
        traits: Traits::default(),
        attributes: Attributes::default(),
        created_ms: 0,
        construct_ms: 0,
    }
}

/// The number of an object that [`described`] made.
pub(crate) fn number_of(id: &ObjectId) -> Option<u64> {
    let bytes = id.as_bytes();
    let number = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    (described(number, 0).id == *id).then_some(number)
}

/// The bytes of an object from `from` to `until`.
pub(crate) fn bytes(number: u64, from: u64, until: u64) -> impl Iterator<Item = u8> {
    (from..until).map(move |at| {
        // One multiplication for eight bytes would be quicker; an emulated processor does either.
        let word = number.wrapping_add(at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ (word >> 29)).to_le_bytes()[(at % 8) as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_comes_back_and_other_ids_have_none() {
        for number in [0, 1, 1 << 40, u64::MAX] {
            assert_eq!(number_of(&described(number, 5).id), Some(number));
        }
        assert_eq!(number_of(&ObjectId::new([7; 20])), None);
    }

    #[test]
    fn a_part_of_the_content_is_the_same_as_in_the_whole() {
        let whole: Vec<u8> = bytes(3, 0, 100).collect();
        assert_eq!(bytes(3, 37, 91).collect::<Vec<u8>>(), whole[37..91]);
        assert_ne!(bytes(4, 0, 100).collect::<Vec<u8>>(), whole);
    }
}
