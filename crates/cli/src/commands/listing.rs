//! `plasmon status` and `ls`.

use anyhow::Result;
use plasmon_client::Client;
use plasmon_proto::Policy;
use plasmon_proto::message::Filter;
use plasmon_proto::object::ObjectInfo;
use plasmon_proto::status::Status;
use serde_json::{Value, json};

use crate::arguments::{List, Order};
use crate::output::{Output, age, bytes, count, duration, now_ms};
use crate::pattern::is_pattern;
use crate::target::name_of;
use plasmon_proto::object::tag;

/// The filter of a namespace and a prefix.
pub(super) fn filter(namespace: Option<&str>, prefix: Option<&str>) -> Filter {
    Filter { namespace: namespace.map(str::to_owned), prefix: prefix.map(str::to_owned) }
}

/// Prints the store's metrics.
pub(super) fn status(store: &Client, output: &Output) -> Result<()> {
    let status = store.status()?;
    let socket = store.socket().display().to_string();
    let mut document = serde_json::to_value(&status)?;
    document["socket"] = Value::from(socket.clone());
    output.value(&document, || status_text(&status, &socket))
}

fn status_text(status: &Status, socket: &str) -> String {
    let share = 100.0 * status.used_bytes as f64 / status.capacity_bytes.max(1) as f64;
    let rows = [
        ("socket", socket.to_owned()),
        ("version", format!("{}, up {}", status.version, duration(status.uptime_ms))),
        (
            "process",
            format!("{} (keeper {}), epoch {}", status.pid, status.keeper_pid, status.epoch),
        ),
        ("protection", status.level.clone()),
        ("ends", end_text(status)),
        ("pool", pool_text(status)),
        (
            "memory",
            format!(
                "{} of {} used ({share:.1} %), {} leased, {} free and warm",
                bytes(status.used_bytes),
                bytes(status.capacity_bytes),
                bytes(status.leased_bytes),
                bytes(status.warm_bytes)
            ),
        ),
        (
            "resident",
            match status.retained_bytes {
                0 => bytes(status.resident_bytes),
                retained => format!(
                    "{}; {} of it in deleted objects that clients keep mapped",
                    bytes(status.resident_bytes),
                    bytes(retained)
                ),
            },
        ),
        ("away", format!("{} lent to clients whose connection broke", bytes(status.away_bytes))),
        (
            "objects",
            format!(
                "{} sealed, {} being created, {} lingering, {} spilled ({})",
                status.objects,
                status.creating,
                status.lingering,
                status.spilled,
                bytes(status.spilled_bytes)
            ),
        ),
        ("spill files", spill_text(status)),
        ("durable", log_text(status)),
        (
            "since start",
            format!(
                "{} sealed, {} deleted, {} evicted, {} spilled, {} restored",
                status.sealed_total,
                status.deleted_total,
                status.evicted_total,
                status.spilled_total,
                status.restored_total
            ),
        ),
        (
            "clients",
            format!(
                "{} connected, {} waiting requests, {} expelled",
                status.clients, status.waits, status.expelled_total
            ),
        ),
        ("index", format!("{} slots, {} extents", status.index_slots, status.extents)),
    ];
    let lines: Vec<String> = rows.iter().map(|(key, value)| format!("{key:<12} {value}")).collect();
    lines.join("\n")
}

fn spill_text(status: &Status) -> String {
    format!(
        "{} of objects that are in memory, too; {} written, {} read back",
        bytes(status.spill_kept_bytes),
        bytes(status.spill_written_bytes_total),
        bytes(status.spill_read_bytes_total)
    )
}

fn log_text(status: &Status) -> String {
    let Some(log) = &status.log else {
        return "no log; `plasmon start --durable-dir` gives the store one".to_owned();
    };
    let room = match log.bytes_max {
        0 => String::new(),
        most => format!(" of {}", bytes(most)),
    };
    let mut text = format!(
        "{} ({} in the log alone), {} on disk{room}, {} of it of objects, in {}",
        count(log.objects, "object"),
        log.objects_away,
        bytes(log.used_bytes),
        bytes(log.live_bytes),
        log.folder
    );
    if log.scrubbed_bytes_total > 0 {
        let read = bytes(log.scrubbed_bytes_total);
        let rounds = count(log.scrubs_total, "round");
        text.push_str(&format!("; {read} read through in {rounds}"));
    }
    if log.damaged > 0 {
        text.push_str(&format!("; {} damaged", count(log.damaged, "place")));
    }
    if log.corrupt > 0 {
        text.push_str(&format!("; {} corrupt", count(log.corrupt, "object")));
    }
    if log.repaired_total > 0 {
        text.push_str(&format!("; {} repaired", count(log.repaired_total, "object")));
    }
    if !log.fault.is_empty() {
        text.push_str(&format!("; takes nothing: {}", log.fault));
    }
    text
}

fn pool_text(status: &Status) -> String {
    match status.cluster.as_str() {
        "" => "none".to_owned(),
        cluster => format!("{cluster}, as {}", status.node_name),
    }
}

/// When the idle daemon ends.
fn end_text(status: &Status) -> String {
    match (status.starter_pid, status.linger_ms) {
        (0, None) => "with `plasmon stop`".to_owned(),
        (0, Some(ms)) => format!(
            "{} after its last client: a program started it; `plasmon start` starts one that stays",
            duration(ms)
        ),
        (pid, _) => format!("with process {pid}, which started it"),
    }
}

/// Prints the objects.
pub(super) fn list(store: &Client, list: &List, output: &Output) -> Result<()> {
    let patterns: Vec<String> = list.name.iter().map(|name| pattern(name)).collect();
    let (mut objects, gap) = list.selection.found(store, &patterns)?;
    match list.sort {
        Order::Created => objects.sort_by_key(|object| (object.created_ms, object.id)),
        Order::Size => objects.sort_by_key(|object| std::cmp::Reverse(object.sizes.data)),
        Order::Name => objects.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id))),
    }
    if list.reverse {
        objects.reverse();
    }
    let documents: Vec<Value> = objects.iter().map(document).collect();
    output.value(&documents, || {
        if list.long { long(&objects, output) } else { short(&objects, output) }
    })?;
    gap.map_or(Ok(()), |gap| Err(gap.into()))
}

/// A string without wildcards selects the names that start with it.
fn pattern(text: &str) -> String {
    if is_pattern(text) { text.to_owned() } else { format!("{text}*") }
}

/// A table with everything in it.
fn long(objects: &[ObjectInfo], output: &Output) -> String {
    let head = ["NAME", "STATE", "KIND", "SIZE", "PINS", "AGE", "POLICY", "COPIES", "ID"];
    let row = |object: &ObjectInfo| {
        vec![
            name_of(object),
            object.state.key().to_owned(),
            tag::in_words(object.traits.tag).to_owned(),
            bytes(object.sizes.data + object.sizes.metadata),
            object.pins.to_string(),
            duration(now_ms().saturating_sub(object.created_ms)),
            policy(object.traits.policy).to_owned(),
            object.copies.map_or_else(|| "-".to_owned(), |copies| copies.to_string()),
            object.id.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = objects.iter().map(row).collect();
    output.table(&head, &rows, &[3, 4, 5, 7])
}

/// A table that fits a terminal: ids are as short as is unambiguous, and names are cut where the
/// terminal is too narrow for them.
pub(super) fn short(objects: &[ObjectInfo], output: &Output) -> String {
    let digits = digits_needed(objects);
    let fixed = KIND_STATE_SIZE_AGE + digits;
    let name_max = output.columns().map(|columns| columns.saturating_sub(fixed).max(NAME_MIN));
    let row = |object: &ObjectInfo| {
        vec![
            cut(name_of(object), name_max),
            tag::in_words(object.traits.tag).replace(" in parts", ""),
            object.state.key().to_owned(),
            bytes(object.sizes.data + object.sizes.metadata),
            age(now_ms().saturating_sub(object.created_ms)),
            object.id.to_string()[..digits].to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = objects.iter().map(row).collect();
    output.table(&["NAME", "KIND", "STATE", "SIZE", "AGE", "ID"], &rows, &[3, 4])
}

/// Columns of the short table beside the name and the id, with what is between them.
const KIND_STATE_SIZE_AGE: usize = 7 + 8 + 10 + 6 + 5 * 2;

/// Letters of a name that are shown however narrow the terminal is.
const NAME_MIN: usize = 12;

/// Digits of an id that are shown at least.
const ID_DIGITS: usize = 8;

/// How many digits distinguish the ids of these objects.
fn digits_needed(objects: &[ObjectInfo]) -> usize {
    let mut ids: Vec<String> = objects.iter().map(|object| object.id.to_string()).collect();
    ids.sort_unstable();
    let alike = |one: &String, other: &String| {
        one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
    };
    let most = ids.windows(2).map(|pair| alike(&pair[0], &pair[1]) + 1).max();
    most.unwrap_or(0).max(ID_DIGITS)
}

/// A string, cut to at most this many letters.
fn cut(text: String, letters_max: Option<usize>) -> String {
    match letters_max {
        Some(max) if text.chars().count() > max => {
            text.chars().take(max - 1).chain(['\u{2026}']).collect()
        }
        _ => text,
    }
}

pub(super) fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Keep => "keep",
        Policy::Cache => "cache",
    }
}

/// An object's description as JSON.
pub(super) fn document(object: &ObjectInfo) -> Value {
    json!({
        "id": object.id.to_string(),
        "name": object.name.as_ref().map(|name| &name.text),
        "namespace": object.name.as_ref().map(|name| &name.namespace),
        "state": object.state.key(),
        "kind": tag::in_words(object.traits.tag),
        "data_bytes": object.sizes.data,
        "metadata_bytes": object.sizes.metadata,
        "policy": policy(object.traits.policy),
        "owned": object.traits.owned,
        "created_ms": object.created_ms,
        "construct_ms": object.construct_ms,
        "expires_ms": object.expires_ms,
        "creator_pid": object.creator_pid,
        "pins": object.pins,
        "holders": object.holders,
        "level": object.level.key(),
        "copies": object.copies,
        "durable": object.durable,
    })
}
