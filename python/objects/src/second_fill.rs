//! Dicts and sets that are filled twice.
//!
//! A key may be an object that gets its state later, because the state refers back to the dict. Its
//! hash is unknown until then, or another one than it will be. Such a dict is filled in its turn
//! all the same, as pickle does it: what is made next may copy it, or take its items. At the end,
//! when everything has its state, it is emptied and filled again, and every key is where its hash
//! says.
//!
//! ```text
//! in its turn: filled ─────────────────────────────┐
//!              └─ a hash fails: as far as it went ─┴─► at the end: filled again, or that error
//!                   └─ something is called with it: that error
//! ```

use std::collections::HashSet;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::errors::no_key;
use super::owned::{OwnedReference, OwnedReferences};
use super::raw::Ptr;

/// A dict or a set, and what belongs into it.
struct PendingContainer {
    object: OwnedReference,
    keys: OwnedReferences,
    /// Of a dict.
    values: Option<OwnedReferences>,
    /// Why it is not filled.
    error: Option<PyErr>,
}

impl PendingContainer {
    /// Fills it.
    fn fill(&self, py: Python<'_>) -> PyResult<()> {
        let object = self.object.0;
        for (at, key) in self.keys.0.iter().enumerate() {
            // SAFETY: a dict or a set and objects, all alive.
            let outcome = unsafe {
                match &self.values {
                    Some(values) => ffi::PyDict_SetItem(object, *key, values.0[at]),
                    None => ffi::PySet_Add(object, *key),
                }
            };
            if outcome != 0 {
                return Err(no_key(py));
            }
        }
        Ok(())
    }
}

/// The dicts and sets that are filled again.
#[derive(Default)]
pub(super) struct SecondFill {
    expected: HashSet<u32>,
    waiting: Vec<PendingContainer>,
    /// Whether one of them is not filled.
    fails: bool,
}

impl SecondFill {
    /// Says which nodes they are.
    pub(super) fn expect(&mut self, nodes: &[u32]) {
        self.expected.extend(nodes);
    }

    /// Whether a node is one of them.
    #[inline]
    pub(super) fn expects(&self, node: usize) -> bool {
        !self.expected.is_empty() && self.expected.contains(&(node as u32))
    }

    fn error_of(&self, py: Python<'_>, object: Ptr) -> Option<PyErr> {
        let found = self.waiting.iter().find(|waiting| waiting.object.0 == object)?;
        found.error.as_ref().map(|error| error.clone_ref(py))
    }

    /// Fills a dict or a set in its turn, as far as its keys let it be. A dict has values.
    pub(super) fn fill_first(
        &mut self,
        py: Python<'_>,
        object: OwnedReference,
        keys: OwnedReferences,
        values: Option<OwnedReferences>,
    ) {
        let mut waiting = PendingContainer { object, keys, values, error: None };
        waiting.error = waiting.fill(py).err();
        self.fails |= waiting.error.is_some();
        self.waiting.push(waiting);
    }

    /// Fills them again, now that everything has its state.
    pub(super) fn fill_anew(&mut self, py: Python<'_>) -> PyResult<()> {
        for waiting in std::mem::take(&mut self.waiting) {
            let object = waiting.object.0;
            // SAFETY: a dict or a set, alive.
            let outcome = unsafe {
                if waiting.values.is_some() {
                    ffi::PyDict_Clear(object);
                    0
                } else {
                    ffi::PySet_Clear(object)
                }
            };
            if outcome != 0 {
                return Err(PyErr::fetch(py));
            }
            waiting.fill(py)?;
        }
        Ok(())
    }

    /// Refuses to call something with a dict or a set that lacks what belongs into it.
    pub(super) fn are_filled(&self, py: Python<'_>, parts: &[Bound<'_, PyAny>]) -> PyResult<()> {
        if !self.fails {
            return Ok(());
        }
        let of = |part: &Bound<'_, PyAny>| self.error_of(py, part.as_ptr());
        let error = parts.iter().find_map(|part| {
            let items = part.cast::<PyTuple>();
            of(part).or_else(|| items.ok()?.iter().find_map(|item| of(&item)))
        });
        error.map_or(Ok(()), Err)
    }
}
