//! Processes by descriptor: a pid may be used again, a pidfd never means another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::edge;

/// `SO_PEERPIDFD` (Linux 6.5), the process that connected, whatever its number is now.
const SO_PEERPIDFD: libc::c_int = 77;

/// The file system of process descriptors since Linux 6.9, which has a number for each process.
const PIDFS_MAGIC: u64 = 0x5049_4446;

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
        match Self::passed_by(socket) {
            Some(process) => Ok(process),
            None => Self::by_number(pid),
        }
    }

    /// For kernels before 6.5. The number may have been used again if the peer is already dead; its
    /// socket then reads as closed, so the error is found out at the first read.
    fn by_number(pid: u32) -> io::Result<Self> {
        if pid == 0 {
            let text = "the daemon cannot see the client's process, which is in another pid \
                namespace: that takes Linux 6.5, or a pid namespace that both share";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Self::open(pid)
    }

    /// The process as the kernel hands it over since 6.5.
    fn passed_by(socket: BorrowedFd<'_>) -> Option<Self> {
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
        if failed || fd < 0 {
            return None;
        }
        // SAFETY: the kernel has just made this descriptor for us.
        Some(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether the process still runs (a zombie does not).
    pub fn is_alive(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&now)))?;
        Ok(ready == 0)
    }
}

/// Whether two descriptors mean the same process; `None` on kernels before 6.9, where they do not
/// say so.
pub fn is_same_process(one: impl AsFd, other: impl AsFd) -> Option<bool> {
    let number = |fd: BorrowedFd<'_>| {
        let kind = rustix::fs::fstatfs(fd).ok()?.f_type as u64;
        // Elsewhere all of them have one number.
        if kind == PIDFS_MAGIC { Some(rustix::fs::fstat(fd).ok()?.st_ino) } else { None }
    };
    Some(number(one.as_fd())? == number(other.as_fd())?)
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
    fn a_process_without_a_number_is_refused_by_kernels_that_do_not_hand_it_over() {
        // It was EINVAL, which did not say what to do.
        let error = ProcessFd::by_number(0).unwrap_err().to_string();
        assert!(error.contains("Linux 6.5") && error.contains("pid namespace"), "{error}");
        assert!(ProcessFd::by_number(std::process::id()).unwrap().is_alive().unwrap());
    }

    #[test]
    fn descriptors_of_one_process_are_distinguished_from_those_of_another() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let open = |pid| ProcessFd::open(pid).unwrap();
        let (own, other) = (open(std::process::id()), open(child.id()));
        if let Some(same) = is_same_process(&own, open(std::process::id())) {
            assert!(same);
            assert_eq!(is_same_process(&own, &other), Some(false));
        }
        assert_eq!(is_same_process(std::io::stdin(), &own), None);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

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
