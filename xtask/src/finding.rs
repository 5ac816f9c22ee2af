//! What a rule found.

use std::fmt;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root of the repository.
    pub(crate) path: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub(crate) line: usize,
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// What is wrong and, where that is not plain, what to do.
    pub(crate) message: String,
}

impl Finding {
    /// A finding at a line.
    pub(crate) fn at(
        path: &str,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }

    /// A finding about a whole file.
    pub(crate) fn of(path: &str, rule: &'static str, message: impl Into<String>) -> Self {
        Self::at(path, 0, rule, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}: {}", self.path, self.rule, self.message),
            line => write!(f, "{}:{line}: {}: {}", self.path, self.rule, self.message),
        }
    }
}
