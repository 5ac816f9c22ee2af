//! Descriptions of objects, the store and its clients as plain Python values.
//!
//! `plasmon._info` makes data classes from them.

use plasmon_client::{Client, Code, Error, Level, ObjectId, ObjectInfo, Policy};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::Value;

use crate::error::raised;
use crate::id::Id;

/// An object's description, in the order of the fields of `plasmon.ObjectInfo`.
pub(crate) fn object<'py>(py: Python<'py>, info: ObjectInfo) -> PyResult<Bound<'py, PyTuple>> {
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let (namespace, name) = match info.name {
        Some(name) => (name.namespace, Some(name.text)),
        None => (String::new(), None),
    };
    let policy = if info.traits.policy == Policy::Keep { "keep" } else { "cache" };
    let head = (Id::new(info.id), info.state.key(), info.sizes.data, info.sizes.metadata);
    let head = head.into_pyobject(py)?;
    let middle = (name, namespace, policy, info.traits.tag, info.traits.owned).into_pyobject(py)?;
    let times =
        (seconds(info.created_ms), seconds(info.construct_ms), info.expires_ms.map(seconds));
    let times = times.into_pyobject(py)?;
    let (pid, pins, holders, copies) = (info.creator_pid, info.pins, info.holders, info.copies);
    let tail = (pid, pins, holders, level(info.level), copies, info.durable).into_pyobject(py)?;
    let fields =
        [head, middle, times, tail].into_iter().flat_map(|part| part.iter().collect::<Vec<_>>());
    PyTuple::new(py, fields.collect::<Vec<_>>())
}

/// A level by its stable name.
pub(crate) fn level(level: Level) -> &'static str {
    level.key()
}

/// What the store or its pool daemon says of this.
pub(crate) fn fields(client: &Client, what: &str, id: Option<ObjectId>) -> Result<Value, Error> {
    fn value(fields: impl serde::Serialize) -> Result<Value, Error> {
        let failed = |error: serde_json::Error| {
            Error::new(Code::Unsupported, "describing").with_detail(error.to_string())
        };
        serde_json::to_value(fields).map_err(failed)
    }
    match (what, id) {
        ("status", None) => value(client.status()?),
        ("clients", None) => value(client.clients()?),
        ("pool_status", None) => value(client.pool_status()?),
        ("pool_nodes", None) => value(client.pool_nodes()?),
        ("pool_place", Some(id)) => value(client.pool_place(&id)?),
        _ => Err(Error::new(Code::BadRequest, "describing").with_detail(what)),
    }
}

/// Anything that serde can describe, as dicts, lists, numbers and strings.
pub(crate) fn plain<'py>(
    py: Python<'py>,
    value: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| {
        let text = error.to_string();
        raised(py, &Error::new(Code::Unsupported, "describing").with_detail(text))
    })?;
    py.import("json")?.getattr("loads")?.call1((text,))
}
