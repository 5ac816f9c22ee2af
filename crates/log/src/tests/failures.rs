//! A device that fails: what was acknowledged stays, and nothing else is taken for it.

use std::io::ErrorKind;

use plasmon_testkit::Random;

use super::world::{World, config, living, object, payload, read, seeds};
use crate::doubles::{Fault, Operation};
use crate::{LogError, open_on};

const ONCE: u32 = 1;
const ALWAYS: u32 = u32::MAX;

fn fault(operation: Operation, after: u32, times: u32, kind: ErrorKind) -> Option<Fault> {
    Some(Fault { operation, after, times, kind })
}

/// After a write or a sync that failed the log takes nothing, and what was put before can be read.
#[test]
fn a_failed_write_or_sync_is_never_taken_for_a_good_one() {
    for operation in [Operation::Write, Operation::Sync] {
        let mut world = World::new(None);
        world.put(1, 100).unwrap();
        world.sync().unwrap();
        world.device.fail(fault(operation, 0, ONCE, ErrorKind::Other));
        world.put(2, 100).unwrap();
        let failed = world.sync();
        assert!(matches!(failed, Err(LogError::Io { .. })), "{failed:?}");
        // The device works again, and the log does not know what it has.
        for refused in [
            world.sync(),
            world.put(3, 1).map(|_| ()),
            world.dead(1),
            world.log.maintain(1000).map(|_| ()),
        ] {
            assert!(matches!(refused, Err(LogError::Failed { .. })), "{refused:?}");
        }
        assert!(world.log.status().failed.is_some());
        let (lsn, version, bytes) = world.records[&1];
        let object = object(1, version, bytes);
        assert!(read(&mut *world.log, lsn, &object).unwrap() == payload(1, version, bytes));
        world.reopen();
        assert!(world.records.contains_key(&1));
        world.put(4, 10).unwrap();
        world.sync().unwrap();
    }
}

#[test]
fn a_full_disk_refuses_without_harm_and_deleting_makes_room() {
    let mut world = World::new(None);
    world.put(1, 100).unwrap();
    world.device.fail(fault(Operation::Create, 0, ALWAYS, ErrorKind::StorageFull));
    let mut which = 2;
    let refused = loop {
        match world.put(which, 3000) {
            Ok(_) => which += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LogError::Full { free_bytes: 0, .. }), "{refused:?}");
    world.sync().unwrap();
    assert!(matches!(world.put(99, 200_000), Err(LogError::Full { .. })));
    // There is room to delete, also after a restart.
    world.reopen();
    for which in 2..which {
        world.dead_at_last(which);
    }
    world.sync().unwrap();
    world.reopen();
    assert_eq!(world.records.keys().copied().collect::<Vec<_>>(), [1]);
    world.device.fail(None);
    world.put(2, 3000).unwrap();
    world.sync().unwrap();
    world.check_payloads();
}

#[test]
fn an_object_that_cannot_be_read_is_an_error_and_not_gone() {
    let mut world = World::new(None);
    let lsn = world.put(1, 100).unwrap();
    world.sync().unwrap();
    let object = object(1, world.records[&1].1, 100);
    world.device.fail(fault(Operation::Read, 0, ONCE, ErrorKind::Other));
    let failed = read(&mut *world.log, lsn, &object);
    assert!(matches!(failed, Err(LogError::Io { action: "read", .. })), "{failed:?}");
    assert!(read(&mut *world.log, lsn, &object).is_ok(), "the log has not failed");
    world.put(2, 100).unwrap();
    world.sync().unwrap();
    // While it cannot be read, the log is not opened: it would seem to have less.
    world.device.fail(fault(Operation::Read, 0, ALWAYS, ErrorKind::Other));
    let failed = open_on(Box::new(world.device.clone()), &config(None));
    assert!(matches!(failed, Err(LogError::Io { .. })), "{failed:?}");
}

/// Every call fails once, at every place of a run; then the machine is started again.
#[test]
fn a_failure_at_any_call_loses_nothing_that_was_acknowledged() {
    use Operation::{Any, Create, Read, Superblock, Sync, Write};
    for seed in seeds(6) {
        for operation in [Create, Write, Sync, Read, Superblock, Any] {
            for after in 0..12 {
                let mut random = Random::new(seed);
                let mut world = World::new(None);
                let times = if after % 2 == 0 { ONCE } else { ALWAYS };
                world.device.fail(fault(operation, after, times, ErrorKind::Other));
                for _ in 0..30 {
                    let which = random.below(6) as u8;
                    let bytes = random.pick(&[10, 5000, 70_000]);
                    // What fails is not noted as acknowledged.
                    let _ = world.put(which, bytes);
                    if random.percent(30) {
                        let _ = world.dead(random.below(6) as u8);
                    }
                    if random.percent(30) {
                        let _ = world.sync();
                    }
                    if random.percent(20) {
                        let _ = world.log.maintain(100_000);
                    }
                }
                world.device.fail(None);
                world.reopen();
                world.check_payloads();
            }
        }
    }
}

/// Of a sync that failed, a cache keeps what is not on the disk. After a restart it would be read,
/// and be gone with the next loss of power.
#[test]
fn what_a_failed_sync_left_in_a_cache_is_written_again() {
    let mut world = World::new(None);
    world.device.set_reads_cache(true);
    world.put(1, 5000).unwrap();
    world.device.fail(fault(Operation::Sync, 0, ONCE, ErrorKind::Other));
    assert!(world.sync().is_err());
    let before = world.device.events().len();
    let mut opened = open_on(Box::new(world.device.clone()), &config(None)).unwrap();
    assert_eq!(living(&mut opened).len(), 1);
    let written = world.device.events()[before..].iter().any(
        |event| matches!(event, crate::doubles::Event::Write(_, 0, bytes) if bytes.len() == 8192),
    );
    assert!(written, "the frame of the object is written again");
}
