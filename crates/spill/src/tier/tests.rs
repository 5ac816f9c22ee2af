//! The tier through its public interface: what comes back, what is refused, what a full disk leaves
//! behind.

use std::fs;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use plasmon_proto::Name;
use plasmon_proto::object::{Attributes, Policy, Sizes, Traits};
use tempfile::{TempDir, tempfile};

use super::*;

const STORE: u64 = 0x1122_3344_5566_7788;

struct TierFixture {
    folder: TempDir,
    memory: fs::File,
}

impl TierFixture {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), memory: tempfile().unwrap() }
    }

    fn config(&self, bytes_max: Option<u64>) -> TierConfig {
        TierConfig { folder: self.folder.path().to_owned(), store: STORE, bytes_max }
    }

    fn place(&self, offset: u64) -> Place<'_> {
        Place { file: self.memory.as_fd(), offset }
    }

    fn writer(&self, offset: u64) -> impl FnMut(u64, &[u8]) -> io::Result<()> {
        move |at, bytes| write_at(self.place(offset), at, bytes)
    }

    fn fill(&self, offset: u64, bytes: &[u8]) {
        write_at(self.place(offset), 0, bytes).unwrap();
    }

    fn bytes(&self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut done = 0;
        while done < count {
            done +=
                rustix::io::pread(&self.memory, &mut bytes[done..], offset + done as u64).unwrap();
        }
        bytes
    }

    fn files(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join(format!("plasmon-{STORE:016x}"));
        RealDisk.list(&folder).unwrap_or_default()
    }
}

fn write_at(into: Place<'_>, at: u64, mut bytes: &[u8]) -> io::Result<()> {
    let mut offset = into.offset + at;
    while !bytes.is_empty() {
        let count = rustix::io::pwrite(into.file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 % 251) as u8).collect()
}

fn described(serial: u64, data: u64) -> FileMeta {
    FileMeta {
        id: ObjectId::new([serial as u8; 20]),
        serial,
        sizes: Sizes { data, metadata: 0, attributes: 0 },
        traits: Traits { policy: Policy::Keep, tag: 3, owned: false },
        attributes: Attributes { name: Name::new("ns", "x").ok(), ..Attributes::default() },
        created_ms: 1_700_000_000_000,
        construct_ms: 5,
    }
}

fn room(object: &FileMeta) -> u64 {
    object.sizes.footprint().unwrap()
}

fn which(object: &FileMeta) -> Incarnation {
    Incarnation { id: object.id, serial: object.serial }
}

#[test]
fn objects_of_every_size_come_back_even_to_another_place_and_after_a_restart() {
    let fixture = TierFixture::new();
    for (serial, count) in [(1, 0), (2, 1), (3, CHUNK_BYTES), (4, CHUNK_BYTES + 1), (5, 1 << 20)] {
        let object = described(serial, count as u64);
        fixture.fill(4096, &pattern(count));
        let mut tier = FileTier::open(&fixture.config(None)).unwrap();
        tier.write(&object, fixture.place(4096)).unwrap();
        drop(tier);
        let mut tier = FileTier::open(&fixture.config(None)).unwrap();
        assert!(tier.scan().unwrap().objects.contains(&object), "{count} bytes");
        let elsewhere = 8 << 20;
        tier.read(which(&object), room(&object), &mut fixture.writer(elsewhere)).unwrap();
        assert_eq!(fixture.bytes(elsewhere, count), pattern(count), "{count} bytes");
    }
}

#[test]
fn every_damaged_byte_is_noticed() {
    let fixture = TierFixture::new();
    let object = described(1, 100);
    fixture.fill(0, &pattern(100));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&object, fixture.place(0)).unwrap();
    let path = fixture.files().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        let read = tier.read(which(&object), room(&object), &mut fixture.writer(4096));
        assert!(matches!(read, Err(Error::Corrupt { .. })), "byte {at}: {read:?}");
    }
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let read = tier.read(which(&object), room(&object), &mut fixture.writer(4096));
        assert!(matches!(read, Err(Error::Corrupt { .. })), "cut at {cut}: {read:?}");
    }
    fs::write(&path, &whole).unwrap();
    tier.read(which(&object), room(&object), &mut fixture.writer(4096)).unwrap();
    assert!(matches!(
        tier.read(which(&object), room(&object) + 64, &mut fixture.writer(4096)),
        Err(Error::Corrupt { what: "the file holds another object", .. })
    ));
}

/// A pipe in place of a file blocked the thread that reads them, and with it every later restore.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let fixture = TierFixture::new();
    let object = described(1, 100);
    fixture.fill(0, &pattern(100));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&object, fixture.place(0)).unwrap();
    let path = fixture.files().pop().unwrap();
    let elsewhere = fixture.folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let make_pipe =
        || rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0);
    let kinds: [(&str, &dyn Fn()); 3] = [
        ("a pipe", &|| make_pipe().unwrap()),
        ("a folder", &|| fs::create_dir(&path).unwrap()),
        ("a link to a file of ours", &|| std::os::unix::fs::symlink(&elsewhere, &path).unwrap()),
    ];
    for (what, make) in kinds {
        make();
        let read = tier.read(which(&object), room(&object), &mut fixture.writer(4096));
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{what}: {read:?}");
        let scan = tier.scan().unwrap();
        assert_eq!((scan.objects.len(), scan.skipped.len()), (0, 1), "{what}");
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
    }
    fs::rename(&elsewhere, &path).unwrap();
    tier.read(which(&object), room(&object), &mut fixture.writer(4096)).unwrap();
}

#[test]
fn the_budget_is_kept_to_the_byte() {
    let fixture = TierFixture::new();
    fixture.fill(0, &pattern(1000));
    let mut roomy = FileTier::open(&fixture.config(None)).unwrap();
    roomy.write(&described(1, 1000), fixture.place(0)).unwrap();
    let needed = roomy.used_bytes();
    roomy.clear().unwrap();
    assert_eq!(roomy.used_bytes(), 0);

    let mut short = FileTier::open(&fixture.config(Some(needed - 1))).unwrap();
    let refused = short.write(&described(1, 1000), fixture.place(0));
    assert!(
        matches!(refused, Err(Error::Full { wanted_bytes, free_bytes })
            if wanted_bytes == needed && free_bytes == needed - 1),
        "{refused:?}"
    );
    let mut exact = FileTier::open(&fixture.config(Some(needed))).unwrap();
    exact.write(&described(1, 1000), fixture.place(0)).unwrap();
    assert!(matches!(exact.write(&described(2, 0), fixture.place(0)), Err(Error::Full { .. })));
    exact.remove(which(&described(1, 1000))).unwrap();
    exact.write(&described(2, 0), fixture.place(0)).unwrap();
}

#[test]
fn an_absent_object_is_reported_and_removing_it_is_no_error() {
    let fixture = TierFixture::new();
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    let absent = which(&described(9, 1));
    assert!(matches!(tier.read(absent, 64, &mut fixture.writer(0)), Err(Error::Absent { .. })));
    tier.remove(absent).unwrap();
}

#[test]
fn scanning_leaves_strangers_alone_and_clears_half_written_files() {
    let fixture = TierFixture::new();
    fixture.fill(0, &pattern(10));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&described(1, 10), fixture.place(0)).unwrap();
    let ours = fixture.files().pop().unwrap();
    let folder = ours.parent().unwrap().to_owned();

    // A file of another store under a name that could be ours, something unrelated, a torn write.
    let object = described(2, 10);
    let stranger = folder.join(format!("{}-{:016x}.spill", object.id, object.serial));
    fs::write(&stranger, format::encode_header(STORE + 1, &object).unwrap()).unwrap();
    let note = folder.join("README");
    fs::write(&note, "mine").unwrap();
    let torn = folder.join("torn.part");
    fs::write(&torn, "half").unwrap();

    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    assert_eq!(tier.scan().unwrap().objects, vec![described(1, 10)]);
    assert!(!torn.exists());
    tier.clear().unwrap();
    assert!(!ours.exists() && stranger.exists() && note.exists());
}

/// A disk that takes this many bytes and then is full.
struct FullDisk {
    left: Arc<Mutex<usize>>,
}

struct FullFile {
    file: Box<dyn Write + Send>,
    left: Arc<Mutex<usize>>,
}

impl Write for FullFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = self.left.lock().unwrap();
        let count = bytes.len().min(*left);
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *left -= count;
        self.file.write(&bytes[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Disk for FullDisk {
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(FullFile { file: RealDisk.create(path)?, left: Arc::clone(&self.left) }))
    }
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        RealDisk.open(path)
    }
    fn open_file(&mut self, path: &Path) -> io::Result<(fs::File, u64)> {
        RealDisk.open_file(path)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn list(&mut self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }
    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.remove_folder(path)
    }
}

#[test]
fn a_disk_that_fills_up_at_any_byte_leaves_nothing_behind() {
    let fixture = TierFixture::new();
    let object = described(1, 500);
    fixture.fill(0, &pattern(500));
    let left = Arc::new(Mutex::new(usize::MAX));
    let disk = FullDisk { left: Arc::clone(&left) };
    let mut tier = FileTier::on(disk, &fixture.config(None)).unwrap();
    tier.write(&object, fixture.place(0)).unwrap();
    let needed = tier.used_bytes() as usize;
    tier.remove(which(&object)).unwrap();

    for room in 0..needed {
        *left.lock().unwrap() = room;
        let refused = tier.write(&object, fixture.place(0));
        assert!(matches!(refused, Err(Error::Full { free_bytes: 0, .. })), "{room}: {refused:?}");
        assert_eq!(fixture.files(), Vec::<PathBuf>::new(), "{room} bytes of room");
        assert_eq!(tier.used_bytes(), 0);
    }
    *left.lock().unwrap() = needed;
    tier.write(&object, fixture.place(0)).unwrap();
    tier.read(which(&object), room(&object), &mut fixture.writer(4096)).unwrap();
    assert_eq!(fixture.bytes(4096, 500), pattern(500));
}

/// One temporary file that could not be removed made the scan fail, and with it the start of every
/// later daemon: what was in memory was lost, too.
#[test]
fn what_cannot_be_removed_or_read_is_skipped() {
    let fixture = TierFixture::new();
    fixture.fill(0, &pattern(10));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&described(1, 10), fixture.place(0)).unwrap();
    let folder = fixture.files().pop().unwrap().parent().unwrap().to_owned();
    // Folders stand for files that the system refuses to remove or to read.
    let object = described(2, 10);
    fs::create_dir(folder.join("x.part")).unwrap();
    let unreadable = folder.join(format!("{}-{:016x}.spill", object.id, object.serial));
    fs::create_dir(&unreadable).unwrap();
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    let scan = tier.scan().unwrap();
    assert_eq!(scan.objects, vec![described(1, 10)]);
    assert_eq!(scan.skipped.len(), 2, "{:?}", scan.skipped);
}

/// An object counted as corrupt for good when its folder was away for a moment.
#[test]
fn while_the_folder_is_away_nothing_is_absent() {
    let fixture = TierFixture::new();
    let object = described(1, 10);
    fixture.fill(0, &pattern(10));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&object, fixture.place(0)).unwrap();
    let folder = fixture.files().pop().unwrap().parent().unwrap().to_owned();
    let away = folder.with_extension("away");
    fs::rename(&folder, &away).unwrap();
    let read = tier.read(which(&object), room(&object), &mut fixture.writer(4096));
    assert!(matches!(read, Err(Error::Io { .. })), "{read:?}");
    // Nor does the next daemon take an empty folder for it.
    assert!(matches!(FileTier::again(&fixture.config(None)).scan(), Err(Error::Io { .. })));
    assert!(!folder.exists());
    fs::rename(&away, &folder).unwrap();
    tier.read(which(&object), room(&object), &mut fixture.writer(4096)).unwrap();
    fs::remove_file(fixture.files().pop().unwrap()).unwrap();
    let read = tier.read(which(&object), room(&object), &mut fixture.writer(4096));
    assert!(matches!(read, Err(Error::Absent { .. })), "{read:?}");
}

/// A client reads pieces of an object in its file, which it must not be able to change, and goes on
/// when the file is removed.
#[test]
fn a_file_is_opened_for_others_to_read_alone() {
    use std::os::unix::fs::{FileExt, PermissionsExt};

    let fixture = TierFixture::new();
    let object = described(1, 5000);
    fixture.fill(0, &pattern(5000));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&object, fixture.place(0)).unwrap();
    let (fd, start) = tier.open(which(&object)).unwrap();
    let file = fs::File::from(fd);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o400);
    assert!(file.write_at(b"x", start).is_err());
    tier.remove(which(&object)).unwrap();
    let mut bytes = vec![0; 5000];
    file.read_exact_at(&mut bytes, start).unwrap();
    assert_eq!(bytes, pattern(5000));
    assert!(matches!(tier.open(which(&object)), Err(Error::Absent { .. })));
}

#[test]
fn a_file_that_is_not_what_was_written_is_not_opened() {
    let fixture = TierFixture::new();
    let object = described(1, 5000);
    fixture.fill(0, &pattern(5000));
    let mut tier = FileTier::open(&fixture.config(None)).unwrap();
    tier.write(&object, fixture.place(0)).unwrap();
    let path = fixture.files().remove(0);
    let whole = fs::read(&path).unwrap();
    let (mut longer, mut damaged) = (whole.clone(), whole.clone());
    longer.push(0);
    damaged[40] ^= 1;
    for wrong in [&whole[..whole.len() - 1], &whole[..20], &[], &longer, &damaged] {
        fs::remove_file(&path).unwrap();
        fs::write(&path, wrong).unwrap();
        let opened = tier.open(which(&object));
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, &whole).unwrap();
    assert!(tier.open(which(&object)).is_ok());
}
