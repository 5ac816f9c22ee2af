//! The counts of a soak.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How many findings of one kind are shown.
const SHOWN_MAX: usize = 20;

/// The counts of a soak.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Kills of each kind of process.
    pub(crate) kills: BTreeMap<&'static str, u64>,
    /// Audits.
    pub(crate) audits: u64,
    /// Acknowledged seals and deletes, and gets whose bytes were compared.
    pub(crate) sealed: u64,
    /// Acknowledged deletes.
    pub(crate) deleted: u64,
    /// Objects whose bytes a worker or the verifier compared.
    pub(crate) verified: u64,
    /// Refusals that are no faults, by their text.
    pub(crate) refused: BTreeMap<String, u64>,
    /// From the kill of a daemon to the first answer of the next one.
    pub(crate) recoveries: Vec<Duration>,
    /// The most memory that extents were found to take at an audit.
    pub(crate) resident_bytes_max: u64,
    /// Sealed objects that are gone.
    pub(crate) lost: Vec<String>,
    /// What the store holds without need.
    pub(crate) leaks: Vec<String>,
    /// Everything else that must never happen.
    pub(crate) violations: Vec<String>,
    /// How many of each kind of finding were told already.
    reported: [usize; 3],
}

impl Tally {
    /// What was found since the last call, up to a limit of each kind.
    pub(crate) fn new_findings(&mut self) -> Vec<String> {
        let kinds = [("lost", &self.lost), ("leak", &self.leaks), ("violation", &self.violations)];
        let mut lines = Vec::new();
        for ((kind, findings), reported) in kinds.into_iter().zip(&mut self.reported) {
            let from = std::mem::replace(reported, findings.len());
            let new = findings.iter().take(SHOWN_MAX).skip(from);
            lines.extend(new.map(|finding| format!("{kind}: {finding}")));
        }
        lines
    }

    /// Whether nothing was lost, nothing leaked and nothing was violated.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.leaks.is_empty() && self.violations.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: Vec<String> =
            self.kills.iter().map(|(what, count)| format!("{count} {what}")).collect();
        writeln!(f, "  faults      {}", kills.join(", "))?;
        writeln!(f, "  objects     {} sealed, {} deleted", self.sealed, self.deleted)?;
        writeln!(f, "  compared    {} reads, in {} audits everything", self.verified, self.audits)?;
        let mut recoveries = self.recoveries.clone();
        recoveries.sort();
        if let (Some(median), Some(most)) =
            (recoveries.get(recoveries.len() / 2), recoveries.last())
        {
            writeln!(f, "  recovery    median {median:.1?}, longest {most:.1?}")?;
        }
        writeln!(f, "  resident    {} MB at most at an audit", self.resident_bytes_max >> 20)?;
        for (what, count) in &self.refused {
            writeln!(f, "  refused     {count} times {what}")?;
        }
        write!(
            f,
            "  {} lost sealed objects, {} leaks, {} violations",
            self.lost.len(),
            self.leaks.len(),
            self.violations.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_names_everything_that_was_found() {
        let mut tally = Tally::default();
        assert!(tally.is_clean());
        tally.kills.insert("daemons", 3);
        tally.recoveries = vec![Duration::from_millis(30), Duration::from_millis(10)];
        tally.lost.push("object ab".to_owned());
        let text = tally.to_string();
        assert!(!tally.is_clean());
        for part in ["3 daemons", "longest 30.0ms", "1 lost sealed objects"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_finding_is_reported_once() {
        let mut tally = Tally::default();
        tally.leaks.push("one".to_owned());
        assert_eq!(tally.new_findings(), ["leak: one"]);
        assert_eq!(tally.new_findings(), [""; 0]);
        tally.leaks.extend((0..SHOWN_MAX).map(|at| at.to_string()));
        assert_eq!(tally.new_findings().len(), SHOWN_MAX - 1, "only so many are shown");
    }
}
