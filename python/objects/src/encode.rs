//! From a value to tables, breadth-first.
//!
//! Each container gets a number when it is met and is gone through when its number's turn comes,
//! with a loop and without recursion:
//!
//! ```text
//! root ─► slot 0 ─► work: [node 0] ─► its items become runs; containers in them: node 1, 2, ...
//!                     ▲                                                               │
//!                     └────────────────────── appended ───────────────────────────────┘
//! ```
//!
//! What is held, and when code of others may run, is in [`super::hold`].

use plasmon_plo::codes::kind;
use plasmon_plo::tables::{Node, Run};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::context::Context;
use super::encoder::{Encoder, Items, Memory, ValueTables};
use super::raw::{self, NoCollection, Ptr, Shape};
use super::runs::Prefix;
use super::work::{Rows, Work};

/// Puts a value into tables.
pub(super) fn encode<'py>(
    context: &'py Bound<'py, Context>,
    value: &Bound<'py, PyAny>,
    memory: Memory,
) -> PyResult<(ValueTables, Memory)> {
    // While code of others runs, nothing depends on this; it saves collections that find nothing.
    let _gc = NoCollection::new(context.py());
    let mut encoder = Encoder::new(context, memory);
    // The caller refers to the value, so nothing is said about what else does, and it is held.
    let root = [value.as_ptr()];
    let rooted = Items { all: &root, base: 0, also: &[], held: true };
    let rooted = encoder.mixed(rooted, Prefix::none());
    rooted.map_err(|error| encoder.locate(error, value))?;
    while encoder.next < encoder.work.len() {
        encoder.node(encoder.next).map_err(|error| encoder.locate(error, value))?;
        encoder.next += 1;
    }
    encoder.place_arrays()?;
    Ok(encoder.finish())
}

impl<'py> Encoder<'py> {
    #[inline]
    fn node(&mut self, number: usize) -> PyResult<()> {
        let node = match std::mem::take(&mut self.work[number]) {
            Work::Done => return Ok(()),
            Work::Value(object) => return self.value(number, object),
            Work::Rows(rows) => self.row_node(*rows)?,
            Work::Field(column) => {
                let items = self.own_items(&column.values);
                let run = self.run(items)?;
                let length = column.values.len();
                Node { kind: kind::FIELD, run, length, ..Node::default() }
            }
        };
        self.done();
        self.tables.nodes.set(number, node);
        Ok(())
    }

    fn row_node(&mut self, rows: Rows) -> PyResult<Node> {
        Ok(match rows {
            Rows::Dicts { keys, rows } => {
                let items = self.own_items(&keys);
                let run = self.run(items)?;
                let extra = keys.len();
                Node { kind: kind::DICT_ROWS, run, length: rows, extra, ..Node::default() }
            }
            Rows::Tuples { fields, rows } => {
                let kind = kind::TUPLE_ROWS;
                Node { kind, length: rows, extra: fields, ..Node::default() }
            }
            Rows::Objects { class, fields, rows } => {
                let run = Run { elem: 0, start: self.class(class, None)? };
                Node {
                    kind: kind::OBJECT_ROWS,
                    run,
                    length: rows,
                    extra: fields,
                    ..Node::default()
                }
            }
        })
    }

    fn value(&mut self, number: usize, object: Ptr) -> PyResult<()> {
        // SAFETY: what is to be done is held, or no code of others ran.
        let shape = unsafe { raw::shape(object) };
        if !shape.is_container() {
            return self.object(number, object);
        }
        self.in_hand();
        match shape {
            Shape::List => {
                // SAFETY: an exact list, and the encoder is quiet until the items are held.
                let items = unsafe { raw::list_items(object) };
                self.sequence(number, kind::LIST, items)
            }
            Shape::Tuple => {
                // SAFETY: an exact tuple, as above.
                let items = unsafe { raw::tuple_items(object) };
                self.sequence(number, kind::TUPLE, items)
            }
            Shape::Dict => self.dict(number, object),
            Shape::Set => self.set(number, kind::SET, object),
            _ => self.set(number, kind::FROZENSET, object),
        }?;
        self.done();
        Ok(())
    }

    fn sequence(&mut self, number: usize, kind: u8, items: &[Ptr]) -> PyResult<()> {
        let length = items.len();
        let run = self.run(Items { all: items, base: 1, also: &[], held: false })?;
        self.tables.nodes.set(number, Node { kind, run, length, ..Node::default() });
        Ok(())
    }

    fn set(&mut self, number: usize, kind: u8, set: Ptr) -> PyResult<()> {
        let mut items = std::mem::take(&mut self.scratch[0]);
        // SAFETY: an exact set that is alive.
        unsafe { raw::set_items(self.py, set, &mut items)? };
        if self.canonical {
            self.sort(&mut items)?;
        }
        self.sequence(number, kind, &items)?;
        items.clear();
        self.scratch[0] = items;
        Ok(())
    }

    fn dict(&mut self, number: usize, dict: Ptr) -> PyResult<()> {
        let [mut keys, mut values] = std::mem::take(&mut self.scratch);
        // SAFETY: an exact dict that is alive.
        unsafe {
            raw::dict_items(dict, |key, value| {
                keys.push(key);
                values.push(value);
                true
            });
        }
        self.also_kept = false;
        let run = self.run(Items { all: &keys, base: 1, also: &values, held: false })?;
        // When code ran for the keys, the values were held before it did.
        let held = std::mem::take(&mut self.also_kept);
        let base = 1 + isize::from(held);
        let second = self.run(Items { all: &values, base, also: &[], held })?;
        let length = keys.len();
        let node = Node { kind: kind::DICT, run, length, values: second, extra: 0 };
        self.tables.nodes.set(number, node);
        keys.clear();
        values.clear();
        self.scratch = [keys, values];
        Ok(())
    }

    /// Sorts what a set holds, if it is all of one type that sorts the same everywhere.
    fn sort(&mut self, items: &mut [Ptr]) -> PyResult<()> {
        // SAFETY: the set is alive and holds its items.
        let shapes = items.iter().map(|item| unsafe { raw::shape(*item) });
        let first = shapes.clone().next().unwrap_or(Shape::Foreign);
        let sorts = matches!(first, Shape::Str | Shape::Bytes | Shape::Int | Shape::Float);
        if !sorts || shapes.into_iter().any(|shape| shape != first) {
            return Ok(());
        }
        let list = PyList::empty(self.py);
        for item in items.iter() {
            // SAFETY: as above.
            list.append(unsafe { Bound::from_borrowed_ptr(self.py, *item) })?;
        }
        list.sort()?;
        // SAFETY: an exact list of the set's items, which the set goes on holding.
        items.copy_from_slice(unsafe { raw::list_items(list.as_ptr()) });
        Ok(())
    }

    /// Says in an error where in the value its cause is.
    fn locate(&mut self, error: PyErr, value: &Bound<'py, PyAny>) -> PyErr {
        self.done();
        self.open();
        let locate = || -> PyResult<PyErr> {
            let module = self.py.import("plasmon.objects._error_path")?;
            let located = module.getattr("locate")?.call1((error.value(self.py), value))?;
            Ok(PyErr::from_value(located))
        };
        locate().unwrap_or(error)
    }
}
