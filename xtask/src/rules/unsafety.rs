//! Where `unsafe` may be, and that each place says why it is sound.

use crate::finding::Finding;
use crate::rust::{RustSource, find_word, line_of};

use crate::tree::crate_of;

const RULE: &str = "unsafe";

/// The crates that may: the floor, remote memory, the doors to other languages, the filter of
/// system calls that injects faults, and the simulator's coroutines.
const ALLOWED: &[&str] = &[
    "crates/shm",
    "crates/fabric",
    "crates/scatter",
    "crates/arrow-c",
    "crates/capi",
    "crates/jni",
    "hdf5/sys",
    "hdf5/plugin",
    "python",
    "python/arrow",
    "python/cpython",
    "python/objects",
    "bench/native",
    "tests/faults",
    "tests/sim",
];

/// Tests that write to memory by its address, as a program does that was given it.
const ALLOWED_TESTS: &[&str] = &["crates/columns/tests/pool.rs"];

/// What the root of every other crate says.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Checks where unsafe code is and whether it is explained.
pub(super) fn check(sources: &[RustSource<'_>]) -> Vec<Finding> {
    sources.iter().flat_map(check_source).collect()
}

/// How many unsafe blocks and implementations there are, and how many reasons are given.
pub(super) fn counts(sources: &[RustSource<'_>]) -> (usize, usize) {
    let count = |source: &RustSource<'_>| (sites(source).len(), reasons(source));
    sources.iter().map(count).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn check_source(source: &RustSource<'_>) -> Vec<Finding> {
    let path = source.file.path.as_str();
    let sites = sites(source);
    if ALLOWED.contains(&crate_of(path)) || ALLOWED_TESTS.contains(&path) {
        let reasons = reasons(source);
        if reasons < sites.len() {
            let message = format!("{} unsafe sites, {reasons} SAFETY comments", sites.len());
            return vec![Finding::of(path, RULE, message)];
        }
        return Vec::new();
    }
    let mut findings: Vec<Finding> = sites
        .iter()
        .map(|line| Finding::at(path, *line, RULE, "unsafe code belongs into crates/shm or a door"))
        .collect();
    let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    if is_root && !source.code.contains(FORBID) {
        findings.push(Finding::of(path, RULE, format!("the crate's root does not say {FORBID}")));
    }
    findings
}

/// The lines of unsafe blocks and implementations. An unsafe function has a section of its
/// documentation instead, which clippy asks for.
fn sites(source: &RustSource<'_>) -> Vec<usize> {
    let code = source.code.as_bytes();
    let mut lines = Vec::new();
    let mut from = 0;
    while let Some(at) = find_word(code, b"unsafe", from) {
        from = at + b"unsafe".len();
        let next = source.code[from..].trim_start();
        if next.starts_with('{') || next.starts_with("impl") {
            lines.push(line_of(code, at));
        }
    }
    lines
}

fn reasons(source: &RustSource<'_>) -> usize {
    source.comments.matches("SAFETY:").count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        check(&super::super::sources(&tree)).into_iter().map(|finding| finding.message).collect()
    }

    const EXPLAINED: &str = "// SAFETY: the caller holds the lock.\nlet a = unsafe { b() };\n";

    #[test]
    fn explained_unsafe_code_on_the_floor_passes() {
        assert!(findings("crates/shm/src/a.rs", EXPLAINED).is_empty());
        assert!(findings("crates/shm/src/a.rs", "unsafe fn f(p: *const u8) {}").is_empty());
        assert!(findings("crates/store/src/lib.rs", "#![forbid(unsafe_code)]\n").is_empty());
        assert!(findings("crates/store/src/a.rs", "// unsafe { in words }\n").is_empty());
    }

    #[test]
    fn unexplained_or_misplaced_unsafe_code_is_refused() {
        let bare = format!("{EXPLAINED}unsafe impl Send for A {{}}\n");
        assert_eq!(findings("crates/shm/src/a.rs", &bare), ["2 unsafe sites, 1 SAFETY comments"]);
        assert_eq!(findings("crates/store/src/a.rs", EXPLAINED).len(), 1);
        assert_eq!(findings("crates/store/src/lib.rs", "//! A crate.\n").len(), 1);
    }

    #[test]
    fn sites_and_reasons_are_counted() {
        let tree = Tree::of(&[("crates/shm/src/a.rs", EXPLAINED)]);
        assert_eq!(counts(&super::super::sources(&tree)), (1, 1));
    }
}
