//! How the bytes of copies move: opened and pinned at one machine, landed at the other.

use plasmon_cluster::Slot;
use plasmon_pool::limits::SEGMENT_BYTES;
use plasmon_pool::message::{InlineBytes, SegmentRange, TransferNo};
use plasmon_pool::{Birth, Content, Envelope, Event, Mono, Ticket};
use plasmon_proto::extent::Range;
use plasmon_proto::message::{Location, Request};
use plasmon_proto::object::Sizes;
use plasmon_proto::parts::Span;
use plasmon_proto::{Attributes, ObjectId};
use plasmon_testkit::pattern;

use super::agents::{Input, Purpose};
use super::memory::{Carried, Token};
use super::network::Way;
use super::pieces::Pieces;
use super::seeds::Mutation;
use super::world::{What, World};

/// A segment whose memory is not there yet is looked at again after so long.
const SEGMENT_WAIT_US: u64 = 50;
const SEGMENT_WAIT_PAUSED_US: u64 = 10_000;

/// What is wanted of a copy.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Segments(Vec<SegmentRange>),
    Whole,
}

/// A copy that the store is opening.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    peer: Slot,
    transfer: TransferNo,
    id: ObjectId,
    birth: Birth,
    /// `None`: all of it.
    spans: Option<Vec<Span>>,
    wanted: Wanted,
}

/// A copy that is sent from where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedPin {
    serial: u64,
    range: Range,
}

/// A segment on its way.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    way: Way,
    generation: u64,
    transfer: TransferNo,
    segment: u32,
    /// The copy that it is of.
    source: Option<Token>,
    carried: Carried,
    intact: bool,
}

impl World {
    pub(crate) fn send(
        &mut self,
        from: usize,
        to: usize,
        envelope: &Envelope,
    ) -> Result<(), String> {
        let way = Way { from, to };
        if to >= self.machines.len() || !self.network.link(way).up {
            return Ok(());
        }
        let bytes = envelope.encode().ok_or("an envelope that is too long")?;
        let at = Mono(self.now.0 + self.delay_us());
        let at = self.network.arrival(way, at);
        let generation = self.network.link(way).generation;
        self.at(at, What::Deliver { way, generation, bytes });
        Ok(())
    }

    pub(crate) fn open(
        &mut self,
        at: usize,
        (peer, transfer): (Slot, TransferNo),
        (id, birth): (ObjectId, Birth),
        (spans, wanted): (Option<Vec<Span>>, Wanted),
    ) {
        let Some(agent) = &mut self.machines[at].agent else { return };
        agent.openings.retain(|_, opening| (opening.peer, opening.transfer) != (peer, transfer));
        agent.last_opening += 1;
        let number = agent.last_opening;
        agent.openings.insert(number, Opening { peer, transfer, id, birth, spans, wanted });
        self.ask_store(at, Request::Get { ids: vec![id] }, Purpose::Open(number));
    }

    /// The store has opened a copy, or does not have it.
    pub(crate) fn opened(
        &mut self,
        at: usize,
        number: u64,
        location: Option<Location>,
    ) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let opening = agent.openings.remove(&number);
        let Some(location) = location else {
            let Some(Opening { peer, transfer, .. }) = opening else { return Ok(()) };
            return self.step(at, Event::Fetched { peer, transfer, bytes: None });
        };
        let pin = ServedPin { serial: location.serial, range: location.range };
        let token = self.machines[at].memory.read(&pin.range).cloned();
        let Some(Opening { peer, transfer, id, birth, spans, wanted }) = opening else {
            self.release(at, pin.serial);
            return Ok(());
        };
        let token = token.filter(|token| token.id == id);
        let Some(token) = token else { return Err(format!("{at} opens nothing: {location:?}")) };
        let pieces = spans.map(|spans| pieces_of(&token, &location.sizes, &spans));
        if token.birth != birth || pieces == Some(None) {
            self.release(at, pin.serial);
            return self.step(at, Event::Fetched { peer, transfer, bytes: None });
        }
        match (wanted, pieces.flatten()) {
            (Wanted::Whole, pieces) => {
                self.release(at, pin.serial);
                let bytes = match pieces {
                    None => self.whole(&token, location.sizes.data),
                    Some(pieces) => self.message_of(&pieces),
                };
                self.step(at, Event::Fetched { peer, transfer, bytes: Some(bytes) })
            }
            (Wanted::Segments(ranges), pieces) => {
                if let Some(agent) = &mut self.machines[at].agent {
                    agent.pins.entry((peer, transfer)).or_default().push(pin);
                }
                let copy = token.of_copy();
                let carried = |segment: u32| match &pieces {
                    None => Carried::Copy(copy.clone()),
                    Some(all) => {
                        Carried::Parts(all.part(u64::from(segment) * SEGMENT_BYTES, SEGMENT_BYTES))
                    }
                };
                self.send_segments(at, (peer, transfer), (Some(&copy), carried), &ranges);
                Ok(())
            }
        }
    }

    /// The bytes of parts, of which some are missing now and then.
    pub(crate) fn message_of(&mut self, pieces: &Pieces) -> InlineBytes {
        let mut bytes = pieces.to_bytes();
        if self.breaks(Mutation::WrongParts)
            && let Some(first) = bytes.first_mut()
        {
            *first ^= 1;
        }
        if self.dice.permille(10) {
            bytes.pop();
        }
        InlineBytes(bytes)
    }

    /// The bytes of a small copy, of which some are missing now and then.
    fn whole(&mut self, token: &Token, data_bytes: u64) -> InlineBytes {
        let mut bytes = data_of(&token.id, token.birth, data_bytes);
        bytes.extend(token.of_copy().attributes.encode());
        if self.dice.permille(10) {
            bytes.pop();
        }
        InlineBytes(bytes)
    }

    pub(crate) fn release(&mut self, at: usize, serial: u64) {
        self.ask_store(at, Request::Release { serials: vec![serial] }, Purpose::Release);
    }

    pub(crate) fn send_segments(
        &mut self,
        from: usize,
        (peer, transfer): (Slot, TransferNo),
        (source, carried): (Option<&Token>, impl Fn(u32) -> Carried),
        ranges: &[SegmentRange],
    ) {
        let to = usize::from(peer.0);
        let way = Way { from, to };
        let incarnation = self.machines[to].incarnation;
        let generation = self.network.link(way).generation;
        let mut at = self.now;
        for range in ranges {
            for segment in range.first..range.first + range.count {
                at = Mono(at.0 + self.delay_us());
                if self.dice.percent(self.bulk_loss) {
                    continue;
                }
                let (source, carried) = (source.cloned(), carried(segment));
                let intact = !self.dice.permille(10);
                let sent = Sent { way, generation, transfer, segment, source, carried, intact };
                self.at(at, What::Segment { at: to, incarnation, sent: Box::new(sent) });
            }
        }
    }

    /// A segment arrives. Bytes that are read from a pinned copy are its own up to the end.
    pub(crate) fn arrive(
        &mut self,
        at: usize,
        incarnation: u64,
        sent: Box<Sent>,
    ) -> Result<(), String> {
        let Sent { way, generation, transfer, segment, ref source, ref carried, intact } = *sent;
        let link = self.network.link(way);
        let is_lost = !link.up || link.generation != generation;
        if is_lost || self.network.is_cut(way) || self.machines[at].incarnation != incarnation {
            return Ok(());
        }
        if let Some(token) = source {
            self.check_served(way.from, (Slot(at as u16), transfer), token)?;
        }
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let Some(ticket) = agent.accepts.get(&transfer) else { return Ok(()) };
        let landing = agent.landings.get_mut(ticket);
        let Some(landing) = landing else { return Ok(()) };
        if landing.grant.is_none() {
            let us = if agent.paused { SEGMENT_WAIT_PAUSED_US } else { SEGMENT_WAIT_US };
            self.after_us(us, What::Segment { at, incarnation, sent });
            return Ok(());
        }
        if intact {
            landing.segments.insert(segment, carried.clone());
        }
        self.give(at, Input::Node(Event::Arrived { transfer, segment, intact }))
    }

    fn check_served(
        &self,
        from: usize,
        key: (Slot, TransferNo),
        token: &Token,
    ) -> Result<(), String> {
        let machine = &self.machines[from];
        let Some(agent) = &machine.agent else { return Ok(()) };
        for pin in agent.pins.get(&key).into_iter().flatten() {
            let now = machine.memory.read(&pin.range).map(Token::of_copy);
            if agent.life == machine.life && now.as_ref() != Some(token) {
                return Err(format!("{from} serves {pin:?}, and there is {now:?} for {token:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn end_serve(&mut self, at: usize, peer: Slot, transfer: TransferNo) {
        let Some(agent) = &mut self.machines[at].agent else { return };
        agent.openings.retain(|_, opening| (opening.peer, opening.transfer) != (peer, transfer));
        for pin in agent.pins.remove(&(peer, transfer)).unwrap_or_default() {
            self.release(at, pin.serial);
        }
    }

    /// The connection to a node ended, and its transfers with it.
    pub(crate) fn end_serving(&mut self, at: usize, peer: usize) {
        let Some(agent) = &mut self.machines[at].agent else { return };
        let peer = Slot(peer as u16);
        agent.openings.retain(|_, opening| opening.peer != peer);
        let ended: Vec<_> = agent.pins.keys().copied().filter(|(slot, _)| *slot == peer).collect();
        for (peer, transfer) in ended {
            self.end_serve(at, peer, transfer);
        }
    }

    /// A small copy arrived.
    pub(crate) fn fill(&mut self, at: usize, ticket: Ticket, bytes: &[u8]) -> Result<(), String> {
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let landing = agent.landings.get_mut(&ticket).ok_or("an object without memory")?;
        let (id, birth) = (landing.id, landing.birth);
        if !id.is_pooled() {
            landing.segments.insert(0, Carried::Bytes(bytes.to_vec()));
            return Ok(());
        }
        let Content { data_bytes, .. } = landing.content;
        let attributes = bytes.strip_prefix(data_of(&id, birth, data_bytes).as_slice());
        let attributes = attributes.and_then(|rest| Attributes::decode(rest).ok());
        let Some(attributes) = attributes else {
            return Err(format!("{at} gets wrong bytes of {id} {birth:?}"));
        };
        let parts = None;
        landing.segments.insert(0, Carried::Copy(Token { id, birth, attributes, parts }));
        Ok(())
    }
}

/// Parts of a copy; `None` where it does not have them.
pub(crate) fn pieces_of(token: &Token, sizes: &Sizes, spans: &[Span]) -> Option<Pieces> {
    let is_there = spans.last().is_none_or(|last| last.end() <= sizes.data + sizes.metadata);
    is_there.then(|| Pieces::of_spans(token.id, token.birth, spans))
}

/// What lies in the memory of an object.
fn data_of(id: &ObjectId, birth: Birth, bytes: u64) -> Vec<u8> {
    let seed = id
        .as_bytes()
        .iter()
        .fold(birth.serial, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let seed = seed.wrapping_add(u64::from(birth.slot.0) << 32).wrapping_add(birth.boot << 48);
    pattern(seed, bytes as usize)
}
