//! HDF5's C interface as a plugin sees it.
//!
//! Nothing here links to libhdf5. A process may hold several copies of it (the wheels of h5py,
//! PyTables and netCDF4 bring one each), so the functions are looked up in the very copy that
//! loads the plugin:
//!
//! ```text
//! H5PLget_plugin_info ── return address ─► Library::of_address ─► Api::load
//!                                          (dladdr, dlopen)       (dlsym of each function)
//! ```
//!
//! MPI is found the same way, through a libhdf5 that was built with it (`mpi`).
//!
//! The declarations hold for HDF5 1.14.3 to 2.2: the class of a connector has version 3 in all of
//! them. They were written from HDF5's documentation of its interface; what the connector only
//! passes on is an opaque pointer here.

#![expect(missing_debug_implementations, reason = "mirrors of C structures have nothing to show")]

pub mod api;
pub mod arguments;
pub mod class;
pub mod library;
pub mod mpi;
pub mod types;

pub use api::Api;
pub use class::VolClass;
pub use library::{Library, program_symbol};
pub use mpi::Mpi;
pub use types::*;
