//! Regions: the pool daemon of their home with the real store, and programs that use them at
//! random.

use std::collections::BTreeMap;

use plasmon_cluster::NodeState;
use plasmon_pool::{Birth, Effect, Event, Mono};
use plasmon_proto::message::{Grant, Reply, Request};
use plasmon_proto::object::{CopyPlacement, Durability, PoolAttributes, Sizes, Traits};
use plasmon_proto::region::{RegionReply, RegionRequest};
use plasmon_proto::{Attributes, Code, ObjectId};
use plasmon_testkit::Random;

use super::agents::{Input, Purpose};
use super::history::{Operation, OperationNo, Outcome};
use super::memory::Token;
use super::region_model::{Ask, Region};
use super::seeds::Mutation;
use super::stores::Message;
use super::world::World;

/// Of so many turns of clients one is about a region.
const ASK_ONE_OF: u64 = 3;

/// Regions of a run.
const REGIONS_MAX: usize = 8;

/// How long a seal waits for the pool to accept the object.
const ACCEPTED_WITHIN_MS: u64 = 60_000;

/// The memory of a region.
#[derive(Debug)]
pub(crate) struct RegionMemory {
    grant: Grant,
    bytes: Vec<u8>,
}

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
pub(crate) struct RegionRuns {
    dice: Random,
    /// Of five runs two have them.
    are_made: bool,
    regions: BTreeMap<ObjectId, Region>,
    asked: BTreeMap<u64, Asked>,
    last: u64,
    /// The program of each machine that allocates now.
    owners: BTreeMap<usize, u64>,
    /// What became of each as an object.
    puts: BTreeMap<ObjectId, OperationNo>,
}

impl RegionRuns {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Random::new(seed ^ 0x7265_6769),
            are_made: seed % 5 < 2,
            regions: BTreeMap::new(),
            asked: BTreeMap::new(),
            last: 0,
            owners: BTreeMap::new(),
            puts: BTreeMap::new(),
        }
    }

    fn owner(&mut self, at: usize) -> u64 {
        *self.owners.entry(at).or_insert(1)
    }

    fn cause(&mut self, id: &ObjectId, change: impl FnOnce(&mut Region)) {
        if let Some(region) = self.regions.get_mut(id) {
            change(region);
        }
    }
}

/// What lies after the data of a region.
fn attributes(copies: (u8, u8)) -> Attributes {
    let (copies, copies_min) = copies;
    let class = Durability::Memory;
    let pool = PoolAttributes { copies, copies_min, class, ..PoolAttributes::ONE };
    Attributes { pool: (copies > 1).then_some(pool), ..Attributes::default() }
}

impl World {
    /// A program asks something of a region now and then.
    pub(crate) fn use_region_at_random(&mut self, at: usize) -> Result<(), String> {
        let runs = &mut self.region_runs;
        let is_time = runs.are_made && runs.dice.below(ASK_ONE_OF) == 0;
        if !is_time || !self.is_asked(at) {
            return Ok(());
        }
        let runs = &mut self.region_runs;
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
                runs.cause(&id, |region| region.causes.is_freed = true);
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
        let bytes = runs.dice.pick(&[0, 1, 100, 3_000, 40_000]);
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
        let bytes = plasmon_pool::message::InlineBytes(bytes);
        self.ask_region(at, ask, RegionRequest::Write { id, offset, bytes })
    }

    fn ask_region(&mut self, at: usize, ask: Ask, request: RegionRequest) -> Result<(), String> {
        let runs = &mut self.region_runs;
        runs.last += 1;
        let (number, owner) = (runs.last, runs.owner(at));
        runs.asked.insert(number, Asked { at, id: request.id(), ask, begin: self.now });
        self.give(at, Input::Node(Event::Region { number, owner, request }))
    }

    /// The program of a machine that allocates ends, and another one takes its place.
    fn end_owner(&mut self, at: usize) -> Result<(), String> {
        let runs = &mut self.region_runs;
        let owner = runs.owner(at);
        runs.owners.insert(at, owner + 1);
        for region in runs.regions.values_mut().filter(|region| region.owner == (at, owner)) {
            region.causes.is_owner_gone = true;
        }
        self.give(at, Input::Node(Event::RegionOwnerGone(owner)))
    }

    /// In quiet times nothing is left of regions that are not sealed.
    pub(crate) fn end_all_owners(&mut self) -> Result<(), String> {
        let count = if self.region_runs.are_made { self.machines.len() } else { 0 };
        (0..count).try_for_each(|at| self.end_owner(at))
    }

    /// The pool daemon of a machine ends.
    pub(crate) fn leave_regions(&mut self, at: usize) {
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
        // What it was sealing may be sealed, or not.
        let is_here = |id: &ObjectId| id.home() == Some(at as u16);
        for (_, no) in runs.puts.iter().filter(|(id, _)| is_here(id)) {
            self.history.records.entry(*no).and_modify(|record| record.left = true);
        }
        runs.puts.retain(|id, _| !is_here(id));
    }

    /// A node asks for what its region needs, or answers a program.
    pub(crate) fn region_effect(&mut self, at: usize, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Allocate { id, bytes, copies, copies_min } => {
                let attributes = attributes((copies, copies_min));
                let attributes = if copies > 1 { attributes.encode().len() as u64 } else { 0 };
                let sizes = Sizes { data: bytes, metadata: 0, attributes };
                let request =
                    Request::Create { id, sizes, traits: Traits::default(), strict: false };
                self.ask_store(at, request, Purpose::Allocate(id));
            }
            Effect::WriteRegion { id, offset, bytes } => {
                let is_lost = self.breaks(Mutation::LoseWrites);
                let agent = self.machines[at].agent.as_mut().ok_or("no pool daemon")?;
                let memory = agent.regions.get_mut(&id).ok_or("a write without memory")?;
                let from = offset as usize;
                let place = memory.bytes.get_mut(from..from + bytes.0.len());
                let place = place.ok_or("a write beyond its region")?;
                if !is_lost {
                    place.copy_from_slice(&bytes.0);
                }
                let region = self.region_runs.regions.get_mut(&id).ok_or("no such region")?;
                region.applied(offset, &bytes.0)?;
            }
            Effect::SealRegion(id) => self.seal_region(at, id)?,
            Effect::EndRegion(id) => {
                let agent = self.machines[at].agent.as_mut().ok_or("no pool daemon")?;
                agent.regions.remove(&id).ok_or("a region without memory ends")?;
                self.ask_store(at, Request::Abort { id }, Purpose::Abort);
            }
            Effect::Region { number, reply } => self.region_answered(at, number, reply)?,
            other => return Err(format!("nothing asks for {other:?}")),
        }
        Ok(())
    }

    /// The store gives the memory of a region, or refuses.
    pub(crate) fn allocated(
        &mut self,
        at: usize,
        id: ObjectId,
        reply: Reply,
    ) -> Result<(), String> {
        let region = self.region_runs.regions.get(&id).ok_or("no such region")?;
        let bytes = vec![0; region.bytes as usize];
        let result = match reply {
            Reply::Created(grant) => {
                let agent = self.machines[at].agent.as_mut().ok_or("no pool daemon")?;
                agent.regions.insert(id, RegionMemory { grant, bytes });
                Ok(())
            }
            Reply::Failed(failure) => {
                self.region_runs.cause(&id, |region| region.causes.is_refused = true);
                Err(failure.code)
            }
            other => return Err(format!("{other:?} gives no memory")),
        };
        self.step(at, Event::Allocated { id, result })
    }

    fn seal_region(&mut self, at: usize, id: ObjectId) -> Result<(), String> {
        let machine = &mut self.machines[at];
        let agent = machine.agent.as_mut().ok_or("no pool daemon")?;
        let RegionMemory { grant, bytes } =
            agent.regions.remove(&id).ok_or("a region without memory is sealed")?;
        let (client, is_connected) = (agent.client, agent.life == machine.life);
        let region = self.region_runs.regions.get_mut(&id).ok_or("no such region")?;
        let data_bytes = bytes.len() as u64;
        region.sealed = Some(bytes);
        let (copies, copies_min) = region.copies;
        let attributes = attributes((copies, copies_min));
        let birth = Birth { slot: machine.slot(), boot: machine.boot, serial: 0 };
        if is_connected && machine.store.is_some() {
            let token = Token { id, birth, attributes: attributes.clone(), parts: None };
            machine.memory.write(&grant.range, token)?;
        }
        self.ids.push(id);
        let placement = CopyPlacement::Local;
        let operation = Operation::Put { id, data_bytes, copies, copies_min, placement };
        let no = self.history.begin(self.now, at, operation);
        self.history.records.entry(no).and_modify(|record| record.birth = Some(birth));
        self.kept.entry((id, birth)).or_default().insert(at);
        self.region_runs.puts.insert(id, no);
        self.note(|| format!("{at} seals region {id}, {no:?}"));
        let number = self.ask_number(at, Purpose::SealRegion { id, settles: copies > 1 });
        let message = match copies {
            1 => Message::Request(client, number, Request::Seal { id }),
            _ => Message::Seal(client, number, id, attributes),
        };
        self.tell_store(at, message);
        Ok(())
    }

    /// A region was sealed, or could not be.
    pub(crate) fn region_sealed(
        &mut self,
        at: usize,
        (id, settles): (ObjectId, bool),
        reply: &Reply,
    ) -> Result<(), String> {
        match reply {
            Reply::Done if settles => {
                let timeout_ms = Some(ACCEPTED_WITHIN_MS);
                let request = Request::Settle { ids: vec![id], timeout_ms };
                self.ask_store(at, request, Purpose::Settle(id));
                Ok(())
            }
            Reply::Done => self.region_is_over(at, id, (true, Ok(()))),
            other => Err(format!("the region {id} cannot be sealed: {other:?}")),
        }
    }

    /// The pool has accepted what was a region, or has not.
    pub(crate) fn region_settled(
        &mut self,
        at: usize,
        id: ObjectId,
        reply: &Reply,
    ) -> Result<(), String> {
        let Reply::Outcomes(outcomes) = reply else {
            return Err(format!("{reply:?} is no outcome"));
        };
        let outcome = match outcomes.first().copied().ok_or("no outcome")? {
            None | Some(Code::Deleted) => (true, Ok(())),
            Some(Code::TimedOut | Code::Unreachable) => (true, Err(Code::Unreachable)),
            Some(code) => (false, Err(code)),
        };
        self.region_is_over(at, id, outcome)
    }

    fn region_is_over(
        &mut self,
        at: usize,
        id: ObjectId,
        (is_sealed, result): (bool, Result<(), Code>),
    ) -> Result<(), String> {
        if result.is_err() {
            self.region_runs.cause(&id, |region| region.causes.is_refused = true);
        }
        if let Some(no) = self.region_runs.puts.remove(&id) {
            self.end(at, no, Outcome::Put(result))?;
        }
        self.step(at, Event::RegionSealed { id, is_sealed, result })
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
            let is_out = |node: &plasmon_cluster::Node| node.state == NodeState::Out;
            self.etcd.maps.iter().any(|(_, map)| map.node(slot).is_some_and(is_out))
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
    pub(crate) fn check_regions(&self) -> Result<(), String> {
        if let Some((number, asked)) = self.region_runs.asked.first_key_value() {
            return Err(format!("region {number} has no answer: {asked:?}"));
        }
        for machine in &self.machines {
            let left = machine.agent.as_ref().map_or(0, |agent| agent.regions.len());
            if left > 0 {
                return Err(format!("{} has memory of {left} regions", machine.index));
            }
        }
        self.region_runs.regions.values().try_for_each(Region::check_sealed)
    }
}
