//! `plasmon pool where`: what the pool knows of an object.

use anyhow::{Result, bail};
use plasmon_client::Client;
use plasmon_proto::pool_admin::ObjectPlace;
use serde_json::json;

use crate::failure::usage;
use crate::output::{Output, bytes};
use crate::target::Target;

/// Prints it. That an object is absent is an answer.
pub(super) fn place(store: &Client, text: &str, output: &Output) -> Result<()> {
    let target = Target::parse(text)?;
    if !target.id.is_pooled() {
        bail!(usage(format!(
            "{text} is an object of this store alone; those of a pool are named @NAMESPACE:NAME"
        )));
    }
    let place = store.pool_place(&target.id)?;
    let mut document = serde_json::to_value(&place)?;
    document["object"] = json!(text);
    document["id"] = json!(target.id.to_string());
    output.value(&document, || {
        let lines = rows(&place).into_iter().map(|(key, value)| format!("{key:<8}  {value}"));
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn rows(place: &ObjectPlace) -> Vec<(&'static str, String)> {
    let mut rows = vec![("state", place.standing.key().to_owned())];
    if let Some(found) = &place.found {
        let size = found.data_bytes.saturating_add(u64::from(found.metadata_bytes));
        let has = found.holders.len();
        rows.push(("size", bytes(size)));
        rows.push(("made on", found.origin.clone()));
        let copies = match found.copies {
            0 => "none is kept: it is a cache".to_owned(),
            copies => format!("{has} of {copies}, {} at least", found.copies_min),
        };
        if found.is_durable {
            rows.push(("class", "durable: the copies are in the logs of their nodes".to_owned()));
        }
        rows.push(("copies", copies));
        rows.push(("kept on", list(&found.holders)));
        rows.push(("cached", list(&found.caches)));
    }
    rows.extend(place.primary.clone().map(|primary| ("record", primary)));
    rows
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}
