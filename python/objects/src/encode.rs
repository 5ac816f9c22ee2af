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

use std::collections::HashMap;

use plasmon_cpython::memo::{Memo, Place};
use plasmon_plo::codes::kind;
use plasmon_plo::tables::{Node, Run, Tables};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::arrays::Arrays;
use super::context::{Context, Strategy};
use super::foreign::Taken;
use super::heap::Piece;
use super::hold::Kept;
use super::placed::Placed;
use super::raw::{self, NoCollection, Ptr, Shape};
use super::runs::Prefix;

/// What is to be done when a node's turn comes.
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

/// Strings and byte strings by the type of slot and their content.
type Contents = HashMap<(u8, Box<[u8]>), u32>;

/// What is to be done when a row node's turn comes.
#[derive(Debug)]
pub(super) enum Rows {
    /// Rows of dicts; the keys, and how many rows.
    Dicts { keys: Vec<Ptr>, rows: usize },
    /// Rows of tuples.
    Tuples { fields: usize, rows: usize },
    /// Rows of objects of a class.
    Objects { class: super::classes::ClassKey, fields: usize, rows: usize },
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

/// Items to be written as a run.
#[derive(Clone, Copy)]
pub(super) struct Items<'i> {
    pub(super) all: &'i [Ptr],
    /// How many references there are to an item that only its owner refers to.
    pub(super) base: isize,
    /// What must stay alive as well when code runs: the values, while it is the keys' turn.
    pub(super) also: &'i [Ptr],
    /// Whether the encoder holds the items, in memory that is its own.
    pub(super) held: bool,
}

/// A value in tables.
pub(super) struct Encoded {
    pub(super) tables: Box<Tables>,
    /// The entries of the heap.
    pub(super) heap: Vec<Piece>,
    /// The arrays that the heap's entries lie in.
    pub(super) placed: Placed,
}

pub(super) struct Encoder<'py> {
    pub(super) py: Python<'py>,
    pub(super) context: &'py Bound<'py, Context>,
    pub(super) tables: Box<Tables>,
    pub(super) heap: Vec<Piece>,
    pub(super) arrays: Arrays,
    pub(super) memo: Memo,
    pub(super) classes: super::classes::Classes,
    pub(super) canonical: bool,
    /// Strings and byte strings by their content, for canonical objects.
    pub(super) contents: Option<Contents>,
    pub(super) work: Vec<Work>,
    pub(super) next: usize,
    pub(super) kept: Kept,
    pub(super) pinned: bool,
    /// Whether there are items in hand that their container alone holds.
    pub(super) in_hand: bool,
    /// What keeps the collector off while the encoder is quiet.
    pub(super) quiet: Option<NoCollection>,
    /// Whether holding the items of a run has kept what belongs to them.
    pub(super) also_kept: bool,
    /// How objects of classes without a version are taken apart: known for this encoder only.
    pub(super) unversioned: Vec<(Ptr, Bound<'py, Strategy>)>,
    /// The class that was asked for last, its version, and how its objects are taken apart.
    pub(super) last_strategy: Option<(Ptr, u32, Bound<'py, Strategy>)>,
    /// What objects said about how to make them again, before their turn came.
    pub(super) taken: HashMap<Ptr, Taken<'py>>,
    scratch: [Vec<Ptr>; 2],
}

/// Puts a value into tables.
pub(super) fn encode<'py>(
    context: &'py Bound<'py, Context>,
    value: &Bound<'py, PyAny>,
    memory: Memory,
) -> PyResult<(Encoded, Memory)> {
    // While code of others runs, nothing depends on this; it saves collections that find nothing.
    let _gc = NoCollection::new(context.py());
    let Memory { tables, memo, work, scratch } = memory;
    let mut encoder = Encoder {
        py: context.py(),
        context,
        tables: tables.unwrap_or_default(),
        heap: Vec::new(),
        arrays: Arrays::known(context.py()),
        memo,
        classes: super::classes::Classes::default(),
        canonical: context.get().is_canonical(),
        contents: None,
        work,
        next: 0,
        kept: Kept::default(),
        pinned: false,
        in_hand: false,
        quiet: None,
        also_kept: false,
        unversioned: Vec::new(),
        last_strategy: None,
        taken: HashMap::new(),
        scratch,
    };
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

/// Memory that one encoder leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) tables: Option<Box<Tables>>,
    memo: Memo,
    work: Vec<Work>,
    scratch: [Vec<Ptr>; 2],
}

// SAFETY: between encoders there are no pointers in it; see `Encoder::finish`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What more items a vector has room for than this is not kept for the next encoder.
const ITEMS_KEPT: usize = 256;

fn emptied<T>(mut items: Vec<T>) -> Vec<T> {
    items.clear();
    if items.capacity() > ITEMS_KEPT { Vec::new() } else { items }
}

impl<'py> Encoder<'py> {
    fn finish(self) -> (Encoded, Memory) {
        let Self { tables, heap, arrays, mut memo, work, scratch: [first, second], .. } = self;
        memo.clear();
        let scratch = [emptied(first), emptied(second)];
        let memory = Memory { tables: None, memo, work: emptied(work), scratch };
        (Encoded { tables, heap, placed: arrays.placed }, memory)
    }

    /// Notes a node that is gone through later. Its number is the next one.
    #[inline]
    pub(super) fn later(&mut self, work: Work) {
        if self.pinned {
            self.hold_work(&work);
        }
        self.work.push(work);
    }

    /// The memo's answer for an object that may be referred to elsewhere.
    #[inline]
    pub(super) fn meet(&mut self, object: Ptr, kind: u8, index: usize) -> Option<Place> {
        let found = self.memo.meet(object, Place { kind, index: index as u32 });
        if found.is_none() && self.pinned {
            self.keep_all(&[object]);
        }
        found
    }

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
            let module = self.py.import("plasmon.objects._where")?;
            let located = module.getattr("locate")?.call1((error.value(self.py), value))?;
            Ok(PyErr::from_value(located))
        };
        locate().unwrap_or(error)
    }
}
