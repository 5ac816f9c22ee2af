//! Dicts and sets that are filled twice.
//!
//! A key may be an object that gets its state later, because the state refers back to the dict. Its
//! hash is unknown until then, or another one than it will be. Such a dict is filled in its turn
//! all the same, as pickle does it: what is made next may copy it, or take its items. At the end,
//! when everything has its state, it is emptied and filled anew, and every key is where its hash
//! says.
//!
//! ```text
//! in its turn: filled ─────────────────────────────┐
//!              └─ a hash fails: as far as it went ─┴─► at the end: filled anew, or that error
//!                   └─ something is called with it: that error
//! ```

use std::collections::HashSet;

use plasmon_plo::codes::kind;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::decode::{Decoder, NodeCopy, shared};
use super::owned::{One, Owned};
use super::raw::Ptr;

/// A dict or a set, and what belongs into it.
struct Waiting {
    object: One,
    keys: Owned,
    /// Of a dict.
    values: Option<Owned>,
    /// Why it is not filled.
    error: Option<PyErr>,
}

/// The dicts and sets that are filled anew.
#[derive(Default)]
pub(super) struct Again {
    expected: HashSet<u32>,
    waiting: Vec<Waiting>,
    /// Whether one of them is not filled.
    fails: bool,
}

impl Again {
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
}

impl<'py> Decoder<'_, 'py> {
    /// Fills a dict or a set in its turn, as far as its keys let it be.
    pub(super) fn first_filled(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { number, elem, start, elem2, start2, length, .. } = *node;
        let is_dict = node.kind == kind::DICT;
        let mut keys = Owned::nulls(length);
        self.fill(elem, start, &mut keys.0)?;
        let values = if is_dict {
            let mut values = Owned::nulls(length);
            self.fill(elem2, start2, &mut values.0)?;
            Some(values)
        } else {
            None
        };
        let mut object = self.empty(number);
        if object.is_null() {
            // SAFETY: attached; a set takes no items from null.
            object = self.made(unsafe {
                if is_dict { ffi::PyDict_New() } else { ffi::PySet_New(std::ptr::null_mut()) }
            })?;
            self.keep_built(number, object);
        }
        let mut waiting = Waiting { object: One(shared(object)), keys, values, error: None };
        waiting.error = self.insert(&waiting).err();
        self.again.fails |= waiting.error.is_some();
        self.again.waiting.push(waiting);
        Ok(object)
    }

    fn insert(&self, waiting: &Waiting) -> PyResult<()> {
        let object = waiting.object.0;
        for (at, key) in waiting.keys.0.iter().enumerate() {
            // SAFETY: a dict or a set and objects, all alive.
            let outcome = unsafe {
                match &waiting.values {
                    Some(values) => ffi::PyDict_SetItem(object, *key, values.0[at]),
                    None => ffi::PySet_Add(object, *key),
                }
            };
            if outcome != 0 {
                return Err(self.no_key());
            }
        }
        Ok(())
    }

    /// Fills them anew, now that everything has its state.
    pub(super) fn fill_again(&mut self) -> PyResult<()> {
        for waiting in std::mem::take(&mut self.again.waiting) {
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
                return Err(PyErr::fetch(self.py));
            }
            self.insert(&waiting)?;
        }
        Ok(())
    }

    /// Refuses to call something with a dict or a set that lacks what belongs into it.
    pub(super) fn are_filled(&self, parts: &[Bound<'py, PyAny>]) -> PyResult<()> {
        if !self.again.fails {
            return Ok(());
        }
        let of = |part: &Bound<'py, PyAny>| self.again.error_of(self.py, part.as_ptr());
        let error = parts.iter().find_map(|part| {
            let items = part.cast::<PyTuple>();
            of(part).or_else(|| items.ok()?.iter().find_map(|item| of(&item)))
        });
        error.map_or(Ok(()), Err)
    }
}
