//! How large things may be: what one person can hold in the head at once.
//!
//! A crate has no limit of lines: it is divided where there are two ideas in it, and what holds its
//! files apart is the rule about circles.

use crate::finding::Finding;
use crate::python;
use crate::rust::{Function, RustSource};
use crate::tree::{TextFile, Tree};

const RULE: &str = "size";

const FUNCTION_LINES_MAX: usize = 70;
const PARAMETERS_MAX: usize = 6;
const FILE_LINES_MAX: usize = 500;
const LINE_COLUMNS_MAX: usize = 100;

/// Files whose lines other programs write.
const GENERATED: &[&str] = &["Cargo.lock", "LICENSE"];

/// Text whose lines are held to the limit; tables and links of Markdown are not.
const NARROW: &[&str] =
    &["rs", "py", "pyi", "c", "h", "cc", "cpp", "hpp", "java", "scala", "sh", "toml", "yml"];

/// Checks the sizes of lines, functions and files.
pub(super) fn check(tree: &Tree, sources: &[RustSource<'_>]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.with_extension(NARROW).flat_map(check_lines).collect();
    for source in sources {
        findings.extend(source.functions().iter().filter_map(|f| check_function(source.file, f)));
        findings.extend(check_file(source.file, source.product_lines().count()));
    }
    for file in tree.with_extension(&["py", "pyi"]) {
        let functions = python::functions(&file.text);
        findings.extend(functions.iter().filter_map(|f| check_function(file, f)));
        if !file.is_under("tests") {
            findings.extend(check_file(file, python::code_lines(&file.text)));
        }
    }
    for file in tree.with_extension(&["c", "h", "cc", "cpp", "hpp"]) {
        let source = RustSource::new(file);
        findings.extend(check_file(file, source.product_lines().count()));
    }
    findings
}

fn check_lines(file: &TextFile) -> Vec<Finding> {
    if GENERATED.contains(&file.name()) {
        return Vec::new();
    }
    let columns = file.text.lines().map(|line| line.chars().count()).enumerate();
    columns
        .filter(|(_, columns)| *columns > LINE_COLUMNS_MAX)
        .map(|(at, columns)| {
            let message = format!("a line of {columns} columns; {LINE_COLUMNS_MAX} at most");
            Finding::at(&file.path, at + 1, RULE, message)
        })
        .collect()
}

fn check_function(file: &TextFile, function: &Function) -> Option<Finding> {
    let Function { name, line, code_lines, parameters, test } = function;
    let message = if *code_lines > FUNCTION_LINES_MAX {
        format!("{name} has {code_lines} lines of code; {FUNCTION_LINES_MAX} at most")
    } else if *parameters > PARAMETERS_MAX && !test {
        format!("{name} takes {parameters} parameters; {PARAMETERS_MAX} at most")
    } else {
        return None;
    };
    Some(Finding::at(&file.path, *line, RULE, message))
}

fn check_file(file: &TextFile, code_lines: usize) -> Option<Finding> {
    (code_lines > FILE_LINES_MAX).then(|| {
        let message =
            format!("{code_lines} lines of code without tests; split at {FILE_LINES_MAX}");
        Finding::of(&file.path, RULE, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        let sources = super::super::sources(&tree);
        check(&tree, &sources).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn what_is_at_its_limit_passes() {
        let body = "    let _ = 1;\n".repeat(FUNCTION_LINES_MAX - 2);
        let wide = format!("// {}\n", "x".repeat(LINE_COLUMNS_MAX - 3));
        let text = format!("{wide}\nfn f(a: A, b: B, c: C, d: D, e: E, f: F) {{\n\n{body}}}\n");
        assert!(findings("crates/x/src/a.rs", &text).is_empty());
        let lines = "const A: u8 = 1;\n".repeat(FILE_LINES_MAX);
        assert!(findings("crates/x/src/a.rs", &lines).is_empty());
        assert!(findings("crates/x/tests/a.rs", &lines.repeat(3)).is_empty());
    }

    #[test]
    fn what_is_past_its_limit_is_named() {
        let body = "    let _ = 1;\n".repeat(FUNCTION_LINES_MAX - 1);
        assert_eq!(
            findings("crates/x/src/a.rs", &format!("fn long() {{\n{body}}}\n")),
            ["long has 71 lines of code; 70 at most"]
        );
        let many = "fn many(a: A, b: B, c: C, d: D, e: E, f: F, g: G) {}\n";
        assert_eq!(findings("crates/x/src/a.rs", many), ["many takes 7 parameters; 6 at most"]);
        let lines = "const A: u8 = 1;\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(findings("crates/x/src/a.rs", &lines).len(), 1);
        assert_eq!(findings("a.c", &"int a;\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        assert_eq!(findings("a.py", &"a = 1\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        assert_eq!(findings("a.sh", &"x".repeat(LINE_COLUMNS_MAX + 1)).len(), 1);
    }

    #[test]
    fn python_functions_are_measured() {
        let body = "    a = 1\n".repeat(FUNCTION_LINES_MAX);
        assert_eq!(
            findings("python/plasmon/a.py", &format!("def long():\n{body}")),
            ["long has 71 lines of code; 70 at most"]
        );
    }
}
