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
//! # use plasmon_plo::{FormChoice, Plan};
//! # let mut tables = Tables::default();
//! # let list = tables.nodes.reserve();
//! # tables.slots.push_index(slot::NODE, list);
//! # let start = tables.strs.push(b"a");
//! # let run = Run { elem: elem::STRS, start };
//! # tables.nodes.set(list, Node { kind: kind::LIST, run, length: 1, ..Node::default() });
//! # let bytes = Plan::of(&tables, FormChoice::Auto)?.front(&tables);
//! use plasmon_plo::natural::{Container, Document, Value};
//!
//! // The list ["a"].
//! let document = Document::of(&bytes)?;
//! let Some(Container::List(items)) = document.container(&document.root) else { panic!("a list") };
//! assert_eq!(items[0], Value::Str("a"));
//! # Ok::<(), plasmon_plo::Error>(())
//! ```

mod document;
mod leaves;
mod tensor;
mod values;

pub use crate::extensions::{Clock, PathKind, Zone};
pub use document::Document;
pub use tensor::{Dtype, Tensor};
pub use values::{Class, Container, NodeId, Object, Pickle, Value};
