//! A tier of files: one for each object, in a folder that belongs to one store.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use plasmon_proto::ObjectId;

use crate::disk::{Disk, RealDisk};
use crate::folder::{LOCK_NAME, SUFFIX, TEMPORARY_SUFFIX, folder_of};
use crate::format::{self, BadFile, TRAILER_BYTES};
use crate::{Error, FileMeta, Incarnation, Place, Scan, SpillTier, WritePiece};

/// Bytes moved at once. Large enough that a system call does not count, small enough for the cache.
const CHUNK_BYTES: usize = 256 * 1024;

/// Where a tier keeps its files and how many bytes they may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// The folder that several stores may share.
    pub folder: PathBuf,
    /// The store that the files belong to; a restarted daemon knows it, a stranger does not.
    pub store: u64,
    /// The most bytes of all files together, `None` for as many as the file system takes.
    pub bytes_max: Option<u64>,
}

/// One file for each object.
#[derive(Debug)]
pub struct FileTier<D = RealDisk> {
    disk: D,
    folder: PathBuf,
    store: u64,
    bytes_max: Option<u64>,
    files: BTreeMap<Incarnation, u64>,
    used_bytes: u64,
    /// The lock on the folder.
    held: Option<OwnedFd>,
}

impl FileTier<RealDisk> {
    /// A tier on the real file system. Its folder is made at once, so that a wrong setting is told
    /// when the daemon starts and not when memory is short.
    pub fn open(config: &TierConfig) -> Result<Self, Error> {
        Self::on(RealDisk, config)
    }

    /// The tier that an earlier daemon of the store used. [`SpillTier::scan`] comes before anything
    /// else.
    pub fn again(config: &TierConfig) -> Self {
        Self::again_on(RealDisk, config)
    }
}

impl<D: Disk> FileTier<D> {
    /// A tier on the given file system.
    pub fn on(disk: D, config: &TierConfig) -> Result<Self, Error> {
        let mut tier = Self::again_on(disk, config);
        let folder = tier.folder.clone();
        tier.disk.make_folder(&folder).map_err(io_error("make the folder", &folder))?;
        tier.held = tier.disk.hold_folder(&folder);
        Ok(tier)
    }

    /// The tier of a store that is taken over. Its folder is not made: where it is missing, a disk
    /// is, and an empty folder in its place would mean that every object is lost.
    fn again_on(disk: D, config: &TierConfig) -> Self {
        Self {
            disk,
            folder: folder_of(&config.folder, config.store),
            store: config.store,
            bytes_max: config.bytes_max,
            files: BTreeMap::new(),
            used_bytes: 0,
            held: None,
        }
    }

    fn path(&self, which: Incarnation, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}-{:016x}.{suffix}", which.id, which.serial))
    }

    fn forget(&mut self, which: Incarnation) {
        if let Some(bytes) = self.files.remove(&which) {
            self.used_bytes -= bytes;
        }
    }

    fn remember(&mut self, which: Incarnation, bytes: u64) {
        self.forget(which);
        self.files.insert(which, bytes);
        self.used_bytes += bytes;
    }

    fn write_file(
        &mut self,
        path: &Path,
        header: &[u8],
        from: Place<'_>,
        bytes: u64,
    ) -> io::Result<()> {
        let mut file = self.disk.create(path)?;
        file.write_all(header)?;
        let crc = copy_out(from, bytes, &mut *file)?;
        format::write_trailer(crc, &mut *file)?;
        file.flush()
    }

    /// Why a file cannot be opened. It is absent only for certain: while its whole folder is away,
    /// nothing is known about it.
    fn unopened(&mut self, path: PathBuf, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::NotFound && self.disk.list(&self.folder).is_ok() {
            return Error::Absent { path };
        }
        if error.kind() == io::ErrorKind::InvalidData {
            return Error::Corrupt { path, what: "the path is not a regular file" };
        }
        io_error("open", &path)(error)
    }

    fn check_file(
        &self,
        which: Incarnation,
        file: &mut dyn Read,
        file_length: u64,
    ) -> Result<u64, BadFile> {
        let object = format::read_header(self.store, file)?;
        if which_is(&object) != which {
            return Err(BadFile::Damaged("the file holds another object"));
        }
        let header = format::encode_header(self.store, &object)?.len();
        match object.sizes.total() {
            Some(bytes) if file_bytes(header, bytes) == file_length => Ok(header as u64),
            _ => Err(BadFile::Damaged("the file does not have its object's length")),
        }
    }

    fn described(&mut self, path: &Path) -> Result<Option<(FileMeta, u64)>, Error> {
        let mut file = self.disk.open(path).map_err(io_error("open", path))?;
        match format::read_header(self.store, &mut *file) {
            Ok(object) => {
                let header = format::encode_header(self.store, &object).map_or(0, |h| h.len());
                let bytes = file_bytes(header, object.sizes.total().unwrap_or(0));
                Ok(Some((object, bytes)))
            }
            Err(BadFile::Stranger) => Ok(None),
            Err(error) => Err(named(error, path)),
        }
    }
}

impl<D: Disk> SpillTier for FileTier<D> {
    fn write(&mut self, object: &FileMeta, from: Place<'_>) -> Result<(), Error> {
        let which = Incarnation { id: object.id, serial: object.serial };
        let (path, temporary) = (self.path(which, SUFFIX), self.path(which, TEMPORARY_SUFFIX));
        let header = format::encode_header(self.store, object).map_err(|e| named(e, &path))?;
        let payload_bytes = object.sizes.total().ok_or_else(|| Error::Corrupt {
            path: path.clone(),
            what: "the object's sizes exceed their limits",
        })?;
        let bytes = file_bytes(header.len(), payload_bytes);
        let free_bytes = self.bytes_max.map_or(u64::MAX, |max| max.saturating_sub(self.used_bytes));
        if bytes > free_bytes {
            return Err(Error::Full { wanted_bytes: bytes, free_bytes });
        }
        let written = self
            .write_file(&temporary, &header, from, payload_bytes)
            .and_then(|()| self.disk.rename(&temporary, &path));
        if let Err(error) = written {
            // The half-written file is of no use; if it cannot be removed either, `scan` will.
            let _ = self.disk.remove(&temporary);
            return Err(match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Error::Full { wanted_bytes: bytes, free_bytes: 0 }
                }
                _ => io_error("write", &path)(error),
            });
        }
        self.remember(which, bytes);
        Ok(())
    }

    fn read(
        &mut self,
        which: Incarnation,
        footprint_bytes: u64,
        write: &mut WritePiece<'_>,
    ) -> Result<(), Error> {
        let path = self.path(which, SUFFIX);
        let mut file = match self.disk.open(&path) {
            Ok(file) => file,
            Err(error) => return Err(self.unopened(path, error)),
        };
        let object =
            format::read_header(self.store, &mut *file).map_err(|error| named(error, &path))?;
        let found = Incarnation { id: object.id, serial: object.serial };
        let fits = object.sizes.footprint() == Some(footprint_bytes);
        let Some(bytes) = object.sizes.total().filter(|_| fits && found == which) else {
            return Err(Error::Corrupt { path, what: "the file holds another object" });
        };
        let crc = copy_in(&mut *file, bytes, write).map_err(|error| named(error, &path))?;
        format::check_trailer(crc, &mut *file).map_err(|error| named(error, &path))
    }

    fn open(&mut self, which: Incarnation) -> Result<(OwnedFd, u64), Error> {
        let path = self.path(which, SUFFIX);
        let (mut file, file_length) = match self.disk.open_file(&path) {
            Ok(opened) => opened,
            Err(error) => return Err(self.unopened(path, error)),
        };
        let start = self.check_file(which, &mut file, file_length);
        Ok((file.into(), start.map_err(|error| named(error, &path))?))
    }

    fn remove(&mut self, which: Incarnation) -> Result<(), Error> {
        let path = self.path(which, SUFFIX);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove", &path)(error))
            }
            Ok(()) | Err(_) => {
                self.forget(which);
                Ok(())
            }
        }
    }

    fn scan(&mut self) -> Result<Scan, Error> {
        let paths = self.disk.list(&self.folder).map_err(io_error("list", &self.folder))?;
        if self.held.is_none() {
            self.held = self.disk.hold_folder(&self.folder);
        }
        let mut scan = Scan::default();
        for path in paths {
            let suffix = path.extension().and_then(|suffix| suffix.to_str());
            if suffix == Some(TEMPORARY_SUFFIX)
                && let Err(error) = self.disk.remove(&path)
            {
                scan.skipped.push(io_error("remove", &path)(error));
            }
            let Some(which) = named_in(&path).filter(|_| suffix == Some(SUFFIX)) else {
                continue;
            };
            match self.described(&path) {
                Ok(Some((object, bytes))) if which_is(&object) == which => {
                    self.remember(which, bytes);
                    scan.objects.push(object);
                }
                // Another store's, under a name that could be ours.
                Ok(_) => {}
                // A file that cannot be read is left for a person to look at; the object is lost.
                Err(error) => scan.skipped.push(error),
            }
        }
        Ok(scan)
    }

    fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn clear(&mut self) -> Result<(), Error> {
        let files: Vec<_> = self.files.keys().copied().collect();
        for which in files {
            self.remove(which)?;
        }
        if self.disk.list(&self.folder).is_ok_and(|left| left.len() == 1) {
            // The lock alone is left. Where it cannot go the folder stays, which is told below.
            let _ = self.disk.remove(&self.folder.join(LOCK_NAME));
        }
        match self.disk.remove_folder(&self.folder) {
            // Something that is not ours lies in the folder: it stays.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error("remove the folder", &self.folder)(error)),
            Ok(()) => Ok(()),
        }
    }
}

fn file_bytes(header_bytes: usize, payload_bytes: u64) -> u64 {
    header_bytes as u64 + payload_bytes + TRAILER_BYTES as u64
}

fn which_is(object: &FileMeta) -> Incarnation {
    Incarnation { id: object.id, serial: object.serial }
}

/// The incarnation that a file's name promises.
fn named_in(path: &Path) -> Option<Incarnation> {
    let (id, serial) = path.file_stem()?.to_str()?.split_once('-')?;
    let id: ObjectId = id.parse().ok()?;
    Some(Incarnation { id, serial: u64::from_str_radix(serial, 16).ok()? })
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { action, path: path.clone(), source }
}

fn named(error: BadFile, path: &Path) -> Error {
    let path = path.to_owned();
    match error {
        BadFile::Damaged(what) => Error::Corrupt { path, what },
        BadFile::Stranger => Error::Corrupt { path, what: "the file belongs to another store" },
        BadFile::Io(source) => Error::Io { action: "read", path, source },
    }
}

/// Copies an object's bytes into a file and returns their checksum.
fn copy_out(from: Place<'_>, bytes: u64, file: &mut dyn Write) -> io::Result<u32> {
    let mut buffer = vec![0; CHUNK_BYTES.min(bytes as usize)];
    let (mut crc, mut done) = (0, 0);
    while done < bytes {
        let room = buffer.len().min((bytes - done) as usize);
        let count = rustix::io::pread(from.file, &mut buffer[..room], from.offset + done)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        crc = crc32c::crc32c_append(crc, &buffer[..count]);
        file.write_all(&buffer[..count])?;
        done += count as u64;
    }
    Ok(crc)
}

/// Copies an object's bytes out of a file and returns their checksum.
fn copy_in(file: &mut dyn Read, bytes: u64, write: &mut WritePiece<'_>) -> Result<u32, BadFile> {
    let mut buffer = vec![0; CHUNK_BYTES.min(bytes as usize)];
    let (mut crc, mut done) = (0, 0);
    while done < bytes {
        let room = buffer.len().min((bytes - done) as usize);
        let count = match file.read(&mut buffer[..room]) {
            Ok(0) => return Err(BadFile::Damaged("the file is cut short")),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        crc = crc32c::crc32c_append(crc, &buffer[..count]);
        write(done, &buffer[..count])?;
        done += count as u64;
    }
    Ok(crc)
}

#[cfg(test)]
mod tests;
