//! When a name can be used again whose object was deleted, with a node that is out for good.

use plasmon_proto::ObjectId;

use crate::record::Content;

use super::history::{Operation, OperationNo};
use super::store::Outcome;
use super::world::World;

fn pass(world: &mut World, ms: u64) {
    world.run_until(world.now.after_ms(ms), false).unwrap();
}

fn outcome(world: &World, no: OperationNo) -> Option<Outcome> {
    world.history.entries[&no].end.clone().map(|(_, outcome)| outcome)
}

/// Each new primary counted how long a node that is out has shown no copy from its own start. So
/// after its restart a name that was deleted was in use again for all that time.
#[test]
fn a_name_is_free_at_once_when_the_node_that_is_away_was_silent_before_its_primary_started() {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == 3).unwrap();
    let mut world = World::new(seed, None, 500);
    let id = ObjectId::pooled([7; 12], None);
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    world.machines[2].crash(true);
    pass(&mut world, 30_000);
    let content = Content { data_bytes: 100, ..Content::default() };
    let put = Operation::Put { id, content, copies: 1, copies_min: 1 };
    let no = world.begin(0, put).unwrap();
    pass(&mut world, 1_000);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))), "{}", world.trace());
    for at in 0..2 {
        world.crash(at, false, 100).unwrap();
    }
    pass(&mut world, 1_500);
    let no = world.begin(0, Operation::Delete { id }).unwrap();
    pass(&mut world, 100);
    assert_eq!(outcome(&world, no), Some(Outcome::Deleted), "{}", world.trace());
    let no = world.begin(0, put).unwrap();
    pass(&mut world, 1_000);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))), "{}", world.trace());
}
