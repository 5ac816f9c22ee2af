//! Tables in files of text: CSV and JSON, also compressed.
//!
//! The command and the Python package read these files with this crate, so a file is the same
//! table for both.
//!
//! ```text
//! TextFile::open ─► columns: all of it is read, each value decides its column's type
//!        │             │  merged with those of other files of the same table
//!        └─────────► rows: read again, batch by batch, as the types that were found
//! ```
//!
//! An input that cannot be read twice, such as a pipe, is kept in an unnamed file meanwhile.
//! Memory is bounded by a batch and the longest row.
//!
//! ```
//! use plasmon_files::{Compression, TextFile, TextFormat};
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("sales.csv");
//! std::fs::write(&path, "city,price\nBern,\nRome,1.5\n")?;
//! let file = TextFile::open(&path, TextFormat::Csv { delimiter: b',' }, Compression::Plain)?;
//! let schema = std::sync::Arc::new(file.columns()?.schema());
//! let rows: Vec<_> = file.rows(&schema, 1 << 16)?.collect::<Result<_, _>>()?;
//! assert_eq!((rows[0].num_rows(), rows[0].column(1).null_count()), (2, 1));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod compression;
mod csv;
mod error;
mod json_types;
mod text_file;

pub use compression::{CompressingWriter, Compression};
pub use error::{Error, Result};
pub use text_file::{Columns, TextFile, TextFormat, TextRows};
