//! The pool daemons: what `plasmon-poold` does around its node.
//!
//! ```text
//!   started ──(the map names this start)──► seat asked for ──(InventoryEnd)──► ready: lease, maps
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plasmon_cluster::leader::Activation;
use plasmon_cluster::{Map, Slot};
use plasmon_etcd::Change;
use plasmon_pool::message::TransferNo;
use plasmon_pool::{Birth, Config, Content, Effect, Event, Mono, Node, Ticket};
use plasmon_proto::message::{Grant, Landing as LandRequest, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::pool::{Call, Fate, Told};
use plasmon_proto::pool_adoption::AdoptionCall;
use plasmon_proto::{Code, ObjectId};
use plasmon_store::ClientNo;
use plasmon_store::event::SealLanded;

use super::adoption::Adopting;
use super::backlog::Backlog;
use super::machine::ISOLATED_SERVE_MS;
use super::memory::Carried;
use super::network::Way;
use super::parts::{Assemblies, create_parts, held_of};
use super::regions::RegionMemory;
use super::seeds::Mutation;
use super::serving::{Opening, ServedPin, Wanted};
use super::stores::{AGENTS, Message};
use super::world::{What, World};

/// What the store says to its pool daemon.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Call(Call),
    Adoption(AdoptionCall),
    Reply(u64, Reply),
}

/// What etcd says to a pool daemon.
#[derive(Clone, Debug)]
pub(crate) enum News {
    Lease(Mono),
    LeaseLost,
    Map(Arc<Map>),
    /// Of adopted namespaces, with the revision.
    Changes(i64, Vec<Change>),
}

/// What a pool daemon hears.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Said(Said),
    News(News),
    Link { peer: usize, up: bool },
    Node(Event),
}

/// What a request to the store is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Seat,
    Tell,
    Abort,
    Release,
    Land(Ticket),
    Seal {
        id: ObjectId,
        birth: Birth,
        keep: bool,
    },
    Open(u64),
    /// Of a local object with parts.
    SealParts(ObjectId),
    /// A copy of which parts are put together with others.
    Part(u64),
    Delete,
    Allocate(ObjectId),
    SealRegion {
        id: ObjectId,
        settles: bool,
    },
    Settle(ObjectId),
}

/// How a landing ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Seal { visible: bool, keep: bool },
    Abandon,
}

/// Memory for a copy.
#[derive(Clone, Debug)]
pub(crate) struct Landing {
    pub(crate) id: ObjectId,
    pub(crate) birth: Birth,
    pub(crate) content: Content,
    /// `None` until the store has it.
    pub(crate) grant: Option<Grant>,
    pub(crate) segments: BTreeMap<u32, Carried>,
    ending: Option<Ending>,
}

/// A pool daemon.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) incarnation: u64,
    pub(crate) client: ClientNo,
    /// The daemon of the store that it is connected to.
    pub(crate) life: u64,
    /// `None` until the map names this start of it.
    pub(crate) node: Option<Node>,
    pub(crate) is_ready: bool,
    newest: Option<Arc<Map>>,
    lease: Option<Mono>,
    pub(crate) paused: bool,
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) wake_at: Option<Mono>,
    pub(crate) purposes: BTreeMap<u64, Purpose>,
    pub(crate) landings: BTreeMap<Ticket, Landing>,
    pub(crate) backlog: Backlog,
    /// Where the segments of transfers go.
    pub(crate) accepts: BTreeMap<TransferNo, Ticket>,
    pub(crate) last_opening: u64,
    pub(crate) openings: BTreeMap<u64, Opening>,
    pub(crate) pins: BTreeMap<(Slot, TransferNo), Vec<ServedPin>>,
    pub(crate) assemblies: Assemblies,
    pub(crate) regions: BTreeMap<ObjectId, RegionMemory>,
    pub(crate) adopting: Adopting,
    /// What the store was told last of objects that its clients asked for.
    pub(crate) fates: BTreeMap<ObjectId, Fate>,
}

impl World {
    /// Starts the pool daemon of a store that runs.
    pub(crate) fn start_agent(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        if machine.agent.is_some() || machine.store.is_none() {
            return;
        }
        machine.incarnation += 1;
        machine.agents += 1;
        machine.lease_expires = None;
        machine.changes_sent = 0;
        let incarnation = machine.incarnation;
        machine.agent = Some(Agent {
            incarnation,
            client: ClientNo(AGENTS + machine.agents),
            life: machine.life,
            node: None,
            is_ready: false,
            newest: None,
            lease: None,
            paused: false,
            inputs: VecDeque::new(),
            wake_at: None,
            purposes: BTreeMap::new(),
            landings: BTreeMap::new(),
            backlog: Backlog::default(),
            accepts: BTreeMap::new(),
            last_opening: 0,
            openings: BTreeMap::new(),
            pins: BTreeMap::new(),
            assemblies: Assemblies::default(),
            regions: BTreeMap::new(),
            adopting: Adopting::default(),
            fates: BTreeMap::new(),
        });
        self.note(|| format!("pool daemon {at} starts, incarnation {incarnation}"));
        self.after_ms(0, What::KeepAlive { at, incarnation });
    }

    /// Gives a pool daemon something to hear.
    pub(crate) fn give(&mut self, at: usize, input: Input) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        if agent.paused {
            agent.inputs.push_back(input);
            return Ok(());
        }
        match input {
            Input::Said(said) => self.hear_store(at, said),
            Input::News(news) => self.hear_etcd(at, news),
            Input::Link { peer, up } => {
                if !up {
                    self.end_serving(at, peer);
                    self.end_assemblies(at, peer);
                }
                self.step(at, Event::Link { peer: Slot(peer as u16), up })
            }
            Input::Node(event) => self.step(at, event),
        }
    }

    fn hear_store(&mut self, at: usize, said: Said) -> Result<(), String> {
        match said {
            Said::Call(Call::InventoryEnd) => self.ready(at),
            Said::Adoption(call) => self.adoption_call(at, call),
            Said::Call(Call::Ended { .. }) if self.breaks(Mutation::ForgetEnded) => Ok(()),
            Said::Call(call) => self.step(at, Event::Local(call)),
            Said::Reply(number, reply) => {
                let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
                let Some(purpose) = agent.purposes.remove(&number) else {
                    return Err(format!("an answer to no request of {at}: {reply:?}"));
                };
                self.answered(at, purpose, reply)
            }
        }
    }

    fn answered(&mut self, at: usize, purpose: Purpose, reply: Reply) -> Result<(), String> {
        match (purpose, reply) {
            (Purpose::Land(ticket), Reply::Created(grant)) => self.landed(at, ticket, Some(grant)),
            (Purpose::Land(ticket), Reply::Failed(failure)) => {
                self.note(|| format!("no landing at {at}: {:?} {}", failure.code, failure.detail));
                self.landed(at, ticket, None)
            }
            (Purpose::Seal { id, birth, .. }, Reply::Failed(failure)) => {
                self.note(|| format!("no seal at {at}: {failure:?}"));
                self.step(at, Event::Local(Call::Ended { id, birth }))
            }
            (Purpose::Seal { id, birth, .. }, _) => self.step(at, Event::CopySealed { id, birth }),
            (Purpose::Open(number), Reply::Located(located)) => {
                let location = located.into_iter().next().and_then(Result::ok);
                self.opened(at, number, location)
            }
            (Purpose::Open(number), _) => self.opened(at, number, None),
            (Purpose::SealParts(id), reply) => self.parts_sealed(at, id, reply == Reply::Done),
            (Purpose::Part(number), Reply::Located(located)) => {
                self.part_opened(at, number, located.into_iter().next().and_then(Result::ok))
            }
            (Purpose::Part(number), _) => self.part_opened(at, number, None),
            (Purpose::Allocate(id), reply) => self.allocated(at, id, reply),
            (Purpose::SealRegion { id, settles }, reply) => {
                self.region_sealed(at, (id, settles), &reply)
            }
            (Purpose::Settle(id), reply) => self.region_settled(at, id, &reply),
            (Purpose::Abort, Reply::Failed(failure)) if failure.code == Code::Absent => Ok(()),
            (purpose, Reply::Failed(failure)) => {
                Err(format!("{at} is refused {purpose:?}: {failure:?}"))
            }
            (_, _) => Ok(()),
        }
    }

    fn hear_etcd(&mut self, at: usize, news: News) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        match news {
            News::Lease(until) => {
                agent.lease = Some(until);
                if agent.is_ready { self.step(at, Event::Lease(until)) } else { Ok(()) }
            }
            News::LeaseLost => {
                agent.lease = None;
                if agent.is_ready { self.step(at, Event::LeaseLost) } else { Ok(()) }
            }
            News::Map(map) => self.hear_map(at, map),
            News::Changes(revision, changes) => self.hear_changes(at, revision, &changes),
        }
    }

    fn hear_map(&mut self, at: usize, map: Arc<Map>) -> Result<(), String> {
        self.see_map(at, &map);
        let machine = &mut self.machines[at];
        let (uuid, capacity_bytes) = (machine.uuid(), machine.config.capacity_bytes);
        let (boot, expected) = (machine.boot, machine.slot());
        let Some(agent) = &mut machine.agent else { return Ok(()) };
        if agent.node.is_none() {
            let slot = map.slot_of(uuid);
            let own = slot.and_then(|slot| Some((slot, map.node(slot)?)));
            let incarnation = agent.incarnation;
            let is_this = |(_, node): &(Slot, &plasmon_cluster::Node)| {
                node.state.is_live() && node.member.incarnation == incarnation
            };
            let Some((slot, _)) = own.filter(is_this) else { return Ok(()) };
            if slot != expected {
                return Err(format!("{at} has slot {slot}"));
            }
            let mut config = Config::new(slot, incarnation, boot, capacity_bytes);
            config.isolated_serve_ms = ISOLATED_SERVE_MS;
            agent.node = Some(Node::new(config));
            let client = agent.client;
            self.note(|| format!("pool daemon {at} begins"));
            self.tell_store(at, Message::Connect(client));
            let number = self.ask_number(at, Purpose::Seat);
            self.tell_store(at, Message::Agent(client, number, slot));
            self.begin_adoptions(at);
            for other in (0..self.machines.len()).filter(|other| *other != at) {
                self.connect(Way { from: at, to: other });
            }
        }
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        if !agent.is_ready {
            agent.newest = Some(map);
            return Ok(());
        }
        self.step(at, Event::Map(map))
    }

    /// The store has told every copy.
    fn ready(&mut self, at: usize) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        agent.is_ready = true;
        let (lease, newest) = (agent.lease, agent.newest.take());
        self.note(|| format!("pool daemon {at} is ready"));
        if let Some(until) = lease {
            self.step(at, Event::Lease(until))?;
        }
        newest.map_or(Ok(()), |map| self.step(at, Event::Map(map)))
    }

    /// Gives an event to a node, and carries out what follows.
    pub(crate) fn step(&mut self, at: usize, event: Event) -> Result<(), String> {
        match &event {
            Event::Time => {}
            Event::Map(map) => self.note(|| format!("node {at} <- map {}", map.epoch())),
            event => self.note(|| format!("node {at} <- {event:?}")),
        }
        let now = self.now;
        let node = self.machines[at].agent.as_mut().and_then(|agent| agent.node.as_mut());
        let Some(node) = node else { return Ok(()) };
        let mut effects = Vec::new();
        node.step(now, event, &mut effects);
        for effect in effects {
            self.carry_out(at, effect)?;
        }
        self.schedule_wake(at);
        Ok(())
    }

    fn schedule_wake(&mut self, at: usize) {
        let now = self.now;
        let Some(agent) = &mut self.machines[at].agent else { return };
        let Some(due) = agent.node.as_ref().and_then(Node::next_deadline) else { return };
        if agent.wake_at.is_none_or(|wake| due < wake) {
            let due = due.max(Mono(now.0 + 1));
            agent.wake_at = Some(due);
            let incarnation = agent.incarnation;
            self.at(due, What::NodeWake { at, incarnation });
        }
    }

    /// The number of a new request to the store.
    pub(crate) fn ask_number(&mut self, at: usize, purpose: Purpose) -> u64 {
        let number = self.machines[at].next_request();
        if let Some(agent) = &mut self.machines[at].agent {
            agent.purposes.insert(number, purpose);
        }
        number
    }

    /// Asks something of the store.
    pub(crate) fn ask_store(&mut self, at: usize, request: Request, purpose: Purpose) {
        let Some(client) = self.machines[at].agent.as_ref().map(|agent| agent.client) else {
            return;
        };
        let number = self.ask_number(at, purpose);
        self.tell_store(at, Message::Request(client, number, request));
    }

    fn carry_out(&mut self, at: usize, effect: Effect) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let Some(effect) = agent.backlog.keep(effect) else { return Ok(()) };
        match effect {
            Effect::Send { to, envelope } => self.send(at, usize::from(to.0), &envelope)?,
            Effect::Tell(told) => self.tell(at, told)?,
            Effect::Land { ticket, id, birth, content } => {
                let (grant, segments, ending) = (None, BTreeMap::new(), None);
                let landing = Landing { id, birth, content, grant, segments, ending };
                agent.landings.insert(ticket, landing);
                if !id.is_pooled() {
                    let request = create_parts(id, content.bytes());
                    self.ask_store(at, request, Purpose::Land(ticket));
                    return Ok(());
                }
                let sizes = Sizes {
                    data: content.data_bytes,
                    metadata: content.metadata_bytes.into(),
                    attributes: content.attributes_bytes.into(),
                };
                let traits = Traits { tag: content.tag, ..Traits::default() };
                let request = LandRequest { id, birth, sizes, traits, growing: false };
                self.ask_store(at, Request::Land(request), Purpose::Land(ticket));
            }
            Effect::Accept { transfer, ticket, .. } => _ = agent.accepts.insert(transfer, ticket),
            Effect::Refuse(transfer) => _ = agent.accepts.remove(&transfer),
            Effect::Fill { ticket, bytes } => self.fill(at, ticket, &bytes.0)?,
            Effect::Seal { ticket, visible, keep } => {
                let keep = keep && !self.breaks(Mutation::SealUnkept);
                let visible = visible || self.breaks(Mutation::ShowAtOnce);
                self.end_landing(at, ticket, Ending::Seal { visible, keep })?;
            }
            Effect::Abandon(ticket) => self.end_landing(at, ticket, Ending::Abandon)?,
            Effect::Serve { peer, transfer, id, birth, spans, ranges } => {
                let wanted = (spans, Wanted::Segments(ranges));
                self.open(at, (peer, transfer), (id, birth), wanted);
            }
            Effect::Fetch { peer, transfer, id, birth, spans } => {
                self.open(at, (peer, transfer), (id, birth), (spans, Wanted::Whole));
            }
            Effect::EndServe { peer, transfer } => {
                self.end_serve(at, peer, transfer);
                self.end_assembly(at, (peer, transfer));
            }
            Effect::Gather { peer, transfer, parts } => {
                self.assemble(at, (peer, transfer), parts);
            }
            Effect::Read { .. } | Effect::GatherLanded { .. } | Effect::Gathered { .. } => {
                self.read_effect(at, effect)?;
            }
            Effect::Allocate { .. }
            | Effect::WriteRegion { .. }
            | Effect::SealRegion(_)
            | Effect::EndRegion(_)
            | Effect::Region { .. } => self.region_effect(at, effect)?,
            Effect::Place { number, place } => _ = self.places.insert(number, place),
            Effect::Report { group, since } => {
                let machine = &self.machines[at];
                if machine.reaches_etcd {
                    let primary = machine.slot();
                    self.etcd.activations.push(Activation { primary, group, since });
                }
            }
            // No program lists or subscribes here, and nothing drains.
            other => return Err(format!("node {at}: nothing asks for {other:?}")),
        }
        Ok(())
    }

    fn tell(&mut self, at: usize, told: Told) -> Result<(), String> {
        self.note(|| format!("node {at} tells {told:?}"));
        let mut told = told;
        match &mut told {
            Told::Sought { id, fate, .. } => {
                let (id, fate) = (*id, *fate);
                if let Some(agent) = &mut self.machines[at].agent {
                    agent.fates.insert(id, fate);
                }
            }
            Told::Drop { id, birth } if self.breaks(Mutation::KeepDropped) => {
                let ended = Call::Ended { id: *id, birth: *birth };
                return self.step(at, Event::Local(ended));
            }
            Told::Vouch { ms } if self.breaks(Mutation::VouchForLong) => *ms *= 20,
            Told::Committed { id, serial, result: Ok(()) } if id.home().is_some() => {
                // A machine that lost its memory may have got its own object back.
                let (id, serial) = (*id, *serial);
                let copies = self.machines[at].copies();
                let is_it =
                    |(of, birth, _): &&(ObjectId, Birth, _)| (*of, birth.serial) == (id, serial);
                if let Some((_, birth, _)) = copies.iter().find(is_it) {
                    self.accepted(id, *birth)?;
                }
            }
            _ => {}
        }
        self.ask_store(at, Request::Tell { told: vec![told] }, Purpose::Tell);
        Ok(())
    }

    /// The memory of a landing is there, or cannot be had.
    fn landed(&mut self, at: usize, ticket: Ticket, grant: Option<Grant>) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let Some(landing) = agent.landings.get_mut(&ticket) else {
            return Err(format!("memory for no landing of {at}"));
        };
        landing.grant = grant;
        let room = grant.is_some();
        if let Some(ending) = landing.ending {
            return self.close_landing(at, ticket, ending);
        }
        if !room {
            agent.landings.remove(&ticket);
        }
        self.step(at, Event::Landed { ticket, room })
    }

    fn end_landing(&mut self, at: usize, ticket: Ticket, ending: Ending) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        if agent.backlog.forget(ticket) {
            return Ok(());
        }
        let Some(landing) = agent.landings.get_mut(&ticket) else { return Ok(()) };
        if landing.grant.is_some() {
            return self.close_landing(at, ticket, ending);
        }
        landing.ending = Some(ending);
        let id = landing.id;
        agent.backlog.begin(id);
        Ok(())
    }

    /// The store gets a landing back, and what waited for that is carried out.
    fn close_landing(&mut self, at: usize, ticket: Ticket, ending: Ending) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let Some(landing) = agent.landings.remove(&ticket) else { return Ok(()) };
        let (client, is_connected) = (agent.client, agent.life == self.machines[at].life);
        let Landing { id, birth, content, grant, segments, .. } = landing;
        match (grant, ending) {
            (Some(grant), Ending::Seal { visible, keep }) => {
                let wanted = (0..content.segments()).collect::<Vec<_>>();
                let is_whole = segments.keys().eq(&wanted);
                if !id.is_pooled() {
                    let held = held_of(segments).filter(|held| held.bytes() == content.bytes());
                    let held = held.filter(|_| is_whole);
                    let held = held.ok_or_else(|| format!("{at} seals {id} without its bytes"))?;
                    self.seal_parts(at, (id, birth), &grant, held)?;
                    return self.go_on_with(at, &id);
                }
                let is_right = |carried: &Carried| match carried {
                    Carried::Copy(token) => (token.id, token.birth) == (id, birth),
                    Carried::Parts(_) | Carried::Bytes(_) => false,
                };
                let right = is_whole && segments.values().all(is_right);
                let Some(Carried::Copy(token)) = segments.values().next().filter(|_| right) else {
                    return Err(format!("a copy of {id} {birth:?} has wrong bytes: {segments:?}"));
                };
                // Where the store ended meanwhile, nothing of its memory is mapped by another one.
                if is_connected && self.machines[at].store.is_some() {
                    self.machines[at].memory.write(&grant.range, token.clone())?;
                }
                let number = self.ask_number(at, Purpose::Seal { id, birth, keep });
                let landed = SealLanded { id, birth, visible, keep };
                self.tell_store(at, Message::SealLanded(client, number, landed));
                if keep && self.breaks(Mutation::SealedAtOnce) {
                    let incarnation = self.machines[at].incarnation;
                    let said = Said::Call(Call::Kept { id, birth });
                    self.at(self.now, What::ToAgent { at, incarnation, said });
                }
            }
            (Some(_), Ending::Abandon) => self.ask_store(at, Request::Abort { id }, Purpose::Abort),
            (None, _) => {}
        }
        self.go_on_with(at, &id)
    }

    /// What waited until a landing of an object was over is carried out.
    fn go_on_with(&mut self, at: usize, id: &ObjectId) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        for effect in agent.backlog.end(id) {
            self.carry_out(at, effect)?;
        }
        Ok(())
    }

    pub(crate) fn resume_agent(&mut self, at: usize) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        if !std::mem::take(&mut agent.paused) {
            return Ok(());
        }
        while let Some(input) = self.machines[at].agent.as_mut().and_then(|a| a.inputs.pop_front())
        {
            self.give(at, input)?;
        }
        self.give(at, Input::Node(Event::Time))
    }
}
