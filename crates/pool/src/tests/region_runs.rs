//! Regions of random runs: allocated, written from several nodes, sealed and freed at random.

use std::collections::BTreeMap;

use plasmon_cluster::NodeState;
use plasmon_proto::region::{RegionReply, RegionRequest};
use plasmon_proto::{Code, ObjectId};
use plasmon_testkit::Random;

use crate::event::{Call, Effect, Event};
use crate::message::InlineBytes;
use crate::record::Content;
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::region_model::{Ask, Region};
use super::store::Outcome;
use super::world::World;

/// Of so many turns of clients one is about a region.
const ASK_ONE_OF: u64 = 3;

/// Regions of a run.
const REGIONS_MAX: usize = 12;

/// A question that is not answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: usize,
    id: ObjectId,
    ask: Ask,
    begin: Mono,
}

/// The regions of a run. They have dice of their own.
#[derive(Debug)]
pub(super) struct RegionRuns {
    dice: Random,
    /// Of five runs two have them.
    are_made: bool,
    regions: BTreeMap<ObjectId, Region>,
    asked: BTreeMap<u64, Asked>,
    last: u64,
    /// The program of each machine that allocates now.
    owners: BTreeMap<usize, u64>,
    /// Seals that wait until the pool has accepted the object.
    settling: BTreeMap<OperationNo, ObjectId>,
}

impl RegionRuns {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            dice: Random::new(seed ^ 0x7265_6769),
            are_made: seed % 5 < 2,
            regions: BTreeMap::new(),
            asked: BTreeMap::new(),
            last: 0,
            owners: BTreeMap::new(),
            settling: BTreeMap::new(),
        }
    }

    fn owner(&mut self, at: usize) -> u64 {
        *self.owners.entry(at).or_insert(1)
    }
}

impl World {
    /// A program asks something of a region now and then.
    pub(super) fn use_region_at_random(&mut self, at: usize) -> Result<(), String> {
        let runs = &mut self.region_runs;
        // A node that is not ready is asked nothing.
        if !runs.are_made || !self.machines[at].has_map || runs.dice.below(ASK_ONE_OF) > 0 {
            return Ok(());
        }
        let in_use = runs.regions.values().filter(|region| region.is_in_use());
        let in_use: Vec<ObjectId> = in_use.map(|region| region.id).collect();
        let has_room = runs.regions.len() < REGIONS_MAX;
        let what = runs.dice.below(100);
        if in_use.is_empty() || what < 15 && has_room {
            return if has_room { self.allocate(at) } else { Ok(()) };
        }
        // One that is over is asked about now and then.
        let known = runs.regions.values().filter(|region| region.is_allocated);
        let ids = if what > 95 { known.map(|region| region.id).collect() } else { in_use };
        let id = ids[runs.dice.size_below(ids.len())];
        match what {
            0..72 => self.write_region(at, id),
            72..80 => self.ask_region(at, Ask::Seal, RegionRequest::Seal { id }),
            80..84 => {
                self.cause(&id, |region| region.causes.is_freed = true);
                self.ask_region(at, Ask::Free, RegionRequest::Free { id, is_abandoned: false })
            }
            84..88 => self.end_owner(at),
            _ => self.ask_region(at, Ask::Look, RegionRequest::Look { id }),
        }
    }

    fn allocate(&mut self, at: usize) -> Result<(), String> {
        let machines = self.machines.len();
        let runs = &mut self.region_runs;
        let identity = std::array::from_fn(|_| runs.dice.below(256) as u8);
        let home = runs.dice.size_below(machines);
        let id = ObjectId::pooled(identity, Some(home as u16));
        // What stands for the bytes of an object takes some itself.
        let bytes = runs.dice.pick(&[0, 100, 100, 3_000]);
        let (copies, copies_min) = runs.dice.pick(&[(1, 1), (1, 1), (2, 1), (2, 2)]);
        let owner = (at, runs.owner(at));
        let mut region = Region::new(id, home, (bytes, (copies, copies_min)), owner);
        // Nodes are connected here although a map may not know the last start of one.
        region.causes.is_owner_gone = self.machines[at].incarnation > 1;
        runs.regions.insert(id, region);
        let request = RegionRequest::Allocate { id, bytes, copies, copies_min };
        self.ask_region(at, Ask::Allocate, request)
    }

    fn write_region(&mut self, at: usize, id: ObjectId) -> Result<(), String> {
        let runs = &mut self.region_runs;
        let region = runs.regions.get_mut(&id).ok_or("no such region")?;
        let (ask, offset, bytes) = region.write(&mut runs.dice, (at, self.now));
        let bytes = InlineBytes(bytes);
        self.ask_region(at, ask, RegionRequest::Write { id, offset, bytes })
    }

    fn ask_region(&mut self, at: usize, ask: Ask, request: RegionRequest) -> Result<(), String> {
        let runs = &mut self.region_runs;
        runs.last += 1;
        let (number, owner) = (runs.last, runs.owner(at));
        runs.asked.insert(number, Asked { at, id: request.id(), ask, begin: self.now });
        self.give(at, Event::Region { number, owner, request })
    }

    /// The program of a machine that allocates ends, and another one takes its place.
    fn end_owner(&mut self, at: usize) -> Result<(), String> {
        let runs = &mut self.region_runs;
        let owner = runs.owner(at);
        runs.owners.insert(at, owner + 1);
        for region in runs.regions.values_mut().filter(|region| region.owner == (at, owner)) {
            region.causes.is_owner_gone = true;
        }
        self.give(at, Event::RegionOwnerGone(owner))
    }

    /// In quiet times nothing is left of regions that are not sealed.
    pub(super) fn end_all_owners(&mut self) -> Result<(), String> {
        let count = if self.region_runs.are_made { self.machines.len() } else { 0 };
        (0..count).try_for_each(|at| self.end_owner(at))
    }

    fn cause(&mut self, id: &ObjectId, change: impl FnOnce(&mut Region)) {
        if let Some(region) = self.region_runs.regions.get_mut(id) {
            change(region);
        }
    }

    /// The pool daemon of a machine ends.
    pub(super) fn leave_regions(&mut self, at: usize) {
        let now = self.now;
        let runs = &mut self.region_runs;
        for Asked { id, ask, .. } in runs.asked.values().filter(|it| it.at == at) {
            runs.regions.entry(*id).and_modify(|region| region.left(*ask, now));
        }
        runs.asked.retain(|_, it| it.at != at);
        for region in runs.regions.values_mut() {
            region.causes.is_owner_gone |= region.owner.0 == at;
            region.causes.is_home_gone |= region.home == at;
        }
        let of_machine = |id: &ObjectId| id.home() == Some(at as u16);
        runs.settling.retain(|_, id| !of_machine(id));
        self.machines[at].store.regions.clear();
    }

    /// A node asks for what its region needs, or answers a program.
    pub(super) fn region_effect(
        &mut self,
        at: usize,
        effect: Effect,
        calls: &mut Vec<Call>,
    ) -> Result<(), String> {
        match effect {
            Effect::Allocate { id, bytes, .. } => {
                let has_room = self.region_runs.dice.percent(95);
                let store = &mut self.machines[at].store;
                let result = match has_room && store.make_room(bytes, calls) {
                    true => {
                        store.regions.insert(id, vec![0; bytes as usize]);
                        Ok(())
                    }
                    false => Err(Code::StoreFull),
                };
                if result.is_err() {
                    self.cause(&id, |region| region.causes.is_refused = true);
                }
                self.later(at, Event::Allocated { id, result });
            }
            Effect::WriteRegion { id, offset, bytes } => {
                let memory = self.machines[at].store.regions.get_mut(&id);
                let from = offset as usize;
                let place = memory.and_then(|memory| memory.get_mut(from..from + bytes.0.len()));
                place.ok_or("a write without memory")?.copy_from_slice(&bytes.0);
                let region = self.region_runs.regions.get_mut(&id).ok_or("no such region")?;
                region.applied(offset, &bytes.0)?;
            }
            Effect::SealRegion(id) => self.seal_region(at, id, calls)?,
            Effect::EndRegion(id) => {
                let memory = self.machines[at].store.regions.remove(&id);
                memory.ok_or("a region without memory ends")?;
            }
            Effect::Region { number, reply } => self.region_answered(at, number, reply)?,
            other => return Err(format!("nothing asks for {other:?}")),
        }
        Ok(())
    }

    fn seal_region(
        &mut self,
        at: usize,
        id: ObjectId,
        calls: &mut Vec<Call>,
    ) -> Result<(), String> {
        let memory = self.machines[at].store.regions.remove(&id);
        let memory = memory.ok_or("a region without memory is sealed")?;
        let data_bytes = memory.len() as u64;
        let region = self.region_runs.regions.get_mut(&id).ok_or("no such region")?;
        region.sealed = Some(memory);
        let (copies, copies_min) = region.copies;
        self.ids.push(id);
        let content = Content { data_bytes, ..Content::default() };
        let operation = Operation::Put { id, content, copies, copies_min };
        let no = self.history.begin(self.now, at, operation);
        self.note(|| format!("{at} seals region {id}, {no:?}"));
        let (slot, boot) = (self.machines[at].slot(), self.machines[at].boot);
        let maker = (self.now, no, slot, boot);
        let answers = self.machines[at].store.begin(maker, &operation, calls);
        self.note_made(at);
        if let Some((_, _, Outcome::Put(Err(_)))) = answers.first() {
            self.cause(&id, |region| region.causes.is_refused = true);
            let (is_sealed, result) = (false, Err(Code::StoreFull));
            self.later(at, Event::RegionSealed { id, is_sealed, result });
            return self.answer(at, answers);
        }
        if copies == 1 {
            self.later(at, Event::RegionSealed { id, is_sealed: true, result: Ok(()) });
        } else {
            self.region_runs.settling.insert(no, id);
        }
        Ok(())
    }

    /// The pool has accepted what was a region, or has not.
    pub(super) fn settle_region(&mut self, at: usize, no: OperationNo, outcome: &Outcome) {
        let Some(id) = self.region_runs.settling.remove(&no) else { return };
        let is_sealed = *outcome == Outcome::Put(Ok(()));
        if !is_sealed {
            self.cause(&id, |region| region.causes.is_refused = true);
        }
        let result = if is_sealed { Ok(()) } else { Err(Code::NotEnoughNodes) };
        self.later(at, Event::RegionSealed { id, is_sealed, result });
    }

    fn region_answered(
        &mut self,
        at: usize,
        number: u64,
        reply: RegionReply,
    ) -> Result<(), String> {
        let now = self.now;
        self.note(|| format!("{at} answers region {number}: {reply:?}"));
        let asked = self.region_runs.asked.remove(&number).filter(|asked| asked.at == at);
        let Some(Asked { id, ask, begin, .. }) = asked else {
            return Err(format!("nothing asked region {number}"));
        };
        let was_out = |at: usize| {
            let slot = self.machines[at].slot();
            self.maps
                .iter()
                .any(|(_, map)| map.node(slot).is_some_and(|it| it.state == NodeState::Out))
        };
        let region = self.region_runs.regions.get(&id).ok_or("no such region")?;
        let (is_home_out, is_owner_out) = (was_out(region.home), was_out(region.owner.0));
        let region = self.region_runs.regions.get_mut(&id).ok_or("no such region")?;
        region.causes.is_home_out |= is_home_out;
        region.causes.is_owner_gone |= is_owner_out;
        let checked = region.answered(ask, (at, begin, now), reply);
        checked.map_err(|what| format!("region {id}: {what}"))
    }

    /// Every question is answered, no memory is left, and what was sealed is what was written.
    pub(super) fn check_regions(&self) -> Result<(), String> {
        if let Some((number, asked)) = self.region_runs.asked.first_key_value() {
            return Err(format!("region {number} has no answer: {asked:?}"));
        }
        for machine in &self.machines {
            if !machine.store.regions.is_empty() {
                let (at, left) = (machine.index, machine.store.regions.keys());
                return Err(format!("{at} has memory of regions: {left:?}"));
            }
        }
        self.region_runs.regions.values().try_for_each(Region::check_sealed)
    }
}
