//! What an operator is told who has the whole pool compared.

use plasmon_cluster::limits::GROUPS;
use plasmon_proto::ObjectId;

use crate::event::Event;
use crate::record::Content;
use crate::tally::{NodeTally, Verified};

use super::history::Operation;
use super::world::World;

/// How long a comparison may take.
const WITHIN_MS: u64 = 20_000;

impl World {
    /// Has some machines ask; the answers come with the next events.
    pub(super) fn ask_verifications(&mut self) -> Result<(), String> {
        (0..2).try_for_each(|at| {
            self.give(at, Event::Verify { number: at as u64, within_ms: WITHIN_MS })
        })
    }

    /// In quiet times everything is compared, and no copy is missing.
    pub(super) fn check_verifications(&self) -> Result<(), String> {
        for at in 0..2 {
            let verified = self.verified.get(&at).ok_or("the pool was not compared in time")?;
            let groups: u32 = verified.tallies.values().map(|tally| tally.groups).sum();
            if groups as usize != GROUPS || !verified.unanswered.is_empty() {
                return Err(format!("not everything was compared: {verified:?}"));
            }
            // Hidden copies of ids with a home stay after a commit that failed, and are found now.
            if found(verified).any(|node| node.missing > 0) {
                return Err(format!("records and copies differ: {verified:?}"));
            }
        }
        Ok(())
    }
}

fn found(verified: &Verified) -> impl Iterator<Item = &NodeTally> {
    verified.tallies.values().flat_map(|tally| &tally.nodes)
}

fn verify(world: &mut World) -> Verified {
    world.verified.clear();
    world.give(0, Event::Verify { number: 7, within_ms: WITHIN_MS }).unwrap();
    world.run_until(world.now.after_ms(WITHIN_MS + 1_000), false).unwrap();
    world.verified.remove(&7).unwrap()
}

fn sum(verified: &Verified, of: impl Fn(&NodeTally) -> u64) -> u64 {
    found(verified).map(of).sum()
}

#[test]
fn copies_that_are_missing_are_found_and_made_again() {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == 3).unwrap();
    let mut world = World::new(seed, None, 500);
    world.start_all().unwrap();
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    pass(&mut world, 3_000);
    let ids: Vec<_> = (0..4).map(|number| ObjectId::pooled([number; 12], None)).collect();
    for id in &ids {
        let content = Content { data_bytes: 100, ..Content::default() };
        let put = Operation::Put { id: *id, content, copies: 2, copies_min: 2 };
        world.begin(0, put).unwrap();
    }
    pass(&mut world, 3_000);
    let well = verify(&mut world);
    assert_eq!(well.tallies.values().map(|tally| tally.objects).sum::<u64>(), 4);
    assert_eq!((sum(&well, |node| node.copies), sum(&well, |node| node.bytes)), (8, 800));
    assert_eq!(sum(&well, |node| node.missing + node.unrecorded), 0);

    // A node that has lost a copy and does not say so, and one that has a copy of nothing.
    let keeps = |world: &World, at: usize| {
        world.machines[at].store.objects.get(&ids[0]).is_some_and(|object| object.keep)
    };
    let at = (1..3).find(|at| keeps(&world, *at)).unwrap();
    let object = world.machines[at].store.objects.remove(&ids[0]).unwrap();
    let node = world.machines[at].node.as_mut().unwrap();
    node.forget_copy(&ids[0], object.birth);
    let stray = ObjectId::pooled([99; 12], None);
    node.add_copy(stray, object.birth, object.content);
    let ill = verify(&mut world);
    assert_eq!(sum(&ill, |node| node.missing), 1, "{ill:?}");
    assert_eq!(sum(&ill, |node| node.unrecorded), 1, "{ill:?}");
    pass(&mut world, 15_000);
    let well = verify(&mut world);
    assert_eq!(sum(&well, |node| node.copies), 8, "{well:?}");
    assert_eq!(sum(&well, |node| node.missing + node.unrecorded), 0);
    assert!(well.tallies.values().all(|tally| tally.short == 0));
}

/// A node that does not answer is named when time is over.
#[test]
fn a_node_that_stands_still_is_named() {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == 3).unwrap();
    let mut world = World::new(seed, None, 500);
    world.start_all().unwrap();
    world.run_until(world.now.after_ms(3_000), false).unwrap();
    world.machines[2].paused = true;
    world.give(0, Event::Verify { number: 7, within_ms: 500 }).unwrap();
    world.run_until(world.now.after_ms(1_000), false).unwrap();
    let verified = world.verified.remove(&7).unwrap();
    assert!(verified.unanswered.contains(&world.machines[2].slot()), "{verified:?}");
}
