//! HDF5 datasets in the store: written in place, sealed as tables, read where they lie.
//!
//! ```text
//! make ──► draft (memory of the store, ours alone) ──commit──► sealed, under its name
//!             ▲                                                   │
//!             └──── the first write after that: a new version ◄───┘
//! ```
//!
//! Writing copies into warm shared memory. What is sealed is an ordinary table of the store: any
//! process gets it by its name and copies nothing. All handles of one process on a dataset share
//! one [`Dataset`], so that they agree while it is not sealed.
//!
//! Deliberately absent: HDF5, and which file a dataset is in.

#![forbid(unsafe_code)]

mod coverage;
mod dataset;
mod error;
mod object;
mod registry;
pub mod views;

pub use dataset::Dataset;
pub use error::Error;
pub use registry::{
    DatasetKey, copy, default_socket, known, make, open, remove, rename, rename_back, store,
};
