//! Namespaces that programs have adopted, and how far nodes are with those that have ended: the
//! values of the keys `adopted/NAMESPACE` and `swept/LIFE` (`docs/formats/cluster-map.md`).

use plasmon_cluster::NodeUuid;
use plasmon_cluster::adoption::{Adopter, Progress};

const MAGIC: [u8; 6] = *b"PLSADP";
const PROGRESS_MAGIC: [u8; 6] = *b"PLSSWP";
const VERSION: u16 = 1;

const ENDED: u8 = 0;
const ADOPTED: u8 = 1;

/// What is known of a namespace that a program has adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// A session has adopted it.
    Adopted(Adopter),
    /// The session is gone: what is in the namespace is deleted, and nothing comes in.
    Ended,
}

/// The value of the key of a namespace.
pub fn encode(adoption: &Adoption) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    match adoption {
        Adoption::Ended => bytes.push(ENDED),
        Adoption::Adopted(Adopter { node, boot, session }) => {
            bytes.push(ADOPTED);
            bytes.extend_from_slice(&node.0);
            bytes.extend_from_slice(&boot.to_le_bytes());
            bytes.extend_from_slice(&session.to_le_bytes());
        }
    }
    bytes
}

/// Reads it; `None` for other bytes.
pub fn decode(bytes: &[u8]) -> Option<Adoption> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (kind, rest) = rest.split_first()?;
    match *kind {
        ENDED => rest.is_empty().then_some(Adoption::Ended),
        ADOPTED => {
            let (node, rest) = rest.split_first_chunk::<16>()?;
            let (boot, session) = two_numbers(rest)?;
            Some(Adoption::Adopted(Adopter { node: NodeUuid(*node), boot, session }))
        }
        _ => None,
    }
}

/// The value of the key of a node.
pub fn encode_progress(progress: Progress) -> Vec<u8> {
    let Progress { seen, swept } = progress;
    let (seen, swept) = (seen.to_le_bytes(), swept.to_le_bytes());
    [&PROGRESS_MAGIC[..], &VERSION.to_le_bytes(), &seen, &swept].concat()
}

/// Reads it; `None` for other bytes.
pub fn decode_progress(bytes: &[u8]) -> Option<Progress> {
    let rest = bytes.strip_prefix(&PROGRESS_MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (seen, swept) = two_numbers(rest)?;
    Some(Progress { seen, swept })
}

fn two_numbers(bytes: &[u8]) -> Option<(u64, u64)> {
    let (one, rest) = bytes.split_first_chunk::<8>()?;
    let other = <[u8; 8]>::try_from(rest).ok()?;
    Some((u64::from_le_bytes(*one), u64::from_le_bytes(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_other_bytes_are_refused() {
        let adopter = Adopter { node: NodeUuid([0xab; 16]), boot: 0x0102, session: 0x0304 };
        let golden = [
            &b"PLSADP\x01\0\x01"[..],
            &[0xab; 16],
            &0x0102_u64.to_le_bytes(),
            &0x0304_u64.to_le_bytes(),
        ]
        .concat();
        let adopted = Adoption::Adopted(adopter);
        assert_eq!(encode(&adopted), golden);
        assert_eq!(encode(&Adoption::Ended), b"PLSADP\x01\0\0");
        for adoption in [adopted, Adoption::Ended] {
            let bytes = encode(&adoption);
            assert_eq!(decode(&bytes), Some(adoption));
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
            }
            assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        }
        assert_eq!(decode(b"PLSADP\x01\0\x02"), None);
        let progress = Progress { seen: 0x0102, swept: 0x0304 };
        let bytes = encode_progress(progress);
        let numbers = [0x0102_u64, 0x0304].map(u64::to_le_bytes).concat();
        assert_eq!(bytes, [&b"PLSSWP\x01\0"[..], &numbers].concat());
        assert_eq!(decode_progress(&bytes), Some(progress));
        for cut in 0..bytes.len() {
            assert_eq!(decode_progress(&bytes[..cut]), None, "{cut} bytes");
        }
    }
}
