//! Memory pools in the store: what `plasmon.memory_pool()` is made of.
//!
//! pyarrow's pools are C++ objects. Ours is made by a small extension that is built for the pyarrow
//! that is installed (`plasmon/_arrow_pool`); it gets the pool as a table of functions, the same
//! one as `plasmon_pool_api` in `plasmon.h`, in a capsule. So nothing of this module depends on
//! pyarrow's ABI, and the extension depends on nothing of this module but the table.
//!
//! Pools that exist are listed here, so that a put finds the one that a table's buffers lie in.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_client::{Code, Error, ObjectId, PutOptions};
use plasmon_columns::{Encoded, PoolStats};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::raised_by_columns;
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
        let pool = py.detach(|| plasmon_columns::Pool::new(client));
        let pool = Arc::new(pool.map_err(|error| raised_by_columns(py, POOLING, error))?);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        Ok(Self { pool })
    }

    /// The pool as a table of functions for C and C++: a capsule "plasmon_pool_api".
    fn api<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let pool = Arc::into_raw(Arc::clone(&self.pool));
        PyCapsule::new_with_value(py, PoolApi::of(pool), API)
    }

    /// What the pool has done so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let PoolStats {
            allocated_bytes,
            allocated_bytes_max,
            total_bytes,
            allocations,
            grown_in_place,
            moved,
            shared_bytes,
            copied_bytes,
            slab_bytes,
        } = self.pool.stats();
        let stats = PyDict::new(py);
        for (name, value) in [
            ("allocated_bytes", allocated_bytes),
            ("allocated_bytes_max", allocated_bytes_max),
            ("total_bytes", total_bytes),
            ("allocations", allocations),
            ("grown_in_place", grown_in_place),
            ("moved", moved),
            ("shared_bytes", shared_bytes),
            ("copied_bytes", copied_bytes),
            ("slab_bytes", slab_bytes),
        ] {
            stats.set_item(name, value)?;
        }
        Ok(stats)
    }

    /// Whether the buffer at this address lies in the pool.
    fn holds(&self, address: usize) -> bool {
        self.pool.holds(address)
    }
}

/// Shares a table whose buffers lie mostly in a pool of this store; `None` if they do not, and it
/// is to be copied as a whole.
pub(crate) fn share(
    store: &plasmon_client::Store,
    (schema, batches): (&SchemaRef, &[RecordBatch]),
    (kind, text): (u8, &str),
    options: &PutOptions,
) -> Option<plasmon_client::Result<ObjectId>> {
    let pools: Vec<_> = {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).collect()
    };
    let mut pools = pools.iter().filter(|pool| pool.store().socket() == store.socket()).peekable();
    // A strict object is written by its writer alone: a copy.
    if options.strict || pools.peek().is_none() {
        return None;
    }
    // What cannot be encoded is told, or done, by the way that copies.
    let stream = Encoded::of(schema, batches).ok()??;
    let pool = pools.find(|pool| pool.is_worth_sharing(&stream))?;
    Some(pool.share(&stream, kind, text, options).map(|shared| shared.id).map_err(in_client))
}

fn in_client(error: plasmon_columns::Error) -> Error {
    match error {
        plasmon_columns::Error::Store(error) => error,
        other => Error::new(other.code(), "sharing a table").with_detail(other.to_string()),
    }
}

/// A pool as C sees it: `plasmon_pool_api` in `plasmon.h`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct PoolApi {
    size: usize,
    pool: *mut c_void,
    allocate: unsafe extern "C" fn(*mut c_void, i64, *mut *mut u8) -> c_int,
    reallocate: unsafe extern "C" fn(*mut c_void, i64, *mut *mut u8) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, *mut u8),
    release_unused: unsafe extern "C" fn(*mut c_void),
    figures: unsafe extern "C" fn(*mut c_void, *mut PoolFigures),
    retain: unsafe extern "C" fn(*mut c_void),
    close: unsafe extern "C" fn(*mut c_void),
}

/// `plasmon_pool_figures` in `plasmon.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolFigures {
    allocated_bytes: i64,
    allocated_bytes_max: i64,
    total_bytes: i64,
    allocations: i64,
}

// SAFETY: the table is immutable, and the pool that it points to is Sync.
unsafe impl Send for PoolApi {}

impl PoolApi {
    /// The table of a pool, with one reference of its own.
    fn of(pool: *const plasmon_columns::Pool) -> Self {
        Self {
            size: size_of::<Self>(),
            pool: pool.cast_mut().cast(),
            allocate,
            reallocate,
            release,
            release_unused,
            figures,
            retain,
            close,
        }
    }
}

impl Drop for PoolApi {
    fn drop(&mut self) {
        // SAFETY: the table has one reference of its own, which ends here.
        unsafe { close(self.pool) };
    }
}

/// The pool behind a table's pointer.
///
/// # Safety
///
/// `pool` comes from [`PoolApi::of`], and a reference to it is held.
unsafe fn pool<'a>(pool: *mut c_void) -> &'a plasmon_columns::Pool {
    // SAFETY: by this function's contract.
    unsafe { &*pool.cast_const().cast() }
}

/// Runs what must not unwind into C; a panic is an error of the operating system to it.
fn number(run: impl FnOnce() -> Result<(), plasmon_columns::Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => c_int::from(error.code().number()),
        Err(_) => c_int::from(Code::Io.number()),
    }
}

/// Allocates.
///
/// # Safety
///
/// As for [`pool`]; `out` is writable.
unsafe extern "C" fn allocate(this: *mut c_void, bytes: i64, out: *mut *mut u8) -> c_int {
    // SAFETY: by this function's contract.
    let pool = unsafe { pool(this) };
    number(|| {
        let address = pool.allocate(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        // SAFETY: by this function's contract.
        unsafe { *out = std::ptr::with_exposed_provenance_mut(address) };
        Ok(())
    })
}

/// Changes a size.
///
/// # Safety
///
/// As for [`pool`]; `inout` points to an address that the pool gave out and that is not freed.
unsafe extern "C" fn reallocate(this: *mut c_void, bytes: i64, inout: *mut *mut u8) -> c_int {
    // SAFETY: by this function's contract.
    let (pool, before) = unsafe { (pool(this), (*inout).addr()) };
    number(|| {
        let address = pool.reallocate(before, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        // SAFETY: by this function's contract.
        unsafe { *inout = std::ptr::with_exposed_provenance_mut(address) };
        Ok(())
    })
}

/// Frees.
///
/// # Safety
///
/// As for [`pool`]; the pool gave the address out.
unsafe extern "C" fn release(this: *mut c_void, address: *mut u8) {
    // SAFETY: by this function's contract.
    let pool = unsafe { pool(this) };
    number(|| {
        pool.free(address.addr());
        Ok(())
    });
}

/// Gives idle memory back.
///
/// # Safety
///
/// As for [`pool`].
unsafe extern "C" fn release_unused(this: *mut c_void) {
    // SAFETY: by this function's contract.
    let pool = unsafe { pool(this) };
    number(|| {
        pool.release_unused();
        Ok(())
    });
}

/// Tells figures.
///
/// # Safety
///
/// As for [`pool`]; `out` is writable.
unsafe extern "C" fn figures(this: *mut c_void, out: *mut PoolFigures) {
    // SAFETY: by this function's contract.
    let stats = unsafe { pool(this) }.stats();
    let figures = PoolFigures {
        allocated_bytes: stats.allocated_bytes as i64,
        allocated_bytes_max: stats.allocated_bytes_max as i64,
        total_bytes: stats.total_bytes as i64,
        allocations: stats.allocations as i64,
    };
    // SAFETY: by this function's contract.
    unsafe { *out = figures };
}

/// One more reference.
///
/// # Safety
///
/// As for [`pool`].
unsafe extern "C" fn retain(this: *mut c_void) {
    // SAFETY: the pointer came from `Arc::into_raw`, and the Arc is alive by the contract.
    unsafe { Arc::increment_strong_count(this.cast_const().cast::<plasmon_columns::Pool>()) };
}

/// One reference less.
///
/// # Safety
///
/// As for [`pool`]; the caller's reference ends.
unsafe extern "C" fn close(this: *mut c_void) {
    number(|| {
        // SAFETY: as for `retain`; the reference is the caller's to give up.
        unsafe { Arc::decrement_strong_count(this.cast_const().cast::<plasmon_columns::Pool>()) };
        Ok(())
    });
}
