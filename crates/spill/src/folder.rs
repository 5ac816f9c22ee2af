//! The folder of one store below the folder that several stores may share, and who lives in it.
//!
//! ```text
//! DIR/plasmon-STORE/        the folder of the store with this token
//!     lock                  held (flock) as long as daemon or keeper of that store live
//!     ID-SERIAL.spill       objects (docs/formats/spill.md)
//! ```
//!
//! A store that ends in order removes its folder. One that was killed leaves it behind; the next
//! store in `DIR` removes it, if it is certainly a dead store's: the lock file says so itself, it
//! belongs to this user, and no process holds it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

/// The lock's name in the folder.
pub(crate) const LOCK_NAME: &str = "lock";

pub(crate) const SUFFIX: &str = "spill";
pub(crate) const TEMPORARY_SUFFIX: &str = "part";

/// Bytes of a lock file that are looked at; ours are shorter.
const LOCK_BYTES_MAX: u64 = 128;

/// File systems whose locks mean what they say also for folders that a machine left behind before
/// it was restarted: ext, XFS, Btrfs, tmpfs, overlay, F2FS, ZFS. Others may be shared with
/// another machine, whose locks this one need not see.
const LOCAL: [u32; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1];

/// File systems whose files lie in the memory that spilling is to free: tmpfs, ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether files in this folder, or where it would be made, lie in memory: no place to spill to.
pub fn is_in_memory(folder: &Path) -> bool {
    let mut there = folder.ancestors().filter(|path| path.exists());
    let found = there.next().and_then(|path| rustix::fs::statfs(path).ok());
    found.is_some_and(|found| IN_MEMORY.contains(&(found.f_type as u32)))
}

/// Says that a store's folder is in use, for as long as any descriptor of it is open.
#[derive(Debug)]
pub struct FolderLock(OwnedFd);

impl FolderLock {
    /// Makes the store's folder, if need be, and locks it.
    pub fn take(parent: &Path, store: u64) -> io::Result<Self> {
        let folder = folder_of(parent, store);
        crate::disk::make_private_folder(&folder)?;
        let mut file = open_lock(&folder, true)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        file.write_all(promise(store).as_bytes())?;
        Ok(Self(file.into()))
    }

    /// A lock that another process took and passed on.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for FolderLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The folder of a store.
pub(crate) fn folder_of(parent: &Path, store: u64) -> PathBuf {
    parent.join(format!("plasmon-{store:016x}"))
}

/// What a lock file says: whose it is, so that no other file named `lock` is taken for one.
fn promise(store: u64) -> String {
    format!("spill folder of the Plasmon store {store:016x}\n")
}

fn open_lock(folder: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32)
        .open(folder.join(LOCK_NAME))
}

/// Removes the folders of stores that are dead for certain. Returns what was removed, and what was
/// a dead store's and could not be removed.
pub fn sweep(parent: &Path, own: u64) -> (Vec<PathBuf>, Vec<(PathBuf, io::Error)>) {
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    // A folder that cannot be listed is the tier's own business.
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(store) = store_named_by(&path).filter(|store| *store != own) else { continue };
        let Some(lock) = lock_of_dead(&path, store) else { continue };
        match remove(&path) {
            Ok(()) => removed.push(path),
            Err(error) => kept.push((path, error)),
        }
        drop(lock);
    }
    (removed, kept)
}

fn store_named_by(path: &Path) -> Option<u64> {
    let token = path.file_name()?.to_str()?.strip_prefix("plasmon-")?;
    if token.len() != 16 { None } else { u64::from_str_radix(token, 16).ok() }
}

/// The lock of a folder whose store is dead, held from here on; `None` where there is a doubt.
fn lock_of_dead(folder: &Path, store: u64) -> Option<File> {
    let meta = fs::symlink_metadata(folder).ok()?;
    let mut file = open_lock(folder, false).ok()?;
    let lock = file.metadata().ok()?;
    let user = rustix::process::geteuid().as_raw();
    let is_ours = meta.is_dir() && lock.is_file() && meta.uid() == user && lock.uid() == user;
    let magic = rustix::fs::fstatfs(&file).ok()?.f_type as u32;
    if !is_ours || !LOCAL.contains(&magic) {
        return None;
    }
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut text = String::new();
    (&mut file).take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    (text == promise(store)).then_some(file)
}

/// Removes a store's files and its folder. Anything else in it stays, and so does the folder.
fn remove(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        if suffix == Some(SUFFIX) || suffix == Some(TEMPORARY_SUFFIX) {
            fs::remove_file(&path)?;
        }
    }
    // The lock goes last: without it no later store would know whose the rest is.
    if fs::read_dir(folder)?.count() > 1 {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    fs::remove_file(folder.join(LOCK_NAME))?;
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: u64 = 0xdead;
    const OWN: u64 = 1;

    /// Stores that were killed left their files behind forever.
    #[test]
    fn the_folder_of_a_dead_store_is_removed_and_that_of_a_living_one_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(parent.path(), DEAD).unwrap();
        let folder = folder_of(parent.path(), DEAD);
        fs::write(folder.join("a-1.spill"), "bytes").unwrap();
        fs::write(folder.join("a-2.part"), "half").unwrap();
        assert!(FolderLock::take(parent.path(), DEAD).is_err(), "one store, one folder");
        let passed_on = FolderLock::adopt(lock.as_fd().try_clone_to_owned().unwrap());
        drop(lock);
        assert_eq!(sweep(parent.path(), OWN).0, Vec::<PathBuf>::new(), "the keeper still holds it");
        drop(passed_on);
        assert_eq!(sweep(parent.path(), DEAD).0, Vec::<PathBuf>::new(), "it is our own");
        assert_eq!(sweep(parent.path(), OWN).0, std::slice::from_ref(&folder));
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_in_memory_is_recognized_also_before_it_is_made() {
        if !Path::new("/dev/shm").is_dir() {
            return;
        }
        for (path, in_memory) in [("/dev/shm/a/b", true), ("/dev/shm", true), ("/proc", false)] {
            assert_eq!(is_in_memory(Path::new(path)), in_memory, "{path}");
        }
    }

    #[test]
    fn what_is_not_certainly_a_dead_stores_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder_of(parent.path(), DEAD);
        let stays = |why: &str| {
            let (removed, _) = sweep(parent.path(), OWN);
            assert!(removed.is_empty() && folder.exists(), "{why}");
        };
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x.spill"), "not ours").unwrap();
        stays("no lock at all");
        fs::write(folder.join(LOCK_NAME), "another program's lock").unwrap();
        stays("another program's lock");
        fs::write(folder.join(LOCK_NAME), promise(OWN)).unwrap();
        stays("the lock of another store");
        fs::remove_file(folder.join(LOCK_NAME)).unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.join(LOCK_NAME)).unwrap();
        stays("a link");
        fs::remove_file(folder.join(LOCK_NAME)).unwrap();
        drop(FolderLock::take(parent.path(), DEAD).unwrap());
        fs::write(folder.join("README"), "mine").unwrap();
        assert_eq!(sweep(parent.path(), OWN).1.len(), 1, "it cannot be removed whole");
        assert!(folder.join("README").exists() && folder.join(LOCK_NAME).exists());
        assert!(!folder.join("x.spill").exists());
    }
}
