//! Comparing the records of a pool with its copies, and these with one another.

use std::time::Duration;

use plasmon_client::{ContentComparison, ContentCopy, ContentDifference};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::arguments::seconds;
use crate::describe;
use crate::interrupt::ask;
use crate::store::Store;

/// What `Pool.verify()` makes its answer of.
#[pyfunction]
pub(crate) fn pool_verify<'py>(
    store: &Bound<'py, Store>,
    within: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let within = seconds(Some(within))?.unwrap_or(Duration::MAX);
    let (py, client) = (store.py(), store.get().client());
    describe::plain(py, &ask(py, || client.pool_verify(within))?)
}

/// What `Pool.compare()` makes its answer of.
#[pyfunction]
pub(crate) fn pool_compare<'py>(
    store: &Bound<'py, Store>,
    within: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let within = seconds(within)?.unwrap_or(Duration::MAX);
    let (py, client) = (store.py(), store.get().client());
    let found = ask(py, || client.pool_compare(within, |_| ()))?;
    describe::plain(py, &comparison(&found))
}

fn comparison(found: &ContentComparison) -> Value {
    let copy = |copy: &ContentCopy| {
        let ContentCopy { slot, bytes, crc, logged } = *copy;
        json!({ "slot": slot.0, "bytes": bytes, "crc32c": crc, "logged": logged })
    };
    let difference = |object: &ContentDifference| {
        let name = object.name.as_ref().map(ToString::to_string);
        let copies: Vec<Value> = object.copies.iter().map(copy).collect();
        json!({ "id": object.id.to_string(), "name": name, "copies": copies })
    };
    let unanswered: Vec<u16> = found.unanswered.iter().map(|slot| slot.0).collect();
    json!({
        "copies": found.copies,
        "bytes": found.bytes,
        "same": found.same,
        "single": found.single,
        "differing": found.differing,
        "unreadable": found.unreadable,
        "damaged_records": found.damaged_records,
        "differences": found.differences.iter().map(difference).collect::<Vec<_>>(),
        "unanswered": unanswered,
    })
}
