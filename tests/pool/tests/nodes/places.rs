//! What operators are told where objects are, when all is quiet.

use plasmon_pool::Event;
use plasmon_pool::limits::PLACES_MAX;
use plasmon_pool::record::{Found, Place};
use plasmon_proto::pool_admin::Standing;

use super::world::World;

impl World {
    /// Asks every node about as many ids as it may be asked at a time. The answers come with the
    /// next events.
    pub(crate) fn ask_places(&mut self) -> Result<(), String> {
        self.places.clear();
        for (index, id) in self.ids.clone().into_iter().take(PLACES_MAX).enumerate() {
            for at in 0..self.machines.len() {
                let number = (index * self.machines.len() + at) as u64;
                self.step(at, Event::Where { number, id })?;
            }
        }
        Ok(())
    }

    /// In quiet times all nodes are told the same, what they are told is there, and no record is
    /// left of what was deleted.
    pub(crate) fn check_places(&self) -> Result<(), String> {
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
                (_, Standing::Unreachable | Standing::Dead | Standing::Pending) => {
                    return Err(format!("{id} is left as {first:?}"));
                }
                (None, Standing::Absent) => {}
                (None, _) => return Err(format!("{id} has no record: {first:?}")),
                (Some(found), Standing::Live) => {
                    let has = |at: usize| self.machines[at].has(id, found.birth);
                    if let Some(slot) = found.holders.iter().find(|slot| !has(usize::from(slot.0)))
                    {
                        return Err(format!("{slot} is said to keep {id}, and has it not"));
                    }
                }
                (Some(_), _) => {}
            }
        }
        Ok(())
    }
}
