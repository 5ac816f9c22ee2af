//! Finding and starting the daemon.

use std::path::PathBuf;

use plasmon_proto::Code;

use crate::error::{Error, Result};
use crate::options::StartOptions;

/// A daemon that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedDaemon {
    /// The process that was started.
    pub pid: u32,
    /// The socket that it serves.
    pub socket: PathBuf,
}

/// Starts a store and returns when it answers. With a store already running on the socket:
/// [`Code::AlreadyRunning`].
pub fn start(options: &StartOptions) -> Result<StartedDaemon> {
    let _ = options;
    Err(Error::new(Code::Unsupported, "starting"))
}

/// The socket of this user's store: `$PLASMON_SOCKET`, else `plasmon/store.sock` in
/// `$XDG_RUNTIME_DIR`, else `plasmon-<uid>/store.sock` in the temporary directory, which must then
/// belong to this user alone.
pub fn default_socket() -> Result<PathBuf> {
    Err(Error::new(Code::Unsupported, "finding the socket"))
}
