//! How the log of durable objects is opened when a daemon starts.

use std::io;
use std::sync::mpsc::channel;
use std::time::Duration;

use plasmon_log::LogError;
use plasmon_shm::edge;
use plasmon_store::Store;
use plasmon_store::event::LoggedObject;

use crate::directory::SharedTables;
use crate::settings::Config;
use crate::workers::{BatchLimits, LogSlot, Workers, found_in};

/// How long a store that is taken over waits for its log. What is in it is not known before, so
/// this is as long as clients can be kept waiting.
const WITHIN: Duration = Duration::from_secs(5);

/// A log that is open.
pub(crate) struct OpenedLog {
    slot: LogSlot,
    limits: BatchLimits,
    /// What is in it.
    found: Vec<LoggedObject>,
}

/// Opens the log of a new store.
pub(crate) fn open_log(config: &Config) -> Result<Option<OpenedLog>, LogError> {
    let Some(durable) = &config.durable else { return Ok(None) };
    let mut opened = plasmon_log::open(&durable.log)?;
    let found = found_in(&mut opened);
    let slot = LogSlot::open(&durable.log, opened.log);
    Ok(Some(OpenedLog { slot, limits: durable.batch, found }))
}

/// Gives the log of a new store to its worker: what is in it is there before the store serves.
pub(crate) fn start_log(
    opened: OpenedLog,
    workers: &mut Workers,
    store: &mut Store<SharedTables>,
    now_ms: u64,
) -> io::Result<()> {
    let OpenedLog { slot, limits, found } = opened;
    workers.start_log(slot, limits)?;
    let mut effects = Vec::new();
    store.adopt_log(now_ms, found, &mut effects);
    assert!(effects.is_empty(), "a new store has nothing that the log contradicts");
    Ok(())
}

/// Has the log of a store that is taken over opened by its worker, because a disk that hangs must
/// not keep the store from serving. What is in it, unless that is not known yet.
pub(crate) fn begin_log(
    config: &Config,
    workers: &mut Workers,
) -> io::Result<Option<Vec<LoggedObject>>> {
    let Some(durable) = &config.durable else { return Ok(None) };
    let (first, opened) = channel();
    workers.start_log(LogSlot::closed(&durable.log, first), durable.batch)?;
    match edge::receive_within(&opened, WITHIN) {
        Ok(Ok(found)) => return Ok(Some(found)),
        Ok(Err(fault)) => {
            tracing::error!(fault, "the store starts without its log of durable objects");
        }
        Err(_) => {
            tracing::error!("the log of durable objects does not answer; the store starts without");
        }
    }
    Ok(None)
}
