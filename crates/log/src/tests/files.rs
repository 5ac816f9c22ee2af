//! The log on real files.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use plasmon_spill::Place;
use tempfile::TempDir;

use super::world::{object, payload, read};
use crate::dax_device::Medium;
use crate::{AlignedBuffer, DaxDevice, Device, DeviceKind, FileDevice};
use crate::{LogConfig, LogError, Source, open, open_again};

fn config(folder: &TempDir, segment_bytes: u64) -> LogConfig {
    LogConfig {
        folder: folder.path().join("log"),
        device: DeviceKind::Auto,
        bytes_max: None,
        segment_bytes,
        power_loss_protection: false,
    }
}

/// Gathered, written in pieces, and in a segment of its own.
const SIZES: [usize; 10] = [
    0,
    1,
    4096,
    (256 << 10) - 1,
    256 << 10,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    (5 << 20) + 7,
    (9 << 20) + 4096,
];

#[test]
fn objects_of_every_size_come_back_after_a_restart() {
    for power_loss_protection in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let config = LogConfig { power_loss_protection, ..config(&folder, 8 << 20) };
        let mut log = open(&config).unwrap().log;
        let memory = tempfile::tempfile().unwrap();
        for (which, bytes) in SIZES.into_iter().enumerate() {
            let payload = payload(which as u8, 1, bytes);
            rustix::io::pwrite(&memory, &payload, 4096).unwrap();
            let place = Place { file: memory.as_fd(), offset: 4096 };
            log.put(&object(which as u8, 1, bytes), Source::File(place)).unwrap();
        }
        log.sync().unwrap();
        for _ in 0..2 {
            drop(log);
            let opened = open(&config).unwrap();
            log = opened.log;
            assert_eq!((opened.found.len(), opened.recovery.damaged), (SIZES.len(), vec![]));
            for found in opened.found {
                let which = found.object.id.as_bytes()[0];
                let bytes = read(&mut *log, found.lsn, &found.object).unwrap();
                assert!(bytes == payload(which, 1, SIZES[usize::from(which)]), "object {which}");
            }
            while !log.scrub(1 << 20).unwrap().finished {}
        }
    }
}

#[test]
fn large_objects_are_copied_whole_when_their_segment_is_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 32 << 20);
    let mut log = open(&config).unwrap().log;
    let mut lsns = Vec::new();
    for which in 0..6 {
        let payload = payload(which, 1, 6 << 20);
        lsns.push(log.put(&object(which, 1, 6 << 20), Source::Bytes(&payload)).unwrap());
    }
    for which in 1..4 {
        log.dead(&object(which, 1, 0).id, lsns[usize::from(which)]).unwrap();
    }
    log.sync().unwrap();
    while log.maintain(4 << 20).unwrap() {}
    let status = log.status();
    assert_eq!(status.objects, 3);
    drop(log);
    let mut opened = open(&config).unwrap();
    assert_eq!(opened.found.len(), 3);
    for found in opened.found {
        let which = found.object.id.as_bytes()[0];
        let bytes = read(&mut *opened.log, found.lsn, &found.object).unwrap();
        assert!(bytes == payload(which, 1, 6 << 20), "object {which}");
    }
}

#[test]
fn files_of_removed_segments_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 1 << 20);
    let mut log = open(&config).unwrap().log;
    let mut files = BTreeSet::new();
    for version in 1..13 {
        let payload = payload(1, version, 930_000);
        log.put(&object(1, version, 930_000), Source::Bytes(&payload)).unwrap();
        log.sync().unwrap();
        while log.maintain(1 << 20).unwrap() {}
        let entries = fs::read_dir(&config.folder).unwrap().map(Result::unwrap);
        let segments = entries.filter(|it| it.file_name().to_string_lossy().starts_with("segment"));
        // An inode may be that of a file that was removed.
        files.extend(
            segments.map(|it| it.metadata().unwrap()).map(|it| (it.ino(), it.created().ok())),
        );
    }
    assert!(files.len() <= 4, "{} files", files.len());
    drop(log);
    let mut opened = open(&config).unwrap();
    assert_eq!((opened.found.len(), opened.recovery.damaged), (1, vec![]));
    let found = &opened.found[0];
    let bytes = read(&mut *opened.log, found.lsn, &found.object).unwrap();
    assert!(bytes == payload(1, 12, 930_000));
}

/// A segment is made of another one in place, cut where it is too long, and never of one that is
/// too short.
#[test]
fn a_file_is_recycled_with_its_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let dax = DaxDevice::open(&folder.path().join("dax"), Medium::Forced).unwrap();
    let files = FileDevice::open(&folder.path().join("files"), false).unwrap();
    let devices: [Box<dyn Device>; 2] = [Box::new(files), Box::new(dax)];
    for mut device in devices {
        let mut old = AlignedBuffer::new(16 << 10);
        old.fill(7);
        for number in [1, 2] {
            device.create(number, 16 << 10).unwrap();
            device.write(number, 0, &old).unwrap();
            device.sync(number).unwrap();
        }
        assert!(device.recycle(1, 3, 20 << 10).is_err());
        assert!(device.recycle(1, 2, 16 << 10).is_err(), "there is such a segment");
        device.recycle(1, 3, 16 << 10).unwrap();
        device.recycle(2, 4, 8 << 10).unwrap();
        let segments = device.segments().unwrap();
        let segments: Vec<_> = segments.iter().map(|it| (it.number, it.bytes)).collect();
        assert_eq!(segments, [(3, 16 << 10), (4, 8 << 10)]);
        let mut new = AlignedBuffer::new(4 << 10);
        new.fill(8);
        device.write(3, 4 << 10, &new).unwrap();
        device.sync(3).unwrap();
        let mut read = AlignedBuffer::new(16 << 10);
        device.read(3, 0, &mut read).unwrap();
        let wanted = [[7; 4 << 10], [8; 4 << 10], [7; 4 << 10], [7; 4 << 10]].concat();
        assert!(read[..] == wanted);
    }
}

#[test]
fn one_process_at_a_time_has_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 1 << 20);
    let first = open(&config).unwrap();
    assert!(matches!(open(&config), Err(LogError::Locked { .. })));
    drop(first);
    open(&config).unwrap();
}

#[test]
fn an_object_that_cannot_be_described_or_read_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 1 << 20);
    let mut log = open(&config).unwrap().log;
    for bytes in [100, 2 << 20, 9 << 20] {
        let short = log.put(&object(1, 1, bytes), Source::Bytes(&[7; 50]));
        assert!(matches!(short, Err(LogError::Payload(_))), "{short:?}");
    }
    let mut absurd = object(1, 1, 1);
    absurd.sizes.metadata = u64::MAX;
    let refused = log.put(&absurd, Source::Bytes(&[1]));
    assert!(matches!(refused, Err(LogError::BadObject { .. })), "{refused:?}");
    let lsn = log.put(&object(2, 1, 5), Source::Bytes(&payload(2, 1, 5))).unwrap();
    log.sync().unwrap();
    assert!(matches!(log.read(lsn, 128, &mut |_, _| Ok(())), Err(LogError::Corrupt { .. })));
    let absent = log.read(lsn + 1, 64, &mut |_, _| Ok(()));
    assert!(matches!(absent, Err(LogError::Absent { .. })), "{absent:?}");
    drop(log);
    let opened = open(&config).unwrap();
    assert_eq!((opened.found.len(), opened.found[0].lsn), (1, lsn));
}

#[test]
fn files_of_others_stay_and_leftovers_go() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 1 << 20);
    let mut log = open(&config).unwrap().log;
    log.put(&object(1, 1, 5), Source::Bytes(&payload(1, 1, 5))).unwrap();
    log.sync().unwrap();
    drop(log);
    let note = config.folder.join("README");
    let leftover = config.folder.join("segment-00000000000000ff.log");
    fs::write(&note, "mine").unwrap();
    fs::write(&leftover, "a segment that no superblock names").unwrap();
    assert_eq!(open(&config).unwrap().found.len(), 1);
    assert!(note.exists() && !leftover.exists());
    // The number of the leftover is not given again.
    let mut log = open(&config).unwrap().log;
    let large = payload(2, 1, 2 << 20);
    log.put(&object(2, 1, 2 << 20), Source::Bytes(&large)).unwrap();
    log.sync().unwrap();
    assert!(config.folder.join("segment-0000000000000100.log").exists());
}

#[test]
fn a_folder_that_is_away_fails_the_log_and_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 64 << 10);
    let mut log = open(&config).unwrap().log;
    log.put(&object(1, 1, 5), Source::Bytes(&payload(1, 1, 5))).unwrap();
    log.sync().unwrap();
    let away = folder.path().join("away");
    fs::rename(&config.folder, &away).unwrap();
    // Until a segment is made, the files that are open take what comes.
    let failed = (2..100).find_map(|which| {
        let payload = payload(which, 1, 9000);
        log.put(&object(which, 1, 9000), Source::Bytes(&payload)).err()
    });
    assert!(matches!(failed, Some(LogError::Io { .. })), "{failed:?}");
    assert!(matches!(log.sync(), Err(LogError::Failed { .. })));
    drop(log);
    fs::rename(&away, &config.folder).unwrap();
    assert!(open(&config).unwrap().found.iter().any(|found| found.object.id == object(1, 1, 5).id));
}

/// A log went on for a whole segment into a file that was removed, and acknowledged what nothing
/// would find. A log that is looked for again is not begun.
#[test]
fn a_log_whose_files_are_removed_acknowledges_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, 1 << 20);
    let mut log = open(&config).unwrap().log;
    let bytes = payload(1, 1, 100);
    log.put(&object(1, 1, 100), Source::Bytes(&bytes)).unwrap();
    log.sync().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&config.folder, &elsewhere).unwrap();
    let again = open_again(&config).map(drop);
    assert!(matches!(again, Err(LogError::Io { .. })) && !config.folder.exists(), "{again:?}");
    fs::rename(&elsewhere, &config.folder).unwrap();
    log.put(&object(2, 1, 100), Source::Bytes(&payload(2, 1, 100))).unwrap();
    log.sync().unwrap();
    fs::remove_dir_all(&config.folder).unwrap();
    log.put(&object(3, 1, 100), Source::Bytes(&payload(3, 1, 100))).unwrap();
    let refused = log.sync().unwrap_err().to_string();
    assert!(refused.contains("it was removed"), "{refused}");
    assert!(log.status().failed.is_some());
}
