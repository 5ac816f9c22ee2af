//! `plasmon top`: the store, live, with keys on a terminal.

mod keys;

use std::time::Duration;

use anyhow::Result;
use plasmon_client::Client;
use plasmon_proto::message::{ClientInfo, Filter};
use plasmon_proto::object::ObjectInfo;
use plasmon_proto::status::Status;
use serde_json::{Value, json};

use crate::commands::listing::{document, short};
use crate::output::{Output, bytes, count};
use keys::{Key, Keys};

/// To the first line, without a flicker; then what is below the picture goes.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

const BAR_CELLS: usize = 40;

/// Objects of which the largest are found; of more objects none are listed.
const OBJECTS_MAX: u64 = 20_000;

/// How many objects are shown without a terminal, whose size would limit them.
const OBJECTS_SHOWN: usize = 10;

/// Lines beside those of the objects, without clients.
const LINES_BESIDE: usize = 11;

/// The orders of the objects, in which the key `s` goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Size,
    Newest,
    Pins,
    Name,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Size => Self::Newest,
            Self::Newest => Self::Pins,
            Self::Pins => Self::Name,
            Self::Name => Self::Size,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Size => "by size",
            Self::Newest => "newest first",
            Self::Pins => "by use",
            Self::Name => "by name",
        }
    }

    fn apply(self, objects: &mut [ObjectInfo]) {
        match self {
            Self::Size => objects.sort_by_key(|it| std::cmp::Reverse(it.sizes.data)),
            Self::Newest => objects.sort_by_key(|it| std::cmp::Reverse(it.created_ms)),
            Self::Pins => objects.sort_by_key(|it| std::cmp::Reverse(it.pins)),
            Self::Name => objects.sort_by(|a, b| {
                (a.name.is_none(), &a.name, a.id).cmp(&(b.name.is_none(), &b.name, b.id))
            }),
        }
    }
}

/// The state of the view.
struct View {
    sort: Sort,
    reverse: bool,
    paused: bool,
}

impl View {
    /// Takes a key; `false` ends the command.
    fn take(&mut self, key: Key) -> bool {
        match key {
            Key::Quit => return false,
            Key::Letter(b's') => self.sort = self.sort.next(),
            Key::Letter(b'r') => self.reverse = !self.reverse,
            Key::Letter(b'p' | b' ') => self.paused = !self.paused,
            Key::Letter(_) => {}
        }
        true
    }
}

/// The store at one moment.
struct Moment {
    status: Status,
    clients: Vec<ClientInfo>,
    /// None where there are too many.
    objects: Option<Vec<ObjectInfo>>,
}

impl Moment {
    fn of(store: &Client) -> Result<Self> {
        let status = store.status()?;
        let few = status.objects + status.spilled <= OBJECTS_MAX;
        let objects = if few { Some(store.list(&Filter::default())?) } else { None };
        Ok(Self { status, clients: store.clients()?, objects })
    }

    fn document(&self) -> Value {
        let largest = self.objects.iter().flatten().take(OBJECTS_SHOWN);
        json!({
            "status": self.status, "clients": self.clients,
            "objects": largest.map(document).collect::<Vec<_>>(),
        })
    }
}

/// Prints a picture every `interval`, `count` times or (0) until interrupted.
pub(super) fn top(store: &Client, interval: Duration, count: u64, output: &Output) -> Result<()> {
    let mut view = View { sort: Sort::Size, reverse: false, paused: false };
    let mut keys = if output.is_live() { Keys::open() } else { None };
    let mut before: Option<Status> = None;
    let mut moment = Moment::of(store)?;
    let mut shown = 0;
    loop {
        if let Some(objects) = &mut moment.objects {
            view.sort.apply(objects);
            if view.reverse {
                objects.reverse();
            }
        }
        let text = || picture(&moment, before.as_ref(), &view, interval, output);
        match &keys {
            Some(_) => output.line(&screen(&text()))?,
            None => output.value(&moment.document(), text)?,
        }
        shown += 1;
        if shown == count {
            return Ok(());
        }
        let key = match &mut keys {
            Some(keys) => keys.next(interval)?,
            None => {
                std::thread::sleep(interval);
                None
            }
        };
        if let Some(key) = key {
            if !view.take(key) {
                return Ok(());
            }
            // The same moment in another order.
            continue;
        }
        if !view.paused {
            let next = Moment::of(store)?;
            before = Some(std::mem::replace(&mut moment, next).status);
        }
    }
}

/// A picture in place of the one before it.
fn screen(picture: &str) -> String {
    let lines: Vec<String> = picture.lines().map(|line| format!("{line}{CLEAR_LINE}")).collect();
    format!("{HOME}{}{CLEAR_BELOW}", lines.join("\n"))
}

fn picture(
    moment: &Moment,
    before: Option<&Status>,
    view: &View,
    interval: Duration,
    output: &Output,
) -> String {
    let mut lines = figures(&moment.status, before, interval);
    lines.push(String::new());
    let rows: Vec<Vec<String>> = moment.clients.iter().map(client).collect();
    lines.push(output.table(&["PID", "UID", "PINS", "OWNED", "NAME"], &rows, &[0, 1, 2, 3]));
    lines.push(String::new());
    match &moment.objects {
        Some(objects) => {
            let beside = LINES_BESIDE + moment.clients.len();
            let fit = output.rows().map_or(OBJECTS_SHOWN, |rows| rows.saturating_sub(beside));
            lines.push(short(&objects[..objects.len().min(fit)], output));
        }
        None => lines.push(format!("more than {} are not listed", count(OBJECTS_MAX, "object"))),
    }
    if output.is_live() {
        let paused = if view.paused { "; paused" } else { "" };
        lines.push(format!(
            "objects {}{paused}: s changes the order, r reverses, p pauses, q quits",
            view.sort.words()
        ));
    }
    lines.join("\n")
}

fn client(client: &ClientInfo) -> Vec<String> {
    vec![
        client.pid.to_string(),
        client.uid.to_string(),
        client.pins.to_string(),
        bytes(client.owned_bytes),
        client.name.clone(),
    ]
}

fn figures(now: &Status, before: Option<&Status>, interval: Duration) -> Vec<String> {
    let rate = |field: fn(&Status) -> u64| {
        let change = before.map_or(0, |before| field(now).saturating_sub(field(before)));
        change as f64 / interval.as_secs_f64().max(1e-3)
    };
    let filled =
        (now.used_bytes as f64 / now.capacity_bytes.max(1) as f64 * BAR_CELLS as f64) as usize;
    let filled = filled.min(BAR_CELLS);
    let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR_CELLS - filled));
    vec![
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
    ]
}
