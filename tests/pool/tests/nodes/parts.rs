//! Parts of objects on their way: local objects, and parts of several copies that are put together
//! for another node. What `plasmon-poold` has in `core/assemblies.rs` and `node_store/parts.rs`.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_pool::event::Assembled;
use plasmon_pool::limits::INLINE_BYTES_MAX;
use plasmon_pool::message::{ObjectParts, SegmentRange, TransferNo};
use plasmon_pool::object_parts::next_start;
use plasmon_pool::{Birth, Event};
use plasmon_proto::message::{Grant, Location, Request};
use plasmon_proto::object::{Policy, Sizes, Traits};
use plasmon_proto::parts::PARTS_TTL_MS;
use plasmon_proto::{Attributes, ObjectId};

use super::agents::Purpose;
use super::memory::{Carried, Token};
use super::pieces::{Held, Pieces};
use super::serving::pieces_of;
use super::stores::Message;
use super::world::World;

/// Parts that are put together.
#[derive(Debug)]
struct Assembly {
    parts: Vec<ObjectParts>,
    found: Vec<Option<Pieces>>,
    unanswered: usize,
}

/// All of a pool daemon.
#[derive(Debug, Default)]
pub(crate) struct Assemblies {
    under_way: BTreeMap<(Slot, TransferNo), Assembly>,
    /// Questions to the store, and which part of which transfer each is about.
    questions: BTreeMap<u64, ((Slot, TransferNo), usize)>,
    last: u64,
}

impl Assemblies {
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.questions.is_empty()
    }
}

/// What lies after the parts in a local object.
fn attributes() -> Attributes {
    Attributes { ttl_ms: Some(PARTS_TTL_MS), ..Attributes::default() }
}

/// Asks for the memory of parts.
pub(crate) fn create_parts(id: ObjectId, data: u64) -> Request {
    let sizes = Sizes { data, metadata: 0, attributes: attributes().encode().len() as u64 };
    let traits = Traits { policy: Policy::Cache, ..Traits::default() };
    Request::Create { id, sizes, traits, strict: false }
}

/// What these segments are together, if they are parts.
pub(crate) fn held_of(segments: BTreeMap<u32, Carried>) -> Option<Held> {
    let mut all = Pieces::default();
    for carried in segments.into_values() {
        match carried {
            Carried::Bytes(bytes) => return Some(Held::Bytes(bytes)),
            Carried::Parts(pieces) => all.append(&pieces),
            Carried::Copy(_) => return None,
        }
    }
    Some(Held::Pieces(all))
}

impl World {
    /// A local object is complete: it is sealed as that of any client.
    pub(crate) fn seal_parts(
        &mut self,
        at: usize,
        (id, birth): (ObjectId, Birth),
        grant: &Grant,
        held: Held,
    ) -> Result<(), String> {
        let machine = &mut self.machines[at];
        let Some(agent) = &machine.agent else { return Ok(()) };
        let (client, is_connected) = (agent.client, agent.life == machine.life);
        if is_connected && machine.store.is_some() {
            let token = Token { id, birth, attributes: attributes(), parts: Some(held) };
            machine.memory.write(&grant.range, token)?;
        }
        let number = self.ask_number(at, Purpose::SealParts(id));
        self.tell_store(at, Message::Seal(client, number, id, attributes()));
        Ok(())
    }

    /// Parts of several copies are to be put together.
    pub(crate) fn assemble(&mut self, at: usize, of: (Slot, TransferNo), parts: Vec<ObjectParts>) {
        self.end_assembly(at, of);
        let Some(agent) = &mut self.machines[at].agent else { return };
        let assemblies = &mut agent.assemblies;
        let mut asked = Vec::new();
        for (place, one) in parts.iter().enumerate() {
            assemblies.last += 1;
            assemblies.questions.insert(assemblies.last, (of, place));
            asked.push((assemblies.last, one.id));
        }
        let (found, unanswered) = (vec![None; parts.len()], parts.len());
        assemblies.under_way.insert(of, Assembly { parts, found, unanswered });
        for (number, id) in asked {
            self.ask_store(at, Request::Get { ids: vec![id] }, Purpose::Part(number));
        }
    }

    /// The store has opened one of the copies, or does not have it.
    pub(crate) fn part_opened(
        &mut self,
        at: usize,
        number: u64,
        location: Option<Location>,
    ) -> Result<(), String> {
        let token = location.as_ref().map(|it| self.machines[at].memory.read(&it.range).cloned());
        // What is wanted of it is copied at once.
        if let Some(location) = &location {
            self.release(at, location.serial);
        }
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let Some((of, place)) = agent.assemblies.questions.remove(&number) else { return Ok(()) };
        let Some(assembly) = agent.assemblies.under_way.get_mut(&of) else { return Ok(()) };
        assembly.unanswered -= 1;
        let ObjectParts { id, birth, spans } = &assembly.parts[place];
        if let (Some(location), Some(token)) = (&location, token) {
            let token = token.filter(|token| token.id == *id);
            let token = token.ok_or_else(|| format!("{at} opens nothing: {location:?}"))?;
            if token.birth == *birth {
                assembly.found[place] = pieces_of(&token, &location.sizes, spans);
            }
        }
        if assembly.unanswered > 0 {
            return Ok(());
        }
        let assembly = agent.assemblies.under_way.remove(&of);
        assembly.map_or(Ok(()), |assembly| self.assembled(at, of, assembly))
    }

    fn assembled(
        &mut self,
        at: usize,
        (peer, transfer): (Slot, TransferNo),
        assembly: Assembly,
    ) -> Result<(), String> {
        let (mut all, mut missing) = (Pieces::default(), Vec::new());
        for (place, found) in (0..).zip(&assembly.found) {
            all.append(&Pieces::zeros(next_start(all.bytes()) - all.bytes()));
            match found {
                Some(pieces) => all.append(pieces),
                None => missing.push(place),
            }
        }
        if missing.is_empty() && all.bytes() > INLINE_BYTES_MAX {
            let ranges = [SegmentRange { first: 0, count: 1 }];
            let carried = |_| Carried::Parts(all.clone());
            self.send_segments(at, (peer, transfer), (None, carried), &ranges);
            return Ok(());
        }
        let outcome = match missing.is_empty() {
            true => Assembled::Whole(self.message_of(&all)),
            false => Assembled::Missing(missing),
        };
        self.step(at, Event::Assembled { peer, transfer, outcome })
    }

    pub(crate) fn end_assembly(&mut self, at: usize, of: (Slot, TransferNo)) {
        if let Some(agent) = &mut self.machines[at].agent {
            agent.assemblies.under_way.remove(&of);
            agent.assemblies.questions.retain(|_, (other, _)| *other != of);
        }
    }

    /// The connection to a node ended, and its transfers with it.
    pub(crate) fn end_assemblies(&mut self, at: usize, peer: usize) {
        if let Some(agent) = &mut self.machines[at].agent {
            let is_of_peer = |(slot, _): &(Slot, TransferNo)| usize::from(slot.0) == peer;
            agent.assemblies.under_way.retain(|of, _| !is_of_peer(of));
            agent.assemblies.questions.retain(|_, (of, _)| !is_of_peer(of));
        }
    }
}
