//! The rules by family, and the figures that they watch.

mod cycles;
mod deadlines;
mod declarations;
mod edges;
mod layers;
mod pages;
mod purity;
mod records;
mod size;
mod unsafety;
mod versions;
mod words;

use crate::docs;
use crate::finding::Finding;
use crate::rust::RustSource;
use crate::tree::Tree;

/// Every finding of every rule, in the order of files and lines.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = sources(tree);
    let mut findings = [
        layers::check(tree),
        cycles::check(tree, &sources),
        size::check(tree, &sources),
        unsafety::check(&sources),
        purity::check(&sources),
        deadlines::check(&sources),
        declarations::check(tree, &sources),
        edges::check(&sources),
        words::check(tree),
        versions::check(tree),
        pages::check(tree),
        records::check(tree),
        docs::stale(tree),
    ]
    .concat();
    findings.sort();
    findings
}

/// The figures that a reader of the output wants to see grow slowly.
pub(crate) fn summary(tree: &Tree) -> String {
    let sources = sources(tree);
    let lines: usize = sources.iter().map(|source| source.product_lines().count()).sum();
    let functions: usize = sources.iter().map(|source| source.functions().len()).sum();
    let (sites, reasons) = unsafety::counts(&sources);
    format!(
        "tidy: {} files, {} of Rust with {lines} lines of code, {functions} functions, {sites} \
         unsafe sites, {reasons} SAFETY comments",
        tree.paths.len(),
        sources.len(),
    )
}

/// Every Rust file, taken apart. A file that only a test module names is all test.
fn sources(tree: &Tree) -> Vec<RustSource<'_>> {
    let mut sources: Vec<RustSource<'_>> =
        tree.with_extension(&["rs"]).map(RustSource::new).collect();
    let test_files: Vec<String> = sources
        .iter()
        .flat_map(|source| {
            let folder = module_folder(&source.file.path);
            source.test_modules.iter().map(move |name| format!("{folder}/{name}.rs"))
        })
        .collect();
    for source in &mut sources {
        if test_files.contains(&source.file.path) {
            source.mark_all();
        }
    }
    sources
}

/// Where the modules of a file lie: beside `lib.rs`, `main.rs` and `mod.rs`, else in a folder with
/// the file's name.
fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_test_modules_are_tests() {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", "#[cfg(test)]\nmod twin;\nmod real;\n"),
            ("crates/x/src/twin.rs", "fn f() {}\n"),
            ("crates/x/src/real.rs", "#[cfg(test)]\nmod cases;\nfn f() {}\n"),
            ("crates/x/src/real/cases.rs", "fn f() {}\n"),
        ]);
        let counts: Vec<(String, usize)> = sources(&tree)
            .iter()
            .map(|source| (source.file.name().to_owned(), source.product_lines().count()))
            .collect();
        let expected = [("lib.rs", 1), ("real/cases.rs", 0), ("real.rs", 1), ("twin.rs", 0)];
        for (name, lines) in expected {
            let name = name.rsplit('/').next().unwrap();
            assert!(counts.contains(&(name.to_owned(), lines)), "{name}: {counts:?}");
        }
    }
}
