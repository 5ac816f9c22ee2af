//! The door for Java: what `org.plasmon.shuffle.NativeStore` declares as native.
//!
//! ```text
//! connect ──► door (never freed, see below)
//!               ├─ create ──► writer ── memory ──► direct ByteBuffer ── seal │ abort: writer freed
//!               └─ open ────► direct ByteBuffer and pin ── release: pin freed
//! ```
//!
//! Doors, writers and pins are Rust values that Java holds by number. Java's classes own them: each
//! frees what it holds once, and hands its `ByteBuffer` to nobody who outlives it. A door is only
//! disconnected, never freed, because threads of a stopping executor may still be in a call; there
//! is one for each Spark application, so what stays behind is a few hundred bytes.
//!
//! Every function catches panics and turns errors into a `StoreException` with the stable key of
//! the error's code. All may be called from any thread. Deliberately absent: any knowledge of what
//! the bytes mean; only the names of a shuffle's objects are made here, so that opening one passes
//! numbers and no strings.

mod boundary;
mod door;
pub mod exports;

pub use door::Door;
