//! Memory of the pool by address.
//!
//! `plasmon._pool_regions` has the addresses, and the arguments with their defaults.

use std::ops::Range;

use plasmon_client::{Address, RegionOptions};
use plasmon_cpython::buffer::Flat;
use pyo3::prelude::*;

use crate::error::raised;
use crate::id::Id;
use crate::interrupt::{ask, call};
use crate::pool_parts::{Place, limit, places};
use crate::store::Store;

/// What `plasmon._pool` calls.
#[pyclass(frozen, module = "plasmon._native", name = "_PoolRegions")]
#[derive(Debug)]
pub(crate) struct PoolRegions;

/// A place in a region.
fn address(id: &Bound<'_, Id>, offset: u64) -> Address {
    Address { offset, ..Address::new(id.get().id()) }
}

/// As many copies, where more than any object can have count the same.
fn copies(given: usize) -> u8 {
    u8::try_from(given).unwrap_or(u8::MAX)
}

#[pymethods]
impl PoolRegions {
    /// A new region.
    #[staticmethod]
    fn allocate(
        py: Python<'_>,
        store: &Store,
        nbytes: u64,
        wanted: usize,
        at_least: usize,
        node: Option<String>,
    ) -> PyResult<Id> {
        let options = RegionOptions { copies: copies(wanted), copies_min: copies(at_least), node };
        let made = ask(py, || store.client().pool_allocate(nbytes, &options))?;
        Ok(Id::new(made.id))
    }

    /// Puts bytes into a region.
    #[staticmethod]
    fn write(
        py: Python<'_>,
        store: &Store,
        id: &Bound<'_, Id>,
        offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (to, data) = (address(id, offset), Flat::of(data)?);
        ask(py, || store.client().pool_write(to, data.bytes()))
    }

    /// Pieces of a sealed region: for each range a buffer and where in it they are.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        store: &Store,
        id: &Bound<'_, Id>,
        offset: u64,
        ranges: Vec<(u64, u64)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Place>> {
        let (from, limit) = (address(id, offset), limit(timeout)?);
        let ranges: Vec<Range<u64>> =
            ranges.into_iter().map(|(at, bytes)| at..at.saturating_add(bytes)).collect();
        let found = call(py, || store.client().pool_read_at(from, &ranges, limit))?;
        places(py, &found.map_err(|error| raised(py, &error))?, store.trusted)
    }

    /// Makes a region an object.
    #[staticmethod]
    fn seal(py: Python<'_>, store: &Store, id: &Bound<'_, Id>) -> PyResult<()> {
        let id = id.get().id();
        ask(py, || store.client().pool_seal(&id))
    }

    /// Ends a region, and the object that it is.
    #[staticmethod]
    fn free(py: Python<'_>, store: &Store, id: &Bound<'_, Id>) -> PyResult<()> {
        let id = id.get().id();
        ask(py, || store.client().pool_free(&id))
    }
}
