//! What a soak ends with: how many of its findings are losses, and how many something else.

use std::fmt;

/// Findings by what they are. Each begins with its kind, or is of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    lost: usize,
    torn: usize,
    resurrected: usize,
    others: usize,
}

impl Verdict {
    pub(super) fn of<'a>(findings: impl IntoIterator<Item = &'a String>) -> Self {
        let mut verdict = Self::default();
        for finding in findings {
            let count = match finding.split_once(": ").map(|(kind, _)| kind) {
                Some("lost") => &mut verdict.lost,
                Some("torn") => &mut verdict.torn,
                Some("resurrected") => &mut verdict.resurrected,
                _ => &mut verdict.others,
            };
            *count += 1;
        }
        verdict
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, torn, resurrected, others } = self;
        write!(f, "{lost} lost, {torn} torn, {resurrected} resurrected")?;
        if *others > 0 {
            write!(f, ", {others} other findings")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_counts_once() {
        let findings = ["lost: @soak:1", "torn: x: lost: y", "resurrected: z", "leak: node 1", ""];
        let findings = findings.map(str::to_owned);
        let verdict = Verdict::of(&findings).to_string();
        assert_eq!(verdict, "1 lost, 1 torn, 1 resurrected, 2 other findings");
    }
}
