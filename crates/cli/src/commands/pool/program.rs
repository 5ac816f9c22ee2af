//! Where the program of the pool daemon is.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};
use plasmon_client::{StartOptions, pool_daemon_program};

/// The program of the pool daemon, as a daemon that is started from here finds it.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(program) = pool_daemon_program(&StartOptions::default()) {
        return Ok(program);
    }
    let place = match env::var_os("PLASMON_POOLD").filter(|value| !value.is_empty()) {
        Some(program) => format!("PLASMON_POOLD names {}, which is no file", program.display()),
        None => "it is neither beside plasmond nor in PATH".to_owned(),
    };
    bail!(
        "a store of a pool needs the program plasmon-poold, and {place}: install it, or set \
         PLASMON_POOLD to its path"
    )
}
