//! What operators are told where objects are, when all is quiet.

use plasmon_cluster::{NodeLog, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;
use plasmon_proto::pool_admin::Standing;

use crate::event::Event;
use crate::limits::PLACES_MAX;
use crate::record::{Content, Found, Place};

use super::history::Operation;
use super::network::Way;
use super::world::World;

impl World {
    /// Asks every node about as many ids as it may be asked at a time. The
    /// answers come with the next events.
    pub(super) fn ask_places(&mut self) -> Result<(), String> {
        self.places.clear();
        for (index, id) in self.ids.clone().into_iter().take(PLACES_MAX).enumerate() {
            for at in 0..self.machines.len() {
                let number = (index * self.machines.len() + at) as u64;
                self.give(at, Event::Where { number, id })?;
            }
        }
        Ok(())
    }

    /// In quiet times all nodes are told the same, and what they are told is there.
    pub(super) fn check_places(&self) -> Result<(), String> {
        for (index, id) in self.ids.iter().take(PLACES_MAX).enumerate() {
            let mut told = Vec::new();
            for at in 0..self.machines.len() {
                let number = (index * self.machines.len() + at) as u64;
                let place = self.places.get(&number);
                told.push(place.ok_or_else(|| format!("{at} was not told where {id} is"))?);
            }
            let first = told[0];
            // A node that looks whether its copy is right counts as one that has it, which may be
            // between two answers.
            let without_caches = |place: &Place| {
                let found = place.found.clone().map(|found| Found { caches: Vec::new(), ..found });
                Place { found, ..place.clone() }
            };
            if told.iter().any(|place| without_caches(place) != without_caches(first)) {
                return Err(format!("nodes are told different places of {id}: {told:?}"));
            }
            match (&first.found, first.standing) {
                (_, Standing::Unreachable) => return Err(format!("{id} is unreachable")),
                (None, Standing::Absent) => {}
                (None, _) => return Err(format!("{id} has no record: {first:?}")),
                (Some(found), Standing::Live) => {
                    let has = |at: usize| self.machines[at].store.has(id, found.birth);
                    if let Some(slot) = found.holders.iter().find(|slot| !has(usize::from(slot.0)))
                    {
                        return Err(format!("{slot} is said to keep {id}, and has it not"));
                    }
                    self.check_spread(*id, found)?;
                }
                (Some(_), _) => {}
            }
        }
        Ok(())
    }

    /// In quiet times the node that made an object which is spread has let it go, unless too few
    /// others keep it.
    fn check_spread(&self, id: ObjectId, found: &Found) -> Result<(), String> {
        let Found { birth, content, copies, holders, .. } = found;
        let origin = birth.slot;
        let counts = |slot: &&Slot| {
            let log = self.machines[usize::from(slot.0)].store.log.state();
            **slot != origin && (content.durable.is_none() || log == NodeLog::Open)
        };
        let others = holders.iter().filter(counts).count();
        if content.keeping != Keeping::Spread || others < usize::from(*copies) {
            return Ok(());
        }
        let object = self.machines[usize::from(origin.0)].store.objects.get(&id);
        let keeps = object.is_some_and(|object| object.birth == *birth && object.keep);
        if keeps || holders.contains(&origin) {
            return Err(format!("{origin} made {id} and keeps it beside {holders:?}"));
        }
        Ok(())
    }
}

/// A node whose memory was lost counted as a holder of what it was only about to get: its inventory
/// names that, too. When nothing came of it, the record went on naming the node.
#[test]
fn a_node_that_is_only_getting_a_copy_holds_none() {
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    // Its home has it, one of the others keeps the second copy, and the last one leads: the node
    // that leads had no room.
    let keeper = |world: &World, id: &ObjectId| {
        (1..3).find(|at| world.machines[*at].store.objects.get(id).is_some_and(|it| it.keep))
    };
    let content = Content { data_bytes: 3_000_000, ..Content::default() };
    let three = |seed: &u64| World::new(*seed, None, 0).machines.len() == 3;
    let of_seed = |seed| {
        let mut world = World::new(seed, None, 500);
        (world.slow_ms, world.bulk_loss) = (0, 0);
        world.start_all().unwrap();
        pass(&mut world, 3_000);
        let found = (0..5).find_map(|number| {
            let id = ObjectId::pooled([number; 12], Some(0));
            let put = Operation::Put { id, content, copies: 2, copies_min: 2 };
            world.begin(0, put).unwrap();
            pass(&mut world, 1_000);
            let holder = keeper(&world, &id)?;
            let (_, map) = world.maps.last()?;
            let primary = usize::from(map.primary(plasmon_cluster::Map::group_of(&id))?.0);
            (primary != holder && primary != 0).then_some((id, holder, primary))
        });
        found.map(|found| (world, found))
    };
    let (mut world, (id, holder, primary)) = (0..).filter(three).find_map(of_seed).unwrap();
    world.ids.push(id);

    world.bulk_loss = 100;
    world.crash(holder, true, 100).unwrap();
    pass(&mut world, 100);
    let way = Way { from: primary, to: holder };
    world.network.cut(way);
    let no = world.begin(holder, Operation::Get { id, patient: true }).unwrap();
    for ms in 0..20 {
        pass(&mut world, 50);
        world.give(holder, Event::Moving(Slot(0))).unwrap();
        if ms == 10 {
            // It is asked for its copies only now.
            world.heal(way).unwrap();
        }
    }
    world.give_up(holder, no).unwrap();
    pass(&mut world, 2_000);
    world.bulk_loss = 0;
    pass(&mut world, 20_000);
    world.check_rest().unwrap();
    world.ask_places().unwrap();
    pass(&mut world, 1_000);
    world.check_places().unwrap();
    assert!(keeper(&world, &id).is_some(), "there are two copies again");
}
