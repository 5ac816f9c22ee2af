//! `plasmon watch`: the events of objects, one per line.

use std::collections::HashMap;

use anyhow::Result;
use plasmon_client::{Client, Notification};
use plasmon_proto::ObjectId;
use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::message::{Filter, Notice};
use plasmon_proto::object::ObjectState;
use serde_json::json;

use crate::output::{Output, bytes, clock, now_ms};
use crate::target::display_name;

/// Names that are remembered for when their objects go; more objects are shown by their ids.
const NAMES_MAX: usize = 100_000;

/// Prints `count` notices, or notices until interrupted.
pub(super) fn watch(
    store: &Client,
    filter: &Filter,
    count: Option<u64>,
    output: &Output,
) -> Result<()> {
    let mut subscription = store.subscribe(filter)?;
    // The pool says names itself; to look an object up would bring it here.
    let is_pooled = filter.namespace.as_ref().is_some_and(|it| it.starts_with(POOLED_PREFIX));
    let mut names = if is_pooled { Names(HashMap::new()) } else { Names::new(store, filter)? };
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        match subscription.next(None)? {
            Some(Notification::Notice(notice)) => {
                let name = match subscription.last_name() {
                    Some(name) => Some(display_name(name)),
                    None => names.of(store, &notice)?,
                };
                let time_ms = now_ms();
                let document = json!({
                    "time_ms": time_ms, "name": name,
                    "id": notice.id.to_string(), "state": notice.state.key(),
                    "data_bytes": notice.data_bytes, "metadata_bytes": notice.metadata_bytes,
                });
                output.value(&document, || {
                    let size = bytes(notice.data_bytes + notice.metadata_bytes);
                    let id = notice.id.to_string();
                    let name = name.as_deref().unwrap_or("-");
                    format!(
                        "{} {:<9} {size:>10} {} {name}",
                        clock(time_ms),
                        notice.state.key(),
                        &id[..8]
                    )
                })?;
                printed += 1;
            }
            Some(Notification::Lost(lost)) => {
                output.value(&json!({ "lost": lost }), || match lost {
                    u64::MAX => "notices were lost: a daemon was restarted, or a node came or went"
                        .to_owned(),
                    lost => format!("{lost} notices were lost: this reader was too slow"),
                })?;
            }
            None => {}
        }
    }
    Ok(())
}

/// The names of objects that notices, which carry ids, are about.
struct Names(HashMap<ObjectId, String>);

impl Names {
    /// Those of the objects that are there.
    fn new(store: &Client, filter: &Filter) -> Result<Self> {
        let mut names = HashMap::new();
        for object in store.listing(filter).take(NAMES_MAX) {
            let object = object?;
            names.extend(object.name.map(|name| (object.id, display_name(&name))));
        }
        Ok(Self(names))
    }

    /// That of a notice's object, if it has one. The last notice of an object forgets it.
    fn of(&mut self, store: &Client, notice: &Notice) -> Result<Option<String>> {
        if !matches!(notice.state, ObjectState::Sealed | ObjectState::Spilled) {
            return Ok(self.0.remove(&notice.id));
        }
        if let Some(name) = self.0.get(&notice.id) {
            return Ok(Some(name.clone()));
        }
        let name = store.stat(&notice.id)?.and_then(|object| object.name);
        let name = name.as_ref().map(display_name);
        if let (Some(name), true) = (&name, self.0.len() < NAMES_MAX) {
            self.0.insert(notice.id, name.clone());
        }
        Ok(name)
    }
}
