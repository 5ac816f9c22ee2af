//! The errors of files.

use std::io;

use arrow_schema::{ArrowError, DataType};

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The caller stopped the reading.
    #[error("reading was interrupted")]
    Interrupted,
    /// The delimiter takes more than a byte.
    #[error("the delimiter must be a single ASCII character")]
    Delimiter,
    /// There is nothing in it.
    #[error("it is empty, and a CSV file begins with a line that names the columns")]
    Empty,
    /// The first line has nothing but blanks.
    #[error("its first line is blank, and that line names the columns of a CSV file")]
    BlankHead,
    /// Another delimiter would split the first line.
    #[error(
        "its first line {head:?} has {found} {word}{} and no {}: give --delimiter {flag} if that \
         is what separates the columns (delimiter={other:?} in Python)",
        if *found == 1 { "" } else { "s" },
        if *delimiter == ',' { "comma".to_owned() } else { format!("{delimiter:?}") }
    )]
    OtherDelimiter {
        /// The beginning of the first line.
        head: String,
        /// How many of the other there are.
        found: usize,
        /// The other in words.
        word: &'static str,
        /// The other as the command takes it.
        flag: &'static str,
        /// The other.
        other: char,
        /// The one that was looked for.
        delimiter: char,
    },
    /// A record has more or fewer fields than there are columns.
    #[error("line {line} has {found} fields, and the first line names {wanted} columns")]
    Fields {
        /// Where the record begins.
        line: u64,
        /// How many columns there are.
        wanted: usize,
        /// How many fields the record has.
        found: usize,
    },
    /// A quote is never closed.
    #[error("the record that begins in line {line} has a quote that is not closed")]
    OpenQuote {
        /// Where the record begins.
        line: u64,
    },
    /// A record is too long.
    #[error(
        "the record that begins in line {line} is longer than {most} bytes: is a quote not closed?"
    )]
    LongRecord {
        /// Where the record begins.
        line: u64,
        /// The limit.
        most: u64,
    },
    /// A value is not of the type of its column. All values were looked at before.
    #[error(
        "line {line}, column {column:?}: {value:?} is not {data_type}, the type that the column \
         had before: the file changed while it was read"
    )]
    Value {
        /// Where the record begins.
        line: u64,
        /// The column's name.
        column: String,
        /// The beginning of the value.
        value: String,
        /// The column's type.
        data_type: DataType,
    },
    /// A text is not in UTF-8.
    #[error("line {line}, column {column:?}: the string is not UTF-8: write the file in UTF-8")]
    Encoding {
        /// Where the record begins.
        line: u64,
        /// The column's name.
        column: String,
    },
    /// The names of the columns are not in UTF-8.
    #[error("its first line is not UTF-8: write the file in UTF-8")]
    HeadEncoding,
    /// JSON is malformed, or rows do not fit each other.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// JSON without rows.
    #[error("it has no rows, so it names no columns")]
    NoRows,
    /// Rows of JSON files that are read as one table do not fit each other.
    #[error("{detail}, the other file")]
    OtherTypes {
        /// Which column is what.
        detail: String,
    },
    /// Files that are read as one table have other columns.
    #[error("the names of its columns differ")]
    OtherColumns,
    /// Arrow refused the rows.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        match error {
            Error::Arrow(error) => error,
            Error::Io(error) => Self::IoError(error.to_string(), error),
            error => Self::ExternalError(Box::new(error)),
        }
    }
}

/// The error of a reader that its caller stopped.
#[derive(Debug, thiserror::Error)]
#[error("reading was interrupted")]
pub(crate) struct Interrupt;

impl Error {
    /// Whether it is an [`Interrupt`], however the error was passed on.
    pub(crate) fn is_interrupt(&self) -> bool {
        match self {
            Self::Io(error) => error.get_ref().is_some_and(|inner| inner.is::<Interrupt>()),
            // Its source is hidden.
            Self::Json(error) => {
                error.is_io() && error.to_string().contains(&Interrupt.to_string())
            }
            _ => false,
        }
    }
}
