//! Times are added to the clock in one place.

use crate::finding::Finding;
use crate::rust::RustSource;

/// Where a time that a caller chose may be added: a sum beyond the clock is forever there, and in
/// a simulated world no caller chooses.
const HOMES: &[&str] = &["crates/shm/src/deadline.rs", "crates/shm/src/edge/simulated.rs"];

const SUM: &str = "now() + ";

/// Refuses `now() + timeout`, which panics when the timeout means "forever". A named constant may
/// be added.
pub(super) fn check(sources: &[RustSource<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !HOMES.contains(&source.file.path.as_str())) {
        for (line, code) in source.product_lines() {
            let added = code.split(SUM).skip(1);
            if added.into_iter().any(|added| !added.starts_with(|c: char| c.is_ascii_uppercase())) {
                let message = format!("{SUM}a time that overflows panics: use Deadline::after");
                findings.push(Finding::at(&source.file.path, line, "deadline", message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let tree = Tree::of(&[(path, text)]);
        check(&super::super::sources(&tree)).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn only_constants_are_added_to_the_clock() {
        let path = "crates/client/src/a.rs";
        assert_eq!(rules(path, "let end = Instant::now() + timeout;"), ["deadline"]);
        assert_eq!(rules(path, "let end = edge::now() + options.timeout;"), ["deadline"]);
        assert!(rules(path, "let end = Instant::now() + PATIENCE;").is_empty());
        assert!(rules(HOMES[0], "Self(Instant::now() + timeout)").is_empty());
        let test = "#[cfg(test)]\nmod tests { fn f() { Instant::now() + timeout; } }\n";
        assert!(rules(path, test).is_empty());
    }
}
