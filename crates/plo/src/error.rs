//! The errors of objects.

/// Why bytes are not an object, or a value cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes don't start like an object, or like one of a version that this reader knows.
    #[error("these bytes are not an object in the PLO format (version 1): they {0}")]
    NotAnObject(&'static str),
    /// The bytes end before the object does.
    #[error("the object is cut off: it has {wanted} bytes, and {found} are there")]
    Truncated {
        /// How long the object is.
        wanted: u64,
        /// How many bytes there are.
        found: u64,
    },
    /// A rule of the format is broken.
    #[error("the object is broken: {what} at {at}")]
    Broken {
        /// The rule.
        what: &'static str,
        /// The entry that breaks it, or the number that is wrong.
        at: u64,
    },
    /// A value is past a limit of the format.
    #[error("the value is too large for one object: {found} {what}, {most} at most")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        most: u64,
    },
}

impl Error {
    /// The stable name of what is wrong: section 8 of `spec/objects.md`, the same in every reader.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAnObject(_) => "not_an_object",
            Self::Truncated { .. } => "truncated",
            Self::Broken { .. } => "broken",
            Self::TooLarge { .. } => "too_large",
        }
    }
}

/// The outcome of reading or laying out an object.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a broken rule.
pub(crate) fn broken<T>(what: &'static str, at: impl TryInto<u64>) -> Result<T> {
    Err(Error::Broken { what, at: at.try_into().unwrap_or(u64::MAX) })
}
