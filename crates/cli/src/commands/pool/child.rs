//! Programs that end with this command.
//!
//! Only a process itself can ask the kernel for a signal at the end of its parent. So this command
//! starts itself as `pool child`, and that one asks for the signal and becomes the program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};

use crate::arguments::PoolChild;

/// Becomes the program. SIGTERM at the end of the parent lets it put things in order.
pub(super) fn become_child(child: &PoolChild) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).context("asking for a signal")?;
    let parent = getppid().map(Pid::as_raw_pid);
    // It may have ended before it was asked for.
    if parent != i32::try_from(child.parent).ok() {
        bail!("process {} has ended already", child.parent);
    }
    let [program, arguments @ ..] = child.command.as_slice() else { bail!("there is no program") };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// The command that runs a program as a child; its arguments follow.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["pool", "child", "--parent", &std::process::id().to_string(), "--"]);
    // Ctrl-C is for this command, which ends the others in their order.
    command.arg(program).process_group(0).stdin(Stdio::null());
    command
}

/// A process that runs for this command.
pub(super) struct Process {
    pid: u32,
    descriptor: OwnedFd,
    /// `None` for a process that another one started.
    child: Option<Child>,
}

impl Process {
    /// Starts a program.
    pub(super) fn spawn(command: &mut Command) -> Result<Self> {
        let child = command.spawn().context("starting a process")?;
        let process = Self::watch(child.id())?;
        Ok(Self { child: Some(child), ..process })
    }

    /// A process that runs already.
    pub(super) fn watch(pid: u32) -> Result<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process")?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).context("watching a process")?;
        Ok(Self { pid, descriptor, child: None })
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// What it writes to its standard output, where that is a pipe.
    pub(super) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.as_mut()?.stdout.take()
    }

    /// How it ended, in words; `None` while it runs.
    pub(super) fn end(&mut self) -> Option<String> {
        if !self.ends_within(Duration::ZERO) {
            return None;
        }
        let status = self.child.as_mut().map(Child::wait);
        Some(match status {
            Some(Ok(status)) => status.to_string(),
            // Only its parent is told how it ended.
            Some(Err(_)) | None => "ended".to_owned(),
        })
    }

    /// Tells it to end.
    pub(super) fn terminate(&self) {
        // One that has ended already is not there to be told.
        let _ = pidfd_send_signal(&self.descriptor, Signal::TERM);
    }

    /// Waits for its end; one that has not ended then is killed. Whether it ended by itself.
    pub(super) fn end_by(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let has_ended = self.ends_within(left);
        if !has_ended {
            // It may end in this moment.
            let _ = pidfd_send_signal(&self.descriptor, Signal::KILL);
        }
        if let Some(child) = &mut self.child {
            // Nothing is left to do when it cannot be waited for.
            let _ = child.wait();
        }
        has_ended
    }

    fn ends_within(&self, within: Duration) -> bool {
        is_ready(self.descriptor.as_fd(), within).unwrap_or(false)
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether there is something to read, or the end of it, in time.
fn is_ready(descriptor: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(within).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            polled => return Ok(polled? > 0),
        }
    }
}
