//! Memory pools in the store: what `Store.memory_pool()` is made of.
//!
//! pyarrow's pools are C++ objects. Ours is made by a small extension that is built for the pyarrow
//! that is installed (`plasmon/_arrow_pool`); it gets the pool as a table of functions, the same
//! one as `plasmon_pool_api` in `plasmon.h`, in a capsule. So nothing of this module depends on
//! pyarrow's ABI, and the extension depends on nothing of this module but the table.
//!
//! Pools that exist are listed here, so that a put finds the one that a table's buffers lie in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use plasmon_client::foreign::AllocatorTable;
use plasmon_client::{ObjectId, PutOptions};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::raised_by_columns;
use crate::interrupt::call;
use crate::store::Store;

const POOLING: &str = "making a memory pool";

/// The name of the capsule and the version of the table in it.
const API: &std::ffi::CStr = c"plasmon_pool_api";

static POOLS: Mutex<Vec<Weak<plasmon_columns::Pool>>> = Mutex::new(Vec::new());

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
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        Ok(Self { pool })
    }

    /// The pool as a table of functions for C and C++: a capsule "plasmon_pool_api".
    fn api<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, AllocatorTable::owned(Arc::clone(&self.pool)), API)
    }

    /// What the pool has done so far.
    fn stats(&self) -> HashMap<&'static str, u64> {
        self.pool.stats().named().into()
    }

    /// Whether the buffer at this address lies in the pool.
    fn holds(&self, address: usize) -> bool {
        self.pool.holds(address)
    }
}

/// Puts a table: shared when it lies in a pool of this store, else copied.
pub(crate) fn put(
    store: &plasmon_client::Client,
    table: plasmon_columns::Table<'_>,
    options: &PutOptions,
) -> plasmon_columns::Result<ObjectId> {
    let pools: Vec<_> = {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).collect()
    };
    let here = pools.iter().filter(|pool| pool.store().socket() == store.socket());
    plasmon_columns::put(store, here.map(|pool| &**pool), table, options).map(|shared| shared.id)
}
