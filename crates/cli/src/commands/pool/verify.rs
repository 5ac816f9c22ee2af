//! `plasmon pool verify`: compares all records of the pool with all copies.

use std::time::Duration;

use anyhow::{Result, bail};
use plasmon_client::{Client, ContentComparison};
use plasmon_proto::pool_admin::{Verification, VerifiedNode};
use serde_json::{Value, json};

use super::contents;
use super::names::Names;
use crate::arguments::PoolVerify;
use crate::output::{Output, Paint, bytes, count};
use crate::target;

/// How long the records may take to be compared.
const RECORDS_WITHIN: Duration = Duration::from_secs(60);

/// Compares them, and fails when the pool is not whole.
pub(super) fn verify(store: &Client, order: &PoolVerify, output: &Output) -> Result<()> {
    let within = order.timeout.map(|timeout| target::seconds("--timeout", timeout)).transpose()?;
    let found = store.pool_verify(within.unwrap_or(RECORDS_WITHIN))?;
    let contents = match order.deep {
        true => Some(contents::compare(store, within.unwrap_or(Duration::MAX), order, output)?),
        false => None,
    };
    let names = Names::of(&store.pool_nodes()?);
    let document = document(&found, contents.as_ref(), &names)?;
    output.value(&document, || {
        let contents = contents.iter().map(|contents| contents::text(contents, &names, output));
        [text(&found, &names, output)].into_iter().chain(contents).collect::<Vec<_>>().join("\n")
    })?;
    let mut faults = Vec::new();
    if !found.is_whole() {
        faults.push(format!("the pool is not whole: {}", problems(&found, &names).join("; ")));
    }
    if let Some(contents) = contents.filter(|contents| !contents.is_right()) {
        let problems = contents::problems(&contents, &names).join("; ");
        faults.push(format!("contents are not right: {problems}"));
    }
    if !faults.is_empty() {
        bail!(faults.join("; "));
    }
    Ok(())
}

fn document(
    found: &Verification,
    contents: Option<&ContentComparison>,
    names: &Names,
) -> Result<Value> {
    let mut document = serde_json::to_value(found)?;
    document["whole"] = json!(found.is_whole());
    for (node, value) in
        found.nodes.iter().zip(document["nodes"].as_array_mut().into_iter().flatten())
    {
        value["name"] = json!(names.name(node.slot));
    }
    let unanswered = found.unanswered.iter().map(|slot| names.name(*slot));
    document["unanswered"] = unanswered.collect();
    if let Some(contents) = contents {
        document["contents"] = contents::document(contents, names);
    }
    Ok(document)
}

fn text(found: &Verification, names: &Names, output: &Output) -> String {
    const HEAD: [&str; 5] = ["node", "copies", "bytes", "missing", "unrecorded"];
    let row = |node: &VerifiedNode| {
        vec![
            names.name(node.slot),
            node.copies.to_string(),
            bytes(node.bytes),
            node.missing.to_string(),
            node.unrecorded.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = found.nodes.iter().map(row).collect();
    let copies = found.nodes.iter().map(|node| node.copies).sum();
    let whole = match found.is_whole() {
        true => output.paint(Paint::Good, "the pool is whole"),
        false => output.paint(Paint::Bad, "the pool is not whole"),
    };
    let sum = format!(
        "{whole}: {} with {}",
        count(found.objects, "object"),
        match copies {
            1 => "1 copy".to_owned(),
            copies => format!("{copies} copies"),
        }
    );
    if rows.is_empty() {
        return sum;
    }
    format!("{}\n{sum}", output.table(&HEAD, &rows, &[1, 2, 3, 4]))
}

/// What is wrong, with numbers.
fn problems(found: &Verification, names: &Names) -> Vec<String> {
    let Verification { groups, groups_compared, short, unreachable, lost, .. } = *found;
    let mut problems = Vec::new();
    for (number, what) in [
        (short, "with fewer copies than asked for"),
        (unreachable, "on no node that is up"),
        (lost, "lost, because no node has a copy"),
    ] {
        if number > 0 {
            problems.push(format!("{} {what}", count(number, "object")));
        }
    }
    let sum = |of: fn(&VerifiedNode) -> u64| found.nodes.iter().map(of).sum::<u64>();
    for (number, what) in [
        (sum(|node| node.missing), "not where a record says, which are made again"),
        (sum(|node| node.unrecorded), "without a record, which are dropped"),
    ] {
        match number {
            0 => {}
            1 => problems.push(format!("1 copy {what}")),
            number => problems.push(format!("{number} copies {what}")),
        }
    }
    if !found.unanswered.is_empty() {
        let nodes: Vec<String> = found.unanswered.iter().map(|slot| names.name(*slot)).collect();
        problems.push(format!("no answer from {}", nodes.join(", ")));
    }
    if groups_compared != groups {
        problems.push(format!(
            "{groups_compared} of {groups} groups compared, the others have no primary now that \
             knows all their records: do it again, and see `plasmon pool status`"
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use plasmon_proto::pool::Slot;

    use super::*;

    #[test]
    fn what_is_wrong_is_said_and_nothing_else() {
        let node = VerifiedNode { slot: Slot(1), copies: 2, bytes: 3, missing: 0, unrecorded: 0 };
        let well = Verification {
            groups: 1024,
            groups_compared: 1024,
            objects: 2,
            nodes: vec![node],
            ..Verification::default()
        };
        let names = Names::named(&[(1, "b")]);
        assert!(well.is_whole());
        assert_eq!(problems(&well, &names), Vec::<String>::new());
        let wrong = VerifiedNode { missing: 1, unrecorded: 2, ..node };
        for (ill, said) in [
            (Verification { short: 1, ..well.clone() }, "1 object with fewer copies"),
            (Verification { unreachable: 2, ..well.clone() }, "2 objects on no node"),
            (Verification { lost: 1, ..well.clone() }, "1 object lost"),
            (Verification { groups_compared: 9, ..well.clone() }, "9 of 1024 groups"),
            (Verification { unanswered: vec![Slot(1), Slot(2)], ..well.clone() }, "b, slot 2"),
            (Verification { nodes: vec![wrong], ..well.clone() }, "1 copy not where a record"),
        ] {
            assert!(!ill.is_whole());
            let problems = problems(&ill, &names);
            assert!(problems[0].contains(said), "{problems:?}");
        }
        let document = document(&well, None, &names).unwrap();
        assert_eq!(
            (&document["whole"], &document["nodes"][0]["name"]),
            (&true.into(), &"b".into())
        );
    }
}
