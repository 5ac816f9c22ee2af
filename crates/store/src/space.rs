//! The memory, and the requests that wait for some of it.

use std::collections::BTreeMap;

use plasmon_proto::extent::{ExtentId, Range};

use crate::config::Config;
use crate::content;
use crate::jobs::Jobs;
use crate::memory::Memory;

/// The memory of a store.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) memory: Memory,
    pub(crate) jobs: Jobs,
    /// What is free in quarantined extents, as far as their writers hold no lease there.
    pub(crate) in_doubt: BTreeMap<ExtentId, Vec<Range>>,
    /// Bytes of data and metadata in memory, of sealed objects and of those being created.
    pub(crate) content_bytes: u64,
}

impl Space {
    /// As much as the configuration says, and nothing in it.
    pub(crate) fn new(config: &Config) -> Self {
        let memory_bytes = content::memory_bytes(config.capacity_bytes, config.count_content);
        Self {
            memory: Memory::new(config, memory_bytes),
            jobs: Jobs::default(),
            in_doubt: BTreeMap::new(),
            content_bytes: 0,
        }
    }
}
