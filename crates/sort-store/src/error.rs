//! Errors, by what the caller can do about them.

use plasmon_client::{Code, Name, ObjectId};
use plasmon_proto::id::BadName;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rows, the order, the scratch file, or the memory of a partition.
    #[error(transparent)]
    Sort(#[from] plasmon_sort::Error),
    /// What the store refused.
    #[error(transparent)]
    Store(#[from] plasmon_client::Error),
    /// The name of a partition is no name.
    #[error("the name of a partition is not valid: {0}")]
    Name(#[from] BadName),
    /// The name of a partition is in use.
    #[error("object \"{}\" exists already: choose another name, or delete the object", .name.text)]
    Exists {
        /// The name.
        name: Name,
        /// Its id.
        id: ObjectId,
    },
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What the store said, where the error is the store's.
    pub fn of_store(&self) -> Option<&plasmon_client::Error> {
        match self {
            Self::Store(error) => Some(error),
            Self::Sort(plasmon_sort::Error::Memory { source, .. }) => source.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the store had no room for the partitions.
    pub fn is_no_room(&self) -> bool {
        let no_room = [Code::StoreFull, Code::QuotaExceeded, Code::TooLarge];
        self.of_store().is_some_and(|error| no_room.contains(&error.code()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_found_at_any_depth() {
        let full = || plasmon_client::Error::new(Code::StoreFull, "creating an object");
        let memory = || plasmon_sort::Error::Memory { bytes: 1, source: full().into() };
        assert!(Error::from(full()).is_no_room());
        assert!(Error::from(memory()).is_no_room());
        let other = plasmon_client::Error::new(Code::Exists, "creating an object");
        assert!(!Error::from(other).is_no_room());
    }
}
