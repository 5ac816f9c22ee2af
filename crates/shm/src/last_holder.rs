//! Whether this process is the only one that still has a memfd.
//!
//! The pages of a memfd live as long as any open file of it does, and a mapping keeps its open
//! file. Descriptors that one process passes to another are opened again
//! ([`crate::Memfd::writable`]), so each is a separate open file, and the kernel counts those:
//! it grants a write lease on a file only to its one opener. Asking for such a lease is therefore a
//! question that no other process can answer wrongly: "is it open or mapped anywhere else?"
//!
//! What the asking process duplicated, or passed on as it is (to the keeper), is the same open file
//! and does not count.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Whether no other process has the file open or mapped. An error of the kind `Unsupported`: this
/// kernel does not say.
pub fn is_alone(file: impl AsFd) -> io::Result<bool> {
    match set_lease(&file, libc::F_WRLCK) {
        Ok(()) => {
            // It was a question only. A file without a lease has none to take back.
            let _ = set_lease(&file, libc::F_UNLCK);
            Ok(true)
        }
        Err(Errno::AGAIN | Errno::BUSY) => Ok(false),
        Err(error) => {
            let text = format!("cannot determine which processes have a file open ({error})");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

fn set_lease(file: &impl AsFd, kind: libc::c_int) -> Result<(), Errno> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the call reads and writes no memory of this process.
    let outcome = unsafe { libc::fcntl(fd, libc::F_SETLEASE, kind) };
    if outcome == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Populate, ReadMap, WriteMap};
    use crate::memfd::Memfd;

    #[test]
    fn descriptors_and_mappings_of_others_are_seen_and_our_own_are_not() {
        let memfd = Memfd::create_sealable("plasmon-test", 8192).unwrap();
        let ours = memfd.duplicate().unwrap();
        assert!(is_alone(&memfd).unwrap());
        let reader = memfd.read_only().unwrap();
        assert!(!is_alone(&memfd).unwrap(), "a reader's descriptor");
        let map = ReadMap::new(&reader, 8192, Populate::No).unwrap();
        drop(reader);
        assert!(!is_alone(&memfd).unwrap(), "a reader's mapping");
        drop(map);
        assert!(is_alone(&memfd).unwrap());
        let writer = memfd.writable().unwrap();
        let map = WriteMap::new(&writer, 8192, Populate::No).unwrap();
        drop(writer);
        memfd.seal_future_write().unwrap();
        assert!(!is_alone(&ours).unwrap(), "a writer's mapping");
        drop(map);
        memfd.seal_write().unwrap();
        assert!(is_alone(&memfd).unwrap(), "whatever its seals are");
    }
}
