//! By what to sort.

/// One column of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column's name.
    pub column: String,
    /// Largest first.
    pub descending: bool,
    /// Missing values before all others, whatever the direction.
    pub nulls_first: bool,
}

impl SortKey {
    /// A column, smallest first, missing values last.
    pub fn ascending(column: impl Into<String>) -> Self {
        Self { column: column.into(), descending: false, nulls_first: false }
    }

    /// A column, largest first, missing values last.
    pub fn descending(column: impl Into<String>) -> Self {
        Self { descending: true, ..Self::ascending(column) }
    }

    /// The same with missing values first.
    #[must_use]
    pub fn nulls_first(self) -> Self {
        Self { nulls_first: true, ..self }
    }
}
