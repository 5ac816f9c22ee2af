//! From an object's tables to a value, without recursion.
//!
//! The object was checked; what is left is to build its nodes in an order in which the parts of
//! each exist ([`plasmon_plo::Order`]). `built` has the nodes that are built and not yet in
//! what holds them. When nodes are referred to more than once it keeps a reference to each until
//! the end; otherwise the one reference moves into the holder.
//!
//! The object's memory may be written to meanwhile, by a writer with other rights or by another
//! thread. So what the check has found holds no longer when it is used: a node, the place of an
//! array, text are copied out, looked at again in the copy ([`Decoder::read`]), and used from
//! there. A change is an error then, or a value that nothing wrote; it leads nowhere else.

use std::collections::HashMap;

use plasmon_cpython::buffer::Flat;
use plasmon_plo::codes::{elem, kind};
use plasmon_plo::sizes::at;
use plasmon_plo::{Checked, Order};
use pyo3::exceptions::{PyTypeError, PyUnicodeDecodeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyTuple};

use super::again::Again;
use super::context::{Context, pickle};
use super::leaves::QuickArrays;
use super::makers::Maker;
use super::owned::{One, Owned, Scratch};
use super::raw::{self, NoCollection, Ptr};
use super::serialized::{broken, raised};

/// So many values of large containers are built at a time.
pub(super) const BLOCK: usize = 1024;

/// An object that is needed before its turn is made of parts that exist, or of empty containers.
const EMPTY_DEPTH_MAX: usize = 16;

pub(super) struct Decoder<'a, 'py> {
    pub(super) py: Python<'py>,
    pub(super) context: &'a Bound<'py, Context>,
    pub(super) object: &'a Checked<'a>,
    /// Which pickles may be read.
    pub(super) pickle: u8,
    /// The object's memory, for what lies on it.
    pub(super) memory: &'a Bound<'py, PyAny>,
    memory_view: Option<Bound<'py, PyAny>>,
    /// How arrays are made on that memory without NumPy's constructor, once that was asked for.
    pub(super) quick_arrays: Option<Option<QuickArrays>>,
    built: Owned,
    /// Whether nodes that hold no others are built when they are asked for.
    on_demand: bool,
    /// How many objects are being made because a part of the one before asked for them.
    depth: usize,
    /// Dicts and sets that are filled anew at the end.
    pub(super) again: Again,
    /// The rows of row nodes, for the runs that they are in.
    pub(super) rows: HashMap<usize, Owned>,
    pub(super) strs: Owned,
    pub(super) bins: Owned,
    pub(super) tensors: Owned,
    pub(super) exts: Owned,
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

/// Whether a node of this kind, with runs of these, holds values without parts alone.
fn is_flat(kind: u8, elem: u8, elem2: u8) -> bool {
    let flat = |elem| !matches!(elem, elem::NODES | elem::SLOTS | elem::ROWS);
    matches!(kind, kind::LIST..=kind::FROZENSET) && flat(elem) && flat(elem2)
}

/// What to decode, and how.
pub(super) struct Source<'a, 'py> {
    pub(super) context: &'a Bound<'py, Context>,
    /// Which pickles may be read.
    pub(super) pickle: u8,
    pub(super) memory: &'a Bound<'py, PyAny>,
}

/// The value of the object at the front of some memory, and how long the object is.
pub(super) fn decode<'py>(source: &Source<'_, 'py>) -> PyResult<(Bound<'py, PyAny>, u64)> {
    let flat;
    let bytes = match source.memory.cast_exact::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes(),
        Err(_) => {
            flat = Flat::with_flags(source.memory, ffi::PyBUF_C_CONTIGUOUS)?;
            flat.bytes()
        }
    };
    let object = Checked::of(bytes).map_err(|error| raised(source.memory.py(), &error))?;
    let order = Order::of(&object).map_err(|error| raised(source.memory.py(), &error))?;
    let view = &object.view;
    let cache = |wanted: bool, number| Owned::nulls(if wanted { view.count(number) } else { 0 });
    let decoder = Decoder {
        py: source.memory.py(),
        context: source.context,
        object: &object,
        pickle: source.pickle,
        memory: source.memory,
        memory_view: None,
        quick_arrays: None,
        built: cache(true, at::NODES),
        on_demand: false,
        depth: 0,
        again: Again::default(),
        rows: HashMap::new(),
        strs: cache(object.repeats.strs, at::STRS),
        bins: cache(object.repeats.bins, at::BINS),
        tensors: cache(object.repeats.tensors, at::TENSORS),
        exts: cache(object.repeats.exts, at::EXTS),
        makers: std::iter::repeat_with(|| None).take(view.count(at::CLASSES)).collect(),
        last_dtype: None,
        last_shape: None,
        ascii: view.strs.bytes.is_ascii(),
    };
    let value = decoder.run(&order)?;
    Ok((value, view.bytes()))
}

impl<'a, 'py> Decoder<'a, 'py> {
    fn run(mut self, order: &Order) -> PyResult<Bound<'py, PyAny>> {
        let _gc = (!self.context.get().runs_gc()).then(|| NoCollection::new(self.py));
        if self.pickle == pickle::NEVER {
            self.refuse_pickles()?;
        }
        match order {
            Order::Backwards => {
                let nodes = self.object.view.count(at::NODES);
                self.on_demand = true;
                for node in (0..nodes).rev() {
                    if !self.is_flat(node) {
                        let node = self.read(node)?;
                        self.build(&node)?;
                    }
                }
            }
            Order::Listed { nodes, again } => {
                self.again.expect(again);
                for node in nodes {
                    let node = self.read(*node as usize)?;
                    self.build(&node)?;
                }
                self.fill_again()?;
            }
        }
        let mut root = Owned::nulls(1);
        self.fill(elem::SLOTS, 0, &mut root.0)?;
        let root = std::mem::replace(&mut root.0[0], std::ptr::null_mut());
        // SAFETY: filled with a reference of ours.
        unsafe { Bound::from_owned_ptr_or_err(self.py, root) }
    }

    /// Whether a node holds values without parts alone. Such a one is made when its owner asks for
    /// it: then it is in the cache while the owner takes it.
    fn is_flat(&self, node: usize) -> bool {
        let nodes = &self.object.view.nodes;
        is_flat(nodes.kind[node], nodes.elem[node], nodes.elem2[node])
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

    /// Whether there are so many rows, if a run is of rows.
    pub(super) fn has_rows(&self, elem: u8, start: usize, length: usize) -> bool {
        elem != elem::ROWS || self.rows.get(&start).is_some_and(|rows| rows.0.len() == length)
    }

    fn build(&mut self, node: &NodeCopy) -> PyResult<()> {
        let NodeCopy { kind, elem, start, length, elem2, start2, .. } = *node;
        let holds_values = matches!(kind, kind::LIST..=kind::FROZENSET | kind::ARRAY);
        if holds_values
            && !(self.has_rows(elem, start, length) && self.has_rows(elem2, start2, length))
        {
            return Err(changed());
        }
        let made = match node.kind {
            kind::LIST => self.list(node)?,
            kind::TUPLE => self.tuple(node)?,
            kind::DICT | kind::SET if self.again.expects(node.number) => self.first_filled(node)?,
            kind::DICT => self.dict(node)?,
            kind::SET | kind::FROZENSET => self.set(node)?,
            kind::DICT_ROWS | kind::TUPLE_ROWS | kind::OBJECT_ROWS => return self.row_node(node),
            kind::OBJECT => self.object(node)?,
            kind::ARRAY => self.array_of_objects(node)?,
            _ => return Ok(()),
        };
        self.keep_built(node.number, made);
        Ok(())
    }

    /// A new object of CPython's, or the error that it set.
    pub(super) fn made(&self, object: Ptr) -> PyResult<Ptr> {
        if object.is_null() { Err(PyErr::fetch(self.py)) } else { Ok(object) }
    }

    /// A new string, or the error that its bytes are none.
    pub(super) fn made_text(&self, text: Ptr) -> PyResult<Ptr> {
        self.made(text).map_err(|error| {
            match error.is_instance_of::<PyUnicodeDecodeError>(self.py) {
                true => broken(self.py, &format!("a string that is not UTF-8: {error}")),
                false => error,
            }
        })
    }

    /// The error of a key or an item of a set, which CPython has set.
    pub(super) fn no_key(&self) -> PyErr {
        let error = PyErr::fetch(self.py);
        match error.is_instance_of::<PyTypeError>(self.py) {
            true => broken(self.py, &format!("a key that cannot be used: {error}")),
            false => error,
        }
    }

    /// The node's object if it was made empty because something referred to it: before its turn,
    /// or while its own values were built. Else null.
    pub(super) fn empty(&self, node: usize) -> Ptr {
        self.built.0.get(node).copied().unwrap_or(std::ptr::null_mut())
    }

    fn list(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { elem, start, length, .. } = *node;
        // SAFETY: attached; a new list has room for so many items, each null, which dropping it
        // respects, and no code has seen it.
        let list = self.made(unsafe { ffi::PyList_New(length as isize) })?;
        let list = One(list);
        let hidden = length != 0 && asks_others(elem);
        // SAFETY: as above. While code of others may run, nothing finds the list half made.
        let items = unsafe {
            if hidden {
                raw::hide(list.0);
            }
            let items = (*list.0.cast::<ffi::PyListObject>()).ob_item;
            if length == 0 { &mut [] } else { std::slice::from_raw_parts_mut(items, length) }
        };
        self.fill(elem, start, items)?;
        if hidden {
            // SAFETY: hidden above, and every item is set.
            unsafe { raw::show(list.0) };
        }
        let empty = self.empty(node.number);
        if empty.is_null() {
            return Ok(list.release());
        }
        // SAFETY: two objects that are alive; the call asks whether the first is a list.
        if unsafe { ffi::PyList_SetSlice(empty, 0, 0, list.0) } != 0 {
            return Err(PyErr::fetch(self.py));
        }
        Ok(empty)
    }

    fn tuple(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { elem, start, length, .. } = *node;
        // SAFETY: as for lists. The empty tuple is shared and has no items.
        let tuple = self.made(unsafe { ffi::PyTuple_New(length as isize) })?;
        let tuple = One(tuple);
        let hidden = length != 0 && asks_others(elem);
        // SAFETY: as for lists.
        let items = unsafe {
            if hidden {
                raw::hide(tuple.0);
            }
            let items = &raw mut (*tuple.0.cast::<ffi::PyTupleObject>()).ob_item;
            std::slice::from_raw_parts_mut(items.cast::<Ptr>(), length)
        };
        self.fill(elem, start, items)?;
        if hidden {
            // SAFETY: as for lists.
            unsafe { raw::show(tuple.0) };
        }
        Ok(tuple.release())
    }

    fn dict(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { number: node, elem, start, elem2, start2, length, .. } = *node;
        // Values are built a block at a time: they are used up while they are in the cache.
        let mut new: Option<One> = None;
        let mut items = Scratch::new(2 * length.min(BLOCK));
        for from in (0..length.max(1)).step_by(BLOCK) {
            let count = (length - from).min(BLOCK);
            let (keys, values) = items.all().split_at_mut(count);
            let values = &mut values[..count];
            self.fill_part(elem, start, from, keys)?;
            self.fill_part(elem2, start2, from, values)?;
            let empty = self.empty(node);
            let dict = match &mut new {
                Some(new) => new.0,
                None if empty.is_null() => {
                    // SAFETY: attached.
                    new.insert(One(self.made(unsafe { raw::new_dict(length) })?)).0
                }
                None => new.insert(One(shared(empty))).0,
            };
            for (key, value) in keys.iter().zip(values.iter()) {
                // SAFETY: a dict and two objects, all alive.
                if unsafe { ffi::PyDict_SetItem(dict, *key, *value) } != 0 {
                    return Err(self.no_key());
                }
            }
            items.clear();
        }
        new.map_or_else(|| Err(changed()), |new| Ok(self.kept_or_new(node, new)))
    }

    fn set(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { number: node, kind, elem, start, length, .. } = *node;
        let mut items = Scratch::new(length);
        self.fill(elem, start, items.all())?;
        let empty = self.empty(node);
        let new = One(match (empty.is_null(), kind) {
            (false, _) => shared(empty),
            // SAFETY: attached; nothing to take items from.
            (_, kind::SET) => self.made(unsafe { ffi::PySet_New(std::ptr::null_mut()) })?,
            // SAFETY: as above.
            _ => self.made(unsafe { ffi::PyFrozenSet_New(std::ptr::null_mut()) })?,
        });
        for item in items.all().iter() {
            // SAFETY: a set, or a frozenset that nobody has seen, and an object; all alive.
            if unsafe { ffi::PySet_Add(new.0, *item) } != 0 {
                return Err(self.no_key());
            }
        }
        Ok(self.kept_or_new(node, new))
    }

    /// What `built` is to have: what it has already, or something new.
    fn kept_or_new(&self, node: usize, new: One) -> Ptr {
        let empty = self.empty(node);
        if empty.is_null() { new.release() } else { empty }
    }

    /// The node's object as a reference of the caller's. One that isn't built yet is made empty.
    pub(super) fn node(&mut self, node: usize) -> PyResult<Ptr> {
        let Some(mut object) = self.built.0.get(node).copied() else {
            return Err(changed());
        };
        if object.is_null() && self.on_demand {
            // No deeper than this: what holds no nodes asks for none.
            let copy = self.read(node)?;
            if !is_flat(copy.kind, copy.elem, copy.elem2) {
                return Err(changed());
            }
            self.build(&copy)?;
            object = self.empty(node);
        }
        if object.is_null() {
            return self.empty_node(node);
        }
        if self.object.has_refs {
            // SAFETY: alive: it is held in `built`.
            unsafe { ffi::Py_INCREF(object) };
        } else {
            self.built.0[node] = std::ptr::null_mut();
        }
        Ok(object)
    }

    #[cold]
    fn empty_node(&mut self, number: usize) -> PyResult<Ptr> {
        let node = self.read(number)?;
        // What an object is made of was built before it; the order sees to that.
        if self.depth >= EMPTY_DEPTH_MAX {
            return Err(changed());
        }
        self.depth += 1;
        let made = match node.kind {
            // SAFETY: attached.
            kind::LIST => self.made(unsafe { ffi::PyList_New(0) }),
            // SAFETY: as above.
            kind::DICT => self.made(unsafe { ffi::PyDict_New() }),
            // SAFETY: as above.
            kind::SET => self.made(unsafe { ffi::PySet_New(std::ptr::null_mut()) }),
            kind::OBJECT => self.new_object(&node),
            kind::ARRAY => self.new_array_of_objects(&node),
            _ => Err(changed()),
        };
        self.depth -= 1;
        let made = made?;
        self.keep_built(number, made);
        // SAFETY: made here; `built` has the first reference.
        unsafe { ffi::Py_INCREF(made) };
        Ok(made)
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

/// The error of an object that was checked and is not what it was.
#[cold]
pub(super) fn changed() -> PyErr {
    PyValueError::new_err(
        "the object changed while it was read: another process or thread writes to its memory",
    )
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

/// Whether making the values of a run may run code of others.
fn asks_others(elem: u8) -> bool {
    matches!(elem, elem::NODES | elem::SLOTS | elem::TENSORS | elem::EXTS)
}

/// One more reference to something that is alive.
#[inline]
pub(super) fn shared(object: Ptr) -> Ptr {
    // SAFETY: alive: constants, and what caches hold.
    unsafe { ffi::Py_INCREF(object) };
    object
}
