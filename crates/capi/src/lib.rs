//! The C ABI of Plasmon; its manual is `include/plasmon.h`.
//!
//! Here is only what a border needs: null checks, conversions, the code and the thread's last
//! error, and a stop for panics. Everything else is in `plasmon-client`.
//!
//! ```text
//! C ──► boundary::run ─┬─ arguments (null? text? number?) ─► plasmon_client ─► out parameters
//!                      ├─ Err ─► last_error::remember ─► its code
//!                      └─ panic ─► PLASMON_PANIC
//! ```
//!
//! # Rules
//!
//! `include/plasmon.h` is written by hand and is the reference; `tests/examples.rs` checks its
//! numbers and sizes against the library and runs the programs in `examples/` and `tests/c/`.
//! Options structs begin with their size, so that they can grow. Every function runs in
//! `boundary::{run, done, value}`, which catches panics and keeps the thread's last error. There is
//! no logic: what two bindings need belongs in the client.

#![expect(non_camel_case_types, reason = "the types have the names that C sees")]
#![expect(clippy::missing_safety_doc, reason = "the header says what a caller must ensure")]

pub mod arguments;
pub mod boundary;
pub mod columns;
pub mod connection;
pub mod description;
pub mod error;
pub mod id;
mod last_error;
pub mod pool;
pub mod pool_regions;
pub mod reader;
pub mod scopes;
pub mod subscription;
pub mod wait;
pub mod writer;
