//! The state of a decoder: the nodes of an object, and what was built of them.
//!
//! How it goes from one to the next is in [`super::decode`], how each kind of value is made in
//! [`super::fill`], [`super::leaves`] and [`super::objects`].

use std::collections::HashMap;

use plasmon_plo::ValidObject;
use plasmon_plo::codes::{elem, kind};
use plasmon_plo::sizes::at;
use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple};

use super::context::Context;
use super::errors::{broken, changed};
use super::maker::Maker;
use super::owned::OwnedReferences;
use super::quick_arrays::QuickArrays;
use super::raw::Ptr;
use super::second_fill::SecondFill;

/// How many values of large containers are built at a time.
pub(super) const BLOCK: usize = 1024;

pub(super) struct Decoder<'a, 'py> {
    pub(super) py: Python<'py>,
    pub(super) context: &'a Bound<'py, Context>,
    pub(super) object: &'a ValidObject<'a>,
    /// Which pickles may be read.
    pub(super) pickle: u8,
    /// The object's memory, for what lies on it.
    pub(super) memory: &'a Bound<'py, PyAny>,
    memory_view: Option<Bound<'py, PyAny>>,
    /// How arrays are made on that memory without NumPy's constructor, once that was asked for.
    pub(super) quick_arrays: Option<Option<QuickArrays>>,
    pub(super) built: OwnedReferences,
    /// Whether nodes that hold no others are built when they are asked for.
    pub(super) on_demand: bool,
    /// How many objects are being made because a part of the one before asked for them.
    pub(super) depth: usize,
    /// Dicts and sets that are filled again at the end.
    pub(super) again: SecondFill,
    /// The rows of row nodes, for the runs that they are in.
    pub(super) rows: HashMap<usize, OwnedReferences>,
    pub(super) strs: OwnedReferences,
    pub(super) bins: OwnedReferences,
    pub(super) tensors: OwnedReferences,
    pub(super) exts: OwnedReferences,
    pub(super) makers: Vec<Option<Maker<'py>>>,
    /// Most arrays are of the type and the shape of the one before.
    /// With its size, if it is a plain one.
    pub(super) last_dtype: Option<(usize, Bound<'py, PyAny>, Option<usize>)>,
    pub(super) last_shape: Option<(&'a [[u8; 8]], Bound<'py, PyTuple>)>,
    pub(super) ascii: bool,
}

/// A node, copied out of the object: its runs lie in their tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeCopy {
    pub(super) number: usize,
    pub(super) kind: u8,
    pub(super) elem: u8,
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) elem2: u8,
    pub(super) start2: usize,
}

/// An object to decode, and how.
pub(super) struct Source<'a, 'py> {
    pub(super) context: &'a Bound<'py, Context>,
    /// Which pickles may be read.
    pub(super) pickle: u8,
    pub(super) memory: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Decoder<'a, 'py> {
    /// A decoder of an object that was checked.
    #[inline]
    pub(super) fn new(source: &Source<'a, 'py>, object: &'a ValidObject<'a>) -> Self {
        let view = &object.view;
        let cache = |wanted: bool, number| {
            OwnedReferences::nulls(if wanted { view.count(number) } else { 0 })
        };
        Self {
            py: source.memory.py(),
            context: source.context,
            object,
            pickle: source.pickle,
            memory: source.memory,
            memory_view: None,
            quick_arrays: None,
            built: cache(true, at::NODES),
            on_demand: false,
            depth: 0,
            again: SecondFill::default(),
            rows: HashMap::new(),
            strs: cache(object.repeats.strs, at::STRS),
            bins: cache(object.repeats.bins, at::BINS),
            tensors: cache(object.repeats.tensors, at::TENSORS),
            exts: cache(object.repeats.exts, at::EXTS),
            makers: std::iter::repeat_with(|| None).take(view.count(at::CLASSES)).collect(),
            last_dtype: None,
            last_shape: None,
            ascii: view.strs.bytes.is_ascii(),
        }
    }

    /// A node as it is now, if its runs lie in their tables.
    #[inline]
    pub(super) fn read(&self, number: usize) -> PyResult<NodeCopy> {
        let nodes = &self.object.view.nodes;
        let kind = *nodes.kind.get(number).ok_or_else(changed)?;
        let node = NodeCopy {
            number,
            kind,
            elem: *nodes.elem.get(number).ok_or_else(changed)?,
            start: nodes.start.index(number),
            length: nodes.length.index(number),
            elem2: *nodes.elem2.get(number).ok_or_else(changed)?,
            start2: nodes.start2.index(number),
        };
        // What is checked is what is used: the compiler must not read it again.
        std::hint::black_box(&node);
        let fits = match node.kind {
            kind::DICT => {
                self.is_run(node.elem, node.start, node.length)
                    && self.is_run(node.elem2, node.start2, node.length)
            }
            kind::DICT_ROWS => self.is_run(node.elem, node.start, node.start2),
            kind::TUPLE_ROWS | kind::OBJECT_ROWS => true,
            _ => self.is_run(node.elem, node.start, node.length),
        };
        if fits { Ok(node) } else { Err(changed()) }
    }

    /// Whether a run lies in its table. Rows may not be made yet: they are counted when they are
    /// taken.
    fn is_run(&self, elem: u8, start: usize, length: usize) -> bool {
        let table = match elem {
            elem::NONE | elem::BITS => at::BITS,
            elem::I32 => at::I32,
            elem::I64 => at::I64,
            elem::F64 => at::F64,
            elem::STRS => at::STRS,
            elem::REFS => at::REFS,
            elem::BINS => at::BINS,
            elem::NODES => at::NODES,
            elem::SLOTS => at::SLOTS,
            elem::TENSORS => at::TENSORS,
            elem::EXTS => at::EXTS,
            elem::ROWS => return true,
            _ => return false,
        };
        length <= self.object.view.count(table).saturating_sub(start)
    }

    /// Whether there are that many rows, if a run is of rows.
    pub(super) fn has_rows(&self, elem: u8, start: usize, length: usize) -> bool {
        elem != elem::ROWS || self.rows.get(&start).is_some_and(|rows| rows.0.len() == length)
    }

    /// A new object of CPython's, or the error that it set.
    pub(super) fn made(&self, object: Ptr) -> PyResult<Ptr> {
        if object.is_null() { Err(PyErr::fetch(self.py)) } else { Ok(object) }
    }

    /// A new string, or the error that its bytes are not UTF-8.
    pub(super) fn made_text(&self, text: Ptr) -> PyResult<Ptr> {
        self.made(text).map_err(|error| {
            match error.is_instance_of::<PyUnicodeDecodeError>(self.py) {
                true => broken(self.py, &format!("a string that is not UTF-8: {error}")),
                false => error,
            }
        })
    }

    /// The node's object if it was made empty because something referred to it: before its turn,
    /// or while its own values were built. Else null.
    pub(super) fn empty(&self, node: usize) -> Ptr {
        self.built.0.get(node).copied().unwrap_or(std::ptr::null_mut())
    }

    /// Notes an object that exists and is not whole yet.
    pub(super) fn keep_built(&mut self, node: usize, object: Ptr) {
        if let Some(room) = self.built.0.get_mut(node) {
            let old = std::mem::replace(room, object);
            if old != object {
                // SAFETY: null, or a reference of ours to what a node was before it changed.
                unsafe { ffi::Py_XDECREF(old) };
            }
        }
    }

    /// A view of the object's memory that everything on it refers to, read-only.
    pub(super) fn memory_view(&mut self) -> PyResult<Bound<'py, PyAny>> {
        if let Some(view) = &self.memory_view {
            return Ok(view.clone());
        }
        let view = PyMemoryView::from(self.memory)?.call_method1("cast", ("B",))?;
        let view = view.call_method0("toreadonly")?;
        self.memory_view = Some(view.clone());
        Ok(view)
    }
}

/// A name or another short text of an object, which the check has found to be one, copied.
pub(super) fn text_of(bytes: &[u8]) -> PyResult<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| changed())
}

/// The same for a message, whatever the bytes are by now. They are copied before they are looked
/// at: of text that is whole, `from_utf8_lossy` gives back what lies in the object's memory.
#[expect(clippy::disallowed_methods, reason = "of a copy")]
pub(super) fn shown_text(bytes: &[u8]) -> String {
    let bytes = bytes.to_vec();
    String::from_utf8_lossy(&bytes).into_owned()
}
