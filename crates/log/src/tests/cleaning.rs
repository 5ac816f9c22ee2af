//! Garbage collection: room comes back, and nothing else changes.

use plasmon_testkit::Random;

use super::world::{SEGMENT_BYTES, World, seeds};
use crate::LogError;

fn maintain_all(world: &mut World) {
    for _ in 0..1000 {
        if !world.log.maintain(1 << 20).unwrap() {
            return;
        }
    }
    panic!("garbage collection does not end");
}

#[test]
fn room_of_dead_objects_comes_back() {
    let mut world = World::new(None);
    for round in 0..20 {
        for which in 0..10 {
            world.put(which, 4000).unwrap();
        }
        world.sync().unwrap();
        maintain_all(&mut world);
        let status = world.log.status();
        assert_eq!(status.objects, 10);
        let used_max = 2 * status.live_bytes + 3 * SEGMENT_BYTES;
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
        maintain_all(&mut world);
    }
    world.reopen();
    assert!(!world.records.contains_key(&0));
    for which in 10..24 {
        world.dead(which).unwrap();
    }
    world.sync().unwrap();
    maintain_all(&mut world);
    world.reopen();
    maintain_all(&mut world);
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
        maintain_all(&mut world);
        world.check_payloads();
        if round % 2 == 0 {
            world.reopen();
            let left: Vec<u8> = world.records.keys().copied().collect();
            for which in left {
                world.dead(which).unwrap();
            }
            world.sync().unwrap();
            maintain_all(&mut world);
        }
    }
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
        maintain_all(&mut world);
        let before = world.log.status().written_bytes;
        maintain_all(&mut world);
        assert_eq!(world.log.status().written_bytes, before, "seed {seed}");
        world.check_payloads();
    }
}
