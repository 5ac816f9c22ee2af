//! The binding for Java: what `org.plasmon.shuffle.NativeStore` declares as native.
//!
//! ```text
//! connect ──► store (never freed, see below)
//!               ├─ create ──► writer ── memory ──► direct ByteBuffer ── seal │ abort: writer freed
//!               └─ open ────► direct ByteBuffer and pin ── release: pin freed
//! ```
//!
//! Stores, writers and pins are Rust values that Java holds by number. Java's classes own them:
//! each frees what it holds once, and no `ByteBuffer` of it outlives it. A store is only
//! disconnected, never freed, because threads of a stopping executor may still be in a call; there
//! is one for each Spark application, so a few hundred bytes are leaked.
//!
//! Every function catches panics and turns errors into a `StoreException` with the stable key of
//! the error's code. All may be called from any thread. Deliberately absent: any knowledge of what
//! the bytes mean; only the names of a shuffle's objects are made here, so that opening one passes
//! numbers and no strings.
//!
//! # Spark's shuffle
//!
//! * `org.plasmon.shuffle` knows the store and no Spark, `org.apache.spark.shuffle.plasmon` knows
//!   Spark; `RunLayout` and `shuffle_store.rs` are the two places that know bytes and names. Every
//!   native function ends in `boundary::run`, which turns errors and panics into
//!   `StoreException` with the code's key.
//! * A `Writer` or a `Pin` of Java's owns one Rust value and gives it back once. Their buffers may
//!   be used until then; `Blocks` holds a lock over every use, because Spark reads for Python in a
//!   thread that may outlive the task.
//! * In a pool a run's id is that of its name on the node that made it, and `MapStatus` has that
//!   node's slot. `OutputReaders` reads runs of this node in place, and those of others through
//!   `RemoteOutputs`, which gathers indexes and sections (docs/adr/0114).
//! * The driver tells executors socket, namespace and machine through `spark.plasmon.internal.*`,
//!   which it sets in the configuration before executors ask for it. On 3.5 the manager is made
//!   before `ShuffleDataIO`, from 4.0 on after it, so the manager alone starts and ends the store.
//! * `StoreException.isLoss` decides between a failed fetch (Spark runs the map task again) and a
//!   failed task (it tries the reduce task again).

mod boundary;
pub mod exports;
pub mod gather;
pub mod pool;
mod shuffle_store;

pub use shuffle_store::ShuffleStore;
