//! Programs of this workspace, and processes as the kernel shows them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use plasmon_proto::ObjectId;
use plasmon_proto::limits::{RESIDENT_SLACK_BYTES_MIN, RESIDENT_SLACK_PER_CAPACITY};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

use crate::{TEST_TIMEOUT, until};

/// Where this workspace's programs and libraries lie, after these packages were built.
pub fn build(packages: &[&str]) -> PathBuf {
    // A test program lies in `<target>/<profile>/deps`, other programs in `<target>/<profile>`.
    let own = std::env::current_exe().unwrap();
    let own = own.parent().unwrap();
    let profile = if own.ends_with("deps") { own.parent().unwrap() } else { own };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked"]);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.env("CARGO_TARGET_DIR", profile.parent().unwrap());
    assert!(cargo.status().unwrap().success(), "{packages:?} are not built");
    profile.to_owned()
}

/// The program `plasmond`, built once from this very workspace.
pub fn plasmond() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let given = || std::env::var_os("PLASMON_DAEMON").map(PathBuf::from);
    PROGRAM
        .get_or_init(|| given().unwrap_or_else(|| build(&["plasmon-daemon"]).join("plasmond")))
        .clone()
}

/// The command of a daemon that takes nothing from the environment.
pub fn daemon_command(program: &Path, socket: &Path) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("PLASMON_")) {
        command.env_remove(key);
    }
    command.arg("--socket").arg(socket);
    command
}

/// Sends a signal to a process that is there.
pub fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Sends a signal to a process that may have ended by itself; a descriptor of it where it had not.
pub fn signal_what_is_left(pid: u32, signal: Signal) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let gone = |error: Errno| assert_eq!(error, Errno::SRCH, "a process is signalled, or gone");
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(gone).ok()?;
    pidfd_send_signal(&process, signal).map_err(gone).ok()?;
    Some(process)
}

/// A descriptor of a process that is there.
pub fn process(pid: u32) -> OwnedFd {
    pidfd_open(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), PidfdFlags::empty()).unwrap()
}

/// Whether the process ends in time.
pub fn ends(process: &OwnedFd) -> bool {
    readable(process, TEST_TIMEOUT)
}

/// Whether there is something to read, or the end of it, in time.
pub fn readable(fd: impl AsFd, within: Duration) -> bool {
    let timeout = Timespec::try_from(within).unwrap();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

/// The capacity is a bound: what all extents of these processes take of the machine's memory does
/// not exceed it by more than the stated slack, after any test.
pub fn memory_is_within_bounds(pids: &[u32], capacity_bytes: u64) {
    let slack = (capacity_bytes / RESIDENT_SLACK_PER_CAPACITY).max(RESIDENT_SLACK_BYTES_MIN);
    // What was dropped last is given back by a thread of the daemon's.
    until(&format!("the extents take {capacity_bytes} bytes and {slack} at most"), || {
        extents_bytes(pids) <= capacity_bytes + slack
    });
}

/// What the extents that these processes have open take of the machine's memory.
pub fn extents_bytes(pids: &[u32]) -> u64 {
    let folders = pids.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).ok());
    let extents = folders.flatten().flatten().filter(|entry| {
        let link = std::fs::read_link(entry.path());
        link.is_ok_and(|link| link.to_string_lossy().contains("memfd:plasmon-extent"))
    });
    let files: BTreeMap<u64, u64> = extents
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .map(|found| (found.ino(), found.blocks() * 512))
        .collect();
    files.into_values().sum()
}

/// An id made of one number.
pub fn id(number: u64) -> ObjectId {
    let mut bytes = [0x1d; 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// A pool daemon that ended together with its store, between the look for the processes of a
    /// node and their end, made a test of random faults fail on a busy machine.
    #[test]
    fn a_process_that_has_ended_is_not_signalled() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = signal_what_is_left(child.id(), Signal::KILL).expect("it runs");
        assert!(ends(&process));
        child.wait().unwrap();
        assert!(signal_what_is_left(child.id(), Signal::KILL).is_none());
    }
}
