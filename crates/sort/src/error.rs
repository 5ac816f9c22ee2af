//! Errors, by what the caller can do about them.

use arrow_schema::{ArrowError, DataType};

/// Why a table was not sorted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing to sort by.
    #[error("no column to sort by was given: name at least one")]
    NoKeys,
    /// A key names a column that the table does not have.
    #[error("the table has no column \"{wanted}\"; it has {found}")]
    NoColumn {
        /// The name that was asked for.
        wanted: String,
        /// The names that there are.
        found: String,
    },
    /// A name that several columns of the table have.
    #[error("the table has several columns \"{0}\": rename all but one of them")]
    Ambiguous(String),
    /// A column whose values have no order.
    #[error("column \"{column}\" of type {data_type} has no order: sort by another column")]
    NoOrder {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A number of partitions that cannot be made.
    #[error("{wanted} partitions were asked for; 1 to {limit} can be made")]
    Partitions {
        /// How many were asked for.
        wanted: usize,
        /// How many can be made.
        limit: usize,
    },
    /// A table with more rows than one sort takes.
    #[error("{found} rows are more than the {limit} of one table: sort it in partitions")]
    Rows {
        /// How many rows there are.
        found: u64,
        /// How many one sort takes.
        limit: u64,
    },
    /// Text of one partition that its type cannot address.
    #[error(
        "column \"{column}\" has {found} bytes in one partition, more than {data_type} can \
         address: ask for more partitions, or use its large form"
    )]
    Bytes {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// Bytes in the partition.
        found: u64,
    },
    /// A column that Arrow's kernels cannot put in order.
    #[error("column \"{column}\" cannot be put in order: {source}; ask for more partitions")]
    Column {
        /// The column.
        column: String,
        /// Why not.
        source: ArrowError,
    },
    /// Dictionaries that cannot be made one.
    #[error(
        "the dictionaries of column \"{column}\" cannot be made one: {source}; sort the column as \
         plain values, without a dictionary"
    )]
    Dictionary {
        /// The column.
        column: String,
        /// Why not.
        source: ArrowError,
    },
    /// Dictionaries that do not fit the memory for an external sort.
    #[error(
        "the dictionaries of column \"{column}\" together take {found} bytes, more than half of \
         the {limit} bytes of memory for the sort: give more memory, or sort the column as plain \
         values, without a dictionary"
    )]
    DictionaryBytes {
        /// The column that takes most.
        column: String,
        /// What they take.
        found: u64,
        /// The memory that was given.
        limit: u64,
    },
    /// Partitions that the memory for an external sort cannot hold.
    #[error(
        "{wanted} partitions of {found} bytes would need {needed} bytes of memory each, and there \
         are {limit}: ask for {least} partitions or more, or give more memory"
    )]
    Few {
        /// How many were asked for.
        wanted: usize,
        /// Bytes of all rows.
        found: u64,
        /// What one partition would take.
        needed: u64,
        /// The memory that was given.
        limit: u64,
        /// How many partitions are enough.
        least: u64,
    },
    /// A scratch file for which the file system has no room.
    #[error(
        "the scratch file in {folder} needs {wanted} bytes or more, and its file system has room \
         for {found}: free some there, or name a folder of another file system"
    )]
    ScratchFull {
        /// Where it is.
        folder: String,
        /// What it needs at least, with what it has.
        wanted: u64,
        /// What it can have.
        found: u64,
    },
    /// A scratch file that would be larger than the caller allows.
    #[error(
        "the scratch file in {folder} needs {wanted} bytes or more, and the limit that was given \
         is {limit}: raise it, or give more memory"
    )]
    ScratchLimit {
        /// Where it is.
        folder: String,
        /// What it needs at least.
        wanted: u64,
        /// What it may have.
        limit: u64,
    },
    /// The scratch file of an external sort.
    #[error("the scratch file in {folder}: {source}")]
    Scratch {
        /// Where it is.
        folder: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The caller asked to stop.
    #[error("the sort was cancelled")]
    Cancelled,
    /// Arrow data that cannot be read or made.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The caller could not provide the memory for a partition.
    #[error("no memory for a sorted partition of {bytes} bytes: {source}")]
    Memory {
        /// How much was asked for.
        bytes: u64,
        /// Why there was none.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
