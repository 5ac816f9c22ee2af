//! An object's tables where they lie: typed slices of its bytes.
//!
//! [`View::of`] finds the buffers; nothing in them is looked at. [`crate::check::check`] does that,
//! once, and gives a [`crate::check::ValidObject`], whose accessors then need no outcome.

mod find;
mod header;
mod slices;
mod tables;

pub use header::{is_object, object_bytes};
pub use slices::{Bitmap, ByteStringsView, Longs, Words};
pub use tables::{ClassesView, ExtsView, INDEX_CHILDREN, NodesView, SlotsView, TensorsView, View};
