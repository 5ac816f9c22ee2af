//! Noticing a fork: the child must not use what belongs to its parent's connection, nor see the
//! memory that its parent pins and leases.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::inherited;

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the one that first called [`watch`]. One load; it
/// counts only after `watch`.
#[inline]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts counting forks, once for the whole process, and returns the present generation.
pub fn watch() -> io::Result<u64> {
    static WATCHING: OnceLock<libc::c_int> = OnceLock::new();
    // SAFETY: the handler touches atomics and makes system calls and is therefore fit to run in the
    // child of a process that had threads; it is a plain function that lives as long as the code.
    let code =
        *WATCHING.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
    if code == 0 { Ok(generation()) } else { Err(io::Error::from_raw_os_error(code)) }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    inherited::close_all();
}

/// Forks a child that does nothing: it reads `until` up to its end, and ends. For tests of what a
/// forked child keeps. Returns the child's number.
pub fn idle_child(until: BorrowedFd<'_>) -> io::Result<i32> {
    // SAFETY: the child makes system calls only, as a child of a process with threads must, and
    // does not return.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let mut bytes = [0u8; 64];
            // SAFETY: the descriptor is open in the child as it was in the parent, and the buffer
            // has room for what is read.
            while unsafe { libc::read(until.as_raw_fd(), bytes.as_mut_ptr().cast(), 64) } > 0 {}
            // SAFETY: it ends the process, without anything that belongs to the parent.
            unsafe { libc::_exit(0) }
        }
        child => Ok(child),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Populate, ReadMap, WriteMap};
    use crate::memfd::Memfd;

    /// A child read what its parent had pinned, and went on reading when the memory had become
    /// another object's.
    #[test]
    fn a_child_does_not_see_hidden_memory_and_nothing_takes_its_place() {
        watch().unwrap();
        let memfd = Memfd::create("plasmon-test", 8192).unwrap();
        let plain = WriteMap::new(&memfd, 8192, Populate::Yes).unwrap();
        let mut hidden = ReadMap::new(&memfd, 8192, Populate::Yes).unwrap();
        hidden.hide_from_children();
        let shown = ReadMap::new(&memfd, 8192, Populate::Yes).unwrap();
        let mut byte = [1];
        assert!(hidden.copy_out(0, &mut byte) && byte == [0]);
        // SAFETY: the child calls only functions that are safe after a fork: loads, `mincore`, and
        // `_exit`; at last it touches what is hidden and is ended by that.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let other = shown.copy_out(4096, &mut byte) && plain.copy_out(0, &mut byte);
            // SAFETY: asks whether an address is mapped; the vector has a byte for its one page.
            let taken = unsafe {
                let mut vector = [0u8; 1];
                libc::mincore(hidden.base().cast_mut().cast(), 4096, vector.as_mut_ptr())
            };
            if !other || taken != 0 {
                // SAFETY: ends the child.
                unsafe { libc::_exit(1) };
            }
            // SAFETY: no core file and no report: the fault that follows is meant.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            let read = hidden.copy_out(0, &mut byte);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if read { 2 } else { 3 }) };
        }
        assert!(child > 0, "fork: {}", io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status), "it ended with status {status:#x}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
        assert!(hidden.copy_out(0, &mut byte), "its parent goes on reading");
    }

    #[test]
    fn a_child_counts_and_its_parent_does_not() {
        let before = watch().unwrap();
        // SAFETY: the child calls only functions that are safe after a fork: a load and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let counted = generation() == before + 1;
            // SAFETY: ends the child without running the test harness's handlers.
            unsafe { libc::_exit(i32::from(!counted)) };
        }
        assert!(child > 0, "fork: {}", io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child saw another generation");
        assert_eq!(generation(), before);
    }
}
