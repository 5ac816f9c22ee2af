//! How a builder takes memory.

use std::time::Duration;

use plasmon_client::{Client, GrowOptions};

use crate::memory::Source;

/// How a builder takes memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuilderOptions {
    /// How long each buffer will be, as far as that is known: spares asking for memory in steps.
    pub bytes_hint: u64,
    /// For how long an append waits for room while the store is full, before that is an error.
    pub timeout: Duration,
}

impl BuilderOptions {
    pub(super) fn source(&self, store: &Client) -> Source {
        let Self { bytes_hint, timeout } = *self;
        let options = GrowOptions { bytes_hint, timeout, owned: true, ..GrowOptions::default() };
        Source { store: store.clone(), options, fork: plasmon_client::fork_generation() }
    }
}
