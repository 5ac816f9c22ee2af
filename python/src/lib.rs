//! The Python module of Plasmon: `plasmon._native`.
//!
//! The classes that are on a hot path live here and are used directly: [`store::Store`],
//! [`buffer::Buffer`], [`writer::Writer`], [`id::Id`]. What is rare (asyncio, data classes, the
//! exception tree, the choice of an encoding for a value) is written in Python, in the package
//! `plasmon` around this module.
//!
//! ```text
//! plasmon.Store (Python: asyncio, data classes)
//!    └─ _native.Store ─ put ─► put::Put ── bytes ──────────► one copy into the store
//!         │                     ├─────── numpy array ─────► numpy.rs (header, one copy)
//!         │                     └─────── anything else ───► plasmon._codecs ─► Put.array, .arrow
//!         └──────────── get ─► buffer::Buffer ── bytes and numpy arrays here, the rest in _values
//! ```
//!
//! Rules that hold everywhere in this crate: a call that can wait runs detached from the
//! interpreter; a lock is never held while attaching to it; memory is lent out only under a count
//! that keeps the object pinned ([`buffer::Export`]).
//!
//! # The package
//!
//! * `plasmon.Store` (Python) extends `_native.Store` (Rust). `get`, `put`, `get_buffer(s)`,
//!   `states`, `wait` are native; a get that finds its object in memory runs no Python code.
//!   `plasmon.start()` gives a `Daemon`; as a context manager it gives a connected `Store` and
//!   stops the daemon at the end.
//! * `Buffer` counts the views of its memory (`Export`, buffer protocol); `release()` is refused
//!   meanwhile. NumPy arrays that only hold a reference mark it as lent. `Writer` likewise counts
//!   views; `seal(force=True)` seals under live views and keeps pin and mapping until they are
//!   gone.
//! * What a value is, is decided in `_value_kinds.py`; its bytes are described by the value header
//!   in `crates/proto::value` (docs/formats/values.md), which all bindings use. `tag=` of `put`
//!   and `create` names the kind of bytes that the caller lays out.
//! * Waits run in steps of 250 ms, detached from the interpreter, so that Ctrl-C works and no lock
//!   is held while attaching.
//! * Limits of waits. A get without `timeout=` or `wait=True`, and everything built on one (`sort`,
//!   `Sorted`, HDF5's reads, sealing under views), does not wait for objects: `request_timeout`,
//!   60 s, is for the daemon's answer alone. Spilled objects come back within another 60 s. `put`,
//!   `create`, builders and `ingest` find room now or within `timeout=`; Spark's calls within
//!   `timeoutMs`. `connect` and `start` have timeouts, and a broken connection is restored within
//!   `reconnect_timeout`. Values passed between processes arrive within `RECEIVE_TIMEOUT_S`. Only
//!   these wait without a limit: `wait=True`, `wait()`, `wait_async()`, a subscription,
//!   `plasmon get --wait`, `plasmon watch`, `PLASMON_FOREVER`, and `plasmon.plasma`, as Plasma did.
//!
//! # Plasma's API
//!
//! A Plasma client is one exact connection (`ConnectOptions::exact`): nothing is carved from
//! leases, so the capacity is exact, and the last release of a pinned object writes a touch, so the
//! order of eviction is that of releases. What it needs beyond the rest:
//!
//! * `Request::DeleteUnused`: the object stays in sight until its last pin is gone. The store
//!   counts pins again before it answers any request, and 20 ms after the last look.
//! * `Request::Share`: the objects of a client are evicted for its own new ones only. It ends with
//!   the session.
//! * settings `count_content` (the capacity counts data and metadata, the memory may take twice as
//!   much) and `spill_cache` (objects with policy cache are spilled instead of evicted): how
//!   `plasma_store` starts the daemon, without a keeper.
//! * `_native.Lending`: memory lent out with a function to call when no view is left, after the pin
//!   is gone. One lies between each object in use and all its buffers, so a client pins an object
//!   once for any number of buffers.

mod adoption;
mod arguments;
mod arrow_read;
mod buffer;
mod columns;
mod describe;
mod dlpack;
mod error;
mod event_wait;
mod external_sort;
mod header;
mod id;
mod interrupt;
mod layout;
mod loan;
mod near;
mod numpy;
mod part;
mod pool;
mod pool_delete;
mod pool_parts;
mod pool_regions;
mod pool_verify;
mod pools;
mod process;
mod protocols;
mod put;
mod put_many;
mod scope;
mod settle;
mod sort_errors;
mod sort_into;
mod sort_room;
mod sorting;
mod store;
mod subscription;
mod text_files;
mod wait;
mod writer;

use pyo3::prelude::*;

/// The compiled half of the package `plasmon`.
// Nothing here is made for threads that run Python at once; `plasmon_cpython` refuses such builds.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::adoption::{adopt, end_adoption};
    #[pymodule_export]
    use crate::arrow_read::read_arrow;
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::columns::{Columns, kinds_of};
    #[pymodule_export]
    use crate::event_wait::PendingWait;
    #[pymodule_export]
    use crate::external_sort::sort_spilling;
    #[pymodule_export]
    use crate::id::Id;
    #[pymodule_export]
    use crate::loan::LentMemory;
    #[pymodule_export]
    use crate::part::Part;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::pool_delete::delete_and_wait;
    #[pymodule_export]
    use crate::pool_parts::PoolParts;
    #[pymodule_export]
    use crate::pool_regions::PoolRegions;
    #[pymodule_export]
    use crate::pool_verify::{pool_compare, pool_verify};
    #[pymodule_export]
    use crate::process::{default_socket, start_daemon, this_process};
    #[pymodule_export]
    use crate::put::Put;
    #[pymodule_export]
    use crate::put_many::put_many;
    #[pymodule_export]
    use crate::scope::Scope;
    #[pymodule_export]
    use crate::settle::settle;
    #[pymodule_export]
    use crate::sort_into::{Unpublished, sort_into};
    #[pymodule_export]
    use crate::sort_room::plan_sort;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::subscription::Subscription;
    #[pymodule_export]
    use crate::text_files::{TextFile, open_text_files};
    #[pymodule_export]
    use crate::writer::Writer;
    #[pymodule_export]
    use plasmon_python_objects::context::{Context, Strategy};
    #[pymodule_export]
    use plasmon_python_objects::heap::LentPiece;
    #[pymodule_export]
    use plasmon_python_objects::memory::Block;
    #[pymodule_export]
    use plasmon_python_objects::serialized::Serialized;
    #[pymodule_export]
    use plasmon_python_objects::stream::ArrowStream;
    #[pymodule_export]
    use plasmon_python_objects::{dumps, loads, object_nbytes, serialize};

    use plasmon_client::{Code, tag};
    use plasmon_proto::limits;
    use plasmon_proto::settings::SETTINGS;
    use plasmon_proto::value::{array_kind, table_kind};
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    /// Hands the tables that are declared once in Rust to Python.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let codes: Vec<_> =
            Code::ALL.iter().map(|code| (code.number(), code.key(), code.advice())).collect();
        module.add("CODES", codes)?;
        let settings: Vec<_> =
            SETTINGS.iter().map(|setting| (setting.key, setting.default, setting.doc)).collect();
        module.add("SETTINGS", settings)?;
        let constants = [
            ("LARGE_OBJECT_BYTES", limits::LARGE_OBJECT_BYTES),
            ("METADATA_BYTES_MAX", limits::METADATA_BYTES_MAX),
            ("NAMESPACE_BYTES_MAX", limits::NAMESPACE_BYTES_MAX as u64),
            ("NAME_BYTES_MAX", limits::NAME_BYTES_MAX as u64),
            ("OBJECT_ALIGN", limits::OBJECT_ALIGN),
            ("OBJECT_BYTES_MAX", limits::OBJECT_BYTES_MAX),
            ("PINS_PER_CLIENT_MAX", limits::PINS_PER_CLIENT_MAX as u64),
            ("SCOPE_IDS_MAX", limits::SCOPE_IDS_MAX as u64),
        ];
        let limits = PyDict::new(py);
        for (name, value) in constants {
            limits.set_item(name, value)?;
        }
        module.add("LIMITS", limits)?;
        let numbers = [
            ("TAG_RAW", tag::RAW),
            ("TAG_ARROW_STREAM", tag::ARROW_STREAM),
            ("TAG_NDARRAY", tag::NDARRAY),
            ("TAG_PYTHON", tag::PYTHON),
            ("TAG_COMPOSITE", tag::COMPOSITE),
            ("ARRAY_NUMPY", array_kind::NUMPY),
            ("ARRAY_MEMORYVIEW", array_kind::MEMORYVIEW),
            ("ARRAY_ARROW_BUFFER", array_kind::ARROW_BUFFER),
            ("ARRAY_ARROW_TENSOR", array_kind::ARROW_TENSOR),
            ("TABLE_TABLE", table_kind::TABLE),
            ("TABLE_RECORD_BATCH", table_kind::RECORD_BATCH),
            ("TABLE_ARRAY", table_kind::ARRAY),
            ("TABLE_CHUNKED_ARRAY", table_kind::CHUNKED_ARRAY),
            ("TABLE_PANDAS_FRAME", table_kind::PANDAS_FRAME),
            ("TABLE_PANDAS_SERIES", table_kind::PANDAS_SERIES),
            ("TABLE_POLARS_FRAME", table_kind::POLARS_FRAME),
            ("TABLE_POLARS_SERIES", table_kind::POLARS_SERIES),
        ];
        numbers.iter().try_for_each(|(name, value)| module.add(*name, *value))
    }
}
