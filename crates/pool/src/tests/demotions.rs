//! Objects that programs do not need now.

use plasmon_proto::ObjectId;

use crate::event::Event;
use crate::record::Content;

use super::history::Operation;
use super::world::World;

/// Whichever node is told by a program; the others have nothing to make the first to go.
#[test]
fn every_node_with_a_copy_demotes_it_and_no_other() {
    let three = |seed: &u64| World::new(*seed, None, 0).machines.len() == 3;
    let mut world = World::new((0..).find(three).unwrap(), None, 500);
    (world.slow_ms, world.bulk_loss) = (0, 0);
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    let id = ObjectId::pooled([7; 12], Some(0));
    world.ids.push(id);
    let content = Content { data_bytes: 100, ..Content::default() };
    world.begin(0, Operation::Put { id, content, copies: 2, copies_min: 2 }).unwrap();
    pass(&mut world, 2_000);
    let has = |world: &World, at: usize| world.machines[at].store.objects.contains_key(&id);
    let without = (0..3).find(|at| !has(&world, *at)).unwrap();
    let (absent, local) = (ObjectId::pooled([8; 12], Some(0)), ObjectId::new([7; 20]));
    world.give(without, Event::Demote(vec![id, absent, local])).unwrap();
    pass(&mut world, 100);
    let trace = world.trace();
    for at in 0..3 {
        let told = trace.contains(&format!("{at} demotes {:?}", [id]));
        assert_eq!(told, at != without, "machine {at}\n{trace}");
    }
}
