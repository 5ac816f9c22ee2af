//! `plasmon pool verify --deep`: compares the contents of all copies of the pool.

use std::time::Duration;

use anyhow::Result;
use plasmon_client::{Client, ContentComparison, ContentCopy, ContentDifference};
use serde_json::{Value, json};

use super::names::Names;
use crate::output::{Output, Paint, bytes, count};
use crate::progress;

/// Objects that are named in the text; with `--json` all are.
const NAMED_MAX: usize = 100;

/// In how many steps the progress is shown.
const STEPS: u64 = 10_000;

/// Compares them.
pub(super) fn compare(
    store: &Client,
    within: Duration,
    output: &Output,
) -> Result<ContentComparison> {
    let bar = progress::steps("reading contents", output.is_json());
    bar.set_length(STEPS);
    let found = store.pool_compare(within, |progress| {
        bar.set_message(format!("reading contents, {} so far", bytes(progress.bytes)));
        bar.set_position((progress.part * STEPS as f64) as u64);
    });
    bar.finish_and_clear();
    Ok(found?)
}

pub(super) fn document(found: &ContentComparison, names: &Names) -> Value {
    let copy = |copy: &ContentCopy| {
        let crc = copy.crc.map(|crc| format!("{crc:08x}"));
        json!({ "node": names.name(copy.slot), "bytes": copy.bytes, "crc32c": crc })
    };
    let difference = |object: &ContentDifference| {
        let name = object.name.as_ref().map(ToString::to_string);
        let copies: Vec<Value> = object.copies.iter().map(copy).collect();
        json!({ "id": object.id.to_string(), "name": name, "copies": copies })
    };
    let unanswered = found.unanswered.iter().map(|slot| names.name(*slot));
    json!({
        "right": found.is_right(),
        "copies": found.copies,
        "bytes": found.bytes,
        "same": found.same,
        "single": found.single,
        "differing": found.differing,
        "unreadable": found.unreadable,
        "differences": found.differences.iter().map(difference).collect::<Vec<_>>(),
        "unanswered": unanswered.collect::<Vec<_>>(),
    })
}

pub(super) fn text(found: &ContentComparison, names: &Names, output: &Output) -> String {
    let mut lines: Vec<String> =
        found.differences.iter().take(NAMED_MAX).map(|object| line(object, names)).collect();
    let others = found.differences.len().saturating_sub(NAMED_MAX);
    if others > 0 {
        lines.push(format!("and {others} more, which --json names"));
    }
    let right = match found.is_right() {
        true => output.paint(Paint::Good, "the contents are right"),
        false => output.paint(Paint::Bad, "the contents are not right"),
    };
    let single = match found.single {
        0 => String::new(),
        single => format!(", {single} with one copy alone"),
    };
    lines.push(format!(
        "{right}: {} with {} read, {} with the same in all copies{single}",
        copies(found.copies),
        bytes(found.bytes),
        count(found.same, "object"),
    ));
    lines.join("\n")
}

fn copies(number: u64) -> String {
    if number == 1 { "1 copy".to_owned() } else { format!("{number} copies") }
}

/// An object, and what each node has of it.
fn line(object: &ContentDifference, names: &Names) -> String {
    let name = object.name.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
    let copy = |copy: &ContentCopy| {
        let node = names.name(copy.slot);
        match copy.crc {
            Some(crc) => format!("{node} {crc:08x} ({})", bytes(copy.bytes)),
            None => format!("{node} unreadable"),
        }
    };
    let copies: Vec<String> = object.copies.iter().map(copy).collect();
    format!("{name}{}: {}", object.id, copies.join(", "))
}

/// What is wrong, with numbers.
pub(super) fn problems(found: &ContentComparison, names: &Names) -> Vec<String> {
    let mut problems = Vec::new();
    if found.differing > 0 {
        let objects = count(found.differing, "object");
        problems.push(format!(
            "{objects} with copies that differ: delete what is wrong, and put it again"
        ));
    }
    if found.unreadable > 0 {
        problems.push(format!("{} that cannot be read", copies(found.unreadable)));
    }
    if !found.unanswered.is_empty() {
        let nodes: Vec<String> = found.unanswered.iter().map(|slot| names.name(*slot)).collect();
        problems.push(format!("the copies were not all read on {}", nodes.join(", ")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use plasmon_proto::pool::Slot;
    use plasmon_proto::{Name, ObjectId};

    use super::*;

    fn names() -> Names {
        Names::named(&[(0, "a"), (1, "b")])
    }

    #[test]
    fn copies_that_differ_are_named_with_their_nodes() {
        let copy = |slot, crc| ContentCopy { slot: Slot(slot), bytes: 5, crc };
        let difference = ContentDifference {
            id: ObjectId::pooled([7; 12], None),
            name: Some(Name::new("@prod", "x").unwrap()),
            copies: vec![copy(0, Some(0xab)), copy(1, None)],
        };
        assert!(line(&difference, &names()).starts_with("@prod:x, 0707"));
        assert!(line(&difference, &names()).ends_with(": a 000000ab (5 B), b unreadable"));
        let well = ContentComparison { same: 3, copies: 7, single: 1, ..Default::default() };
        assert_eq!(problems(&well, &names()), Vec::<String>::new());
        assert_eq!(document(&well, &names())["right"], true);
        for (ill, said) in [
            (ContentComparison { differing: 2, ..well.clone() }, "2 objects with copies that"),
            (ContentComparison { unreadable: 1, ..well.clone() }, "1 copy that cannot be read"),
            (ContentComparison { unanswered: vec![Slot(1)], ..well.clone() }, "read on b"),
        ] {
            assert!(problems(&ill, &names())[0].contains(said), "{ill:?}");
            assert_eq!(document(&ill, &names())["right"], false);
        }
        let ill = ContentComparison { differences: vec![difference], differing: 1, ..well };
        let document = document(&ill, &names());
        let copies = &document["differences"][0]["copies"];
        assert_eq!((&copies[0]["crc32c"], &copies[0]["node"]), (&"000000ab".into(), &"a".into()));
        assert_eq!(copies[1]["crc32c"], Value::Null);
    }
}
