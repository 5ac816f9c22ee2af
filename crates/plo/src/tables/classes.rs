//! The classes of objects.

use crate::columns::{ByteStrings, Lists, Word, word};

/// A class, as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class<'a> {
    /// One of [`crate::codes::source`].
    pub source: u8,
    /// One of [`crate::codes::make`].
    pub make: u8,
    /// Its name.
    pub name: &'a str,
    /// The version of a registered class.
    pub version: i32,
    /// The extension that holds a pickled one.
    pub ext: Option<usize>,
}

/// The classes, by column.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    pub(super) sources: Vec<u8>,
    pub(super) makes: Vec<u8>,
    pub(super) names: ByteStrings,
    pub(super) versions: Vec<Word>,
    pub(super) fields: Lists<()>,
    pub(super) field_names: ByteStrings,
    pub(super) exts: Vec<Word>,
}

impl Classes {
    /// Appends a class with the names of its attributes, and returns its number.
    pub fn push<'a>(
        &mut self,
        class: Class<'_>,
        fields: impl IntoIterator<Item = &'a [u8]>,
    ) -> usize {
        self.sources.push(class.source);
        self.makes.push(class.make);
        self.names.push(class.name.as_bytes());
        self.versions.push(class.version.to_le_bytes());
        for field in fields {
            self.field_names.push(field);
            self.fields.values.push(());
        }
        self.fields.end();
        self.exts.push(class.ext.map_or((-1i32).to_le_bytes(), word));
        self.sources.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}
