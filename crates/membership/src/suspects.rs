//! Reports of peers that a node does not reach, as bytes (`docs/formats/cluster-map.md`).

use plasmon_cluster::limits::NODES_MAX;
use plasmon_cluster::{Slot, Suspect};

const MAGIC: [u8; 6] = *b"PLSSUS";
const VERSION: u16 = 1;
const ENTRY_BYTES: usize = 10;

/// The value of the key; the suspects are in the order of their slots.
pub fn encode(suspects: &[Suspect]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + ENTRY_BYTES * suspects.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for Suspect { slot, incarnation } in suspects {
        bytes.extend_from_slice(&slot.0.to_le_bytes());
        bytes.extend_from_slice(&incarnation.to_le_bytes());
    }
    bytes
}

/// Reads them; `None` for other bytes.
pub fn decode(bytes: &[u8]) -> Option<Vec<Suspect>> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (entries, after) = rest.as_chunks::<ENTRY_BYTES>();
    let is_whole = after.is_empty() && entries.len() <= NODES_MAX;
    let entry = |[s0, s1, incarnation @ ..]: &[u8; ENTRY_BYTES]| Suspect {
        slot: Slot(u16::from_le_bytes([*s0, *s1])),
        incarnation: u64::from_le_bytes(*incarnation),
    };
    let suspects: Vec<Suspect> = entries.iter().map(entry).collect();
    let is_ordered = suspects.is_sorted_by(|one, next| one.slot < next.slot);
    (is_whole && is_ordered).then_some(suspects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_come_back_and_other_bytes_are_refused() {
        let suspect = |slot| Suspect { slot: Slot(slot), incarnation: 0x0304 };
        let bytes = encode(&[suspect(0x0102), suspect(0x0103)]);
        let first = [2, 1, 4, 3, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..18], [&b"PLSSUS\x01\0"[..], &first].concat());
        assert_eq!(decode(&bytes), Some(vec![suspect(0x0102), suspect(0x0103)]));
        assert_eq!(decode(&encode(&[])), Some(vec![]));
        for cut in (0..bytes.len()).filter(|cut| *cut < 8 || (cut - 8) % ENTRY_BYTES != 0) {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&encode(&[suspect(2), suspect(2)])), None, "a node twice");
        let many = |count: u16| encode(&(0..count).map(suspect).collect::<Vec<_>>());
        assert!(decode(&many(NODES_MAX as u16)).is_some());
        assert_eq!(decode(&many(NODES_MAX as u16 + 1)), None);
    }
}
