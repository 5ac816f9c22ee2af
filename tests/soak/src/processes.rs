//! Processes by their numbers: signals, whether they live, and what they hold.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Kills a process that cannot refuse.
pub(crate) fn kill(pid: u32) -> Result<()> {
    signal(pid, Signal::KILL)
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no such process number")?;
    Ok(kill_process(pid, signal)?)
}

/// Whether a process is there and not only waiting to be reaped.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    // Its other threads may end after the first one, and hold locks and sockets until then.
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let has_ended = |state| matches!(state, 'Z' | 'X') && threads() <= 1;
    pid != 0 && state.is_some_and(|state| !has_ended(state))
}

/// How many memfds a process holds, by however many descriptors.
pub(crate) fn memfds(pid: u32) -> Result<usize> {
    let paths =
        fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_memfd = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"))
    };
    let inodes = paths.filter(is_memfd).filter_map(|path| Some(fs::metadata(path).ok()?.ino()));
    Ok(inodes.collect::<BTreeSet<u64>>().len())
}
