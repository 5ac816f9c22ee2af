//! The daemon and its keeper as the simulator runs them: the same code, in a world that it makes.
//! See `tests/sim`.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use plasmon_shm::Connection;

use crate::settings::Config;
use crate::startup;

/// A daemon about to start.
#[derive(Debug)]
pub struct Start {
    /// Its settings.
    pub config: Config,
    /// Readable when it is asked to end.
    pub signals: UnixStream,
    /// Its keeper, whose store it takes over; `None` for a new store.
    pub keeper: Option<OwnedFd>,
}

/// Runs a daemon until it ends.
pub fn serve(start: Start) -> Result<(), String> {
    let Start { config, signals, keeper } = start;
    let core = match keeper {
        Some(link) => startup::adopting_with(signals, config, Vec::new(), link),
        None => startup::fresh_with(signals, config, Vec::new(), Stdio::null()),
    };
    core.map_err(|error| error.to_string())?.run().map_err(|error| error.to_string())
}

/// Runs a keeper until it ends.
pub fn keep(link: OwnedFd) {
    // How it ended is seen by what it started and did not start.
    let _ = plasmon_keeper::keep(&[], Connection::adopt(link));
}
