//! What the core may not do: reach out of itself, or stop because of a client's input.

use crate::finding::Finding;
use crate::rust::RustSource;

use crate::tree::crate_of;

/// Crates that can be replayed: nothing comes in but values.
const PURE: &[&str] =
    &["crates/proto", "crates/store", "crates/cluster", "crates/pool", "crates/plo"];

/// What a pure crate must not name, and what to do instead.
const OUTSIDE: &[(&str, &str)] = &[
    ("std::net", "sockets belong into the daemon"),
    ("std::os", "descriptors belong into the daemon"),
    ("std::fs", "files belong into crates/spill or the daemon"),
    ("std::env", "the environment belongs into the daemon"),
    ("std::process", "processes belong into the daemon"),
    ("std::thread", "threads belong into the daemon"),
    ("thread::spawn", "threads belong into the daemon"),
    ("Instant::now", "take the time as a value"),
    ("SystemTime::now", "take the time as a value"),
    ("rand::", "take random values as values"),
    ("RandomState", "use a hasher with a fixed seed, so that a run can be replayed"),
];

/// Crates that no input may stop.
const UNSTOPPABLE: &[&str] = &[
    "crates/proto",
    "crates/store",
    "crates/cluster",
    "crates/pool",
    "crates/plo",
    "crates/keeper",
    "crates/daemon",
    "crates/spill",
    "crates/log",
];

/// What would stop them.
const STOPS: &[&str] = &[".unwrap()", "panic!(", "todo!(", "unimplemented!(", "unreachable!()"];

/// Checks the product code of the pure and of the unstoppable crates.
pub(super) fn check(sources: &[RustSource<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let folder = crate_of(&source.file.path);
        for (line, code) in source.product_lines() {
            let mut complain = |rule, message: String| {
                findings.push(Finding::at(&source.file.path, line, rule, message));
            };
            let named = OUTSIDE.iter().filter(|(name, _)| code.contains(name));
            for (name, instead) in named.filter(|_| PURE.contains(&folder)) {
                complain("pure", format!("{name} in a pure crate: {instead}"));
            }
            let stops = STOPS.iter().filter(|stop| code.contains(**stop));
            for stop in stops.filter(|_| UNSTOPPABLE.contains(&folder)) {
                let advice = "return an error, or `expect` with the reason why it cannot happen";
                complain("panic", format!("{stop} in product code: {advice}"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn findings(path: &str, text: &str) -> Vec<&'static str> {
        let tree = Tree::of(&[(path, text)]);
        check(&super::super::sources(&tree)).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn pure_code_and_tests_pass() {
        let text = "use std::time::Duration;\nfn f() { a.expect(\"a default parses\"); }\n\
                    #[cfg(test)]\nmod tests { fn f() { std::fs::read(\"a\").unwrap(); } }\n";
        assert!(findings("crates/store/src/a.rs", text).is_empty());
        assert!(
            findings("crates/cli/src/a.rs", "fn f() { Instant::now(); a.unwrap() }").is_empty()
        );
    }

    #[test]
    fn reaching_out_and_stopping_are_refused() {
        assert_eq!(findings("crates/store/src/a.rs", "let t = Instant::now();"), ["pure"]);
        assert_eq!(findings("crates/proto/src/a.rs", "use std::fs;"), ["pure"]);
        assert_eq!(findings("crates/daemon/src/a.rs", "use std::fs;"), Vec::<&str>::new());
        assert_eq!(findings("crates/daemon/src/a.rs", "let a = b.unwrap();"), ["panic"]);
        assert_eq!(findings("crates/store/src/a.rs", "panic!(\"no\")"), ["panic"]);
    }
}
