//! System calls of real processes that fail one after the other: what a machine without memory,
//! descriptors or disk does to the daemon, its keeper and a client.
//!
//! ```text
//! test ── Supervisor ──► filter (seccomp) ──► plasmond, its keeper, or a client's thread
//!   │         verdict: carry it out, or ENOMEM, EMFILE, EIO ...
//!   └──► Trial: one kind of call, one error, early or late; then what must be so afterwards
//! ```
//!
//! Deliberately absent: faults of the allocator (a Rust program ends there), and of the memory
//! itself.

pub mod filter;
pub mod kinds;
pub mod node;
pub mod round;
pub mod supervisor;
pub mod trial;
