//! Namespaces that programs have adopted, and how far nodes are with those that have ended: the
//! values of the keys `adopted/NAMESPACE` and `swept/LIFE` (`docs/formats/cluster-map.md`).

use plasmon_cluster::NodeUuid;
use plasmon_cluster::adoption::{Adopter, Progress};

const MAGIC: [u8; 6] = *b"PLSADP";
const PROGRESS_MAGIC: [u8; 6] = *b"PLSSWP";
const VERSION: u16 = 1;

const ENDED: u8 = 0;
const ADOPTED: u8 = 1;
const LIMITED: u8 = 2;

/// What is known of a namespace that a program has adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// A session has adopted it.
    Adopted {
        /// Which.
        by: Adopter,
        /// How many bytes all nodes together may have in it; 0 for no limit.
        bytes_max: u64,
    },
    /// The session is gone: what is in the namespace is deleted, and nothing comes in.
    Ended,
}

impl Adoption {
    /// The session that has it.
    pub fn adopter(&self) -> Option<Adopter> {
        match self {
            Self::Adopted { by, .. } => Some(*by),
            Self::Ended => None,
        }
    }

    /// Its limit; `None` without one.
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::Adopted { bytes_max, .. } if *bytes_max > 0 => Some(*bytes_max),
            _ => None,
        }
    }
}

/// The value of the key of a namespace.
pub fn encode(adoption: &Adoption) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    match adoption {
        Adoption::Ended => bytes.push(ENDED),
        Adoption::Adopted { by: Adopter { node, boot, session }, bytes_max } => {
            bytes.push(if *bytes_max > 0 { LIMITED } else { ADOPTED });
            bytes.extend_from_slice(&node.0);
            bytes.extend_from_slice(&boot.to_le_bytes());
            bytes.extend_from_slice(&session.to_le_bytes());
            if *bytes_max > 0 {
                bytes.extend_from_slice(&bytes_max.to_le_bytes());
            }
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
        ADOPTED => Some(Adoption::Adopted { by: adopter(rest)?, bytes_max: 0 }),
        LIMITED => {
            let (rest, bytes_max) = rest.split_last_chunk::<8>()?;
            let (by, bytes_max) = (adopter(rest)?, u64::from_le_bytes(*bytes_max));
            (bytes_max > 0).then_some(Adoption::Adopted { by, bytes_max })
        }
        _ => None,
    }
}

fn adopter(bytes: &[u8]) -> Option<Adopter> {
    let (node, rest) = bytes.split_first_chunk::<16>()?;
    let (boot, session) = two_numbers(rest)?;
    Some(Adopter { node: NodeUuid(*node), boot, session })
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
        let adopted = Adoption::Adopted { by: adopter, bytes_max: 0 };
        assert_eq!(encode(&adopted), golden);
        assert_eq!(encode(&Adoption::Ended), b"PLSADP\x01\0\0");
        let limited = Adoption::Adopted { by: adopter, bytes_max: 0x0506 };
        let bytes = encode(&limited);
        assert_eq!((bytes[8], &bytes[9..41]), (2, &golden[9..]));
        assert_eq!(bytes[41..], 0x0506_u64.to_le_bytes());
        assert_eq!(
            [adopted, limited, Adoption::Ended].map(|it| it.limit()),
            [None, Some(0x0506), None]
        );
        assert_eq!(decode(&[&bytes[..41], &[0; 8]].concat()), None, "no limit is written so");
        for adoption in [adopted, limited, Adoption::Ended] {
            let bytes = encode(&adoption);
            assert_eq!(decode(&bytes), Some(adoption));
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
            }
            assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        }
        assert_eq!(decode(b"PLSADP\x01\0\x03"), None);
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
