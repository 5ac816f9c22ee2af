//! Processes by descriptor: a pid may be used again, a pidfd never means another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::edge;

/// `SO_PEERPIDFD` (Linux 6.5), the process that connected, whatever its number is now.
const SO_PEERPIDFD: libc::c_int = 77;

/// A process, alive or dead.
#[derive(Debug)]
pub struct ProcessFd(OwnedFd);

impl ProcessFd {
    /// The process with this number now.
    pub fn open(pid: u32) -> io::Result<Self> {
        Ok(Self(edge::open_process(pid)?))
    }

    /// The process at the other end of a Unix socket, which had number `pid` when it connected.
    pub(crate) fn of_peer(socket: BorrowedFd<'_>, pid: u32) -> io::Result<Self> {
        let mut fd: libc::c_int = -1;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `fd` and `length` are alive, and `length` says how large `fd` is.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut fd).cast(),
                &raw mut length,
            )
        } != 0;
        if !failed && fd >= 0 {
            // SAFETY: the kernel has just made this descriptor for us.
            return Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
        // An older kernel. The number may have been used again if the peer is already dead; its
        // socket then reads as closed, so the error is found out at the first read.
        Self::open(pid)
    }

    /// Whether the process still runs (a zombie does not).
    pub fn is_alive(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&now)))?;
        Ok(ready == 0)
    }
}

impl AsFd for ProcessFd {
    /// Becomes readable when the process ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_alive_until_it_is_dead() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = ProcessFd::open(child.id()).unwrap();
        assert!(process.is_alive().unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process.is_alive().unwrap());
        assert!(ProcessFd::open(0).is_err());
        assert!(ProcessFd::open(u32::MAX).is_err());
    }
}
