//! `plasmon top`: the store, live.

use std::time::Duration;

use anyhow::Result;
use plasmon_client::Store;
use plasmon_proto::message::{ClientInfo, Status};
use serde_json::json;

use crate::output::{Output, bytes, table};

const CLEAR: &str = "\x1b[H\x1b[2J";
const BAR_CELLS: usize = 40;

/// Prints a picture every `interval`, `count` times or (0) until interrupted.
pub(super) fn top(store: &Store, interval: Duration, count: u64, output: &Output) -> Result<()> {
    let mut before: Option<Status> = None;
    let mut shown = 0;
    loop {
        let status = store.status()?;
        let clients = store.clients()?;
        let document = json!({ "status": status, "clients": clients });
        output.value(&document, || {
            let picture = picture(&status, before.as_ref(), &clients, interval);
            if output.is_live() { format!("{CLEAR}{picture}") } else { picture }
        })?;
        shown += 1;
        if shown == count {
            return Ok(());
        }
        before = Some(status);
        std::thread::sleep(interval);
    }
}

fn picture(
    now: &Status,
    before: Option<&Status>,
    clients: &[ClientInfo],
    interval: Duration,
) -> String {
    let rate = |field: fn(&Status) -> u64| {
        let change = before.map_or(0, |before| field(now).saturating_sub(field(before)));
        change as f64 / interval.as_secs_f64().max(1e-3)
    };
    let filled =
        (now.used_bytes as f64 / now.capacity_bytes.max(1) as f64 * BAR_CELLS as f64) as usize;
    let filled = filled.min(BAR_CELLS);
    let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR_CELLS - filled));
    let mut lines = vec![
        format!("memory {bar} {} of {}", bytes(now.used_bytes), bytes(now.capacity_bytes)),
        format!(
            "leased {}, warm {}, retained {}; resident {}",
            bytes(now.leased_bytes),
            bytes(now.warm_bytes),
            bytes(now.retained_bytes),
            bytes(now.resident_bytes)
        ),
        format!(
            "objects {} sealed, {} being created, {} spilled; waits {}",
            now.objects, now.creating, now.spilled, now.waits
        ),
        format!(
            "per second: {:.0} sealed, {:.0} deleted, {:.0} evicted, {:.0} spilled",
            rate(|status| status.sealed_total),
            rate(|status| status.deleted_total),
            rate(|status| status.evicted_total),
            rate(|status| status.spilled_total)
        ),
        String::new(),
    ];
    let rows: Vec<Vec<String>> = clients
        .iter()
        .map(|client| {
            vec![
                client.pid.to_string(),
                client.uid.to_string(),
                client.pins.to_string(),
                bytes(client.owned_bytes),
                client.name.clone(),
            ]
        })
        .collect();
    lines.push(table(&["PID", "UID", "PINS", "OWNED", "NAME"], &rows, &[0, 1, 2, 3]));
    lines.join("\n")
}
