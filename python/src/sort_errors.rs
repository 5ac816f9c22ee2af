//! Errors of a sort as Python exceptions.

use std::io;

use plasmon_client::Code;
use plasmon_sort::Error as SortError;
use plasmon_sort_store::{Error, NoRoom, Shortage};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::raised;

/// The system's number for a file system without room.
const ENOSPC: i32 = 28;

/// The exception that an error of a sort into the store is.
pub(crate) fn in_python(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Sort(error) => of_sort(py, error),
        Error::Store(error) => raised(py, &error),
        Error::Name(bad) => PyValueError::new_err(bad.to_string()),
        Error::Exists { name, id } => {
            let error = plasmon_client::Error::new(Code::Exists, "sorting into");
            raised(py, &error.with_id(id).with_name(name.text))
        }
    }
}

/// The exception that an error of the engine is.
pub(crate) fn of_sort(py: Python<'_>, error: SortError) -> PyErr {
    let text = error.to_string();
    match error {
        SortError::Memory { source, .. } => match source.downcast::<plasmon_client::Error>() {
            Ok(error) => raised(py, &error),
            Err(source) => match source.downcast::<Error>() {
                Ok(error) => in_python(py, *error),
                Err(_) => PyRuntimeError::new_err(text),
            },
        },
        SortError::Scratch { source, .. } => match system_code(&source) {
            Some(code) => PyOSError::new_err((code, text)),
            None => PyOSError::new_err(text),
        },
        SortError::ScratchFull { .. } => PyOSError::new_err((ENOSPC, text)),
        SortError::ScratchLimit { wanted: found, limit, .. }
        | SortError::DictionaryBytes { found, limit, .. } => {
            let error = plasmon_client::Error::new(Code::TooLarge, "sorting");
            raised(py, &error.with_amounts(found, limit).with_detail(text))
        }
        SortError::NoOrder { .. } => PyTypeError::new_err(text),
        SortError::Cancelled => PyKeyboardInterrupt::new_err(text),
        SortError::Rows { found, limit } => {
            let error = plasmon_client::Error::new(Code::TooLarge, "sorting");
            raised(py, &error.with_amounts(found, limit).with_detail(text))
        }
        _ => PyValueError::new_err(text),
    }
}

/// The system's number of an error, also where a path was added to it.
fn system_code(error: &io::Error) -> Option<i32> {
    let inner = || error.get_ref()?.source()?.downcast_ref::<io::Error>()?.raw_os_error();
    error.raw_os_error().or_else(inner)
}

/// The exception that rows without room are.
pub(crate) fn no_room(py: Python<'_>, error: &NoRoom) -> PyErr {
    let advice = match error.shortage {
        Shortage::Store => "start it with more capacity or a spill_dir",
        Shortage::StoreWithoutSpill | Shortage::Memory => "allow spill=\"auto\"",
    };
    let text = format!("sorting: {error}: {advice}");
    let make = || {
        let class = py.import("plasmon._errors")?.getattr("NoRoom")?;
        class.call1((text, py.None(), error.needed_bytes, error.found_bytes))
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(problem) => problem,
    }
}
