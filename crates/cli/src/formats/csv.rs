//! CSV files: what their first line says.

use std::io::{BufRead, Read};

use anyhow::{Result, bail};
use arrow::csv::reader::Format;
use arrow::datatypes::Schema;

/// How many lines of a CSV file decide the types of its columns.
const SAMPLE_LINES: usize = 10_000;

/// What else is found between fields, and how `--delimiter` takes it.
const OTHERS: [(char, &str, &str); 3] =
    [(';', "semicolon", "';'"), ('\t', "tab", "tab"), ('|', "bar", "'|'")];

/// The longest first line that is looked at, and how much of it an error quotes.
const FIRST_LINE_BYTES_MAX: u64 = 1 << 20;
const QUOTED_LETTERS_MAX: usize = 60;

/// The columns: their names are in the first line, their types are those of the first lines.
pub(super) fn schema(mut text: impl BufRead, delimiter: u8, format: &Format) -> Result<Schema> {
    let mut first = Vec::new();
    text.by_ref().take(FIRST_LINE_BYTES_MAX).read_until(b'\n', &mut first)?;
    check_head(&first, char::from(delimiter))?;
    let whole = first.as_slice().chain(text);
    Ok(format.infer_schema(whole, Some(SAMPLE_LINES))?.0)
}

/// Refuses a first line that names no columns, or one that another delimiter would split.
fn check_head(first: &[u8], delimiter: char) -> Result<()> {
    let head = String::from_utf8_lossy(first);
    let head = head.trim_end_matches(['\r', '\n']);
    if first.is_empty() {
        bail!("it is empty, and a CSV file begins with a line that names the columns");
    }
    if head.trim().is_empty() {
        bail!("its first line is blank, and that line names the columns of a CSV file");
    }
    if head.contains(delimiter) {
        return Ok(());
    }
    let count = |other: char| head.matches(other).count();
    let other = OTHERS.iter().filter(|(other, ..)| *other != delimiter);
    if let Some((other, word, flag)) = other.max_by_key(|(other, ..)| count(*other)) {
        let found = count(*other);
        if found > 0 {
            let quoted: String = head.chars().take(QUOTED_LETTERS_MAX).collect();
            let plural = if found == 1 { "" } else { "s" };
            bail!(
                "its first line {quoted:?} has {found} {word}{plural} and no {}: give \
                 --delimiter {flag} if that is what separates the columns",
                if delimiter == ',' { "comma".to_owned() } else { format!("{delimiter:?}") }
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_columns_or_an_error_says_what_it_is() {
        for (head, delimiter, told) in [
            ("", ',', Some("empty")),
            ("\n", ',', Some("blank")),
            ("a;b;c\n", ',', Some("2 semicolons and no comma")),
            ("a\tb", ',', Some("--delimiter tab")),
            ("a;b\n", ';', None),
            ("a,b;c\n", ',', None),
            ("a\n", ',', None),
        ] {
            let found = check_head(head.as_bytes(), delimiter).map_err(|told| told.to_string());
            match told {
                None => assert_eq!(found, Ok(()), "{head:?}"),
                Some(told) => assert!(found.clone().unwrap_err().contains(told), "{found:?}"),
            }
        }
    }
}
