//! Files of a folder as segments.
//!
//! ```text
//! DIR/lock                          held (flock) by the process that uses the log
//! DIR/super.0  super.1              the superblocks
//! DIR/segment-0000000000000001.log  segments
//! ```
//!
//! Segments are written and read past the page cache where the file system can do that.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::device::{BLOCK_BYTES, Capabilities, Device, SUPERBLOCKS, Segment};
use crate::error::LogError;

/// Zeros that are written at once.
const ZERO_BYTES: u64 = 1 << 20;

/// Segments that are kept open.
const OPEN_FILES_MAX: usize = 64;

/// Bytes of a superblock that are read; a log with 10 PB in the usual segments has less.
const SUPERBLOCK_BYTES_MAX: u64 = 8 << 30;

/// Files of a folder.
#[derive(Debug)]
pub struct FileDevice {
    folder: PathBuf,
    /// The folder itself, to sync names.
    folder_file: File,
    files: HashMap<u64, File>,
    /// Whether reads and writes pass the page cache by.
    is_direct: bool,
    power_loss_protection: bool,
    /// Held as long as the device lives.
    _lock: File,
}

impl FileDevice {
    /// The files of a folder, which is made if need be.
    pub fn open(folder: &Path, power_loss_protection: bool) -> Result<Self, LogError> {
        let name = || folder.display().to_string();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(LogError::io("make the folder", name()))?;
        let folder_file = File::open(folder).map_err(LogError::io("open", name()))?;
        let lock = lock(folder)?;
        let (folder, files) = (folder.to_owned(), HashMap::new());
        let mut device = Self {
            folder,
            folder_file,
            files,
            is_direct: false,
            power_loss_protection,
            _lock: lock,
        };
        device.is_direct = device.can_be_direct();
        Ok(device)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("segment-{number:016x}.log"))
    }

    fn superblock_path(&self, slot: usize) -> PathBuf {
        superblock_path(&self.folder, slot)
    }

    /// Whether a file of the folder takes an unbuffered write.
    fn can_be_direct(&self) -> bool {
        let path = self.folder.join("probe");
        let probe = || -> io::Result<()> {
            let file = options(true).create(true).truncate(true).open(&path)?;
            file.write_all_at(&AlignedBuffer::new(BLOCK_BYTES as usize), 0)?;
            file.read_exact_at(&mut AlignedBuffer::new(BLOCK_BYTES as usize), 0)
        };
        let can = probe().is_ok();
        // A probe that stays is opened again by the next one.
        let _ = fs::remove_file(&path);
        can
    }

    /// The file of a segment.
    pub(crate) fn file(&mut self, number: u64) -> io::Result<&File> {
        if !self.files.contains_key(&number) {
            if self.files.len() >= OPEN_FILES_MAX {
                self.files.clear();
            }
            let file = options(self.is_direct).open(self.path(number))?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"));
            }
            self.files.insert(number, file);
        }
        self.files.get(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reserves a segment's bytes on the disk, where the file system can do that.
    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP) => file.set_len(bytes)?,
            Err(error) => return Err(error.into()),
        }
        if self.syncs_itself() {
            // Blocks that were never written are marked as written by a sync.
            let zeros = AlignedBuffer::new(ZERO_BYTES.min(bytes) as usize);
            let mut offset = 0;
            while offset < bytes {
                let count = (bytes - offset).min(zeros.len() as u64);
                file.write_all_at(&zeros[..count as usize], offset)?;
                offset += count;
            }
        }
        file.sync_all()
    }

    fn syncs_itself(&self) -> bool {
        self.is_direct && self.power_loss_protection
    }
}

impl Device for FileDevice {
    fn kind(&self) -> String {
        let direct = if self.is_direct { "unbuffered" } else { "buffered" };
        let syncs = if self.syncs_itself() { ", no syncs" } else { "" };
        format!("files ({direct}{syncs})")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            torn_bytes: 512,
            syncs_itself: self.syncs_itself(),
            reads_cache: !self.is_direct,
            in_place: false,
            notes_first_writes: self.is_direct && !self.syncs_itself(),
        }
    }

    fn segments(&mut self) -> io::Result<Vec<Segment>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("segment-"));
            let number = number.and_then(|name| name.strip_suffix(".log"));
            let number = number.filter(|number| number.len() == 16);
            if let Some(number) = number.and_then(|it| u64::from_str_radix(it, 16).ok()) {
                segments.push(Segment { number, bytes: entry.metadata()?.len() });
            }
        }
        segments.sort_unstable_by_key(|segment| segment.number);
        Ok(segments)
    }

    fn create(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        let path = self.path(number);
        let file = options(self.is_direct).create_new(true).open(&path)?;
        let made = self.reserve(&file, bytes).and_then(|()| self.folder_file.sync_all());
        if made.is_err() {
            // It has no name in a superblock: what is left of it is removed at the next opening.
            let _ = fs::remove_file(&path);
        }
        made?;
        self.files.insert(number, file);
        Ok(())
    }

    fn recycle(&mut self, from: u64, number: u64, bytes: u64) -> io::Result<()> {
        let (path, new) = (self.path(from), self.path(number));
        if new.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = self.file(from)?;
        match file.metadata()?.len() {
            there if there < bytes => return Err(io::ErrorKind::UnexpectedEof.into()),
            there if there > bytes => file.set_len(bytes)?,
            _ => {}
        }
        file.sync_all()?;
        fs::rename(path, new)?;
        if let Some(file) = self.files.remove(&from) {
            self.files.insert(number, file);
        }
        self.folder_file.sync_all()
    }

    fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(number)?.write_all_at(bytes, offset)
    }

    fn sync(&mut self, number: u64) -> io::Result<()> {
        if self.syncs_itself() {
            return Ok(());
        }
        let file = self.file(number)?;
        file.sync_data()?;
        // Nothing finds what is in a file without a name.
        if file.metadata()?.nlink() == 0 && !self.path(number).exists() {
            let what = "it was removed from its folder";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        Ok(())
    }

    fn read(&mut self, number: u64, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file(number)?.read_exact_at(into, offset)
    }

    fn shrink(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        self.file(number)?.set_len(bytes)
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        self.files.remove(&number);
        fs::remove_file(self.path(number))
    }

    fn read_superblock(&mut self, slot: usize) -> io::Result<Vec<u8>> {
        let file = match OpenOptions::new().read(true).open(self.superblock_path(slot)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(SUPERBLOCK_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write_superblock(&mut self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        let path = self.superblock_path(slot);
        let is_new = !path.exists();
        let file = options(false).create(true).truncate(false).open(path)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        if is_new { self.folder_file.sync_all() } else { Ok(()) }
    }

    fn segment_name(&self, number: u64) -> String {
        self.path(number).display().to_string()
    }

    fn superblock_name(&self, slot: usize) -> String {
        self.superblock_path(slot).display().to_string()
    }
}

fn superblock_path(folder: &Path, slot: usize) -> PathBuf {
    folder.join(format!("super.{slot}"))
}

/// Whether a folder has a log, which says so in a superblock from its beginning on.
pub(crate) fn has_superblock(folder: &Path) -> bool {
    (0..SUPERBLOCKS).any(|slot| superblock_path(folder, slot).exists())
}

/// How files are opened: by this user alone, never through a link, and without waiting.
fn options(is_direct: bool) -> OpenOptions {
    let mut flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, is_direct);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits() as i32);
    options
}

fn lock(folder: &Path) -> Result<File, LogError> {
    let path = folder.join("lock");
    let place = path.display().to_string();
    let file = options(false).create(true).truncate(false).open(&path);
    let file = file.map_err(LogError::io("open", place.clone()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(LogError::Locked { place }),
        Err(error) => Err(LogError::io("lock", place)(error.into())),
    }
}
