//! What a worker tells the verifier: one line for each event, written at once, so that a killed
//! worker has told everything that it knew.

use std::fmt;
use std::io::{self, Write};

use plasmon_client::ObjectId;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It is about to put this object.
    Putting(ObjectId),
    /// The put was acknowledged.
    Put(ObjectId),
    /// It is about to put this content under an id that may have other content.
    Replacing(ObjectId, ObjectId),
    /// The replacement was acknowledged.
    Replaced(ObjectId, ObjectId),
    /// It is about to delete this object.
    Deleting(ObjectId),
    /// The delete was acknowledged.
    Deleted(ObjectId),
    /// It read an object and all bytes were right.
    Verified,
    /// The store refused something that it may refuse.
    Refused(String),
    /// Something that must never happen.
    Violation(String),
}

impl Line {
    /// Writes the line to the verifier. Without a verifier there is nothing left to do.
    pub(super) fn tell(&self) {
        if writeln!(io::stdout().lock(), "{self}").is_err() {
            std::process::exit(0);
        }
    }

    /// Reads a line back.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let one = || rest.parse().ok();
        let two = || {
            let (first, second) = rest.split_once(' ')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        match word {
            "putting" => one().map(Self::Putting),
            "put" => one().map(Self::Put),
            "replacing" => two().map(|(id, content)| Self::Replacing(id, content)),
            "replaced" => two().map(|(id, content)| Self::Replaced(id, content)),
            "deleting" => one().map(Self::Deleting),
            "deleted" => one().map(Self::Deleted),
            "verified" => Some(Self::Verified),
            "refused" => Some(Self::Refused(rest.to_owned())),
            "violation" => Some(Self::Violation(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Putting(id) => write!(f, "putting {id}"),
            Self::Put(id) => write!(f, "put {id}"),
            Self::Replacing(id, content) => write!(f, "replacing {id} {content}"),
            Self::Replaced(id, content) => write!(f, "replaced {id} {content}"),
            Self::Deleting(id) => write!(f, "deleting {id}"),
            Self::Deleted(id) => write!(f, "deleted {id}"),
            Self::Verified => f.write_str("verified"),
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
        let (id, content) = (ObjectId::new([0xab; 20]), ObjectId::new([1; 20]));
        for line in [
            Line::Putting(id),
            Line::Put(id),
            Line::Replacing(id, content),
            Line::Replaced(id, content),
            Line::Deleting(id),
            Line::Deleted(id),
            Line::Verified,
            Line::Refused("io".to_owned()),
            Line::Violation("two words".to_owned()),
        ] {
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        let cut = Line::Replaced(id, content).to_string();
        assert_eq!(Line::parse(&cut[..cut.len() - 3]), None);
    }
}
