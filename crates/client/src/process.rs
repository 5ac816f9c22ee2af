//! The state of a store in one process: its connection, and what its puts share.
//!
//! A forked child inherits its parent's memory but must not use its parent's connection, so every
//! process has a [`Process`] of its own, made at first use. What only asks, waits or reads takes
//! its [`Connection`]; only what makes objects takes the whole.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use plasmon_proto::ObjectId;

use crate::connection::Connection;
use crate::error::Result;
use crate::ids::SharedIds;
use crate::options::ConnectOptions;
use crate::pool_regions::RegionDoors;

/// Threads beyond this add nothing to a copy on machines of today.
const COPY_THREADS_MAX: usize = 6;

/// The same where the caller says how many: more are not started.
const COPY_THREADS_GIVEN_MAX: usize = 64;

/// The state of a store in one process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) connection: Arc<Connection>,
    pub(crate) ids: Arc<SharedIds>,
    copy_threads: usize,
    /// What it does with memory of the pool.
    pub(crate) regions: RegionDoors,
}

impl Process {
    /// Connects.
    pub(crate) fn connect(
        socket: &Path,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<Self> {
        let connection = Connection::connect(socket, options, timeout)?;
        let copy_threads = copy_threads(options.copy_threads);
        let (ids, regions) = (Arc::new(SharedIds::new()), RegionDoors::default());
        Ok(Self { connection, ids, copy_threads, regions })
    }

    /// A unique id.
    pub(crate) fn new_id(&self) -> ObjectId {
        self.ids.next()
    }

    /// How many threads copy a large object.
    pub(crate) fn copy_threads(&self) -> usize {
        self.copy_threads
    }
}

fn copy_threads(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(default_copy_threads).clamp(1, COPY_THREADS_GIVEN_MAX)
}

/// The number of cores that this process may use, but no more than memory can feed.
fn default_copy_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(COPY_THREADS_MAX)
}
