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

use plasmon_cpython::buffer::Flat;
use plasmon_plo::codes::{elem, kind};
use plasmon_plo::sizes::at;
use plasmon_plo::{Order, ValidObject};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::context::pickle;
use super::decoder::{BLOCK, Decoder, NodeCopy, Source};
use super::errors::{changed, no_key, raised};
use super::owned::{OwnedReference, OwnedReferences, Scratch, shared};
use super::raw::{self, NoCollection, Ptr};

/// An object that is needed before its turn is made of parts that exist, or of empty containers.
const EMPTY_DEPTH_MAX: usize = 16;

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
    let object = ValidObject::of(bytes).map_err(|error| raised(source.memory.py(), &error))?;
    let order = Order::of(&object).map_err(|error| raised(source.memory.py(), &error))?;
    let value = Decoder::new(source, &object).run(&order)?;
    Ok((value, object.view.bytes()))
}

impl<'py> Decoder<'_, 'py> {
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
                self.again.fill_anew(self.py)?;
            }
        }
        let mut root = OwnedReferences::nulls(1);
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

    fn list(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { elem, start, length, .. } = *node;
        // SAFETY: attached; a new list has room for that many items, each null, which dropping it
        // respects, and no code has seen it.
        let list = self.made(unsafe { ffi::PyList_New(length as isize) })?;
        let list = OwnedReference(list);
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
        let tuple = OwnedReference(tuple);
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
        let mut new: Option<OwnedReference> = None;
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
                    new.insert(OwnedReference(self.made(unsafe { raw::new_dict(length) })?)).0
                }
                None => new.insert(OwnedReference(shared(empty))).0,
            };
            for (key, value) in keys.iter().zip(values.iter()) {
                // SAFETY: a dict and two objects, all alive.
                if unsafe { ffi::PyDict_SetItem(dict, *key, *value) } != 0 {
                    return Err(no_key(self.py));
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
        let new = OwnedReference(match (empty.is_null(), kind) {
            (false, _) => shared(empty),
            // SAFETY: attached; nothing to take items from.
            (_, kind::SET) => self.made(unsafe { ffi::PySet_New(std::ptr::null_mut()) })?,
            // SAFETY: as above.
            _ => self.made(unsafe { ffi::PyFrozenSet_New(std::ptr::null_mut()) })?,
        });
        for item in items.all().iter() {
            // SAFETY: a set, or a frozenset that was not handed out yet, and an object; all alive.
            if unsafe { ffi::PySet_Add(new.0, *item) } != 0 {
                return Err(no_key(self.py));
            }
        }
        Ok(self.kept_or_new(node, new))
    }

    /// Fills a dict or a set in its turn, as far as its keys let it be.
    fn first_filled(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let NodeCopy { number, elem, start, elem2, start2, length, .. } = *node;
        let is_dict = node.kind == kind::DICT;
        let mut keys = OwnedReferences::nulls(length);
        self.fill(elem, start, &mut keys.0)?;
        let values = if is_dict {
            let mut values = OwnedReferences::nulls(length);
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
        self.again.fill_first(self.py, OwnedReference(shared(object)), keys, values);
        Ok(object)
    }

    /// The entry for `built`: the one it has already, or a new one.
    fn kept_or_new(&self, node: usize, new: OwnedReference) -> Ptr {
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
}

/// Whether a node of this kind, with runs of these, holds values without parts alone.
fn is_flat(kind: u8, elem: u8, elem2: u8) -> bool {
    let flat = |elem| !matches!(elem, elem::NODES | elem::SLOTS | elem::ROWS);
    matches!(kind, kind::LIST..=kind::FROZENSET) && flat(elem) && flat(elem2)
}

/// Whether making the values of a run may run code of others.
fn asks_others(elem: u8) -> bool {
    matches!(elem, elem::NODES | elem::SLOTS | elem::TENSORS | elem::EXTS)
}
