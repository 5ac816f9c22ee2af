//! A disk that acknowledges a sync and does not do it. What it loses cannot be had back; it must
//! not become anything else.

use std::collections::BTreeSet;

use plasmon_testkit::Random;

use super::world::{World, config, object, payload, read, seeds};
use crate::doubles::{Image, PowerLoss, SimDevice};
use crate::{LogError, Source, open_on};

#[test]
fn a_disk_that_lies_loses_objects_and_makes_no_other_payload() {
    let (mut opened_count, mut said, mut refused) = (0, 0, 0);
    for seed in seeds(12) {
        let mut random = Random::new(seed);
        let mut world = World::new(None);
        for _ in 0..40 {
            world.step(&mut random).unwrap();
        }
        let events = world.device.events();
        let end = random.size_below(events.len()) + 1;
        let mut loss = PowerLoss::of(Image::default(), 512);
        for event in &events[..end] {
            loss.advance(event, random.percent(30));
        }
        loss.each_image(0, 20, &mut || random.word(), &mut |image| match open_on(
            Box::new(SimDevice::of(image)),
            &config(None),
        ) {
            Ok(mut opened) => {
                opened_count += 1;
                said += u32::from(!opened.recovery.damaged.is_empty());
                check(&mut opened);
            }
            Err(LogError::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        });
    }
    println!(
        "{opened_count} opened, of which {said} said that something is lost; {refused} refused"
    );
    assert!(opened_count > 0);
}

/// Whatever is found has the payload that was put under its id in that version, or says that it is
/// damaged.
fn check(opened: &mut crate::Opened) {
    let mut ids = BTreeSet::new();
    for found in opened.found.clone() {
        let (which, version) = (found.object.id.as_bytes()[0], found.object.created_ms);
        assert!(ids.insert(which), "object {which} was found twice");
        match read(&mut *opened.log, found.lsn, &found.object) {
            Ok(bytes) => assert!(bytes == payload(which, version, bytes.len())),
            Err(LogError::Corrupt { .. } | LogError::Io { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The number of a record that such a disk lost is not given to another one.
#[test]
fn a_lost_number_is_not_used_again() {
    let mut world = World::new(None);
    let image = world.device.image();
    let lost = world.put(1, 100).unwrap();
    world.sync().unwrap();
    let device = SimDevice::of(image);
    let mut log = open_on(Box::new(device), &config(None)).unwrap().log;
    let other = object(2, 1, 100);
    let next = log.put(&other, Source::Bytes(&payload(2, 1, 100))).unwrap();
    assert!(next > lost, "{lost} and {next}");
    let read = read(&mut *log, lost, &other);
    assert!(matches!(read, Err(LogError::Absent { .. })), "{read:?}");
}
