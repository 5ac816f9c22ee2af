//! Waiting until a pool has accepted objects.

use plasmon_client::{Code, Error, ObjectId};
use pyo3::prelude::*;

use crate::arguments::{many_ids, seconds};
use crate::error::exception;
use crate::interrupt::ask;
use crate::store::Store;

/// For each of the objects None, or the exception that says why the pool has not accepted it. See
/// `Store.settle()`.
#[pyfunction]
pub(crate) fn settle<'py>(
    store: &Bound<'py, Store>,
    ids: &Bound<'py, PyAny>,
    timeout: Option<f64>,
    namespace: &str,
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let (py, ids) = (store.py(), many_ids(ids, namespace)?);
    let timeout = seconds(timeout)?;
    let client = store.get().client();
    let outcomes = ask(py, || client.settle(&ids, timeout))?;
    let outcomes = ids
        .iter()
        .zip(outcomes)
        .map(|(id, outcome)| outcome.map(|code| exception(py, &unsettled(*id, code))).transpose());
    outcomes.collect()
}

fn unsettled(id: ObjectId, code: Code) -> Error {
    let error = Error::new(code, "waiting until the pool accepts object").with_id(id);
    match code {
        Code::TimedOut | Code::Unreachable => error.with_detail(
            "the object is on this node, and the pool has not said yet whether it accepts it",
        ),
        Code::BadRequest => error.with_detail(
            "only objects of a pool are accepted by it, and only on the node where they were put",
        ),
        Code::NotEnoughNodes | Code::StoreFull | Code::Exists | Code::InUse => {
            error.with_detail("the pool did not accept the object, and it has ended")
        }
        _ => error,
    }
}
