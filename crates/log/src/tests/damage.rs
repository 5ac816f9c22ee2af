//! Damage: a changed bit anywhere is found, and makes nothing of what lives but a hole.

use std::collections::BTreeMap;

use plasmon_testkit::Random;

use super::world::{World, config, id, payload, read, seeds};
use crate::doubles::{Image, SimDevice, Target};
use crate::format::{FrameCopy, FrameHead, FramePlace, LogId, Superblock};
use crate::{LogError, Opened, ScrubProgress, open_on};

/// A log with everything in it: objects in several segments, replaced and deleted ones, copies, a
/// segment of one object, frames of one record and of many.
fn log_with_everything() -> World {
    let mut world = World::new(None);
    for which in 0..40 {
        world.put(which, 3000).unwrap();
    }
    world.sync().unwrap();
    for which in 60..100 {
        world.put(which, 2500).unwrap();
    }
    world.sync().unwrap();
    world.put(1, 100).unwrap();
    world.put(50, 150_000).unwrap();
    world.sync().unwrap();
    for which in 2..30 {
        world.dead(which).unwrap();
    }
    world.sync().unwrap();
    while world.log.maintain(1 << 20).unwrap() {}
    for which in [3, 4] {
        world.put(which, 5000).unwrap();
        world.sync().unwrap();
    }
    world.dead(30).unwrap();
    world.put(31, 777).unwrap();
    world.sync().unwrap();
    while world.log.maintain(1 << 20).unwrap() {}
    world
}

fn scrub_all(opened: &mut Opened) -> ScrubProgress {
    let mut whole = ScrubProgress::default();
    while !whole.finished {
        let part = opened.log.scrub(10_000).unwrap();
        whole.read_bytes += part.read_bytes;
        whole.damaged.extend(part.damaged);
        whole.finished = part.finished;
    }
    whole
}

/// Opens a damaged image: what is found is what lived, or it is said what is lost. Returns whether
/// anything was said.
fn check_damaged(world: &World, image: Image, what: &str) -> bool {
    let device = SimDevice::of(image);
    let mut opened = match open_on(Box::new(device), &config(None)) {
        Ok(opened) => opened,
        Err(LogError::Corrupt { .. }) => return true,
        Err(error) => panic!("{what}: {error}"),
    };
    let mut is_said = !opened.recovery.damaged.is_empty() || opened.recovery.torn_records > 0;
    let mut found = BTreeMap::new();
    for it in opened.found.clone() {
        let (which, version) = (it.object.id.as_bytes()[0], it.object.created_ms);
        let expected = world.records.get(&which).map(|(_, version, _)| *version);
        assert_eq!(Some(version), expected, "{what}: object {which} is not the one that lived");
        found.insert(which, version);
        match read(&mut *opened.log, it.lsn, &it.object) {
            Ok(bytes) => assert!(bytes == payload(which, version, bytes.len()), "{what}"),
            Err(LogError::Corrupt { .. }) => is_said = true,
            Err(error) => panic!("{what}: {error}"),
        }
    }
    assert!(is_said || found.len() == world.records.len(), "{what}: objects are lost silently");
    let scrub = scrub_all(&mut opened);
    is_said || !scrub.damaged.is_empty()
}

/// The log, and the numbers of its segments; others wait to be written.
fn segments_of(image: &Image) -> (LogId, Vec<u64>) {
    let superblock = Superblock::decode(&image.superblocks[0]).unwrap();
    (superblock.log, superblock.segments.iter().map(|row| row.number).collect())
}

fn flipped(image: &Image, target: Target, at: usize, bit: u32) -> Image {
    let mut image = image.clone();
    let file = match target {
        Target::Segment(number) => image.segments.get_mut(&number).unwrap(),
        Target::Superblock(slot) => &mut image.superblocks[slot],
    };
    file[at] ^= 1 << bit;
    image
}

#[test]
fn an_undamaged_log_is_clean() {
    let world = log_with_everything();
    assert!(!check_damaged(&world, world.device.image(), "nothing was changed"));
    assert!(world.log.status().segments >= 3);
}

#[test]
fn a_changed_bit_in_the_payload_of_an_object_is_found() {
    let world = log_with_everything();
    let image = world.device.image();
    let mut random = Random::new(1);
    for (which, (_, version, bytes)) in &world.records {
        let payload = payload(*which, *version, *bytes);
        let places = image.segments.iter().flat_map(|(number, segment)| {
            let starts = (0..segment.len() - payload.len().min(segment.len())).step_by(64);
            let same = starts.filter(|at| segment[*at..].starts_with(&payload));
            same.map(|at| (*number, at)).collect::<Vec<_>>()
        });
        let mut said = 0;
        for (number, at) in places {
            let at = at + random.size_below(*bytes);
            let image = flipped(&image, Target::Segment(number), at, random.below(8) as u32);
            said += u32::from(check_damaged(&world, image, "payload"));
        }
        assert!(said > 0, "object {which}");
    }
}

#[test]
fn a_changed_bit_anywhere_makes_nothing_but_a_hole() {
    let world = log_with_everything();
    let image = world.device.image();
    let mut random = Random::new(seeds(1).pop().unwrap_or(0));
    let (mut tried, mut said) = (0, 0);
    for (number, segment) in &image.segments {
        for start in (0..segment.len()).step_by(64) {
            if random.percent(80) {
                continue;
            }
            let (at, bit) = (start + random.size_below(64), random.below(8) as u32);
            let what = format!("segment {number} byte {at} bit {bit}");
            let image = flipped(&image, Target::Segment(*number), at, bit);
            (tried, said) = (tried + 1, said + u32::from(check_damaged(&world, image, &what)));
        }
    }
    for slot in 0..2 {
        for at in (0..image.superblocks[slot].len()).step_by(3) {
            let image = flipped(&image, Target::Superblock(slot), at, 5);
            check_damaged(&world, image, &format!("superblock {slot} byte {at}"));
        }
    }
    println!("{tried} bits in segments, {said} were said");
}

/// With one copy of the records a damaged one would bring an older version of a replaced object
/// back.
#[test]
fn records_are_read_from_their_second_copy() {
    let world = log_with_everything();
    let image = world.device.image();
    let (log, numbers) = segments_of(&image);
    for (number, segment) in image.segments.iter().filter(|(number, _)| numbers.contains(number)) {
        for at in (0..segment.len()).step_by(4096) {
            // Not what still lies there from the segment's time under another number.
            let place = FramePlace { log, segment: *number, offset: at as u64 };
            if FrameHead::decode(&segment[at..], FrameCopy::Front, place).is_some() {
                let image = flipped(&image, Target::Segment(*number), at + 9, 0);
                let said = check_damaged(&world, image, &format!("segment {number} head {at}"));
                assert!(said, "segment {number} head {at}");
            }
        }
    }
}

#[test]
fn a_segment_that_is_missing_or_cut_is_said() {
    let world = log_with_everything();
    let (_, numbers) = segments_of(&world.device.image());
    for number in &numbers {
        let mut image = world.device.image();
        image.segments.remove(number);
        let device = SimDevice::of(image);
        let opened = open_on(Box::new(device), &config(None)).unwrap();
        assert!(!opened.recovery.damaged.is_empty(), "segment {number}");
    }
    let mut silent = Vec::new();
    for number in &numbers {
        let mut image = world.device.image();
        let segment = image.segments.get_mut(number).unwrap();
        segment.truncate(segment.len() / 2);
        let device = SimDevice::of(image);
        let opened = open_on(Box::new(device), &config(None));
        if opened.is_ok_and(|opened| opened.recovery.damaged.is_empty()) {
            silent.push(*number);
        }
    }
    // The end of the open one looks like a batch that was not synced.
    assert!(silent.len() <= 1, "{silent:?}");
}

#[test]
fn a_log_without_superblocks_and_one_of_another_version_are_refused() {
    let world = log_with_everything();
    let mut image = world.device.image();
    image.superblocks = Default::default();
    let refused = open_on(Box::new(SimDevice::of(image.clone())), &config(None));
    assert!(matches!(refused, Err(LogError::Corrupt { .. })), "{refused:?}");
    image.segments.clear();
    assert!(open_on(Box::new(SimDevice::of(image)), &config(None)).is_ok(), "it is a new log");
    let mut image = world.device.image();
    for superblock in &mut image.superblocks {
        superblock[8] = 2;
        let crc = crc32c::crc32c(&superblock[..60]);
        let rows = u32::from_le_bytes([12, 13, 14, 15].map(|at| superblock[at])) as usize;
        let crc = crc32c::crc32c_append(crc, &superblock[64..64 + 40 * rows]);
        superblock[60..64].copy_from_slice(&crc.to_le_bytes());
    }
    let refused = open_on(Box::new(SimDevice::of(image)), &config(None));
    assert!(matches!(refused, Err(LogError::Version { found: 2, .. })), "{refused:?}");
}

#[test]
fn a_damaged_object_is_not_copied_and_its_segment_stays() {
    let mut world = World::new(None);
    for which in 0..20 {
        world.put(which, 3000).unwrap();
    }
    world.sync().unwrap();
    let payload = payload(1, world.records[&1].1, 3000);
    world.device.change(|image| {
        for segment in image.segments.values_mut() {
            if let Some(at) = segment.windows(payload.len()).position(|it| it == payload) {
                segment[at + 5] ^= 1;
            }
        }
    });
    for which in 2..20 {
        world.dead(which).unwrap();
    }
    // Another segment is begun.
    for _ in 0..3 {
        world.put(40, 30_000).unwrap();
        world.sync().unwrap();
    }
    while world.log.maintain(1 << 20).unwrap() {}
    let object = super::world::object(1, world.records[&1].1, 3000);
    let lsn = world.records[&1].0;
    assert!(matches!(read(&mut *world.log, lsn, &object), Err(LogError::Corrupt { .. })));
    assert!(world.log.status().objects >= 2, "the object is there, and damaged");
    assert_eq!(id(1), object.id);
}
