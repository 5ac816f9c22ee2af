//! `plasmon pool verify --deep`: compares the contents of all copies of the pool, and has those
//! repaired that are not right.

use std::time::Duration;

use anyhow::Result;
use plasmon_client::{Client, ContentComparison, ContentCopy, ContentDifference, ContentOutcome};
use serde_json::{Value, json};

use super::names::Names;
use crate::arguments::PoolVerify;
use crate::output::{Output, Paint, bytes, count};
use crate::progress;

/// Objects that are named in the text; with `--json` all are.
const NAMED_MAX: usize = 100;

/// In how many steps the progress is shown.
const STEPS: u64 = 10_000;

/// Compares them, and has them repaired unless that is not wanted.
pub(super) fn compare(
    store: &Client,
    within: Duration,
    order: &PoolVerify,
    output: &Output,
) -> Result<ContentComparison> {
    let bar = progress::steps("reading contents", output.is_json());
    bar.set_length(STEPS);
    let found = store.pool_compare(within, |progress| {
        bar.set_message(format!("reading contents, {} so far", bytes(progress.bytes)));
        bar.set_position((progress.part * STEPS as f64) as u64);
    });
    bar.finish_and_clear();
    let mut found = found?;
    if !order.no_repair && found.damaged > 0 {
        let bar = progress::steps("repairing copies", output.is_json());
        let repaired = store.pool_repair(&mut found, within);
        bar.finish_and_clear();
        repaired?;
    }
    Ok(found)
}

/// What became of an object, for programs.
fn key(outcome: ContentOutcome) -> &'static str {
    match outcome {
        ContentOutcome::Found => "found",
        ContentOutcome::Repaired => "repaired",
        ContentOutcome::Undecided => "undecided",
        ContentOutcome::NoneRight => "none_right",
        ContentOutcome::Unfinished => "unfinished",
        ContentOutcome::Ended => "ended",
    }
}

pub(super) fn document(found: &ContentComparison, names: &Names) -> Value {
    let copy = |copy: &ContentCopy| {
        let crc = copy.crc.map(|crc| format!("{crc:08x}"));
        let (node, logged) = (names.name(copy.slot), copy.logged);
        json!({ "node": node, "bytes": copy.bytes, "crc32c": crc, "logged": logged })
    };
    let difference = |object: &ContentDifference| {
        let name = object.name.as_ref().map(ToString::to_string);
        let copies: Vec<Value> = object.copies.iter().map(copy).collect();
        let (id, outcome) = (object.id.to_string(), key(object.outcome));
        json!({ "id": id, "name": name, "copies": copies, "outcome": outcome })
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
        "damaged_records": found.damaged_records,
        "damaged": found.damaged,
        "repaired": found.repaired,
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
    let repaired = match found.repaired {
        0 => String::new(),
        repaired => format!(", {} repaired", count(repaired, "object")),
    };
    lines.push(format!(
        "{right}: {} with {} read, {} with the same in all copies{single}{repaired}",
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
            Some(crc) if copy.logged == Some(false) => {
                format!("{node} {crc:08x} ({}, damaged in its log)", bytes(copy.bytes))
            }
            Some(crc) => format!("{node} {crc:08x} ({})", bytes(copy.bytes)),
            None => format!("{node} unreadable"),
        }
    };
    let outcome = match object.outcome {
        ContentOutcome::Found => "",
        ContentOutcome::Repaired => "repaired: ",
        ContentOutcome::Undecided => "nothing says which copy is right: ",
        ContentOutcome::NoneRight => "no copy is right: ",
        ContentOutcome::Unfinished => "not repaired in time: ",
        ContentOutcome::Ended => "deleted meanwhile: ",
    };
    let copies: Vec<String> = object.copies.iter().map(copy).collect();
    format!("{name}{}: {outcome}{}", object.id, copies.join(", "))
}

/// What is wrong and was not repaired, with numbers.
pub(super) fn problems(found: &ContentComparison, names: &Names) -> Vec<String> {
    let mut problems = Vec::new();
    let ended =
        |outcome| found.differences.iter().filter(|it| it.outcome == outcome).count() as u64;
    if ended(ContentOutcome::Found) > 0 {
        if found.differing > 0 {
            let objects = count(found.differing, "object");
            problems.push(format!("{objects} with copies that differ"));
        }
        if found.unreadable > 0 {
            problems.push(format!("{} that cannot be read", copies(found.unreadable)));
        }
        if found.damaged_records > 0 {
            let copies = copies(found.damaged_records);
            problems.push(format!("{copies} with damaged records in the logs of their nodes"));
        }
    }
    for (outcome, what) in [
        (
            ContentOutcome::Undecided,
            "with copies that differ, of which nothing says which is right: delete them, and put \
             them again",
        ),
        (
            ContentOutcome::NoneRight,
            "of which no copy is right; what there is of them stays: delete them, and put them \
             again",
        ),
        (
            ContentOutcome::Unfinished,
            "not repaired in time: do it again, and see `plasmon pool status`",
        ),
    ] {
        if ended(outcome) > 0 {
            problems.push(format!("{} {what}", count(ended(outcome), "object")));
        }
    }
    let unnamed = found.damaged.saturating_sub(found.differences.len() as u64);
    if unnamed > 0 {
        problems.push(format!("{} more: do it again", count(unnamed, "object")));
    }
    if !found.unanswered.is_empty() {
        let nodes: Vec<String> = found.unanswered.iter().map(|slot| names.name(*slot)).collect();
        problems.push(format!("the copies were not all read on {}", nodes.join(", ")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use plasmon_proto::pool::{Birth, Slot};
    use plasmon_proto::{Name, ObjectId};

    use super::*;

    fn names() -> Names {
        Names::named(&[(0, "a"), (1, "b")])
    }

    #[test]
    fn copies_that_differ_are_named_with_their_nodes() {
        let copy = |slot, crc| ContentCopy { slot: Slot(slot), bytes: 5, crc, logged: None };
        let difference = ContentDifference {
            birth: Birth { slot: Slot(0), boot: 1, serial: 1 },
            outcome: ContentOutcome::Found,
            id: ObjectId::pooled([7; 12], None),
            name: Some(Name::new("@prod", "x").unwrap()),
            copies: vec![copy(0, Some(0xab)), copy(1, None)],
        };
        assert!(line(&difference, &names()).starts_with("@prod:x, 0707"));
        assert!(line(&difference, &names()).ends_with(": a 000000ab (5 B), b unreadable"));
        let well = ContentComparison { same: 3, copies: 7, single: 1, ..Default::default() };
        assert_eq!(problems(&well, &names()), Vec::<String>::new());
        assert_eq!(document(&well, &names())["right"], true);
        let of = |outcome| ContentComparison {
            damaged: 1,
            differences: vec![ContentDifference { outcome, ..difference.clone() }],
            ..well.clone()
        };
        let found = of(ContentOutcome::Found);
        for (ill, said) in [
            (ContentComparison { differing: 2, ..found.clone() }, "2 objects with copies that"),
            (ContentComparison { unreadable: 1, ..found.clone() }, "1 copy that cannot be read"),
            (ContentComparison { damaged_records: 1, ..found }, "1 copy with damaged records"),
            (of(ContentOutcome::Undecided), "1 object with copies that differ, of which nothing"),
            (of(ContentOutcome::NoneRight), "1 object of which no copy is right"),
            (of(ContentOutcome::Unfinished), "1 object not repaired in time"),
            (ContentComparison { damaged: 1, ..well.clone() }, "1 object more"),
            (ContentComparison { unanswered: vec![Slot(1)], ..well.clone() }, "read on b"),
        ] {
            assert!(problems(&ill, &names())[0].contains(said), "{ill:?}");
            assert_eq!(document(&ill, &names())["right"], false);
        }
        let well = ContentComparison { repaired: 1, ..of(ContentOutcome::Repaired) };
        assert_eq!(problems(&well, &names()), Vec::<String>::new());
        assert_eq!(document(&well, &names())["right"], true);
        let ill = ContentComparison { repaired: 0, differing: 1, ..well };
        let document = document(&ill, &names());
        let copies = &document["differences"][0]["copies"];
        assert_eq!((&copies[0]["crc32c"], &copies[0]["node"]), (&"000000ab".into(), &"a".into()));
        assert_eq!(copies[1]["crc32c"], Value::Null);
    }
}
