//! Reports of primaries as bytes (`docs/formats/cluster-map.md`).

use std::collections::BTreeMap;

use plasmon_cluster::{Epoch, GroupNo};

const MAGIC: [u8; 6] = *b"PLSREP";
const VERSION: u16 = 1;
const ENTRY_BYTES: usize = 10;

/// For each group that a node leads with all its records, since which map it has its nodes.
pub type Reports = BTreeMap<GroupNo, Epoch>;

/// The value of the key.
pub fn encode(reports: &Reports) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + ENTRY_BYTES * reports.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for (group, since) in reports {
        bytes.extend_from_slice(&group.number().to_le_bytes());
        bytes.extend_from_slice(&since.0.to_le_bytes());
    }
    bytes
}

/// Reads them; `None` for other bytes.
pub fn decode(bytes: &[u8]) -> Option<Reports> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (entries, after) = rest.as_chunks::<ENTRY_BYTES>();
    let entry = |entry: &[u8; ENTRY_BYTES]| {
        let [g0, g1, since @ ..] = *entry;
        Some((GroupNo::new(u16::from_le_bytes([g0, g1]))?, Epoch(u64::from_le_bytes(since))))
    };
    let reports: Reports = entries.iter().map(entry).collect::<Option<_>>()?;
    (after.is_empty() && reports.len() == entries.len()).then_some(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back_and_other_bytes_are_refused() {
        let group = |number| GroupNo::new(number).unwrap();
        let reports = Reports::from([(group(3), Epoch(0x0102)), (group(1023), Epoch(9))]);
        let bytes = encode(&reports);
        let first = [3, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..18], [&b"PLSREP\x01\0"[..], &first].concat());
        assert_eq!(decode(&bytes), Some(reports));
        for cut in (0..bytes.len()).filter(|cut| *cut < 8 || (cut - 8) % 10 != 0) {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        let mut other = bytes.clone();
        other[8..10].copy_from_slice(&1024_u16.to_le_bytes());
        assert_eq!(decode(&other), None, "there is no such group");
        assert_eq!(decode(&[&bytes[..], &first].concat()), None, "a group twice");
    }
}
