//! An object as plain values of Rust, for programs without Python.
//!
//! Containers may be shared and may hold themselves, so they lie in one list, [`Document::nodes`],
//! and a [`Value`] names them by [`NodeId`]. Nothing is copied: strings, bytes and the memory of
//! tensors are borrowed from the object. What only Python could make is data here: an [`Object`]
//! has a class's name and parts, a pickle is its bytes.
//!
//! ```
//! # use plasmon_plo::codes::{elem, kind, slot};
//! # use plasmon_plo::tables::{Node, Run, Tables};
//! # use plasmon_plo::{Plan, Wanted};
//! # let mut tables = Tables::default();
//! # let list = tables.nodes.reserve();
//! # tables.slots.push_index(slot::NODE, list);
//! # let start = tables.strs.push(b"a");
//! # let run = Run { elem: elem::STRS, start };
//! # tables.nodes.set(list, Node { kind: kind::LIST, run, length: 1, ..Node::default() });
//! # let bytes = Plan::of(&tables, Wanted::Auto)?.front(&tables);
//! use plasmon_plo::natural::{Container, Document, Value};
//!
//! // The list ["a"].
//! let document = Document::of(&bytes)?;
//! let Some(Container::List(items)) = document.container(&document.root) else { panic!("a list") };
//! assert_eq!(items[0], Value::Str("a"));
//! # Ok::<(), plasmon_plo::Error>(())
//! ```

mod build;
mod leaves;
mod tensor;

pub use tensor::Tensor;

use std::sync::Arc;

/// A container's number in [`Document::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// An object: its root, and the containers that are in it.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    /// The value.
    pub root: Value<'a>,
    /// The containers, which values name by number.
    pub nodes: Vec<Container<'a>>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A larger integer: two's complement, least byte first.
    BigInt(&'a [u8]),
    /// A float.
    Float(f64),
    /// A complex number: its real and its imaginary part.
    Complex(f64, f64),
    /// A string.
    Str(&'a str),
    /// A string with surrogates: UTF-8 that encodes them, too.
    SurrogateStr(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A bytearray.
    ByteArray(&'a [u8]),
    /// A container: a list, a tuple, a dict, a set, an object, an array of objects.
    Node(NodeId),
    /// An array. What is one array in Python is one here.
    Tensor(Arc<Tensor<'a>>),
    /// A NumPy scalar: its element type and its bytes.
    Scalar(Dtype<'a>, &'a [u8]),
    /// A NumPy element type.
    Dtype(Dtype<'a>),
    /// A date: days since 1970-01-01.
    Date(i32),
    /// A date with a time: since 1970-01-01T00:00 on its own clock.
    DateTime(Clock<'a>),
    /// A time: since midnight.
    Time(Clock<'a>),
    /// A span of time. Only the days can be negative.
    TimeDelta {
        /// Whole days.
        days: i32,
        /// Seconds of a day.
        seconds: i32,
        /// Microseconds of a second.
        micros: i32,
    },
    /// A time zone.
    Zone(Zone<'a>),
    /// A decimal number as Python writes it.
    Decimal(&'a str),
    /// A UUID, most significant byte first.
    Uuid([u8; 16]),
    /// A path.
    Path(PathKind, &'a [u8]),
    /// Ellipsis.
    Ellipsis,
    /// NotImplemented.
    NotImplemented,
    /// A data type of Python by its name: `list`.
    Type(&'a str),
    /// A function or a class by where it is imported from: `module:qualified.name`.
    Global(&'a str),
    /// A pickle that was not loaded.
    Pickle(Arc<Pickle<'a>>),
    /// Arrow data.
    Arrow {
        /// What it was, as in `docs/formats/values.md`.
        kind: u8,
        /// The text of that page.
        text: &'a str,
        /// An IPC stream.
        stream: &'a [u8],
    },
}

/// Something that holds values.
#[derive(Clone, Debug, PartialEq)]
pub enum Container<'a> {
    /// A list.
    List(Vec<Value<'a>>),
    /// A tuple.
    Tuple(Vec<Value<'a>>),
    /// A dict: its pairs in order.
    Dict(Vec<(Value<'a>, Value<'a>)>),
    /// A set.
    Set(Vec<Value<'a>>),
    /// A frozenset.
    FrozenSet(Vec<Value<'a>>),
    /// An object of a class.
    Object(Object<'a>),
    /// A NumPy array of objects.
    Array {
        /// The extents.
        shape: Vec<i64>,
        /// The items in C order.
        items: Vec<Value<'a>>,
    },
}

/// An object of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<'a> {
    /// Its class.
    pub class: Arc<Class<'a>>,
    /// Its parts.
    pub parts: Vec<Value<'a>>,
}

impl<'a> Object<'a> {
    /// A part by its name: that of an attribute, or `state`, or for an object that is made by a
    /// call `args`, `kwargs`, `state`, `items`, `pairs` or `setter`.
    pub fn part(&self, name: &str) -> Option<&Value<'a>> {
        let at = self.class.part_names().iter().position(|known| *known == name)?;
        self.parts.get(at)
    }
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class<'a> {
    /// How it is named: one of [`crate::codes::source`].
    pub source: u8,
    /// How objects are made of it: one of [`crate::codes::make`].
    pub make: u8,
    /// Its name.
    pub name: &'a str,
    /// The version of a registered one.
    pub version: i32,
    /// The names of the attributes, when those are the parts.
    pub fields: Vec<&'a str>,
    /// The class itself when it is pickled.
    pub pickle: Option<Arc<Pickle<'a>>>,
}

impl Class<'_> {
    /// The names of its objects' parts. Parts at the end may be absent.
    pub fn part_names(&self) -> &[&str] {
        use crate::codes::make;
        match self.make {
            make::ATTRIBUTES => &self.fields,
            make::STATE => &["state"],
            make::NEW_EX => &["args", "kwargs", "state", "items", "pairs", "setter"],
            _ => &["args", "state", "items", "pairs", "setter"],
        }
    }
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype<'a> {
    /// NumPy's text, or one letter of Python's `struct`.
    pub text: &'a str,
    /// Bytes of an element.
    pub itemsize: usize,
}

/// What a clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock<'a> {
    /// Microseconds.
    pub micros: i64,
    /// 1 for the second time that a clock which was set back shows this.
    pub fold: u8,
    /// The time zone.
    pub zone: Option<Zone<'a>>,
}

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone<'a> {
    /// UTC.
    Utc,
    /// A fixed offset from it, in microseconds, with its own name if it has one.
    Fixed(i64, Option<&'a str>),
    /// A zone by its IANA key.
    Iana(&'a str),
}

/// Whose path a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Of the platform that wrote it.
    Platform,
    /// Of POSIX.
    Posix,
    /// Of Windows.
    Windows,
}

/// A pickle of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pickle<'a> {
    /// Whether it takes cloudpickle to load.
    pub cloudpickle: bool,
    /// The pickle.
    pub data: &'a [u8],
    /// Its out-of-band buffers.
    pub buffers: Vec<&'a [u8]>,
}

impl<'a> Document<'a> {
    /// Reads the object at the front of `bytes`.
    pub fn of(bytes: &'a [u8]) -> crate::Result<Self> {
        build::document(&crate::Checked::of(bytes)?)
    }

    /// The container that a value names, if it is one.
    pub fn container(&self, value: &Value<'a>) -> Option<&Container<'a>> {
        match value {
            Value::Node(id) => self.nodes.get(id.0),
            _ => None,
        }
    }
}
