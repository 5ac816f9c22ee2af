//! Noticing a fork: the child must not use what belongs to its parent's connection.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

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
    // SAFETY: the handler touches one atomic and is therefore fit to run between fork and exec in a
    // process that had threads; it is a plain function that lives as long as the code does.
    let code =
        *WATCHING.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
    if code == 0 { Ok(generation()) } else { Err(io::Error::from_raw_os_error(code)) }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

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
