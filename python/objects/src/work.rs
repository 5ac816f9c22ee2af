//! The pending work for each node of an object that is being written.

use super::class_key::ClassKey;
use super::raw::Ptr;

/// The pending work for a node.
#[derive(Debug, Default)]
pub(super) enum Work {
    /// Nothing: it was done, or is part of a row node.
    #[default]
    Done,
    /// A container or an object.
    Value(Ptr),
    /// Rows. Boxed, as fields are, because values are by far the most.
    Rows(Box<Rows>),
    /// One column of rows.
    Field(Box<Column>),
}

/// The values of one field of rows.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Vec<Ptr>,
    /// Whether the encoder holds them already.
    pub(super) held: bool,
}

/// The pending work for a row node.
#[derive(Debug)]
pub(super) enum Rows {
    /// Rows of dicts; the keys, and how many rows.
    Dicts { keys: Vec<Ptr>, rows: usize },
    /// Rows of tuples.
    Tuples { fields: usize, rows: usize },
    /// Rows of objects of a class.
    Objects { class: ClassKey, fields: usize, rows: usize },
}

impl Rows {
    /// The objects that it refers to.
    pub(super) fn objects(&self) -> Vec<Ptr> {
        match self {
            Self::Dicts { keys, .. } => keys.clone(),
            Self::Tuples { .. } => Vec::new(),
            Self::Objects { class, .. } => class.objects().collect(),
        }
    }
}
