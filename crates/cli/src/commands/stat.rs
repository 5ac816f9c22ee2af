//! `plasmon stat`: one object, and what it looks like.

use anyhow::{Context, Result};
use plasmon_client::{Client, Error};
use plasmon_proto::Code;
use plasmon_proto::object::{ObjectInfo, ObjectState};

use crate::commands::listing::{document, policy};
use crate::formats::Shape;
use crate::output::{Output, bytes, count, duration, now_ms};
use crate::target::{Target, name_of};
use plasmon_proto::object::tag;

/// Columns of a table that are listed; `--json` has all.
const COLUMNS_SHOWN_MAX: usize = 40;

/// Describes one object.
pub(super) fn stat(store: &Client, text: &str, output: &Output) -> Result<()> {
    let target = Target::find(store, text)?;
    let Some(object) = store.stat(&target.id)? else {
        let error = Error::new(Code::Absent, "describing the object").with_id(target.id);
        return Err(target.failure(store, error));
    };
    let shape = shape(store, &object);
    let mut all = document(&object);
    if let (Some(all), Some(Ok(shape))) = (all.as_object_mut(), &shape) {
        all.extend(shape.document().as_object().cloned().unwrap_or_default());
    }
    output.value(&all, || {
        let mut rows = rows(&object);
        rows.extend(shape.map_or_else(Vec::new, |shape| match shape {
            Ok(shape) => lines(&shape),
            Err(error) => vec![("content", format!("cannot be described: {error:#}"))],
        }));
        let lines = rows.iter().map(|(key, value)| format!("{key:<11} {value}"));
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// The shape of a sealed object. A spilled object is not restored for that.
fn shape(store: &Client, object: &ObjectInfo) -> Option<Result<Shape>> {
    if object.state != ObjectState::Sealed {
        return None;
    }
    let found = store.get_existing(&object.id).context("getting it");
    Some(found.and_then(|object| Shape::of(&object)))
}

fn rows(object: &ObjectInfo) -> Vec<(&'static str, String)> {
    vec![
        ("id", object.id.to_string()),
        ("name", name_of(object)),
        ("state", object.state.key().to_owned()),
        ("kind", tag::in_words(object.traits.tag).to_owned()),
        ("data", format!("{} ({} bytes)", bytes(object.sizes.data), object.sizes.data)),
        ("metadata", format!("{} bytes", object.sizes.metadata)),
        ("policy", policy(object.traits.policy).to_owned()),
        ("durable", if object.durable { "yes" } else { "no" }.to_owned()),
        ("protection", object.level.key().to_owned()),
        ("age", duration(now_ms().saturating_sub(object.created_ms))),
        ("creator", creator(object.creator_pid)),
        ("in use by", format!("{} pins, {} composites", object.pins, object.holders)),
    ]
}

fn creator(pid: u32) -> String {
    match pid {
        0 => "a process that has disconnected".to_owned(),
        pid => format!("process {pid}"),
    }
}

fn lines(shape: &Shape) -> Vec<(&'static str, String)> {
    match shape {
        Shape::Table { schema, rows } => {
            let fields = schema.fields();
            let mut lines = vec![("rows", rows.to_string()), ("columns", fields.len().to_string())];
            lines.extend(fields.iter().take(COLUMNS_SHOWN_MAX).map(|field| {
                let nullable = if field.is_nullable() { "" } else { ", never null" };
                ("", format!("{}: {}{nullable}", field.name(), field.data_type()))
            }));
            if let Some(more @ 1..) = fields.len().checked_sub(COLUMNS_SHOWN_MAX) {
                lines.push((
                    "",
                    format!("and {} more; --json has all", count(more as u64, "column")),
                ));
            }
            lines
        }
        Shape::Array { items, dimensions } => {
            let dimensions: Vec<String> = dimensions.iter().map(u64::to_string).collect();
            vec![("dtype", items.clone()), ("shape", format!("({})", dimensions.join(", ")))]
        }
        Shape::Other => Vec::new(),
    }
}
