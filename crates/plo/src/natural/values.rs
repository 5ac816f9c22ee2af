//! Plain values of Rust, and the containers that hold them.

use std::sync::Arc;

use super::tensor::{Dtype, Tensor};
use crate::codes::make;
use crate::extensions::{Clock, PathKind, Zone};

/// A container's number in [`super::Document::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

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
        /// Its original kind, as in `docs/formats/values.md`.
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
        match self.make {
            make::ATTRIBUTES => &self.fields,
            make::STATE => &["state"],
            make::NEW_EX => &["args", "kwargs", "state", "items", "pairs", "setter"],
            _ => &["args", "state", "items", "pairs", "setter"],
        }
    }
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
