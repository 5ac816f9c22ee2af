//! `plasmon rm`: objects by name, or all that flags and patterns select, after a question.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Result, bail};
use plasmon_client::{Client, Error};
use plasmon_proto::object::ObjectInfo;
use plasmon_proto::{Code, ObjectId};
use serde_json::json;

use crate::arguments::Remove;
use crate::failure::{ObjectFailure, usage};
use crate::output::{Output, bytes, count};
use crate::pattern::is_pattern;
use crate::target::Target;

/// Deletes the objects of the arguments.
pub(super) fn remove(store: &Client, remove: &Remove, output: &Output) -> Result<()> {
    let selects = remove.all || !remove.selection.is_empty();
    let has_patterns = remove.objects.iter().any(|text| is_pattern(text));
    if selects && !remove.objects.is_empty() && !has_patterns {
        bail!(usage("name objects, or select them with flags and patterns, not both"));
    }
    if remove.objects.is_empty() && !selects {
        bail!(usage(
            "say which objects: names or ids, a pattern such as 'tmp*', --prefix, --older, \
             --unnamed or --all"
        ));
    }
    if selects || has_patterns {
        by_selection(store, remove, output)
    } else {
        by_name(store, &remove.objects, output)
    }
}

/// Deletes objects one by one, and prints the outcome of each.
fn by_name(store: &Client, objects: &[String], output: &Output) -> Result<()> {
    let found = objects.iter().map(|text| Target::find(store, text));
    let targets = found.collect::<Result<Vec<_>>>()?;
    let ids: Vec<ObjectId> = targets.iter().map(|target| target.id).collect();
    let mut failed = Vec::new();
    for (target, outcome) in targets.iter().zip(store.delete(&ids)?) {
        let (text, id) = (&target.text, target.id.to_string());
        let Some(code) = outcome else {
            let document = json!({ "object": text, "id": id, "result": "deleted" });
            output.value(&document, || format!("{text}: deleted"))?;
            continue;
        };
        let error = Error::of_delete(code, target.id);
        failed.push(target.failure(store, error));
    }
    tell(failed, output)
}

/// Prints all errors except the first, with which the command ends.
fn tell(failed: Vec<anyhow::Error>, output: &Output) -> Result<()> {
    let mut failed = failed.into_iter();
    let first = failed.next();
    failed.for_each(|error| output.error(&error));
    first.map_or(Ok(()), Err)
}

/// Deletes what flags and patterns select, after a question.
fn by_selection(store: &Client, remove: &Remove, output: &Output) -> Result<()> {
    let mut objects = remove.selection.objects(store, &remove.objects)?;
    // The members of composites are deleted with the last of them.
    objects.retain(|object| object.holders == 0);
    if objects.is_empty() {
        if let Some(pattern) = remove.objects.first() {
            return Err(ObjectFailure {
                code: Code::Absent,
                object: pattern.clone(),
                id: None,
                text: format!(
                    "no object matches {}: `plasmon ls` lists the objects",
                    remove.objects.join(" ")
                ),
            }
            .into());
        }
        let document = json!({ "deleted": 0, "bytes": 0 });
        return output.value(&document, || "nothing to delete".to_owned());
    }
    if !remove.yes && !confirm(&objects, output)? {
        bail!("nothing was deleted");
    }
    let ids: Vec<ObjectId> = objects.iter().map(|object| object.id).collect();
    let (mut deleted, mut freed, mut failed) = (0, 0, Vec::new());
    for (object, outcome) in objects.iter().zip(store.delete(&ids)?) {
        match outcome {
            None => {
                deleted += 1;
                freed += size(object);
            }
            // Another process was quicker, or it was deleted with a composite.
            Some(Code::Absent | Code::Deleted | Code::Evicted) => {}
            Some(code) => {
                let target = Target::parse(&object.id.to_string())?;
                let error = Error::of_delete(code, object.id);
                failed.push(target.failure(store, error));
            }
        }
    }
    output.value(&json!({ "deleted": deleted, "bytes": freed }), || {
        format!("{} deleted, {}", count(deleted, "object"), bytes(freed))
    })?;
    tell(failed, output)
}

fn size(object: &ObjectInfo) -> u64 {
    object.sizes.data + object.sizes.metadata
}

/// Asks on the terminal. Without one, only `--yes` deletes many objects at once.
fn confirm(objects: &[ObjectInfo], output: &Output) -> Result<bool> {
    let many = count(objects.len() as u64, "object");
    let all = bytes(objects.iter().map(size).sum());
    let (input, mut err) = (io::stdin(), io::stderr());
    if output.is_json() || !input.is_terminal() || !err.is_terminal() {
        bail!(usage(format!(
            "this would delete {many}, {all}; there is no terminal to ask on: pass --yes to delete \
             without a question"
        )));
    }
    let used = objects.iter().filter(|object| object.pins > 0).count();
    let in_use = if used == 0 { String::new() } else { format!(", {used} of them in use") };
    write!(err, "delete {many}, {all}{in_use}? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}
