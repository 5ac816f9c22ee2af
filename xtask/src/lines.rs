//! How many lines the repository has: of product, of tests and of documents, by language.
//!
//! A line counts that is neither blank nor a comment alone; in Markdown every line counts that is
//! not blank. The tests within a file of Rust begin at its `#[cfg(test)]` module and end with it.

use std::collections::BTreeMap;

use crate::tree::{TextFile, Tree};

/// The languages, by the ending of a file's name, and what begins a line of comment.
const LANGUAGES: &[(&str, &str, &[&str])] = &[
    ("Rust", "rs", &["//"]),
    ("Python", "py", &["#"]),
    ("Python", "pyi", &["#"]),
    ("Java", "java", &["//", "*", "/*"]),
    ("Scala", "scala", &["//", "*", "/*"]),
    ("C and C++", "c", &["//", "*", "/*"]),
    ("C and C++", "h", &["//", "*", "/*"]),
    ("C and C++", "hpp", &["//", "*", "/*"]),
    ("C and C++", "cpp", &["//", "*", "/*"]),
    ("Fortran", "f90", &["!"]),
    ("JavaScript", "js", &["//", "*", "/*"]),
    ("JavaScript", "mjs", &["//", "*", "/*"]),
    ("shell", "sh", &["#"]),
    ("Markdown", "md", &[]),
];

/// Folders of tests, and of what only measures or checks the product.
const TEST_FOLDERS: &[&str] = &["tests", "test", "fuzz", "testkit"];
const TOOL_FOLDERS: &[&str] = &["bench", "xtask", "scripts"];

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Product,
    Tests,
    Tools,
    Documents,
}

/// Prints the table.
pub(crate) fn run() -> Result<bool, String> {
    println!("{}", table(&Tree::of_checkout()?));
    Ok(true)
}

fn table(tree: &Tree) -> String {
    let mut found: BTreeMap<(Part, &str), usize> = BTreeMap::new();
    for file in &tree.files {
        let extension = file.extension();
        let Some(&(language, _, comments)) = LANGUAGES.iter().find(|(_, end, _)| *end == extension)
        else {
            continue;
        };
        let [own, tests] = counts(file, comments);
        let part = part_of(file);
        *found.entry((part, language)).or_default() += own;
        let part = if part == Part::Product { Part::Tests } else { part };
        *found.entry((part, language)).or_default() += tests;
    }
    let mut lines = Vec::new();
    for (name, part) in [
        ("product", Part::Product),
        ("tests", Part::Tests),
        ("tools", Part::Tools),
        ("documents", Part::Documents),
    ] {
        let of_part = found.iter().filter(|((of, _), count)| *of == part && **count > 0);
        let several: Vec<_> = of_part.collect();
        let sum: usize = several.iter().map(|(_, count)| **count).sum();
        let each = several.iter().map(|((_, language), count)| format!("{language} {count}"));
        lines.push(format!("{name:<10}{sum:>8}  {}", each.collect::<Vec<_>>().join(", ")));
    }
    lines.join("\n")
}

fn part_of(file: &TextFile) -> Part {
    let under = |folders: &[&str]| folders.iter().any(|folder| file.is_under(folder));
    if file.extension() == "md" {
        Part::Documents
    } else if under(TEST_FOLDERS) || file.name() == "tests.rs" {
        Part::Tests
    } else if under(TOOL_FOLDERS) {
        Part::Tools
    } else {
        Part::Product
    }
}

/// The lines of a file itself, and of the tests within it.
fn counts(file: &TextFile, comments: &[&str]) -> [usize; 2] {
    let mut found = [0, 0];
    let mut lines = file.text.lines().peekable();
    let mut in_tests = false;
    while let Some(line) = lines.next() {
        let opens = |next: &&str| next.starts_with("mod ") && next.ends_with('{');
        in_tests |= line == "#[cfg(test)]" && lines.peek().is_some_and(opens);
        let text = line.trim_start();
        if !text.is_empty() && !comments.iter().any(|comment| text.starts_with(comment)) {
            found[usize::from(in_tests)] += 1;
        }
        in_tests &= line != "}";
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let tests = "#[cfg(test)]\nmod tests {\n    // Why.\n    fn b() {}\n}\n";
        let source = format!("//! A file.\n\nfn a() {{}}\n\n{tests}fn c() {{}}\n");
        let tree = Tree::of(&[
            ("crates/shm/src/a.rs", &source),
            ("crates/shm/tests/b.rs", "fn d() {}\n"),
            ("bench/run.py", "# What.\nrun()\n"),
            ("docs/a.md", "# A\n\ntext\n"),
            ("docs/a.png", "\n\n"),
        ]);
        let said = table(&tree);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "product          2  Rust 2",
                "tests            5  Rust 5",
                "tools            1  Python 1",
                "documents        2  Markdown 2",
            ]
        );
    }
}
