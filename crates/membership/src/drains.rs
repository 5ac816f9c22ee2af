//! Reports of nodes about draining ones, as bytes (`docs/formats/cluster-map.md`).

use plasmon_cluster::limits::NODES_MAX;
use plasmon_cluster::{DrainReport, Epoch, Left, Slot};

const MAGIC: [u8; 6] = *b"PLSDRN";
const VERSION: u16 = 1;
const ENTRY_BYTES: usize = 66;

/// The value of the key.
pub fn encode(reports: &[DrainReport]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + ENTRY_BYTES * reports.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for DrainReport { slot, since, epoch, left } in reports {
        let Left { objects, bytes: size, last, few_nodes, no_room, unreachable } = *left;
        bytes.extend_from_slice(&slot.0.to_le_bytes());
        for number in [since.0, epoch.0, objects, size, last, few_nodes, no_room, unreachable] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

/// Reads them; `None` for other bytes.
pub fn decode(bytes: &[u8]) -> Option<Vec<DrainReport>> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (entries, after) = rest.as_chunks::<ENTRY_BYTES>();
    let is_whole = after.is_empty() && entries.len() <= NODES_MAX;
    let reports: Vec<DrainReport> = entries.iter().map(entry).collect();
    let is_ordered = reports.is_sorted_by(|one, next| one.slot < next.slot);
    (is_whole && is_ordered).then_some(reports)
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> DrainReport {
    let [s0, s1, numbers @ ..] = *bytes;
    let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut next = || numbers.next().unwrap_or_default();
    let (slot, since, epoch) = (Slot(u16::from_le_bytes([s0, s1])), Epoch(next()), Epoch(next()));
    let left = Left {
        objects: next(),
        bytes: next(),
        last: next(),
        few_nodes: next(),
        no_room: next(),
        unreachable: next(),
    };
    DrainReport { slot, since, epoch, left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back_and_other_bytes_are_refused() {
        let left =
            Left { objects: 3, bytes: 4, last: 5, few_nodes: 6, no_room: 7, unreachable: 0x0809 };
        let report =
            |slot| DrainReport { slot: Slot(slot), since: Epoch(1), epoch: Epoch(2), left };
        let bytes = encode(&[report(0x0102), report(0x0103)]);
        let numbers = [1, 2, 3, 4, 5, 6, 7, 0x0809].map(u64::to_le_bytes).concat();
        assert_eq!(bytes[..74], [&b"PLSDRN\x01\0\x02\x01"[..], &numbers].concat());
        assert_eq!(decode(&bytes), Some(vec![report(0x0102), report(0x0103)]));
        for cut in (0..bytes.len()).filter(|cut| *cut < 8 || (cut - 8) % ENTRY_BYTES != 0) {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&encode(&[report(2), report(2)])), None, "a node twice");
        let many = |count: u16| encode(&(0..count).map(report).collect::<Vec<_>>());
        assert!(decode(&many(NODES_MAX as u16)).is_some());
        assert_eq!(decode(&many(NODES_MAX as u16 + 1)), None);
    }
}
