//! Segments on persistent memory: files of a DAX file system, written in place.
//!
//! The files are those of a [`FileDevice`], with the same names and bytes, so either device opens
//! what the other one has written. Segments are written through a mapping, with stores that a fence
//! makes durable; a sync is that fence and no system call. Names, superblocks and all reading go
//! through the file system: what the medium has lost is then an error, not a signal.
//!
//! [`FORCE`] lets any folder stand for persistent memory, for tests and measurements. The status of
//! such a log says so.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

pub use plasmon_shm::dax::Medium;
use plasmon_shm::dax::{DaxMap, LINE_BYTES};

use crate::device::{Capabilities, Device, Segment};
use crate::error::LogError;
use crate::file_device::FileDevice;

/// The variable of the environment that, set to `1`, lets memory stand for persistent memory.
pub const FORCE: &str = "PLASMON_LOG_FORCE_DAX";

const NOT_PERSISTENT: &str = "its file system does not map files with MAP_SYNC: put it on \
                              persistent memory that is mounted with -o dax=always, or use files";
const NOT_KNOWN: &str = "persistent memory is written in place on x86-64 only; use files";

/// Files that are written in place.
#[derive(Debug)]
pub struct DaxDevice {
    files: FileDevice,
    medium: Medium,
    /// Segments that are mapped, the one that was written last at the end.
    maps: Vec<(u64, DaxMap)>,
}

/// Segments that stay mapped: the open one, the next one, and those that are written again.
const MAPS_MAX: usize = 4;

/// What [`FORCE`] asks for.
pub fn medium_of_environment() -> Medium {
    match std::env::var_os(FORCE) {
        Some(value) if value == OsStr::new("1") => Medium::Forced,
        _ => Medium::Persistent,
    }
}

impl DaxDevice {
    /// The files of a folder, which is made if need be. Refused where they cannot be mapped.
    pub fn open(folder: &Path, medium: Medium) -> Result<Self, LogError> {
        let files = FileDevice::open(folder, false)?;
        match probe(folder, medium) {
            Ok(()) => Ok(Self { files, medium, maps: Vec::new() }),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let place = folder.display().to_string();
                let what = if cfg!(target_arch = "x86_64") { NOT_PERSISTENT } else { NOT_KNOWN };
                Err(LogError::NoDevice { kind: "dax", place, what })
            }
            Err(error) => Err(LogError::io("map a file of", folder.display().to_string())(error)),
        }
    }

    /// The mapping of a segment.
    fn map(&mut self, number: u64) -> io::Result<&mut DaxMap> {
        match self.maps.iter().position(|(mapped, _)| *mapped == number) {
            Some(at) => self.maps[at..].rotate_left(1),
            None => {
                // Before another one is made: it may be large.
                if self.maps.len() >= MAPS_MAX {
                    self.maps.remove(0);
                }
                let file = self.files.file(number)?;
                let map = DaxMap::new(file, file.metadata()?.len(), self.medium)?;
                self.maps.push((number, map));
            }
        }
        match self.maps.last_mut() {
            Some((_, map)) => Ok(map),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn unmap(&mut self, number: u64) {
        self.maps.retain(|(mapped, _)| *mapped != number);
    }
}

/// Maps a file of a folder and removes it.
fn probe(folder: &Path, medium: Medium) -> io::Result<()> {
    let path = folder.join("probe");
    let made = || -> io::Result<()> {
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.set_len(4096)?;
        DaxMap::new(&file, 4096, medium).map(drop)
    };
    let outcome = made();
    // A probe that stays is opened again by the next one.
    let _ = std::fs::remove_file(&path);
    outcome
}

impl Device for DaxDevice {
    fn kind(&self) -> String {
        match self.medium {
            Medium::Persistent => "persistent memory".to_owned(),
            Medium::Forced => format!("files that stand for persistent memory ({FORCE}=1)"),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            torn_bytes: LINE_BYTES as u64,
            syncs_itself: false,
            reads_cache: false,
            in_place: true,
            notes_first_writes: false,
        }
    }

    fn segments(&mut self) -> io::Result<Vec<Segment>> {
        self.files.segments()
    }

    fn create(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        self.files.create(number, bytes)?;
        // Its pages are there before the first put needs them.
        let mapped = self.map(number).map(drop);
        if mapped.is_err() {
            let _ = self.files.remove(number);
        }
        mapped
    }

    fn recycle(&mut self, from: u64, number: u64, bytes: u64) -> io::Result<()> {
        // A store to a page that is gone would end the process.
        self.maps.retain(|(mapped, map)| *mapped != from || map.bytes() == bytes);
        self.files.recycle(from, number, bytes)?;
        for (mapped, _) in self.maps.iter_mut().filter(|(mapped, _)| *mapped == from) {
            *mapped = number;
        }
        self.map(number).map(drop)
    }

    fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let map = self.map(number)?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > map.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        map.write(offset, bytes);
        Ok(())
    }

    fn write_checked(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<u32> {
        let map = self.map(number)?;
        let lines = (bytes.len() as u64).next_multiple_of(LINE_BYTES as u64);
        if offset.checked_add(lines).is_none_or(|end| end > map.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(map.write_checked(offset, bytes))
    }

    /// A fence of this thread, which is the one that wrote, or was handed the device by it.
    fn sync(&mut self, _: u64) -> io::Result<()> {
        plasmon_shm::dax::fence();
        Ok(())
    }

    fn read(&mut self, number: u64, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.files.read(number, offset, into)
    }

    fn shrink(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        // A store to a page that is gone would end the process.
        self.unmap(number);
        self.files.shrink(number, bytes)
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        self.unmap(number);
        self.files.remove(number)
    }

    fn read_superblock(&mut self, slot: usize) -> io::Result<Vec<u8>> {
        self.files.read_superblock(slot)
    }

    fn write_superblock(&mut self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        self.files.write_superblock(slot, bytes)
    }

    fn segment_name(&self, number: u64) -> String {
        self.files.segment_name(number)
    }

    fn superblock_name(&self, slot: usize) -> String {
        self.files.superblock_name(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use plasmon_proto::ObjectId;
    use plasmon_proto::object::{Attributes, ObjectMeta, Sizes};
    use plasmon_shm::Memfd;
    use plasmon_spill::{FileMeta, Place};

    use super::*;
    use crate::{DeviceKind, LogConfig, Opened, Source, open_on};

    fn config(folder: &Path) -> LogConfig {
        LogConfig {
            folder: folder.to_owned(),
            device: DeviceKind::File,
            bytes_max: None,
            segment_bytes: 1 << 20,
            power_loss_protection: false,
        }
    }

    fn on_dax(folder: &Path) -> Opened {
        let device = DaxDevice::open(folder, Medium::Forced).unwrap();
        open_on(Box::new(device), &config(folder)).unwrap()
    }

    fn on_files(folder: &Path) -> Opened {
        crate::open(&config(folder)).unwrap()
    }

    fn content(number: u8, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8 ^ number).collect()
    }

    fn object(number: u8, bytes: usize) -> FileMeta {
        let sizes = Sizes { data: bytes as u64, ..Sizes::default() };
        let meta = ObjectMeta { sizes, ..ObjectMeta::default() };
        FileMeta::new(ObjectId::new([number; 20]), 0, meta, Attributes::default())
    }

    /// Puts objects of every kind of frame: packed, of several chunks, larger than a segment.
    fn fill(opened: &mut Opened, numbers: std::ops::Range<u8>) {
        for number in numbers {
            let bytes = [100, 5000, 300_000, 3 << 20][usize::from(number) % 4];
            let from = content(number, bytes);
            opened.log.put(&object(number, bytes), Source::Bytes(&from)).unwrap();
            opened.log.sync().unwrap();
        }
    }

    fn check(opened: &mut Opened, count: usize) {
        assert_eq!(opened.found.len(), count);
        for found in &opened.found {
            let mut bytes = Vec::new();
            let footprint = found.object.sizes.footprint().unwrap();
            let mut keep = |_, piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            opened.log.read(found.lsn, footprint, &mut keep).unwrap();
            let number = found.object.id.as_bytes()[0];
            assert!(bytes == content(number, found.object.sizes.data as usize), "object {number}");
        }
    }

    #[test]
    fn either_device_opens_what_the_other_one_has_written() {
        let folder = tempfile::tempdir().unwrap();
        fill(&mut on_dax(folder.path()), 0..8);
        let mut opened = on_files(folder.path());
        check(&mut opened, 8);
        fill(&mut opened, 8..16);
        drop(opened);
        let mut opened = on_dax(folder.path());
        check(&mut opened, 16);
        fill(&mut opened, 16..20);
        drop(opened);
        check(&mut on_dax(folder.path()), 20);
    }

    /// Wherever in its extent an object begins.
    #[test]
    fn objects_of_shared_memory_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memfd::create("plasmon-test", 4 << 20).unwrap();
        let mut opened = on_dax(folder.path());
        for number in 0..8 {
            let bytes = [100, 20_000, 300_001, 3 << 20][usize::from(number) % 4];
            let (from, offset) = (content(number, bytes), 4160 + 64 * u64::from(number));
            assert_eq!(rustix::io::pwrite(&memory, &from, offset), Ok(bytes));
            let place = Place { file: memory.as_fd(), offset };
            opened.log.put(&object(number, bytes), Source::File(place)).unwrap();
            opened.log.sync().unwrap();
        }
        let beyond = Place { file: memory.as_fd(), offset: (4 << 20) - 64 };
        let refused = opened.log.put(&object(9, 100_000), Source::File(beyond));
        assert!(matches!(refused, Err(LogError::Payload(_))), "{refused:?}");
        drop(opened);
        check(&mut on_files(folder.path()), 8);
    }

    #[test]
    fn what_is_collected_and_removed_leaves_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut opened = on_dax(folder.path());
        for round in 0..30 {
            let number = round % 3;
            let from = content(number, 300_000);
            opened.log.put(&object(number, 300_000), Source::Bytes(&from)).unwrap();
            opened.log.sync().unwrap();
            while opened.log.maintain(1 << 20).unwrap() {}
        }
        assert!(opened.log.status().used_bytes < 30 * 300_000);
        drop(opened);
        check(&mut on_dax(folder.path()), 3);
    }

    /// A log that took an ordinary folder for persistent memory would lose what it acknowledged.
    #[test]
    fn an_ordinary_folder_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = DaxDevice::open(folder.path(), Medium::Persistent).unwrap_err();
        assert!(matches!(&error, LogError::NoDevice { kind: "dax", .. }), "{error}");
        assert!(error.to_string().contains("or use files"), "{error}");
        assert!(!folder.path().join("probe").exists());
    }

    #[test]
    fn without_a_choice_an_ordinary_folder_has_files() {
        let folder = tempfile::tempdir().unwrap();
        let auto = LogConfig { device: DeviceKind::Auto, ..config(&folder.path().join("new")) };
        let device = crate::open(&auto).unwrap().log.status().device;
        assert!(device.starts_with("files"), "{device}");
    }

    #[test]
    fn memory_that_stands_for_persistent_memory_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let device = on_dax(folder.path()).log.status().device;
        assert!(device.contains(FORCE), "{device}");
    }

    #[test]
    fn a_write_beyond_a_segment_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut device = DaxDevice::open(folder.path(), Medium::Forced).unwrap();
        device.create(1, 8192).unwrap();
        device.write(1, 4096, &[1; 4096]).unwrap();
        for offset in [8192, u64::MAX - 4095] {
            let error = device.write(1, offset, &[1; 4096]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        device.shrink(1, 4096).unwrap();
        assert!(device.write(1, 4096, &[1; 4096]).is_err());
    }
}
