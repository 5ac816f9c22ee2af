//! The log of durable objects: whatever lies in its folder is a log or an error, and what it says
//! that it has can be read, or is damaged.
//!
//! The bytes say which files there are, and what is changed in those of a log that was written
//! before; checksums are made right after a change, so that what lies after them is reached, too.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use plasmon_fuzz::Input;
use plasmon_log::doubles::{Image, SimDevice};
use plasmon_log::format::{FrameCopy, FrameHead, FramePlace, HEAD_BYTES, LogId, Superblock};
use plasmon_log::{DeviceKind, LogConfig, LogError, ObjectLog, Source, open_on};
use plasmon_proto::ObjectId;
use plasmon_proto::object::{Attributes, ObjectMeta, Sizes};
use plasmon_spill::FileMeta;

/// The largest file.
const FILE_BYTES_MAX: usize = 192 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let image = if input.byte() % 4 == 0 { made_up(&mut input) } else { changed(&mut input) };
    let device = SimDevice::of(image);
    let mut opened = match open_on(Box::new(device), &config()) {
        Ok(opened) => opened,
        Err(LogError::Corrupt { .. } | LogError::Version { .. } | LogError::Io { .. }) => return,
        Err(error) => panic!("a device that does not fail: {error}"),
    };
    for found in opened.found {
        let room = found.object.sizes.footprint().expect("what was found has a size");
        let mut read = 0;
        let result = opened.log.read(found.lsn, room, &mut |_, piece| {
            read += piece.len() as u64;
            Ok(())
        });
        match result {
            Ok(()) => assert_eq!(Some(read), found.object.sizes.total()),
            Err(LogError::Corrupt { .. } | LogError::Io { .. }) => {}
            Err(error) => panic!("reading what was found: {error}"),
        }
    }
    // It can go on, or says why not.
    use_log(&mut *opened.log);
});

fn config() -> LogConfig {
    LogConfig {
        folder: "fuzz".into(),
        device: DeviceKind::File,
        bytes_max: Some(64 << 20),
        segment_bytes: 64 * 1024,
        power_loss_protection: false,
    }
}

fn use_log(log: &mut dyn ObjectLog) {
    let payload = [7; 100];
    let put = log.put(&object(9, 100), Source::Bytes(&payload));
    let _ = log.sync();
    for _ in 0..4 {
        let _ = log.maintain(100_000);
        let _ = log.scrub(100_000);
    }
    if let Ok(lsn) = put {
        let _ = log.read(lsn, 128, &mut |_, _| Ok(()));
        let _ = log.dead(&ObjectId::new([9; 20]), lsn);
    }
    let _ = log.status();
}

fn object(which: u8, data: u64) -> FileMeta {
    let meta = ObjectMeta { sizes: Sizes { data, ..Sizes::default() }, ..ObjectMeta::default() };
    FileMeta::new(ObjectId::new([which; 20]), 0, meta, Attributes::default())
}

/// Files of the fuzzer's own bytes.
fn made_up(input: &mut Input<'_>) -> Image {
    let mut image = Image::default();
    for superblock in &mut image.superblocks {
        let count = input.below(256);
        *superblock = input.bytes(count).to_vec();
    }
    let (number, count) = (u64::from(input.byte()), usize::from(input.byte()) * 64);
    image.segments.insert(number, input.bytes(count).to_vec());
    image
}

/// The files of a log with a change or several.
fn changed(input: &mut Input<'_>) -> Image {
    static WHOLE: OnceLock<Image> = OnceLock::new();
    let mut image = WHOLE.get_or_init(whole_log).clone();
    for _ in 0..=input.below(4) {
        let files = image.segments.len() + image.superblocks.len();
        let which = input.below(files);
        let segments = image.segments.len();
        let file = match image.segments.values_mut().nth(which) {
            Some(segment) => segment,
            None => &mut image.superblocks[which - segments],
        };
        // Most of what matters is at the start of a block.
        let block = input.below(256) * 4096 % file.len().max(1);
        let at = (block + usize::from(input.byte())) % file.len().max(1);
        let count = 1 + input.below(32);
        for (byte, new) in file.iter_mut().skip(at).zip(input.bytes(count)) {
            *byte ^= new;
        }
        if input.byte() % 16 == 0 {
            let length = input.word() as usize % FILE_BYTES_MAX;
            file.resize(length, 0);
        }
    }
    repair(&mut image);
    image
}

/// Makes the checksums of superblocks and heads right.
fn repair(image: &mut Image) {
    let mut log = LogId::default();
    for superblock in image.superblocks.iter_mut().filter(|it| it.len() >= 64) {
        let rows = u32::from_le_bytes([12, 13, 14, 15].map(|at| superblock[at])) as usize;
        let end = (64 + rows.saturating_mul(40)).min(superblock.len());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&superblock[..60]), &superblock[64..end]);
        superblock[60..64].copy_from_slice(&crc.to_le_bytes());
        if let Ok(superblock) = Superblock::decode(superblock) {
            log = superblock.log;
        }
    }
    for (number, segment) in &mut image.segments {
        for at in (0..segment.len()).step_by(4096) {
            let place = FramePlace { log, segment: *number, offset: at as u64 };
            let Some(head) = segment.get_mut(at..at + HEAD_BYTES) else { break };
            let records_bytes = u32::from_le_bytes([32, 33, 34, 35].map(|at| head[at])) as usize;
            let from = at + HEAD_BYTES;
            let records = segment.get(from..from.saturating_add(records_bytes));
            let crc = records.map_or(0, crc32c::crc32c);
            if let Some(head) = segment.get_mut(at..at + HEAD_BYTES)
                && FrameHead::decode(head, FrameCopy::Front, place).is_none()
                && head.starts_with(b"PLSMLOG")
            {
                head[36..40].copy_from_slice(&crc.to_le_bytes());
                let crc = place.checksum(&head[..60]);
                head[60..].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }
}

fn whole_log() -> Image {
    let device = SimDevice::default();
    let mut log = open_on(Box::new(device.clone()), &config()).expect("a new log opens").log;
    let mut lsns = Vec::new();
    for which in 0..60 {
        let bytes = [0, 10, 3000, 5000][usize::from(which) % 4];
        let payload = vec![which; bytes];
        let put = log.put(&object(which, bytes as u64), Source::Bytes(&payload));
        lsns.push(put.expect("a device without end has room"));
    }
    let large = vec![1; 70_000];
    log.put(&object(100, 70_000), Source::Bytes(&large)).expect("there is room");
    log.sync().expect("a device that does not fail");
    for which in 0..40 {
        let lsn = lsns[usize::from(which)];
        log.dead(&ObjectId::new([which; 20]), lsn).expect("there is room");
    }
    log.sync().expect("a device that does not fail");
    log.maintain(50_000).expect("a device that does not fail");
    device.image()
}
