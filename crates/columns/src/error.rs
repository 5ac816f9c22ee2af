//! The errors of columns.

use arrow_schema::{ArrowError, DataType};
use plasmon_proto::Code;

/// Why something with Arrow data did not work, named by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused: its error has the remedy. What was appended before is still there.
    #[error(transparent)]
    Store(#[from] plasmon_client::Error),
    /// The Arrow data is broken, or does not have its declared type.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// Data of another type: convert it first.
    #[error("a builder of {wanted} does not take {found}; convert it first")]
    Type {
        /// The builder's type.
        wanted: String,
        /// The type that came.
        found: String,
    },
    /// No builder is made for this type: use the one that is named, and convert to it.
    #[error("there is no builder for {0}; use {instead}", instead = instead_of(.0))]
    Unsupported(DataType),
    /// The builder's type cannot hold so much: use the wider type that is named.
    #[error("{what} of a column of {data_type} exceed what that type can count; use {instead}")]
    Overflow {
        /// The quantity that is too large.
        what: &'static str,
        /// The builder's type.
        data_type: DataType,
        /// A type that can.
        instead: &'static str,
    },
    /// The columns of a table do not fit each other, or the schema.
    #[error("{0}")]
    Shape(String),
    /// The object holds a value that is not a table: get it as what it is.
    #[error("object {id} holds {found}, not a table: get it as what it is")]
    NoTable {
        /// The object.
        id: plasmon_proto::ObjectId,
        /// What it holds.
        found: &'static str,
    },
    /// The object holds broken data.
    #[error("object {id} cannot be read as Arrow data: {detail}")]
    Corrupt {
        /// The object.
        id: plasmon_proto::ObjectId,
        /// What is wrong.
        detail: String,
    },
}

/// The type to build in place of one that has no builder.
fn instead_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Utf8View => "utf8 or large_utf8",
        DataType::BinaryView => "binary or large_binary",
        DataType::ListView(_) => "list",
        DataType::LargeListView(_) => "large_list",
        DataType::Union(..) => "a struct with a field for each of its types",
        DataType::RunEndEncoded(..) => "the type of its values",
        DataType::Dictionary(..) => "the type of its values, or values that are not nested",
        _ => "another type",
    }
}

/// The result of something with Arrow data.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Arrow(_) | Self::Type { .. } | Self::Shape(_) | Self::NoTable { .. } => {
                Code::BadRequest
            }
            Self::Unsupported(_) => Code::Unsupported,
            Self::Overflow { .. } => Code::LimitReached,
            Self::Corrupt { .. } => Code::Corrupt,
        }
    }

    /// Data of another type came than the builder has.
    pub(crate) fn mismatch(wanted: &DataType, found: impl std::fmt::Display) -> Self {
        Self::Type { wanted: wanted.to_string(), found: found.to_string() }
    }
}
