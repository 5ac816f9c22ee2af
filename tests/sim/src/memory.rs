//! The memfds of a world: which of them are still there, and how much memory they hold.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::{pread, pwrite};

/// What clients call a channel that they have taken over.
const JOINED: &str = "joined";

/// How the kernel calls a memfd in the lists of a process. An inode's number is one file's only on
/// its device, and libraries are on others.
const MEMFD: &str = "/memfd:";

/// What the daemon calls a channel, and an extent.
const CHANNEL: &str = "plasmon-channel";
const EXTENT: &str = "plasmon-extent";

#[derive(Debug)]
struct StoreMemory {
    name: String,
    inode: u64,
    fd: OwnedFd,
    /// Whether its store has ended.
    is_old: bool,
}

/// The memfds that were ever made and may still be there.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    made: RefCell<Vec<StoreMemory>>,
    /// The channels of each client.
    joined: RefCell<BTreeMap<u32, Vec<OwnedFd>>>,
}

/// What is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Bytes of memory in extents that any process holds or has mapped.
    pub(crate) resident_bytes: u64,
    /// Such extents.
    pub(crate) extents: usize,
    /// Those of them that no process has a descriptor of: only mappings keep them.
    pub(crate) only_mapped: usize,
    /// Bytes of memory in these.
    pub(crate) stranded_bytes: u64,
    /// Extents of stores that ended before, which clients still have mapped.
    pub(crate) old: usize,
    /// Channels.
    pub(crate) channels: usize,
}

impl Memory {
    /// Remembers a memfd.
    pub(crate) fn watch(&self, name: &str, pid: u32, fd: BorrowedFd<'_>) {
        let fd = fd.try_clone_to_owned().expect("there is a descriptor for the watch");
        if name == JOINED {
            self.joined.borrow_mut().entry(pid).or_default().push(fd);
            return;
        }
        let inode = fstat(&fd).expect("a memfd has a state").st_ino;
        let (name, is_old) = (name.to_owned(), false);
        self.made.borrow_mut().push(StoreMemory { name, inode, fd, is_old });
    }

    /// Another store begins: what was made up to now is not its own.
    pub(crate) fn begin_store(&self) {
        self.made.borrow_mut().iter_mut().for_each(|watched| watched.is_old = true);
    }

    /// What the channels of a process hold now.
    pub(crate) fn channels_of(&self, pid: u32) -> Vec<Image> {
        let joined = self.joined.borrow();
        joined.get(&pid).into_iter().flatten().map(Image::take).collect()
    }

    /// A process has no channel any more.
    pub(crate) fn leave(&self, pid: u32) {
        self.joined.borrow_mut().remove(&pid);
    }

    /// Counts what is there. What is only watched is let go.
    pub(crate) fn census(&self) -> Census {
        let (open, mapped) = (open_inodes(), mapped_inodes());
        let joined: Vec<u64> = self
            .joined
            .borrow()
            .values()
            .flatten()
            .filter_map(|fd| fstat(fd).ok().map(|stat| stat.st_ino))
            .collect();
        let mut census = Census::default();
        self.made.borrow_mut().retain(|watched| {
            let mine = 1 + joined.iter().filter(|inode| **inode == watched.inode).count();
            let is_open = open.get(&watched.inode).is_some_and(|count| *count > mine);
            let is_mapped = mapped.contains(&watched.inode);
            if watched.name == EXTENT && (is_open || is_mapped) {
                census.add(watched, is_open);
            }
            census.channels += usize::from(watched.name == CHANNEL && (is_open || is_mapped));
            is_open || is_mapped
        });
        census
    }
}

impl Census {
    fn add(&mut self, extent: &StoreMemory, is_open: bool) {
        if extent.is_old {
            self.old += 1;
            return;
        }
        let blocks = fstat(&extent.fd).map_or(0, |stat| stat.st_blocks);
        let bytes = u64::try_from(blocks).unwrap_or(0) * 512;
        self.resident_bytes += bytes;
        self.extents += 1;
        if !is_open {
            self.only_mapped += 1;
            self.stranded_bytes += bytes;
        }
    }
}

/// How many descriptors of this real process there are of each memfd.
fn open_inodes() -> BTreeMap<u64, usize> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    let mut inodes = BTreeMap::new();
    let folder = std::fs::read_dir("/proc/self/fd").expect("Linux has this folder");
    for entry in folder.flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if !target.as_os_str().as_bytes().starts_with(MEMFD.as_bytes()) {
            continue;
        }
        if let Ok(found) = std::fs::metadata(entry.path()) {
            *inodes.entry(found.ino()).or_default() += 1;
        }
    }
    inodes
}

/// The memfds that this real process has mapped.
fn mapped_inodes() -> BTreeSet<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has this file");
    let memfds = maps.lines().filter(|line| line.contains(MEMFD));
    memfds.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect()
}

/// What a sparse memfd held at one moment.
#[derive(Debug)]
pub(crate) struct Image {
    fd: OwnedFd,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Image {
    fn take(fd: &OwnedFd) -> Self {
        let fd = fd.try_clone().expect("there is a descriptor for an image");
        let end = fstat(&fd).map_or(0, |stat| stat.st_size) as u64;
        let (mut at, mut pieces) = (0, Vec::new());
        while at < end {
            let Ok(start) = seek(&fd, SeekFrom::Data(at)) else { break };
            let stop = seek(&fd, SeekFrom::Hole(start)).unwrap_or(end);
            let mut bytes = vec![0; (stop - start) as usize];
            let count = pread(&fd, &mut bytes, start).unwrap_or(0);
            bytes.truncate(count);
            pieces.push((start, bytes));
            at = stop;
        }
        Self { fd, pieces }
    }

    /// Makes the memfd hold that again.
    pub(crate) fn restore(self) {
        for (at, bytes) in self.pieces {
            // It was read from there just now. One that is sealed against writing stays as it is.
            let _ = pwrite(&self.fd, &bytes, at);
        }
    }
}
