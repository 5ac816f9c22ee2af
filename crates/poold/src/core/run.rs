//! The loop of the core: what it hears from connections, the store, etcd and other threads becomes
//! events of the node. What the node wants done then is in `run/effects.rs`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use plasmon_cluster::{Map, Slot};
use plasmon_membership::adoption_news::AdoptionNews;
use plasmon_net::handshake::Token;
use plasmon_net::tcp::TcpListener;
use plasmon_pool::record::Place;
use plasmon_pool::tally::Verified;
use plasmon_pool::{Call, Effect, Event, Mono, Node};

use super::assemblies::Assemblies;
use super::backlog::Backlog;
use super::checksums::Checksums;
use super::early::Early;
use super::gathers::Gathers;
use super::inbox::Incoming;
use super::landings::Landings;
use super::listings::Listings;
use super::openings::Openings;
use super::peers::Peers;
use super::reads::Reads;
use super::regions::Regions;
use super::subscribers::Subscribers;
use crate::certificates::Certificates;
use crate::checker::Checker;
use crate::clock::now_us;
use crate::fabric::Fabric;
use crate::links::Links;
use crate::loader::Loader;
use crate::membership::{self, Membership};
use crate::movers::{Done, Movers};
use crate::poll::{Poll, Waker};
use crate::repeats::Repeats;
use crate::store::{Store, StoreEvent};

mod adoptions;
mod answers;
mod beginning;
mod checksums;
mod effects;
mod landed;
mod openings;
mod parts;
mod peers;
mod questions;
mod regions;
mod reports;

/// The number of the waker in the poll.
pub(super) const WAKER: u64 = 0;

/// That of the store.
pub(super) const STORE: u64 = 1;

/// The numbers of the connections are from there on.
const LINKS: u64 = 2;

/// So often the connections are driven in one turn, so that what their messages lead to is sent
/// before the next one.
const DRIVES_AT_ONCE: usize = 4;

/// What other threads say that is taken before the connections have their turn again.
const INCOMING_AT_ONCE: usize = 1024;

/// What the store tells in a row that is given to the node together.
const CALLS_AT_ONCE: usize = 1024;

/// What a node is begun with once it has a slot.
pub(super) struct Start {
    pub(super) listener: Option<TcpListener>,
    pub(super) name: String,
    pub(super) token: Token,
    pub(super) boot: u64,
    pub(super) capacity_bytes: u64,
    pub(super) suspect_ms: u64,
    pub(super) certificates: Option<Certificates>,
    pub(super) fabric: Option<Arc<Fabric>>,
}

/// What the core is made of.
pub(super) struct Parts {
    pub(super) poll: Poll,
    pub(super) waker: Arc<Waker>,
    pub(super) receiver: Receiver<Incoming>,
    pub(super) membership: Membership,
    pub(super) movers: Movers,
    pub(super) checker: Checker,
    pub(super) loader: Loader,
    pub(super) store: Box<dyn Store>,
}

/// The node and its connections.
struct Running {
    slot: Slot,
    node: Node,
    links: Links,
}

pub(super) struct Core {
    adoptions: AdoptionNews,
    poll: Poll,
    waker: Arc<Waker>,
    receiver: Receiver<Incoming>,
    start: Start,
    membership: Membership,
    movers: Movers,
    checker: Checker,
    loader: Loader,
    checksums: Checksums,
    store: Box<dyn Store>,
    landings: Landings,
    backlog: Backlog,
    openings: Openings,
    running: Option<Running>,
    /// Connections that wait to hear where an object is, by the numbers of their questions.
    questions: BTreeMap<u64, SyncSender<Place>>,
    /// Those that wait until the pool is compared.
    verifications: BTreeMap<u64, SyncSender<Verified>>,
    /// The number of the last one.
    question: u64,
    listings: Listings,
    subscribers: Subscribers,
    reads: Reads,
    regions: Regions,
    gathers: Gathers,
    assemblies: Assemblies,
    /// Whether the store has told every copy: before that the node would answer as if it had none.
    is_ready: bool,
    /// The newest map that came before that.
    newest: Option<Arc<Map>>,
    /// Until when the lease is held.
    lease: Option<Mono>,
    peers: Peers,
    /// The troubles that were logged a short while ago.
    repeats: Repeats,
    /// What the store said before the node began: its copies, and what its clients wait for.
    early: Early,
    effects: Vec<Effect>,
    /// What the store has just said.
    said: Vec<StoreEvent>,
    /// Of that, what it told in a row and the node has not heard.
    calls: Vec<Call>,
    /// The generation of the certificates that was reported.
    encryption_reported: u64,
    /// The generation of the endpoints that was reported.
    fabric_reported: u32,
    is_over: bool,
}

impl Core {
    pub(super) fn new(parts: Parts, start: Start) -> Self {
        let Parts { poll, waker, receiver, membership, movers, checker, loader, store } = parts;
        let peers = Peers::new(start.suspect_ms);
        Self {
            adoptions: AdoptionNews::default(),
            poll,
            waker,
            receiver,
            start,
            membership,
            movers,
            checker,
            loader,
            checksums: Checksums::default(),
            store,
            landings: Landings::default(),
            backlog: Backlog::default(),
            openings: Openings::default(),
            running: None,
            questions: BTreeMap::new(),
            verifications: BTreeMap::new(),
            question: 0,
            listings: Listings::default(),
            subscribers: Subscribers::default(),
            reads: Reads::default(),
            regions: Regions::default(),
            gathers: Gathers::default(),
            assemblies: Assemblies::default(),
            is_ready: false,
            newest: None,
            lease: None,
            peers,
            repeats: Repeats::default(),
            early: Early::default(),
            effects: Vec::new(),
            said: Vec::new(),
            calls: Vec::new(),
            encryption_reported: 0,
            fabric_reported: 0,
            is_over: false,
        }
    }

    /// Goes on until the end; the membership, to be left or dropped.
    pub(super) fn run(mut self) -> Option<Membership> {
        while !self.is_over {
            if let Err(error) = self.turn() {
                tracing::error!("the node of the pool ends: {error}");
                break;
            }
            self.store.flush();
        }
        // The listener, the connections and the movers end here; the membership goes on until its
        // lease is revoked, or given up.
        Some(self.membership)
    }

    fn turn(&mut self) -> io::Result<()> {
        let time = self.running.as_ref().and_then(|running| {
            let now_us = now_us();
            let node = running.node.next_deadline().map(|at| Duration::from_micros(at.0));
            let links = running.links.next_deadline(Duration::from_micros(now_us));
            let next = node.into_iter().chain(links).chain(self.peers.next_deadline()).min();
            next.map(|at| at.saturating_sub(Duration::from_micros(now_us)))
        });
        for ready in self.poll.wait(time)? {
            if ready.number == WAKER {
                self.waker.clear();
            } else if ready.number == STORE {
                self.hear_store()?;
            } else if let Some(running) = &mut self.running {
                let now = Duration::from_micros(now_us());
                running.links.ready(ready.number, now, &self.poll);
            }
        }
        self.take_incoming()?;
        self.drive_links()?;
        self.look_at_peers();
        self.report_encryption();
        self.report_fabric();
        let is_due =
            |running: &Running| running.node.next_deadline().is_some_and(|at| at <= Mono(now_us()));
        if self.running.as_ref().is_some_and(is_due) {
            self.step(Event::Time);
        }
        Ok(())
    }

    /// Sends and receives what can be now. What follows from a message is sent at once, before the
    /// store is told anything: another machine waits for it.
    fn drive_links(&mut self) -> io::Result<()> {
        for _ in 0..DRIVES_AT_ONCE {
            while let Some(answer) = self.store.answer() {
                self.hear(answer)?;
            }
            let Some(running) = &mut self.running else { return Ok(()) };
            let events = running.links.drive(Duration::from_micros(now_us()), &self.poll);
            if events.is_empty() {
                return Ok(());
            }
            events.into_iter().for_each(|event| self.link(event));
        }
        // There may be more.
        self.waker.wake();
        Ok(())
    }

    /// Takes some of what the store has said; what is left makes the next turn begin at once.
    fn hear_store(&mut self) -> io::Result<()> {
        let mut said = std::mem::take(&mut self.said);
        let is_open = self.store.receive(&mut said);
        if let Some(descriptor) = self.store.descriptor().filter(|_| !is_open) {
            self.poll.remove(descriptor)?;
        }
        for event in said.drain(..) {
            match event {
                StoreEvent::Call(call) if self.running.is_some() => {
                    self.calls.push(call);
                    if self.calls.len() == CALLS_AT_ONCE {
                        self.say_calls();
                    }
                }
                event => {
                    self.say_calls();
                    self.hear(event)?;
                }
            }
        }
        self.say_calls();
        self.said = said;
        Ok(())
    }

    /// Gives the node what the store told in a row.
    fn say_calls(&mut self) {
        if !self.calls.is_empty() {
            let calls = std::mem::take(&mut self.calls);
            self.step(Event::LocalMany(calls));
        }
    }

    fn hear(&mut self, event: StoreEvent) -> io::Result<()> {
        if self.running.is_some() { self.say(event) } else { self.early.keep(event) }
    }

    fn take_incoming(&mut self) -> io::Result<()> {
        for _ in 0..INCOMING_AT_ONCE {
            let Ok(incoming) = self.receiver.try_recv() else { return Ok(()) };
            self.take(incoming)?;
            if self.is_over {
                return Ok(());
            }
        }
        // There may be more.
        self.waker.wake();
        Ok(())
    }

    fn take(&mut self, incoming: Incoming) -> io::Result<()> {
        match incoming {
            Incoming::End => self.is_over = true,
            Incoming::Membership(event) => return self.member(event),
            Incoming::Store(event) => return self.hear(event),
            Incoming::Where(id, answer) => self.ask(id, answer),
            Incoming::List(question) => self.list(question),
            Incoming::Verify(within_ms, answer) => self.verify(within_ms, answer),
            // The connection may have ended; it has room for its answer.
            Incoming::Participation(answer) => _ = answer.try_send(self.participation()),
            Incoming::Checksums(question) => self.ask_checksums(question),
            Incoming::CopyRead(number, read) => self.copy_read(number, read),
            Incoming::Repair(node, copies) => self.repair(node, copies),
            Incoming::Loaded(number, parts) => self.opened(number, parts),
            Incoming::Subscribe(subscriber) => self.subscribe(subscriber),
            Incoming::Unsubscribe(number) => {
                if self.subscribers.remove(number) {
                    self.step(Event::Unsubscribe { number });
                }
            }
            Incoming::Prefetch(ids) => self.prefetch(ids),
            Incoming::Demote(ids) => self.demote(ids),
            Incoming::Read(number, request, answer) => self.read(number, *request, answer)?,
            Incoming::Gather(number, request, answer) => self.gather(number, request, answer)?,
            Incoming::EndRead(number) => self.end_read(number),
            Incoming::Region(question) => self.ask_region(question)?,
            Incoming::RegionOwnerGone(owner) => self.step(Event::RegionOwnerGone(owner)),
            Incoming::Delete(ids) => self.store.delete(ids),
            Incoming::Mover(Done::Arrived { transfer, segment, intact, memory }) => {
                if let Some(memory) = memory {
                    self.returned(transfer, memory);
                }
                self.step(Event::Arrived { transfer, segment, intact });
            }
            Incoming::Mover(Done::Moving(slot)) => self.step(Event::Moving(slot)),
            Incoming::Mover(Done::Returned(transfer, memory)) => self.returned(transfer, memory),
            Incoming::Mover(Done::LaneEnded { id: (slot, lane), connection }) => {
                if let Some(running) = &mut self.running {
                    let now = Duration::from_micros(now_us());
                    running.links.bulk_ended(slot, lane, connection, now);
                }
            }
            Incoming::Mover(Done::Failed(error)) => return Err(error),
        }
        Ok(())
    }

    fn say(&mut self, event: StoreEvent) -> io::Result<()> {
        match event {
            StoreEvent::Ready => return self.ready(),
            StoreEvent::LogFailed => self.log_failed(),
            StoreEvent::Adoption(call) => self.adoption(call),
            StoreEvent::Call(call) => self.step(Event::Local(call)),
            StoreEvent::Opened(number, source) => self.opened(number, source),
            StoreEvent::Listed(number, page) => {
                if let Some((peer, question)) = self.listings.end(number) {
                    self.step(Event::ListedHere { peer, question, page });
                }
            }
            StoreEvent::LogChecked(number, check, name) => self.log_checked(number, check, name),
            StoreEvent::Described(number, found) => self.step(Event::Described { number, found }),
            StoreEvent::CopySealed(id, birth) => self.step(Event::CopySealed { id, birth }),
            StoreEvent::Allocated(id, memory) => self.allocated(id, memory),
            StoreEvent::RegionSealed { id, is_sealed, result } => {
                self.step(Event::RegionSealed { id, is_sealed, result });
            }
            StoreEvent::Sealed(id, is_sealed) => self.sealed(id, is_sealed),
            StoreEvent::Landed(ticket, memory) => {
                let room = memory.is_some();
                match self.landings.landed(ticket, memory, &self.movers) {
                    None => self.step(Event::Landed { ticket, room }),
                    Some(ended) => self.end(ended),
                }
            }
        }
        Ok(())
    }

    fn member(&mut self, event: membership::Event) -> io::Result<()> {
        match event {
            membership::Event::Lease { until_ms } => {
                let until = Mono(until_ms.saturating_mul(1000));
                self.lease = Some(until);
                if self.is_ready {
                    self.step(Event::Lease(until));
                }
            }
            membership::Event::LeaseLost => {
                tracing::warn!(
                    "the lease of this node is lost; it decides nothing until it is back"
                );
                self.lease = None;
                self.forget_peers();
                if self.is_ready {
                    self.step(Event::LeaseLost);
                }
            }
            membership::Event::Fenced => self.fenced(),
            membership::Event::Waiting(slots) => self.set_waiting(slots),
            membership::Event::Map(map) => return self.map(map),
            membership::Event::Adoptions(known) => self.know_adoptions(known),
            membership::Event::Usage(usage) => self.know_usage(usage),
            membership::Event::AdoptionAnswered { number, result } => {
                self.adoption_answered(number, result);
            }
            membership::Event::Refused(reason) => tracing::error!("{reason}"),
            membership::Event::Leads => tracing::info!("this node leads the pool"),
            membership::Event::Trouble(trouble) => {
                if self.repeats.is_due(&trouble) {
                    tracing::warn!("{trouble}");
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, map: Arc<Map>) -> io::Result<()> {
        let slot = map.slot_of(self.membership.uuid());
        if self.running.is_none() {
            let own = slot.and_then(|slot| Some((slot, map.node(slot)?)));
            let incarnation = self.membership.incarnation();
            let is_this = |(_, node): &(Slot, &plasmon_cluster::Node)| {
                node.is_live() && node.member.incarnation == incarnation
            };
            let Some((slot, _)) = own.filter(is_this) else { return Ok(()) };
            self.begin(slot)?;
        }
        if !self.is_ready {
            self.newest = Some(map);
            while let Some(event) = self.early.pop() {
                self.say(event)?;
            }
            return Ok(());
        }
        let Some(running) = &self.running else { return Ok(()) };
        // An operator had it forgotten while its lease was away, and it joined as a new node.
        if slot.is_some_and(|slot| slot != running.slot) {
            return Err(io::Error::other("the map gives this node another slot; start it again"));
        }
        self.set_peers(&map);
        self.step(Event::Map(map));
        Ok(())
    }

    /// The node knows every copy here, and takes part from now on.
    fn ready(&mut self) -> io::Result<()> {
        self.is_ready = true;
        if let Some(until) = self.lease {
            self.step(Event::Lease(until));
        }
        self.newest.take().map_or(Ok(()), |map| self.map(map))
    }
}
