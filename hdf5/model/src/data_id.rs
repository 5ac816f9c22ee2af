//! The numbers that identify data and its generations.

use std::fmt;

/// The digits of a number in hexadecimal.
const DIGITS: usize = 16;

/// A number drawn at random: that of some data, or of a generation of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark(pub u64);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Mark {
    /// Reads what [`Mark`] writes as a text: 16 digits, small letters.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let small = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != DIGITS || !text.bytes().all(small) {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}
