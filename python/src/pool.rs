//! Memory pools in the store, for `Store.memory_pool()`.
//!
//! pyarrow's pools are C++ objects. Ours is made by a small extension that is built for the pyarrow
//! that is installed (`plasmon/_arrow_pool`); it gets the pool as a table of functions, the same
//! one as `plasmon_pool_api` in `plasmon.h`, in a capsule. So nothing of this module depends on
//! pyarrow's ABI, and the extension depends on nothing of this module but the table.

use std::collections::HashMap;
use std::sync::Arc;

use plasmon_client::c_allocator::AllocatorTable;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::raised_by_columns;
use crate::interrupt::call;
use crate::pools;
use crate::store::Store;

const POOLING: &str = "making a memory pool";

/// The name of the capsule and the version of the table in it.
const API: &std::ffi::CStr = c"plasmon_pool_api";

/// A pool of buffers in a store.
#[pyclass(frozen, module = "plasmon._native", name = "_Pool", weakref)]
#[derive(Debug)]
pub(crate) struct Pool {
    pool: Arc<plasmon_columns::Pool>,
}

#[pymethods]
impl Pool {
    /// A pool in the store. Raises Unsupported at level strict.
    #[new]
    fn new(py: Python<'_>, store: &Store) -> PyResult<Self> {
        let client = store.client();
        let pool = call(py, || plasmon_columns::Pool::new(client))?;
        let pool = Arc::new(pool.map_err(|error| raised_by_columns(py, POOLING, error))?);
        pools::add(&pool);
        Ok(Self { pool })
    }

    /// The pool as a table of functions for C and C++: a capsule "plasmon_pool_api".
    fn api<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, AllocatorTable::owned(Arc::clone(&self.pool)), API)
    }

    /// The counters of the pool so far.
    fn stats(&self) -> HashMap<&'static str, u64> {
        self.pool.stats().named().into()
    }

    /// Whether the buffer at this address lies in the pool.
    fn holds(&self, address: usize) -> bool {
        self.pool.holds(address)
    }
}
