//! The operations that a tier needs from a file system.
//!
//! The real one is [`RealDisk`]. Tests wrap it to make a write fail where they like; this is the
//! only reason for the trait.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

/// A file system.
pub trait Disk: Send {
    /// Makes a folder (and those above it) that only this user may enter.
    fn make_folder(&mut self, path: &Path) -> io::Result<()>;
    /// Creates a file that must not exist yet, which only this user may read and which cannot be
    /// opened for writing again: it is passed to clients and must not change.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>>;
    /// Opens a file for reading, without waiting for anything; what is not a file is refused with
    /// [`io::ErrorKind::InvalidData`].
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
    /// The same, as a file to pass on, and how long it is.
    fn open_file(&mut self, path: &Path) -> io::Result<(File, u64)>;
    /// Renames a file over another.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// The files of a folder.
    fn list(&mut self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Takes a lock on a folder, for as long as the descriptor is open: programs that tidy up old
    /// files (`systemd-tmpfiles`) leave a locked folder alone. `None` where that cannot be.
    fn hold_folder(&mut self, _path: &Path) -> Option<OwnedFd> {
        None
    }
    /// Removes an empty folder.
    fn remove_folder(&mut self, path: &Path) -> io::Result<()>;
}

/// Makes a folder (and those above it) that only this user may enter.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the path is a link, a pipe or a device, not a file")
}

/// The operating system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        make_private_folder(path)
    }

    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&mut self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.open_file(path)?.0))
    }

    fn open_file(&mut self, path: &Path) -> io::Result<(File, u64)> {
        // Opening a pipe would wait for its other end, and with it all that is to be brought back.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
                return Err(no_file());
            }
            file => file?,
        };
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok((file, metadata.len())) } else { Err(no_file()) }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&mut self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
        // Each file system lists in its own order.
        paths.sort_unstable();
        Ok(paths)
    }

    fn hold_folder(&mut self, path: &Path) -> Option<OwnedFd> {
        let folder = File::open(path).ok()?;
        rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(folder.into())
    }

    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
}
