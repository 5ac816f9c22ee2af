//! Why a transfer ends early.

use std::io;

/// Why a transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The system refuses.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The types cannot be converted.
    #[error("{0}")]
    Conversion(String),
    /// The runs do not lie within the memory; our own mistake.
    #[error("a run of elements lies outside of the memory")]
    Outside,
}
