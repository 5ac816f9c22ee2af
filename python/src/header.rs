//! The header of a value: what its bytes are, before the caller's own metadata
//! (docs/formats/values.md).

use plasmon_client::PutOptions;
use plasmon_proto::value::{Order, ValueHeader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::bad_request;

/// Sets an object's tag and puts the value header before the caller's own metadata.
pub(crate) fn describe(
    py: Python<'_>,
    options: &mut PutOptions,
    tag: u8,
    header: &ValueHeader<'_>,
) -> PyResult<()> {
    options.tag = tag;
    options.metadata = header.encode(&options.metadata).ok_or_else(|| {
        bad_request(py, "putting a value", "its description is too long".to_owned())
    })?;
    Ok(())
}

/// The header of an array in `order` (`C` or `F`).
pub(crate) fn array_header<'a>(
    kind: u8,
    order: char,
    shape: Vec<u64>,
    text: &'a str,
) -> PyResult<ValueHeader<'a>> {
    let order = match order {
        'C' => Order::C,
        'F' => Order::Fortran,
        other => return Err(PyValueError::new_err(format!("unknown order '{other}'"))),
    };
    Ok(ValueHeader { kind, order, shape, text })
}
