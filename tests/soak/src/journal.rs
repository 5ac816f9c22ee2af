//! A worker's reports to the verifier: one line for each event, written at once, so that a killed
//! worker has told everything that it knew.

use std::fmt;
use std::io::{self, Write};

use plasmon_client::ObjectId;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The worker connected and begins.
    Ready,
    /// It is about to put this object: from now on it may be there.
    Putting(ObjectId),
    /// The put was acknowledged: the object must be there.
    Sealed(ObjectId),
    /// It is about to delete this object: from now on it may be gone.
    Deleting(ObjectId),
    /// The delete was acknowledged: the object must be gone.
    Deleted(ObjectId),
    /// It read objects since its last such line and all bytes were right.
    Verified(u64),
    /// The store refused something that it may refuse.
    Refused(String),
    /// Something that must never happen.
    Violation(String),
}

impl Entry {
    /// Writes the line to the verifier. Without a verifier there is nothing left to do.
    pub(crate) fn report(&self) {
        if writeln!(io::stdout().lock(), "{self}").is_err() {
            std::process::exit(0);
        }
    }

    /// Reads a line back.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let id = || rest.parse().ok();
        match word {
            "ready" => Some(Self::Ready),
            "putting" => id().map(Self::Putting),
            "sealed" => id().map(Self::Sealed),
            "deleting" => id().map(Self::Deleting),
            "deleted" => id().map(Self::Deleted),
            "verified" => rest.parse().ok().map(Self::Verified),
            "refused" => Some(Self::Refused(rest.to_owned())),
            "violation" => Some(Self::Violation(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Putting(id) => write!(f, "putting {id}"),
            Self::Sealed(id) => write!(f, "sealed {id}"),
            Self::Deleting(id) => write!(f, "deleting {id}"),
            Self::Deleted(id) => write!(f, "deleted {id}"),
            Self::Verified(count) => write!(f, "verified {count}"),
            Self::Refused(what) => write!(f, "refused {}", what.replace('\n', " ")),
            Self::Violation(what) => write!(f, "violation {}", what.replace('\n', " ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_cut_ones_do_not() {
        let id = ObjectId::new([0xab; 20]);
        for entry in [
            Entry::Ready,
            Entry::Putting(id),
            Entry::Sealed(id),
            Entry::Deleting(id),
            Entry::Deleted(id),
            Entry::Verified(12),
            Entry::Refused("store_full".to_owned()),
            Entry::Violation("two words".to_owned()),
        ] {
            assert_eq!(Entry::parse(&entry.to_string()), Some(entry));
        }
        assert_eq!(Entry::parse("sealed abab"), None);
        assert_eq!(Entry::parse(""), None);
    }
}
