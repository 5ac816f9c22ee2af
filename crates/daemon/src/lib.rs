//! `plasmond`: the process that owns a node's store, and the keeper that outlives it.
//!
//! ```text
//! settings ──► startup ──► core (one thread around plasmon_store::Store)
//!                 │          ├── sessions, peers, outbox     clients and what waits for them
//!                 │          ├── directory, extents          what is shared with them
//!                 │          └── workers                     memory and files, in the background
//!                 └── recovery, with plasmon_keeper          kill -9 loses nothing that was sealed
//! ```
//!
//! Everything here is the edge: sockets, clocks, descriptors, threads. What the store decides is
//! decided in `plasmon_store`.
//!
//! ```
//! use plasmon_daemon::settings::{self, Config};
//!
//! let flags = [("capacity_bytes", "1g".to_owned()), ("socket", "/tmp/store.sock".to_owned())];
//! let loaded = settings::load(None, |_| None, &flags)?;
//! let config = Config::new(&loaded.settings)?;
//! assert_eq!(config.capacity_bytes, 1 << 30);
//! # Ok::<(), settings::BadStart>(())
//! ```

#![forbid(unsafe_code)]

mod clock;
mod closer;
mod core;
mod directory;
mod door;
mod extents;
mod log;
mod outbox;
mod passing;
pub mod paths;
mod peers;
mod poll;
mod program;
mod recovery;
mod rings;
mod seats;
mod sessions;
pub mod settings;
#[cfg(feature = "sim")]
pub mod simulated;
mod starter;
mod startup;
mod workers;

pub use program::run;

/// A key for the index that nobody can foresee.
fn random_key() -> std::io::Result<plasmon_shm::HashKey> {
    let words: [u8; 32] = plasmon_shm::edge::random()?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| words[at * 8 + byte]));
    Ok(plasmon_shm::HashKey([0, 1, 2, 3].map(word)))
}

/// A random number.
fn random_word() -> std::io::Result<u64> {
    plasmon_shm::edge::random().map(u64::from_le_bytes)
}
