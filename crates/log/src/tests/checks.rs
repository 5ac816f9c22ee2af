//! Checks of single objects, and what a scrub says of each kind of damage.

use super::world::{World, id, payload};
use crate::{Damage, LogError, Lsn, ScrubProgress, Source};

/// Reads an object piece by piece.
fn check(world: &mut World, lsn: Lsn) -> Result<Vec<u8>, LogError> {
    let (mut bytes, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        assert_eq!(at, bytes.len() as u64);
        from = world.log.check(lsn, at, &mut |piece| bytes.extend_from_slice(piece))?;
    }
    Ok(bytes)
}

fn scrub_all(world: &mut World, bytes: u64) -> (ScrubProgress, usize) {
    let (mut whole, mut steps) = (ScrubProgress::default(), 0);
    while !whole.finished {
        let part = world.log.scrub(bytes).unwrap();
        whole.read_bytes += part.read_bytes;
        whole.damaged.extend(part.damaged);
        whole.finished = part.finished;
        steps += 1;
    }
    (whole, steps)
}

/// Changes a byte of a payload wherever it lies, so far from its begin.
fn damage(world: &World, payload: &[u8], at: usize) {
    let mut found = 0;
    world.device.change(|image| {
        for segment in image.segments.values_mut() {
            let start = payload.get(..64).unwrap_or(payload);
            let mut places = (0..segment.len()).step_by(64);
            if let Some(begin) = places.find(|at| segment[*at..].starts_with(start)) {
                segment[begin + at] ^= 1;
                found += 1;
            }
        }
    });
    assert_eq!(found, 1, "it is there once");
}

/// Sizes of one chunk, of several, and of several pieces.
const SIZES: [usize; 6] = [0, 100, 1 << 20, (1 << 20) + 1, 4 << 20, (9 << 20) + 5];

#[test]
fn an_object_is_read_in_pieces_up_to_what_is_damaged() {
    let mut world = World::new(None);
    for (which, bytes) in SIZES.into_iter().enumerate() {
        world.put(which as u8, bytes).unwrap();
    }
    world.sync().unwrap();
    for (which, (lsn, version, bytes)) in world.records.clone() {
        let right = payload(which, version, bytes);
        assert!(check(&mut world, lsn).unwrap() == right, "object {which}");
        assert!(world.log.matches(lsn, Source::Bytes(&right)).unwrap());
        if bytes == 0 {
            continue;
        }
        let mut wrong = right.clone();
        wrong[bytes / 2] ^= 1;
        assert!(!world.log.matches(lsn, Source::Bytes(&wrong)).unwrap());
        let short = world.log.matches(lsn, Source::Bytes(&right[1..]));
        assert!(matches!(short, Err(LogError::Payload(_))), "{short:?}");
        damage(&world, &right, bytes - 1);
        assert!(matches!(check(&mut world, lsn), Err(LogError::Corrupt { .. })));
        assert!(world.log.matches(lsn, Source::Bytes(&right)).unwrap(), "the index says so");
    }
    let absent = world.log.check(1 << 60, 0, &mut |_| ());
    assert!(matches!(absent, Err(LogError::Absent { .. })), "{absent:?}");
}

#[test]
fn a_scrub_reads_large_payloads_in_pieces_and_names_what_is_damaged() {
    let mut world = World::new(None);
    world.put(1, 9 << 20).unwrap();
    world.put(2, 9 << 20).unwrap();
    world.put(3, 100).unwrap();
    world.sync().unwrap();
    let (clean, steps) = scrub_all(&mut world, 1);
    assert!(clean.damaged.is_empty() && clean.read_bytes >= 18 << 20);
    assert!(steps >= 6, "{steps}");
    let (lsn, version, bytes) = world.records[&2];
    damage(&world, &payload(2, version, bytes), 5 << 20);
    let (found, _) = scrub_all(&mut world, 1 << 20);
    let objects: Vec<_> = found.damaged.iter().map(|damage| damage.object).collect();
    assert_eq!(objects, [Some((id(2), lsn))]);
    // What is written again is right, and the place that was damaged counts no more.
    world.put(2, 9 << 20).unwrap();
    world.sync().unwrap();
    let (found, _) = scrub_all(&mut world, 1 << 20);
    assert_eq!(found.damaged, []);
}

/// Both copies of the records are damaged: the payload can be read until the log is opened again,
/// and then the objects are lost.
#[test]
fn objects_whose_records_are_lost_are_named() {
    let mut world = World::new(None);
    for which in [1, 2] {
        world.put(which, 100).unwrap();
    }
    world.sync().unwrap();
    world.put(3, 100).unwrap();
    world.sync().unwrap();
    world.device.change(|image| {
        let segment = image.segments.values_mut().next().unwrap();
        for head in [b"PLSMLOGF", b"PLSMLOGB"] {
            let mut places = 0..segment.len();
            let at = places.find(|at| segment[*at..].starts_with(head)).unwrap();
            segment[at + 9] ^= 1;
        }
    });
    let (found, _) = scrub_all(&mut world, 1 << 20);
    let named: Vec<_> = found.damaged.iter().filter_map(|it: &Damage| it.object).collect();
    let lsn = |which: u8| world.records[&which].0;
    assert_eq!(named, [(id(1), lsn(1)), (id(2), lsn(2))]);
    for which in [1, 2] {
        let lsn = world.records[&which].0;
        assert!(check(&mut world, lsn).is_ok(), "it can be read still");
        world.put(which, 100).unwrap();
    }
    world.sync().unwrap();
    world.check_payloads();
    world.log.scrub(1 << 20).unwrap();
}

/// A segment with a damaged object was never removed, whatever became of the object.
#[test]
fn a_segment_is_removed_after_what_was_damaged_in_it_has_ended() {
    let mut world = World::new(None);
    for which in 0..20 {
        world.put(which, 3000).unwrap();
    }
    world.sync().unwrap();
    let (_, version, bytes) = world.records[&1];
    damage(&world, &payload(1, version, bytes), 5);
    for which in (0..20).filter(|which| *which != 1) {
        world.dead(which).unwrap();
    }
    for _ in 0..8 {
        world.put(40, 20_000).unwrap();
        world.sync().unwrap();
    }
    let maintain = |world: &mut World| {
        while world.log.maintain(1 << 20).unwrap() {}
        world.log.status().segments
    };
    let stuck = maintain(&mut world);
    world.dead(1).unwrap();
    world.sync().unwrap();
    assert_eq!(maintain(&mut world), stuck, "it could not be copied");
    scrub_all(&mut world, 1 << 20);
    assert!(maintain(&mut world) < stuck, "{:?}", world.log.status());
    world.check_payloads();
}
