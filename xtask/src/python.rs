//! As much of Python's syntax as the size rules need.

use crate::rust::Function;

/// Lines that are neither blank nor comment nor part of a docstring.
pub(crate) fn code_lines(text: &str) -> usize {
    without_docstrings(text).lines().filter(|line| is_code(line)).count()
}

/// Every function and method. Parameters are not counted: keyword arguments with defaults are how
/// Python says what structs say in Rust.
pub(crate) fn functions(text: &str) -> Vec<Function> {
    let text = without_docstrings(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let start = line.trim_start();
        let start = start.strip_prefix("async ").unwrap_or(start);
        let Some(rest) = start.strip_prefix("def ") else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let depth = indent(line);
        let body = lines[at + 1..].iter().take_while(|line| {
            let closes = line.trim_start().starts_with(')');
            line.trim().is_empty() || indent(line) > depth || (indent(line) == depth && closes)
        });
        let code_lines = 1 + body.filter(|line| is_code(line)).count();
        functions.push(Function { name, line: at + 1, code_lines, parameters: 0, test: false });
    }
    functions
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Blanks strings in triple quotes that begin a line.
fn without_docstrings(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut inside: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start().trim_start_matches(['r', 'f', 'b']);
        match inside {
            Some(quotes) => {
                if line.contains(quotes) {
                    inside = None;
                }
            }
            None => match ["\"\"\"", "'''"].iter().find(|quotes| start.starts_with(**quotes)) {
                Some(quotes) if start[3..].contains(quotes) => {}
                Some(quotes) => inside = Some(quotes),
                None => kept.push_str(line),
            },
        }
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
"""A module.

With a story.
"""

class A:
    """One line."""

    async def first(
        self,
        a: int,
    ) -> int:
        """Says why."""
        # A comment.
        b = """not a
        docstring"""

        return a

    def second(self) -> None: ...
"#;

    #[test]
    fn code_is_told_from_comments_and_docstrings() {
        assert_eq!(code_lines(SAMPLE), 9);
    }

    #[test]
    fn functions_end_where_the_indentation_does() {
        let found: Vec<(String, usize, usize)> =
            functions(SAMPLE).into_iter().map(|f| (f.name, f.line, f.code_lines)).collect();
        assert_eq!(found, [("first".to_owned(), 10, 7), ("second".to_owned(), 21, 1)]);
    }
}
