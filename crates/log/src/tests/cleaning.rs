//! Garbage collection: room comes back, and nothing else changes.

use plasmon_testkit::Random;

use super::world::{SEGMENT_BYTES, World, object, seeds};
use crate::device::BLOCK_BYTES;
use crate::doubles::Event;
use crate::{LogError, Source};

#[test]
fn room_of_dead_objects_comes_back() {
    let mut world = World::new(None);
    for round in 0..20 {
        for which in 0..10 {
            world.put(which, 4000).unwrap();
        }
        world.sync().unwrap();
        world.rest();
        let status = world.log.status();
        assert_eq!(status.objects, 10);
        // One of them waits to be written.
        let used_max = 2 * status.live_bytes + 4 * SEGMENT_BYTES;
        assert!(status.used_bytes <= used_max, "round {round}: {status:?}");
    }
    world.check_payloads();
    world.reopen();
    world.check_payloads();
}

#[test]
fn deleted_objects_stay_deleted_while_an_older_put_is_anywhere() {
    let mut world = World::new(None);
    // The older put lies in a segment that stays: most of it lives.
    world.put(0, 100).unwrap();
    for which in 10..24 {
        world.put(which, 4000).unwrap();
    }
    world.sync().unwrap();
    world.put(0, 200).unwrap();
    world.sync().unwrap();
    world.dead(0).unwrap();
    world.sync().unwrap();
    // The segments with the newer put and with its end are copied many times.
    for _ in 0..30 {
        world.put(1, 20_000).unwrap();
        world.sync().unwrap();
        world.rest();
    }
    world.reopen();
    assert!(!world.records.contains_key(&0));
    for which in 10..24 {
        world.dead(which).unwrap();
    }
    world.sync().unwrap();
    world.rest();
    world.reopen();
    world.rest();
    world.reopen();
    assert_eq!(world.records.keys().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_log_with_a_budget_is_full_at_its_end_and_goes_on_when_something_is_deleted() {
    let budget = 10 * SEGMENT_BYTES;
    let mut world = World::new(Some(budget));
    for round in 0..5 {
        let mut put = 0_u8;
        let refused = loop {
            match world.put(put, 6000) {
                Ok(_) => put += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, LogError::Full { .. }), "{refused:?}");
        world.sync().unwrap();
        assert!(world.log.status().used_bytes <= budget);
        // At least half of the budget is of use.
        assert!(u64::from(put) * 6000 > budget / 2, "round {round}: {put} objects");
        for which in 0..put {
            if which % 2 == 0 || round % 2 == 1 {
                world.dead(which).unwrap();
            }
        }
        world.sync().unwrap();
        world.rest();
        world.check_payloads();
        if round % 2 == 0 {
            world.reopen();
            let left: Vec<u8> = world.records.keys().copied().collect();
            for which in left {
                world.dead(which).unwrap();
            }
            world.sync().unwrap();
            world.rest();
        }
    }
}

/// A disk that was full took nothing that frees room: after some fifteen deletes the others were
/// refused, and those that had been taken made no room, because there was none to copy what lived.
#[test]
fn a_full_disk_is_full_at_its_end_and_goes_on_when_something_is_deleted() {
    for segments in [6, 10, 20] {
        let mut world = World::new(None);
        world.device.set_room(segments * SEGMENT_BYTES + BLOCK_BYTES);
        for round in 0..6 {
            let mut put = 0_u8;
            while world.put_at_last(put, 5000) {
                put += 1;
            }
            // Most of the disk is of use: not the reserve, and where the ends of objects lie.
            let wanted = (segments - 4) * SEGMENT_BYTES / 2;
            assert!(u64::from(put) * 5000 > wanted, "{segments}, round {round}: {put} objects");
            for which in 0..put {
                if which % 2 == 0 || round % 2 == 1 {
                    world.dead_at_last(which);
                    world.sync().unwrap();
                    // The worker collects between two deletes where there is time for that.
                    while round < 3 && world.log.collect(1 << 20).unwrap() {}
                }
            }
            world.rest();
            world.check_payloads();
            world.reopen();
            let left: Vec<u8> = world.records.keys().copied().collect();
            for which in left {
                world.dead_at_last(which);
                world.sync().unwrap();
            }
            world.rest();
        }
    }
}

/// Of each segment so little ends that none is worth copying: ends alone fill the reserve.
#[test]
fn a_full_disk_takes_as_many_ends_as_there_is_room_for_and_loses_nothing() {
    let mut world = World::new(None);
    world.device.set_room(12 * SEGMENT_BYTES + BLOCK_BYTES);
    let mut put = 0_u8;
    while world.put_at_last(put, 5000) {
        put += 1;
    }
    let ended: Vec<u8> = (0..put).step_by(12).collect();
    for which in &ended {
        world.dead_at_last(*which);
        world.sync().unwrap();
    }
    world.check_payloads();
    world.reopen();
    assert_eq!(world.records.len(), usize::from(put) - ended.len());
    world.check_payloads();
}

/// What lies in a segment from its time before must never count, and a log that is always full of
/// the same bytes takes no new room.
#[test]
fn segments_are_written_again_with_what_still_lies_in_them() {
    for mut world in [World::new(None), World::in_place(), World::with_zeros()] {
        for round in 0..40_u32 {
            for which in 0..4 {
                world.put(which, 9000 + which as usize).unwrap();
            }
            // One larger than a segment, always of the same size.
            world.put(9, 70_000).unwrap();
            world.sync().unwrap();
            world.rest();
            if round % 8 == 7 {
                world.reopen();
            }
        }
        world.check_payloads();
        let is_recycled = |event: &&Event| matches!(event, Event::Recycle(..));
        let recycled = world.device.events().iter().filter(is_recycled).count();
        assert!(recycled > 20, "{recycled}");
        world.reopen();
        assert_eq!(world.records.len(), 5);
        world.check_payloads();
    }
}

#[test]
fn an_idle_log_writes_blocks_before_puts_need_them() {
    for (mut world, zeros) in [(World::with_zeros(), SEGMENT_BYTES / 4), (World::new(None), 0)] {
        world.rest();
        assert!(!world.log.prepare().unwrap(), "there was no put");
        world.put(1, 9000).unwrap();
        world.sync().unwrap();
        while world.log.maintain(1 << 20).unwrap() {}
        let before = world.log.status().written_bytes;
        for _ in 0..2 {
            world.rest();
            assert_eq!(world.log.status().written_bytes - before, zeros);
        }
        world.put(2, 9000).unwrap();
        world.sync().unwrap();
        world.reopen();
        world.check_payloads();
    }
}

/// A segment that was removed is no room that a log with a budget lacks.
#[test]
fn spares_are_removed_where_their_room_is_needed() {
    let budget = 8 * SEGMENT_BYTES;
    let mut world = World::new(Some(budget));
    for round in 0..4 {
        for which in 0..12 {
            world.put(which, 7000).unwrap();
            world.sync().unwrap();
        }
        for which in 0..12 {
            world.dead(which).unwrap();
        }
        world.sync().unwrap();
        world.rest();
        let segments = if round % 2 == 0 { 5 } else { 3 };
        world.put(20, segments * SEGMENT_BYTES as usize - 20_000).unwrap();
        world.sync().unwrap();
        assert!(world.log.status().used_bytes <= budget, "{:?}", world.log.status());
        world.check_payloads();
        world.dead(20).unwrap();
        world.sync().unwrap();
        world.rest();
    }
}

/// That an object of a pool was deleted is noted before it goes: a full log must take the note.
#[test]
fn a_full_log_takes_notes() {
    let mut world = World::new(Some(10 * SEGMENT_BYTES));
    let refused = (0..=u8::MAX).find_map(|which| world.put(which, 6000).err());
    assert!(matches!(refused, Some(LogError::Full { .. })), "{refused:?}");
    for version in 1..100 {
        world.log.put(&object(u8::MAX, version, 0), Source::Note).unwrap();
    }
    world.log.sync().unwrap();
}

#[test]
fn maintenance_ends_and_costs_nothing_when_all_lives() {
    for seed in seeds(6) {
        let mut random = Random::new(seed);
        let mut world = World::new(None);
        for _ in 0..200 {
            world.step(&mut random).unwrap();
        }
        world.sync().unwrap();
        world.rest();
        let before = world.log.status().written_bytes;
        world.rest();
        assert_eq!(world.log.status().written_bytes, before, "seed {seed}");
        world.check_payloads();
    }
}
