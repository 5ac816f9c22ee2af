//! What a loss of power leaves: every object whose sync was acknowledged, no deleted one, no
//! payload but what was put.

use plasmon_testkit::Random;

use super::world::{World, each_loss, open_image, seeds};
use crate::doubles::{Event, Image, PowerLoss};

/// So many units that may be there or not are tried in all combinations.
const UNITS_MAX: usize = 12;

/// What a disk writes whole: a sector, a block, a line of a cache.
const UNITS: [u64; 3] = [4096, 512, 64];

/// Recovers from an image, and from what a loss of power during that leaves of it.
fn check(world: &World, loss: &PowerLoss, image: &Image, samples: usize, random: &mut Random) {
    let moment = world.moment(loss.note);
    let (found, device) = open_image(image);
    moment.check(&found);
    if samples == 0 {
        return;
    }
    let events = device.events();
    each_loss(image.clone(), &events, loss.unit_bytes(), &mut |again| {
        again.each_image(4, samples, &mut || random.word(), &mut |image| {
            let (found_again, _) = open_image(&image);
            moment.check(&found_again);
            if again.events == events.len() {
                assert_eq!(found_again, found, "what was found stays");
            }
        });
    });
}

/// Every loss of power during a run.
fn check_run(world: &World, unit_bytes: u64, samples: usize, random: &mut Random) {
    let events = world.device.events();
    let mut nested = random.fork();
    each_loss(Image::default(), &events, unit_bytes, &mut |loss| {
        let mut index = 0;
        loss.each_image(UNITS_MAX, samples, &mut || random.word(), &mut |image| {
            // Recovery is interrupted after some of them.
            let samples = if index % 16 == 3 { 2 } else { 0 };
            check(world, loss, &image, samples, &mut nested);
            index += 1;
        });
    });
}

#[test]
fn a_small_run_survives_every_loss_of_power_in_all_combinations() {
    for unit_bytes in UNITS {
        let mut world = World::new(None);
        world.put(1, 100).unwrap();
        world.put(2, 4100).unwrap();
        world.sync().unwrap();
        world.dead(1).unwrap();
        world.put(2, 60).unwrap();
        world.sync().unwrap();
        world.reopen();
        world.put(3, 700).unwrap();
        world.sync().unwrap();
        check_run(&world, unit_bytes, 20, &mut Random::new(unit_bytes));
    }
}

/// Wherever a loss of power leaves a write out there are old frames, with all their checksums.
#[test]
fn segments_that_are_written_again_survive_every_loss_of_power() {
    let worlds = [World::new(None), World::with_zeros(), World::in_place()];
    for (unit_bytes, mut world) in UNITS.into_iter().zip(worlds) {
        for _ in 0..6 {
            world.put(1, 30_000).unwrap();
            world.put(2, 14_000).unwrap();
            world.sync().unwrap();
            world.dead(1).unwrap();
            world.sync().unwrap();
            world.rest();
        }
        let is_recycled = |event: &Event| matches!(event, Event::Recycle(..));
        assert!(world.device.events().iter().any(is_recycled));
        check_run(&world, unit_bytes, 3, &mut Random::new(unit_bytes));
    }
}

#[test]
fn random_runs_survive_every_loss_of_power() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let unit_bytes = random.pick(&UNITS);
        let mut world = match random.below(4) {
            0 => World::in_place(),
            1 => World::with_zeros(),
            _ => World::new(None),
        };
        println!("seed {seed}, units of {unit_bytes} bytes");
        for _ in 0..random.below(40) {
            world.step(&mut random).unwrap();
        }
        world.sync().unwrap();
        world.check_payloads();
        check_run(&world, unit_bytes, 6, &mut random);
    }
}
