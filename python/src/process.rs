//! Finding and starting the daemon.

use std::path::PathBuf;

use plasmon_client::StartOptions;
use pyo3::prelude::*;

use crate::arguments::seconds;
use crate::error::OrRaise;
use crate::interrupt::ask;

/// The socket of this user's store: $PLASMON_SOCKET, or one in the user's runtime directory.
#[pyfunction]
pub(crate) fn default_socket(py: Python<'_>) -> PyResult<PathBuf> {
    plasmon_client::default_socket().or_raise(py)
}

/// This process as the setting `starter` names it: a store started with it ends with this process.
#[pyfunction]
pub(crate) fn this_process() -> PyResult<String> {
    Ok(plasmon_client::Incarnation::own()?.to_string())
}

/// Starts a daemon with these settings and returns its process id and its socket when it answers.
#[pyfunction]
#[pyo3(signature = (settings, *, daemon = None, timeout = 10.0))]
pub(crate) fn start_daemon(
    py: Python<'_>,
    settings: Vec<(String, String)>,
    daemon: Option<PathBuf>,
    timeout: f64,
) -> PyResult<(u32, PathBuf)> {
    let timeout = seconds(Some(timeout))?.unwrap_or(std::time::Duration::MAX);
    let options = StartOptions { daemon, settings, timeout };
    let started = ask(py, || plasmon_client::start(&options))?;
    Ok((started.pid, started.socket))
}
