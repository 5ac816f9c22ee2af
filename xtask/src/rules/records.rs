//! The records of decisions: each has a title, a status and a date, and a row in the index.

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};

const RULE: &str = "records";
const FOLDER: &str = "docs/adr/";
const INDEX: &str = "docs/adr/README.md";

/// What the first lines of a record say.
struct Record<'a> {
    number: &'a str,
    title: &'a str,
    status: &'a str,
    date: &'a str,
}

/// Checks the first lines of every record, and its row in the index.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let index = tree.file(INDEX).map_or("", |file| &file.text);
    let records = || tree.files.iter().filter(|file| is_record(file));
    let numbers: Vec<&str> = records().map(number_of).collect();
    records().flat_map(|file| check_record(file, &numbers, index)).collect()
}

fn is_record(file: &TextFile) -> bool {
    file.path.starts_with(FOLDER) && file.extension() == "md" && file.path != INDEX
}

/// The part of the name before the first hyphen.
fn number_of(file: &TextFile) -> &str {
    file.name().split('-').next().unwrap_or_default()
}

fn check_record(file: &TextFile, numbers: &[&str], index: &str) -> Vec<Finding> {
    let Some(record) = record_of(file) else {
        let number = number_of(file).trim_start_matches('0');
        let message = format!(
            "does not begin with \"# {number}. Title\", an empty line, \"- Status: accepted\" and \
             \"- Date: YYYY-MM-DD\""
        );
        return vec![Finding::at(&file.path, 1, RULE, message)];
    };
    let mut findings = Vec::new();
    if !is_status(record.status, numbers) {
        let message = format!(
            "the status \"{}\" is not \"accepted\" or \"proposed\", nor \"amended by\" or \
             \"superseded by\" the number (four digits) of another record",
            record.status
        );
        findings.push(Finding::at(&file.path, 3, RULE, message));
    }
    if numbers.iter().filter(|number| **number == record.number).count() > 1 {
        let message = format!("another record has the number {}, too", record.number);
        findings.push(Finding::at(&file.path, 1, RULE, message));
    }
    let Record { number, title, status, date } = record;
    let row = format!("| [{number}]({}) | {title} | {status} | {date} |", file.name());
    if !index.lines().any(|line| line == row) {
        findings.push(Finding::of(INDEX, RULE, format!("has no row \"{row}\"")));
    }
    findings
}

fn record_of(file: &TextFile) -> Option<Record<'_>> {
    let mut lines = file.text.lines();
    let number = number_of(file);
    let heading = lines.next()?.strip_prefix("# ")?;
    let title = heading.strip_prefix(number.trim_start_matches('0'))?.strip_prefix(". ")?;
    let empty = lines.next()?.is_empty();
    let status = lines.next()?.strip_prefix("- Status: ")?;
    let date = lines.next()?.strip_prefix("- Date: ")?;
    (empty && is_date(date)).then_some(Record { number, title, status, date })
}

/// Whether this is four digits, two and two, with hyphens between.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

fn is_status(status: &str, numbers: &[&str]) -> bool {
    let by = status.strip_prefix("amended by ").or_else(|| status.strip_prefix("superseded by "));
    matches!(status, "accepted" | "proposed")
        || by.is_some_and(|by| by.split(" and ").all(|number| numbers.contains(&number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "| [0007](0007-a.md) | A | accepted | 2026-11-23 |\n";

    fn findings(record: &str, index: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/adr/0007-a.md", record), (INDEX, index)]);
        check(&tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_record_with_its_first_lines_and_its_row_passes() {
        let record = "# 7. A\n\n- Status: accepted\n- Date: 2026-11-23\n\nText.\n";
        assert_eq!(findings(record, ROW), Vec::<String>::new());
        assert_eq!(findings(record, "").len(), 1, "no row");
        let (proposal, row) =
            (&record.replace("accepted", "proposed"), &ROW.replace("accepted", "proposed"));
        assert_eq!(findings(proposal, row), Vec::<String>::new());
        let another = record.replace("# 7. A", "# 7. B");
        assert_eq!(findings(&another, ROW).len(), 1, "the row has the old title");
    }

    #[test]
    fn first_lines_that_are_missing_or_wrong_are_found() {
        for record in [
            "# 7. A\n\nText.\n",
            "# 8. A\n\n- Status: accepted\n- Date: 2026-11-23\n",
            "# 7. A\n\n- Status: accepted\n- Date: yesterday\n",
            "# 7. A\n\n- Status: amended by 0009\n- Date: 2026-11-23\n",
            "# 7. A\n\n- Status: old\n- Date: 2026-11-23\n",
        ] {
            assert!(!findings(record, ROW).is_empty(), "{record}");
        }
    }

    #[test]
    fn numbers_are_unique() {
        let record = "# 7. A\n\n- Status: accepted\n- Date: 2026-11-23\n";
        let index = format!("{ROW}{}", ROW.replace("0007-a", "0007-b"));
        let files =
            [("docs/adr/0007-a.md", record), ("docs/adr/0007-b.md", record), (INDEX, &index)];
        assert_eq!(check(&Tree::of(&files)).len(), 2);
    }
}
