//! The PLO format: one value of any shape as typed columns, readable as Arrow.
//!
//! This crate handles bytes and does not use Python: `spec/objects.md` is its specification, and
//! the Python module and other readers are built on it. It has no unsafe code: foreign bytes can
//! at worst be refused.
//!
//! ```text
//! a value ── breadth-first ──► tables::Tables ── Plan::of ──► front + heap's pieces ──► bytes
//! bytes ── View::of ──► View (where tables lie) ── check ──► Checked ── Order::of ──► a value
//! ```
//!
//! ```
//! use plasmon_plo::codes::{elem, kind, slot};
//! use plasmon_plo::tables::{Node, Run, Tables};
//! use plasmon_plo::{FormChoice, Plan, ValidObject};
//!
//! // The list ["a", "b"].
//! let mut tables = Tables::default();
//! let list = tables.nodes.reserve();
//! tables.slots.push_index(slot::NODE, list);
//! let start = tables.strs.push(b"a");
//! tables.strs.push(b"b");
//! let run = Run { elem: elem::STRS, start };
//! tables.nodes.set(list, Node { kind: kind::LIST, run, length: 2, ..Node::default() });
//!
//! let plan = Plan::of(&tables, FormChoice::Auto)?;
//! let bytes = plan.front(&tables);
//! let object = ValidObject::of(&bytes)?;
//! assert_eq!(object.view.strs.at(1), b"b");
//! # Ok::<(), plasmon_plo::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod check;
pub mod codes;
mod columns;
mod error;
mod extensions;
pub mod layout;
mod locate;
pub mod messages;
pub mod natural;
pub mod order;
pub mod sizes;
pub mod stream;
pub mod tables;
pub mod view;
mod write;

pub use check::ValidObject;
pub use error::{Error, Result};
pub use layout::Form;
pub use order::Order;
pub use view::{View, is_object, object_bytes};
pub use write::{FormChoice, Plan, SMALL_MAGIC};
