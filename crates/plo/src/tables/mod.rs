//! The tables of an object that is being written.
//!
//! A writer goes through a value breadth-first and appends here; see section 4 of
//! `spec/objects.md` for the order. Nothing is checked on the way: numbers past the limits of the
//! format are found by [`crate::Plan::of`] before anything is laid out. The bytes of the heap stay
//! where they are until the object is written; only their lengths are here.

mod classes;
mod dtypes;
mod exts;
mod heap;
mod nodes;
mod slots;
mod tensors;
mod whole;

pub use self::classes::{Class, Classes};
pub use self::dtypes::Dtypes;
pub use self::exts::Exts;
pub use self::heap::Heap;
pub use self::nodes::{Node, Nodes, Run};
pub use self::slots::Slots;
pub use self::tensors::Tensors;
pub use self::whole::Tables;
pub use crate::columns::{Bits, ByteStrings, Lists, Long, Word, word};
