//! What operators ask of nodes: the values of the keys `commands/SLOT`
//! (`docs/formats/cluster-map.md`).
//!
//! ```text
//!   operator                       the node that leads
//!   Asked(order) ─── put ──►      the map shows it, and the key is deleted, in one transaction
//!                                  or: Refused(sentence), which goes with the leader's lease
//! ```
//!
//! There is one key for a slot, so a later command replaces one that was not taken yet.

use plasmon_cluster::Slot;
use plasmon_cluster::leader::Command;

const MAGIC: [u8; 6] = *b"PLSCMD";
const VERSION: u16 = 1;

/// Bytes of the sentence of a refusal.
pub const REASON_BYTES_MAX: usize = 1024;

/// What an operator wants of the node in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It will not come back: all that only it had is lost.
    Forget,
    /// It shall become empty.
    Drain,
    /// It shall take part again.
    Undrain,
}

impl Order {
    /// For the node that leads.
    pub fn command(self, slot: Slot) -> Command {
        match self {
            Self::Forget => Command::Forget(slot),
            Self::Drain => Command::Drain(slot),
            Self::Undrain => Command::Undrain(slot),
        }
    }
}

/// What is under the key of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An operator wants it.
    Asked(Order),
    /// The node that leads did not carry the last one out, and says why.
    Refused(String),
}

/// The value of the key.
pub fn encode(entry: &Entry) -> Vec<u8> {
    let (kind, reason) = match entry {
        Entry::Refused(reason) => (0, reason.as_str()),
        Entry::Asked(Order::Forget) => (1, ""),
        Entry::Asked(Order::Drain) => (2, ""),
        Entry::Asked(Order::Undrain) => (3, ""),
    };
    let is_cut = |end: &usize| reason.is_char_boundary(*end);
    let end = (0..=reason.len().min(REASON_BYTES_MAX)).rev().find(is_cut).unwrap_or(0);
    let reason = &reason[..end];
    [&MAGIC[..], &VERSION.to_le_bytes(), &[kind], reason.as_bytes()].concat()
}

/// Reads the value; `None` for other bytes.
pub fn decode(bytes: &[u8]) -> Option<Entry> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (kind, reason) = rest.split_first()?;
    Some(match (kind, reason) {
        (0, reason) if reason.len() <= REASON_BYTES_MAX => {
            Entry::Refused(std::str::from_utf8(reason).ok()?.to_owned())
        }
        (1, []) => Entry::Asked(Order::Forget),
        (2, []) => Entry::Asked(Order::Drain),
        (3, []) => Entry::Asked(Order::Undrain),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_back_and_other_bytes_are_refused() {
        let refused = Entry::Refused("it is up".to_owned());
        let orders = [Order::Forget, Order::Drain, Order::Undrain];
        for entry in orders.map(Entry::Asked).into_iter().chain([refused]) {
            let bytes = encode(&entry);
            assert_eq!(decode(&bytes), Some(entry));
            for cut in 0..9 {
                assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
            }
        }
        assert_eq!(encode(&Entry::Asked(Order::Forget)), b"PLSCMD\x01\0\x01");
        assert_eq!(encode(&Entry::Asked(Order::Drain)), b"PLSCMD\x01\0\x02");
        assert_eq!(encode(&Entry::Asked(Order::Undrain)), b"PLSCMD\x01\0\x03");
        for wrong in [&b"PLSCMD\x01\0\x01x"[..], b"PLSCMD\x02\0\x01", b"PLSCMD\x01\0\x04"] {
            assert_eq!(decode(wrong), None);
        }
        let long = encode(&Entry::Refused("é".repeat(REASON_BYTES_MAX)));
        assert_eq!(long.len(), 9 + REASON_BYTES_MAX, "it is cut");
        assert!(decode(&long).is_some());
        assert_eq!(decode(&[&long[..], b"x"].concat()), None);
    }
}
