//! The checks of untrusted bytes before they become arrays.

use arrow_array::RecordBatch;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, SchemaRef};
use plasmon_client::Level;

/// Makes an array of its parts, checking as much as is due.
pub type Builder<'a> =
    dyn FnMut(ArrayDataBuilder) -> std::result::Result<ArrayData, ArrowError> + 'a;

/// A table as its schema and batches.
pub type Batches = (SchemaRef, Vec<RecordBatch>);

/// The checks of untrusted bytes before they become arrays.
pub struct Checks<'a> {
    /// Makes the arrays: [`ArrayDataBuilder::build`], or less where the writer can be trusted.
    pub build: Box<Builder<'a>>,
    /// Whether the bytes can still be changed by a writer that is not trusted: then what is checked
    /// is copied before, so that what was checked is what is used.
    pub copy: bool,
}

impl Checks<'_> {
    /// Everything is checked, in place: the bytes cannot change any more, or only by processes
    /// that are trusted.
    pub fn all() -> Checks<'static> {
        Checks { build: Box::new(ArrayDataBuilder::build), copy: false }
    }

    /// Everything is checked, as the level of the store needs it: at [`Level::Leased`] another
    /// user's process may still write into what it sealed.
    pub fn at(level: Level) -> Checks<'static> {
        Checks { copy: level == Level::Leased, ..Checks::all() }
    }
}

impl std::fmt::Debug for Checks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks").field("copy", &self.copy).finish_non_exhaustive()
    }
}
