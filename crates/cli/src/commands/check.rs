//! What `doctor` looks at, one thing after the other, and how it is told.

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::output::{Output, Paint};

/// How a thing is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Good,
    Note,
    Bad,
}

/// One thing that was looked at.
#[derive(Serialize)]
pub(super) struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    advice: String,
}

/// A check without advice.
pub(super) fn check(what: &'static str, verdict: Verdict, found: impl Into<String>) -> Check {
    Check { what, verdict, found: found.into(), advice: String::new() }
}

impl Check {
    /// Adds what to do, unless all is well.
    pub(super) fn advise(mut self, advice: &str) -> Self {
        if self.verdict != Verdict::Good {
            advice.clone_into(&mut self.advice);
        }
        self
    }
}

/// Prints the checks; an error when one is bad.
pub(super) fn report(checks: &[Check], output: &Output) -> Result<()> {
    let bad = checks.iter().filter(|check| check.verdict == Verdict::Bad).count();
    output.value(&json!({ "checks": checks, "bad": bad }), || {
        let lines: Vec<String> = checks.iter().map(|check| line(check, output)).collect();
        lines.join("\n")
    })?;
    if bad > 0 {
        anyhow::bail!("{bad} of {} checks failed", checks.len());
    }
    Ok(())
}

fn line(check: &Check, output: &Output) -> String {
    let mark = match check.verdict {
        Verdict::Good => output.paint(Paint::Good, "good"),
        Verdict::Note => output.paint(Paint::Note, "note"),
        Verdict::Bad => output.paint(Paint::Bad, "BAD "),
    };
    let advice =
        if check.advice.is_empty() { String::new() } else { format!("\n     -> {}", check.advice) };
    format!("{mark} {:<18} {}{advice}", check.what, check.found)
}
