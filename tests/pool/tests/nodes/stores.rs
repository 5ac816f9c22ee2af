//! The stores: their events, and what they ask of their machine.

use plasmon_cluster::Slot;
use plasmon_pool::Mono;
use plasmon_proto::extent::Range;
use plasmon_proto::message::{Access, Reply, Request};
use plasmon_proto::pool::{Call, Origin};
use plasmon_proto::{Attributes, ObjectId};
use plasmon_store::effect::SpillOrder;
use plasmon_store::event::{Peer, ReadBack, SealLanded, SealTarget};
use plasmon_store::{ClientNo, Effect, Event, Ticket};

use super::agents::{Purpose, Said};
use super::clients::CLIENTS;
use super::machine::SpilledFile;
use super::world::{Act, What, World};

/// The clients from this number on are pool daemons.
pub(crate) const AGENTS: u32 = 100;

/// What a pool daemon says to its store.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Connect(ClientNo),
    Agent(ClientNo, u64, Slot),
    Request(ClientNo, u64, Request),
    SealLanded(ClientNo, u64, SealLanded),
    /// It seals an object of its own.
    Seal(ClientNo, u64, ObjectId, Attributes),
    /// Its connection ended.
    Closed(ClientNo),
}

/// What the tier does, in order.
#[derive(Clone, Debug)]
pub(crate) enum TierWork {
    Spill(Ticket, Box<SpillOrder>),
    Restore(Ticket, u64, Range),
    Unspill(u64),
    /// Not of the tier, but in its queue: an effect on the log.
    Log(Box<Effect>),
}

impl World {
    /// Gives an event to a store, and carries out what follows.
    pub(crate) fn feed(&mut self, at: usize, event: Event) -> Result<(), String> {
        let now_ms = self.now_ms();
        let machine = &mut self.machines[at];
        if machine.store_paused {
            machine.store_backlog.push_back(event);
            return Ok(());
        }
        if machine.store.is_none() {
            return Ok(());
        }
        if event != Event::Tick {
            self.note(|| format!("store {at} <- {event:?}"));
        }
        let mut effects = Vec::new();
        if let Some(store) = &mut self.machines[at].store {
            store.step(now_ms, event, &mut effects);
            // What is done in pieces is done when there is nothing left to do at once.
            if !store.has_work() {
                store.check();
            }
        }
        self.carry_out_all(at, effects)
    }

    fn carry_out_all(&mut self, at: usize, effects: Vec<Effect>) -> Result<(), String> {
        for effect in effects {
            self.store_asks(at, effect)?;
        }
        self.schedule_tick(at);
        self.check_births()
    }

    fn schedule_tick(&mut self, at: usize) {
        let machine = &self.machines[at];
        let due_ms = machine.store.as_ref().and_then(|store| store.next_deadline());
        let Some(due_ms) = due_ms.filter(|_| !machine.store_paused) else { return };
        let due = self.at_ms(due_ms).max(Mono(self.now.0 + 1));
        if machine.store_wake.is_none_or(|wake| due < wake) {
            let life = machine.life;
            self.machines[at].store_wake = Some(due);
            self.at(due, What::StoreWake { at, life });
        }
    }

    fn store_asks(&mut self, at: usize, effect: Effect) -> Result<(), String> {
        let life = self.machines[at].life;
        match effect {
            Effect::Reply(client, request, reply) => self.reply(at, client, request, reply),
            Effect::Created(client, request, grant) => {
                self.reply(at, client, request, Reply::Created(grant));
            }
            Effect::CallAdoption(client, call) => {
                self.note(|| format!("store {at} says {call:?}"));
                self.tell_agent(at, client, Said::Adoption(call));
            }
            Effect::Call(client, call) => {
                self.note_call(at, &call);
                self.tell_agent(at, client, Said::Call(call));
            }
            Effect::Reserve { ticket, new_extent_bytes, range, .. } => {
                let has_memory = !self.has_faults || self.dice.permille(985);
                if let Some(bytes) = new_extent_bytes.filter(|_| has_memory) {
                    self.machines[at].memory.make(range.extent, bytes)?;
                }
                let event = Event::Reserved(ticket, has_memory);
                let us = self.step_us();
                self.after_us(us, What::Worker { at, life, event });
            }
            Effect::Punch(range) => self.machines[at].memory.punch(&range),
            Effect::Drop(extent) => self.machines[at].memory.drop_extent(extent),
            Effect::Lent(_) | Effect::Writer(..) => {}
            Effect::Spill(ticket, order) => self.tier(at, TierWork::Spill(ticket, Box::new(order))),
            Effect::Restore(ticket, _, serial, range) => {
                self.tier(at, TierWork::Restore(ticket, serial, range));
            }
            Effect::Unspill(_, serial) => self.tier(at, TierWork::Unspill(serial)),
            effect @ (Effect::Log(..)
            | Effect::Note(..)
            | Effect::Relog(..)
            | Effect::CheckLog(..)
            | Effect::Unlog(..)
            | Effect::ReadLog(..)) => self.tier(at, TierWork::Log(Box::new(effect))),
            Effect::Expel(client, why) => return Err(format!("{at} expels {client:?}: {why}")),
            other => return Err(format!("nothing here asks for {other:?}")),
        }
        Ok(())
    }

    fn reply(&mut self, at: usize, client: ClientNo, request: u64, reply: Reply) {
        if client.0 >= AGENTS {
            self.note_sealed(at, request, &reply);
            return self.tell_agent(at, client, Said::Reply(request, reply));
        }
        let life = self.machines[at].life;
        let us = self.step_us();
        self.after_us(us, What::ToClient { at, life, client, request, reply });
    }

    /// A store that sealed a copy that is to be kept counts as one that keeps it.
    fn note_sealed(&mut self, at: usize, request: u64, reply: &Reply) {
        let agent = self.machines[at].agent.as_ref();
        let purpose = agent.and_then(|agent| agent.purposes.get(&request));
        if let (Some(Purpose::Seal { id, birth, keep: true }), Reply::Done) = (purpose, reply) {
            self.kept.entry((*id, *birth)).or_default().insert(at);
        }
    }

    fn note_call(&mut self, at: usize, call: &Call) {
        let machine = &mut self.machines[at];
        match *call {
            Call::Kept { id, birth } | Call::Logged { id, birth } => {
                machine.said_kept.insert((id, birth));
                self.kept.entry((id, birth)).or_default().insert(at);
            }
            Call::Ended { id, birth } => _ = machine.said_kept.remove(&(id, birth)),
            _ => {}
        }
        self.note(|| format!("store {at} says {call:?}"));
    }

    /// Says something to the pool daemon, after what was said before.
    fn tell_agent(&mut self, at: usize, client: ClientNo, said: Said) {
        let us = self.step_us();
        let machine = &mut self.machines[at];
        let Some(agent) = machine.agent.as_ref().filter(|agent| agent.client == client) else {
            return;
        };
        let incarnation = agent.incarnation;
        let due = Mono((self.now.0 + us).max(machine.to_agent_last.0 + 1));
        machine.to_agent_last = due;
        self.at(due, What::ToAgent { at, incarnation, said });
    }

    /// Says something to the store, after what was said before.
    pub(crate) fn tell_store(&mut self, at: usize, message: Message) {
        let us = self.step_us();
        let machine = &mut self.machines[at];
        let Some(life) = machine.agent.as_ref().map(|agent| agent.life) else { return };
        let due = Mono((self.now.0 + us).max(machine.to_store_last.0 + 1));
        machine.to_store_last = due;
        self.at(due, What::ToStore { at, life, message });
    }

    /// The store hears its pool daemon.
    pub(crate) fn hear_agent(&mut self, at: usize, message: Message) -> Result<(), String> {
        let machine = &self.machines[at];
        let event = match message {
            Message::Connect(client) => Event::Connect(client, peer(client, client.0.into())),
            Message::Agent(client, request, slot) => {
                Event::Agent(client, request, Origin { slot, boot: machine.boot })
            }
            Message::Request(client, request, body) => Event::Request(client, request, body),
            Message::SealLanded(client, request, landed) => {
                let store = machine.store.as_ref();
                let place = store.and_then(|store| store.creating(client, &landed.id));
                let token = place.and_then(|(range, _)| machine.memory.read(&range));
                let attributes = token.map(|token| token.attributes.clone());
                Event::SealLanded(client, request, landed, attributes)
            }
            Message::Seal(client, request, id, attributes) => {
                let target = SealTarget { id, target: id };
                Event::Seal(client, request, target, Some(attributes))
            }
            Message::Closed(client) => {
                let lent = machine.store.as_ref().is_some_and(|store| store.is_lent_to(client));
                if lent && self.dice.percent(50) {
                    let (life, ms) = (machine.life, 1 + self.dice.below(200));
                    self.after_ms(ms, What::Act(Act::Gone { at, life, client }));
                    Event::Part(client)
                } else {
                    Event::Disconnect(client)
                }
            }
        };
        self.feed(at, event)
    }

    /// A worker has done what the store asked for.
    pub(crate) fn worked(&mut self, at: usize, event: Event) -> Result<(), String> {
        self.feed(at, event)
    }

    fn tier(&mut self, at: usize, work: TierWork) {
        let us = 100 + self.dice.below(3_000);
        let machine = &mut self.machines[at];
        let due = Mono((self.now.0 + us).max(machine.tier_last.0 + 1));
        machine.tier_last = due;
        let life = machine.life;
        self.at(due, What::Tier { at, life, work });
    }

    pub(crate) fn tier_works(&mut self, at: usize, work: TierWork) -> Result<(), String> {
        let fails = self.has_faults && self.dice.permille(10);
        let machine = &mut self.machines[at];
        match work {
            TierWork::Spill(ticket, order) => {
                let token = machine.memory.read(&order.range).cloned();
                let token = token.filter(|token| token.id == order.id);
                let Some(token) = token else {
                    return Err(format!("{at} spills nothing: {order:?}"));
                };
                if !fails {
                    machine.tier.insert(order.serial, SpilledFile { order: *order, token });
                }
                self.feed(at, Event::Spilled(ticket, !fails))
            }
            TierWork::Restore(ticket, serial, range) => {
                let Some(file) = machine.tier.get(&serial) else {
                    return Err(format!("{at} restores what is in no file: {serial}"));
                };
                let token = file.token.clone();
                if !fails {
                    machine.memory.write(&range, token)?;
                }
                let outcome = if fails { ReadBack::Failed } else { ReadBack::Done };
                self.feed(at, Event::Restored(ticket, outcome))
            }
            TierWork::Unspill(serial) => {
                machine.tier.remove(&serial);
                Ok(())
            }
            TierWork::Log(effect) => self.log_works(at, *effect),
        }
    }

    /// Starts the store of a machine, and what follows it.
    pub(crate) fn start_store(&mut self, at: usize) -> Result<(), String> {
        if self.machines[at].store.is_some() {
            return Ok(());
        }
        let now_ms = self.now_ms();
        let mut effects = Vec::new();
        self.machines[at].start_store(now_ms, &mut effects)?;
        let life = self.machines[at].life;
        self.note(|| format!("store {at} starts, life {life}"));
        self.carry_out_all(at, effects)?;
        for number in 1..=CLIENTS {
            self.connect_client(at, ClientNo(number))?;
        }
        let ms = self.dice.below(20);
        self.after_ms(ms, What::Act(Act::StartAgent(at)));
        Ok(())
    }

    /// A client connects, in the session that it has.
    pub(crate) fn connect_client(&mut self, at: usize, client: ClientNo) -> Result<(), String> {
        let session = self.machines[at].session_of(client);
        self.feed(at, Event::Connect(client, peer(client, session)))
    }

    pub(crate) fn resume_store(&mut self, at: usize) -> Result<(), String> {
        if !std::mem::take(&mut self.machines[at].store_paused) {
            return Ok(());
        }
        // The time comes before what is read from sockets.
        self.feed(at, Event::Tick)?;
        while let Some(event) = self.machines[at].store_backlog.pop_front() {
            self.feed(at, event)?;
        }
        Ok(())
    }
}

/// A client's process.
fn peer(client: ClientNo, session: u64) -> Peer {
    let is_agent = client.0 >= AGENTS;
    let name = if is_agent { "pool".to_owned() } else { format!("client {}", client.0) };
    let (pid, uid, access) = (1000 + client.0, 1, Access::ReadWrite);
    Peer { pid, uid, name, access, channel: !is_agent, session }
}
