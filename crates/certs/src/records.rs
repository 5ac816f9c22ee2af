//! The certificates that were made, a line of a file each.

use crate::authority::Serial;

/// A certificate that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub serial: Serial,
    /// Its last second, since 1970.
    pub until: u64,
    /// Since when it is revoked.
    pub revoked_at: Option<u64>,
    /// The name of its node.
    pub node: String,
}

impl Record {
    /// Its line, without the end.
    pub(crate) fn line(&self) -> String {
        let Self { serial, until, revoked_at, node } = self;
        let revoked = revoked_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        format!("{serial} {until} {revoked} {node}")
    }

    /// Reads a line.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let mut field = || fields.next();
        let serial = Serial::parse(field()?)?;
        let until = field()?.parse().ok()?;
        let revoked_at = match field()? {
            "-" => None,
            at => Some(at.parse().ok()?),
        };
        let node = field().filter(|node| !node.is_empty())?.to_owned();
        Some(Self { serial, until, revoked_at, node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_others_are_refused() {
        let serial = Serial::parse(&"4a".repeat(16)).unwrap();
        for (revoked_at, node) in [(None, "a"), (Some(7), "rack 1 - b")] {
            let record = Record { serial, until: 9, revoked_at, node: node.to_owned() };
            assert_eq!(Record::parse(&record.line()), Some(record));
        }
        for line in ["", "x 9 - a", &format!("{serial} 9 -"), &format!("{serial} 9 x a")] {
            assert_eq!(Record::parse(line), None, "{line}");
        }
    }
}
