//! Why a column cannot be read.

use std::path::PathBuf;

/// Why a column of other people's data cannot be read as HDF5.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not there, or the system refuses.
    #[error("{path}: {why}", path = .0.display(), why = .1)]
    System(PathBuf, #[source] std::io::Error),
    /// The file or object is broken.
    #[error("{0}: {1}")]
    Broken(String, String),
    /// The store is not there, or does not have the object.
    #[error("{0}: {1}")]
    Store(String, String),
    /// It has no such column.
    #[error("{0} has no column {1:?}; make the view again")]
    NoColumn(String, String),
    /// The column has become another one.
    #[error(
        "column {column:?} of {of} has {found} bytes of values, and the view was made when it \
             had {wanted}; make the view again"
    )]
    Changed {
        /// The file or object.
        of: String,
        /// The column.
        column: String,
        /// Bytes that the view counts on.
        wanted: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// HDF5 has nothing like its values.
    #[error("column {column:?} of {of}: {why}")]
    NotFlat {
        /// The file or object.
        of: String,
        /// The column.
        column: String,
        /// What it has.
        why: String,
    },
}
