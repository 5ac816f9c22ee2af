//! Buffers in the store for allocators of other libraries: the base of a memory pool of Arrow.
//!
//! ```text
//!              < own_bytes_min                    >= own_bytes_min
//! allocate ──► a spot in a region (slabs)         a growing object of its own
//! reallocate   in place, while there is room      in place, unless little is left of it
//!              else moved: to its own object when it is not small
//! free         a hole                             idle: warm for the next, or for others
//! share        published where it lies            sealed where it lies
//! ```
//!
//! A [`Pool`] gives out addresses and knows what lies at each. [`Pool::share`] makes a composite
//! object of Arrow data whose buffers lie in it, without a copy: the buffers become members, and
//! stay readable here until they are freed, because the pool pins what it shared. A buffer that was
//! shared is not written any more, as Arrow promises of every buffer that is part of an array.
//!
//! A forked child can neither allocate nor share with its parent's pool; what it frees is the
//! parent's and stays.

mod allocation;
mod blocks;
mod share;
mod slabs;
mod stats;

pub use allocation::Pool;
pub use share::ShareOutcome;
pub use stats::PoolStats;
