//! The keys by which the classes of an object that is being written are distinguished.

use std::collections::HashMap;

use plasmon_plo::codes::make;
use pyo3::ffi;

use super::raw::Ptr;

/// What distinguishes the classes of an object: a callable, what is done with it, and the names of
/// attributes by their addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClassKey {
    callable: Ptr,
    make: u8,
    fields: Vec<Ptr>,
}

impl ClassKey {
    /// Objects of a class that consist of attributes.
    pub(super) fn attributes(class: *mut ffi::PyTypeObject, fields: Vec<Ptr>) -> Self {
        Self { callable: class.cast(), make: make::ATTRIBUTES, fields }
    }

    /// Objects that are made by a callable, which the encoder holds on to.
    pub(super) fn made_by(callable: Ptr, make: u8) -> Self {
        Self { callable, make, fields: Vec::new() }
    }

    /// The callable that makes its objects.
    pub(super) fn callable(&self) -> Ptr {
        self.callable
    }

    /// How the callable is used.
    pub(super) fn make(&self) -> u8 {
        self.make
    }

    /// The names of its attributes.
    pub(super) fn fields(&self) -> &[Ptr] {
        &self.fields
    }

    /// Its parts.
    pub(super) fn objects(&self) -> impl Iterator<Item = Ptr> {
        std::iter::once(self.callable).chain(self.fields.iter().copied())
    }
}

/// The classes that were met, with their numbers.
#[derive(Debug, Default)]
pub(super) struct Classes {
    known: Option<HashMap<ClassKey, usize>>,
    /// The last one, as most objects are of the class of the one before.
    last: Option<(ClassKey, usize)>,
}

impl Classes {
    /// The objects that the classes are known by.
    pub(super) fn objects(&self) -> impl Iterator<Item = Ptr> {
        self.known.iter().flat_map(HashMap::keys).flat_map(ClassKey::objects)
    }

    /// The number of the class that was met last, if it is this one.
    pub(super) fn last(&self, key: &ClassKey) -> Option<usize> {
        self.last.as_ref().filter(|(last, _)| last == key).map(|(_, number)| *number)
    }

    /// The number of a class that was met.
    pub(super) fn number(&self, key: &ClassKey) -> Option<usize> {
        self.known.as_ref()?.get(key).copied()
    }

    /// Notes the number of the class that was met last.
    pub(super) fn note(&mut self, key: ClassKey, number: usize) {
        self.known.get_or_insert_default().insert(key.clone(), number);
        self.last = Some((key, number));
    }
}
