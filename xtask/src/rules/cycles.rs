//! Files of one crate, or modules of one package, that import each other in a circle: none of them
//! can be understood, tested or moved without the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::finding::Finding;
use crate::imports::{self, Graph};
use crate::rust::RustSource;
use crate::tree::Tree;

const RULE: &str = "cycle";

/// Checks the imports of Rust within each crate and those of Python.
pub(super) fn check(tree: &Tree, sources: &[RustSource<'_>]) -> Vec<Finding> {
    let mut graph = imports::of_rust(sources);
    graph.extend(imports::of_python(tree));
    circles(&graph).iter().filter_map(|circle| describe(&graph, circle)).collect()
}

/// The circle's first file, with the shortest way round.
fn describe(graph: &Graph, circle: &BTreeSet<String>) -> Option<Finding> {
    let path = circle.first()?;
    let way = way_round(graph, path).join(" -> ");
    let message = format!("imports in a circle of {} files: {way}", circle.len());
    Some(Finding::of(path, RULE, message))
}

/// The sets of files that reach each other, of two files and more.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|file| (file.as_str(), reach(graph, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, forth) in &reached {
        let circle: BTreeSet<String> = forth
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(file)))
            .map(|other| (*other).to_owned())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Every file that can be reached from this one, in one step or more.
fn reach<'a>(graph: &'a Graph, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = graph.get(file).into_iter().flatten().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(graph.get(next).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

/// The shortest way from a file back to itself.
fn way_round<'a>(graph: &'a Graph, file: &'a str) -> Vec<&'a str> {
    let mut ways = VecDeque::from([vec![file]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let last = way.last().copied().unwrap_or(file);
        for next in graph.get(last).into_iter().flatten() {
            let longer = [way.as_slice(), &[next.as_str()]].concat();
            if next == file {
                return longer;
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIRCLE: &[(&str, &str)] = &[
        ("x/src/lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        ("x/src/a.rs", "use crate::b::B;"),
        ("x/src/b.rs", "use crate::c::C;"),
        ("x/src/c.rs", "use crate::a::A;"),
        ("x/src/d.rs", "use crate::a::A;"),
    ];

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let sources = super::super::sources(&tree);
        check(&tree, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_is_shown_with_the_way_round() {
        let expected = "x/src/a.rs: cycle: imports in a circle of 3 files: \
                        x/src/a.rs -> x/src/b.rs -> x/src/c.rs -> x/src/a.rs";
        assert_eq!(findings(CIRCLE), [expected]);
        assert!(findings(&CIRCLE[1..3]).is_empty());
    }

    #[test]
    fn modules_of_python_are_held_to_it_too() {
        let files = [
            ("python/plasmon/_a.py", "from plasmon import _b\n"),
            ("python/plasmon/_b.py", "from plasmon._a import x\n"),
        ];
        assert_eq!(findings(&files).len(), 1);
        let late = [files[0], ("python/plasmon/_b.py", "def f():\n    import plasmon._a\n")];
        assert!(findings(&late).is_empty());
    }
}
