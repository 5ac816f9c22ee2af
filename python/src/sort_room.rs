//! The use of `plasmon-sort-store` by a sort in Python: to check for room.

use plasmon_sort_store::{Plan, Resources, Sizes, Spill, StoreRoom, available_bytes, plan};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::interrupt::ask;
use crate::sort_errors::no_room;
use crate::store::Store;

/// Compares what a sort needs (bytes of all rows, and of those in files) with what there is.
/// Returns whether it goes through a scratch file, and with how much memory it does so, now or when
/// the store turns out to be full; `None` where it must not.
#[pyfunction]
pub(crate) fn plan_sort(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    sizes: (u64, u64),
    spill: &str,
    memory_bytes: Option<u64>,
) -> PyResult<(bool, Option<u64>)> {
    let spill = match spill {
        "auto" => Spill::Auto,
        "always" => Spill::Always,
        "never" => Spill::Never,
        other => {
            let text = format!("spill is \"auto\", \"always\" or \"never\", found \"{other}\"");
            return Err(PyValueError::new_err(text));
        }
    };
    let (rows_bytes, file_bytes) = sizes;
    let client = store.get().client();
    let room = StoreRoom::from(&ask(py, || client.status())?);
    let resources =
        Resources { available_bytes: available_bytes()?, memory_bytes, store: Some(room) };
    match plan(Sizes { rows_bytes, file_bytes }, &resources, spill) {
        Ok(Plan::InMemory { or_spill_with }) => Ok((false, or_spill_with)),
        Ok(Plan::Spill { memory_bytes }) => Ok((true, Some(memory_bytes))),
        Err(error) => Err(no_room(py, &error)),
    }
}
