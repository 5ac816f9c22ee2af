//! The connections of this node to the others: one control lane to each, and bulk lanes.
//!
//! ```text
//!             map: the peer is live                  handshake
//!   no peer ------------------------> dialing ------------------> up
//!      ▲                                ▲  after a pause, doubled  │
//!      │ not in the map any more        └──────────────────────────┤ the control lane ended, or
//!      └───────────────────────────────────────────────────────────┘ another incarnation came
//! ```
//!
//! * Of two nodes the one in the lower slot connects; the other one accepts. So there is one
//!   control lane for each two nodes, and none is there twice because both began at once.
//! * Bulk lanes are connected once the control lane is up, by the same node, and end with it. They
//!   are used in both directions, and are the movers' from their handshake on. One that ends alone
//!   is connected again ([`Event::BulkEnded`]).
//! * A peer is known by the UUID and the incarnation that the map has in its slot. A connection of
//!   any other one is closed; its node tries again, and meanwhile the map may have come.
//! * With certificates the control lanes are encrypted, and all lanes where this node or the peer
//!   wants that. A bulk lane in clear belongs to an encrypted control lane, whose two sides have
//!   agreed on what opens it. When the certificates change, control lanes of peers whose
//!   certificate is revoked end, and all others go on.
//! * [`Event::Up`] and [`Event::Down`] stand in the order of the messages, and no message of an
//!   earlier connection comes after the `Up` of a later one.

mod acceptor;
mod conns;
mod control;
mod dial;
mod peer;
mod stream;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use plasmon_cluster::{Map, Slot};
use plasmon_net::handshake::{Lane, Local, Nonce, Purpose, Refusal};
use plasmon_net::tcp::{TcpListener, TcpStream};
use plasmon_net::tls::{Credentials, SecureStream};
use plasmon_net::{Admitted, Error, Greeting};
use plasmon_pool::Envelope;

use self::acceptor::Acceptor;
use self::conns::{Conn, Conns};
use self::control::{Broken, Control};
pub(crate) use self::peer::BULK_LANES;
use self::peer::Peer;
pub(crate) use self::stream::LaneStream;
use self::told::Told;
use crate::certificates::Certificates;
use crate::poll::{Interest, Poll};
use crate::random::random;

/// What happened on the connections.
#[derive(Debug)]
pub(crate) enum Event {
    /// The control lane to a peer is up.
    Up(Slot),
    /// The control lane to a peer ended, and all its bulk lanes with it.
    Down(Slot),
    /// Messages of a peer, which names itself as their sender.
    Message(Envelope),
    /// A bulk lane of a peer is up, for a mover.
    Bulk {
        /// The peer.
        peer: Slot,
        /// The number of the lane.
        lane: u8,
        /// Tells this connection of the lane from those before it.
        connection: u64,
        /// The connection.
        stream: LaneStream,
    },
    /// A bulk lane of a peer ended, or is replaced by the connection that follows.
    BulkEnded(Slot, u8),
}

/// The connections.
#[derive(Debug)]
pub(crate) struct Links {
    own: Slot,
    local: Arc<Local>,
    acceptor: Acceptor,
    conns: Conns,
    peers: BTreeMap<Slot, Peer>,
    events: Vec<Event>,
    certificates: Option<Certificates>,
    /// The generation of the certificates that the peers were last looked at with.
    generation: u64,
    told: Told,
}

impl Links {
    /// No connections yet. `numbers` are those of the poll that are free from there on. With
    /// certificates lanes are encrypted.
    pub(crate) fn new(
        own: Slot,
        local: Arc<Local>,
        listener: TcpListener,
        numbers: u64,
        certificates: Option<Certificates>,
        poll: &Poll,
    ) -> io::Result<Self> {
        let mut conns = Conns::new(numbers);
        let number = conns.draw();
        let acceptor = Acceptor::new(listener, number, local.clone(), certificates.clone(), poll)?;
        Ok(Self {
            own,
            local,
            acceptor,
            conns,
            peers: BTreeMap::new(),
            events: Vec::new(),
            generation: certificates.as_ref().map_or(0, Certificates::generation),
            certificates,
            told: Told::default(),
        })
    }

    /// The peers are those of this map. What is connected to another start of a peer ends. Nodes
    /// that wait to be live are connected, too.
    pub(crate) fn set_map(&mut self, map: &Map, waiting: &BTreeSet<Slot>, now: Duration) {
        let names = map.nodes().map(|(_, node)| &node.member);
        let names = names.map(|member| (member.uuid.0, member.name.as_str()));
        self.local.peers.set_names(names);
        let known: BTreeSet<Slot> = map.nodes().map(|(slot, _)| slot).collect();
        let gone: Vec<Slot> =
            self.peers.keys().filter(|slot| !known.contains(slot)).copied().collect();
        for slot in gone {
            self.forget(slot, now);
        }
        let own = self.own;
        for (slot, node) in map.nodes().filter(|(slot, _)| *slot != own) {
            if self.peers.get(&slot).is_some_and(|peer| peer.start != Peer::start_of(node)) {
                self.forget(slot, now);
            }
            let peer = self.peers.entry(slot).or_insert_with(|| Peer::new(node));
            let is_dialed = slot > own && (node.is_live() || waiting.contains(&slot));
            for number in peer.update(node, is_dialed) {
                self.conns.remove(number);
            }
        }
    }

    /// Whether the control lane to a peer is up.
    pub(crate) fn is_up(&self, slot: Slot) -> bool {
        self.heard_at(slot).is_some()
    }

    /// When a peer was last heard; `None` without a connection.
    pub(crate) fn heard_at(&self, slot: Slot) -> Option<Duration> {
        Some(self.peers.get(&slot)?.control.as_ref()?.heard_at())
    }

    /// Sends messages to a peer, in order after those before; the next [`drive`](Self::drive) does
    /// it. Where there is no connection they are thrown away. A peer that takes nothing for so long
    /// that its queue is full loses its connection.
    pub(crate) fn send(&mut self, to: Slot, envelope: Envelope, now: Duration) {
        let control = self.peers.get_mut(&to).and_then(|peer| peer.control.as_mut());
        let Some(control) = control else { return };
        if let Err(broken) = control.send(envelope) {
            self.broke(to, &broken, now);
        }
    }

    /// A mover says that its connection of a bulk lane ended. Unless that is known or it was
    /// replaced, the lane is connected again by the node that did so before.
    pub(crate) fn bulk_ended(&mut self, slot: Slot, lane: u8, connection: u64, now: Duration) {
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        if peer.bulk.get(&lane) != Some(&connection) {
            return;
        }
        peer.bulk.remove(&lane);
        if let Some(dial) = peer.dials.get_mut(&Lane::Bulk(lane)) {
            dial.ended(now);
        }
        self.events.push(Event::BulkEnded(slot, lane));
    }

    /// A descriptor is ready.
    pub(crate) fn ready(&mut self, number: u64, now: Duration, poll: &Poll) {
        if number == self.acceptor.number() {
            for admitted in self.acceptor.accept(now, &mut self.conns, poll) {
                self.admit(admitted, now, poll);
            }
            return;
        }
        match self.conns.get(number) {
            Some(Conn::Accepted(greeting)) => {
                let driven = self.acceptor.drive(greeting, now, &mut self.conns, poll);
                if let Some(admitted) = driven {
                    self.admit(admitted, now, poll);
                }
            }
            Some(Conn::Dialed(slot, lane)) => self.drive_dial(slot, lane, now, poll),
            Some(Conn::Control(slot)) => {
                let peer = self.peers.get_mut(&slot);
                if let Some(control) = peer.and_then(|peer| peer.control.as_mut()) {
                    control.ready();
                }
            }
            None => {}
        }
    }

    /// Does everything whose time has come or that was queued; what happened.
    pub(crate) fn drive(&mut self, now: Duration, poll: &Poll) -> Vec<Event> {
        self.acceptor.time_passed(now, &mut self.conns, poll);
        self.end_revoked(now);
        let slots: Vec<Slot> = self.peers.keys().copied().collect();
        for slot in slots {
            self.dial(slot, now, poll);
            self.drive_control(slot, now, poll);
        }
        std::mem::take(&mut self.events)
    }

    /// When [`drive`](Self::drive) has something to do though nothing happens.
    pub(crate) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        // What a send or a map ended has to be told.
        if !self.events.is_empty() {
            return Some(now);
        }
        let peers = self.peers.values().filter_map(|peer| peer.next_deadline(now));
        peers.chain(self.acceptor.next_deadline()).min()
    }

    /// Takes a lane that a peer has connected.
    fn admit(&mut self, admitted: Admitted<LaneStream>, now: Duration, poll: &Poll) {
        let far = admitted.peer;
        let slot = Slot(far.node.slot);
        let Some(peer) = self.peers.get(&slot).filter(|peer| peer.is(slot, &far.node)) else {
            tracing::debug!(
                "a connection of slot {slot} is closed: the map does not have this start of it"
            );
            return;
        };
        if slot > self.own {
            tracing::warn!("a connection of slot {slot} is closed: the lower slot connects");
            return;
        }
        match far.lane {
            Lane::Control => self.up(slot, admitted, now, poll),
            Lane::Bulk(lane) if peer.control.is_some() && lane < BULK_LANES => {
                self.hand_over(slot, lane, admitted.stream);
            }
            Lane::Bulk(_) => {}
        }
    }

    fn up(&mut self, slot: Slot, admitted: Admitted<LaneStream>, now: Duration, poll: &Poll) {
        let Admitted { stream, peer: far, bulk_token } = admitted;
        // The peer has begun again before the end of the last connection was seen.
        self.end(slot, now);
        if let Err(error) = stream.transport().tune(Lane::Control) {
            tracing::debug!("a connection to slot {slot} cannot be set up: {error}");
        }
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        let number = self.conns.add(Conn::Control(slot));
        if let Err(error) = poll.add(&stream, number, Interest::Read) {
            tracing::warn!("a connection to slot {slot} cannot be waited for: {error}");
            self.conns.remove(number);
            if let Some(dial) = peer.dials.get_mut(&far.lane) {
                dial.failed(now);
            }
            return;
        }
        self.local.peers.set_bulk_token(&far.node, bulk_token);
        self.told.forget(&peer.name);
        peer.control = Some(Control::new(number, stream, far, now));
        self.events.push(Event::Up(slot));
    }

    fn hand_over(&mut self, slot: Slot, lane: u8, stream: LaneStream) {
        if let Err(error) = stream.transport().tune(Lane::Bulk(lane)) {
            tracing::debug!("a bulk lane to slot {slot} cannot be set up: {error}");
        }
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        let connection = self.conns.draw();
        // The peer has connected it again before the end of the last one was seen.
        if peer.bulk.insert(lane, connection).is_some() {
            self.events.push(Event::BulkEnded(slot, lane));
        }
        self.events.push(Event::Bulk { peer: slot, lane, connection, stream });
    }

    /// Ends the connections to a peer, if there are any; they are made again.
    fn end(&mut self, slot: Slot, now: Duration) {
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        let Some(mut control) = peer.control.take() else { return };
        control.close();
        let ended = peer.ended(now);
        for number in ended.into_iter().chain([control.number()]) {
            self.conns.remove(number);
        }
        self.events.push(Event::Down(slot));
    }

    /// When the certificates have changed, the control lanes of peers end whose own is revoked.
    fn end_revoked(&mut self, now: Duration) {
        let Some(certificates) = &self.certificates else { return };
        if std::mem::replace(&mut self.generation, certificates.generation()) == self.generation {
            return;
        }
        let credentials = certificates.current();
        let fault = |(slot, peer): (&Slot, &Peer)| {
            let certified = peer.control.as_ref()?.certified()?;
            Some((*slot, credentials.revoked(certified)?))
        };
        let revoked: Vec<_> = self.peers.iter().filter_map(fault).collect();
        for (slot, fault) in revoked {
            self.broke(slot, &Broken::Certificate(fault), now);
        }
    }

    /// What a lane to a peer is encrypted with, if it is.
    fn credentials(&self, peer: &Peer, lane: Lane) -> Option<Arc<Credentials>> {
        let certificates = self.certificates.as_ref()?;
        let is_encrypted = self.local.encryption.is_needed(lane) || peer.wants_encryption;
        is_encrypted.then(|| certificates.current())
    }

    fn broke(&mut self, slot: Slot, broken: &Broken, now: Duration) {
        let name = self.peers.get(&slot).map_or("", |peer| peer.name.as_str());
        tracing::warn!("the connection to node {name} in slot {slot} ends: {broken}");
        self.end(slot, now);
    }

    /// Ends what is connected or being connected to a peer, and forgets it.
    fn forget(&mut self, slot: Slot, now: Duration) {
        self.end(slot, now);
        let Some(peer) = self.peers.remove(&slot) else { return };
        for (number, _) in peer.dials.values().filter_map(|dial| dial.greeting()) {
            self.conns.remove(number);
        }
    }

    fn drive_control(&mut self, slot: Slot, now: Duration, poll: &Poll) {
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        let Some(control) = &mut peer.control else { return };
        let events = &mut self.events;
        let driven =
            control.drive(now, poll, &mut |envelope| events.push(Event::Message(envelope)));
        if let Err(broken) = driven {
            self.broke(slot, &broken, now);
        }
    }

    /// Connects what is missing to a peer.
    fn dial(&mut self, slot: Slot, now: Duration, poll: &Poll) {
        let Some(peer) = self.peers.get(&slot) else { return };
        for lane in peer.wanted_lanes() {
            let Some(peer) = self.peers.get(&slot) else { return };
            let credentials = self.credentials(peer, lane);
            let Some(peer) = self.peers.get_mut(&slot) else { return };
            let dial = peer.dials.entry(lane).or_default();
            if dial.is_overdue(now) {
                self.drive_dial(slot, lane, now, poll);
                continue;
            }
            if !dial.is_due(now) {
                continue;
            }
            let address = dial.next_address(&peer.addresses);
            let purpose = Purpose { lane, node: Some(peer.start.uuid) };
            let number = self.conns.add(Conn::Dialed(slot, lane));
            match connect(address, &self.local, credentials, purpose, now).and_then(|greeting| {
                poll.add(greeting.stream(), number, Interest::ReadWrite)?;
                Ok(greeting)
            }) {
                Ok(greeting) => dial.begun(number, greeting),
                Err(error) => {
                    tracing::debug!("slot {slot} cannot be connected: {error}");
                    self.conns.remove(number);
                    dial.failed(now);
                }
            }
        }
    }

    fn drive_dial(&mut self, slot: Slot, lane: Lane, now: Duration, poll: &Poll) {
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        let Some(dial) = peer.dials.get_mut(&lane) else { return };
        let Some((number, _)) = dial.greeting() else { return };
        let driven = dial.drive(now);
        if let Some((_, greeting)) = dial.greeting() {
            let interest = Interest::writing(greeting.wants_write());
            // A connection that cannot be waited for ends at its deadline.
            let _ = poll.change(greeting.stream(), number, interest);
            return;
        }
        self.conns.remove(number);
        match driven {
            Ok(None) => {}
            Ok(Some(admitted)) => {
                let _ = poll.remove(&admitted.stream);
                if !peer.is(slot, &admitted.peer.node) {
                    tracing::debug!("the start of slot {slot} that answers is not the map's");
                    if let Some(dial) = peer.dials.get_mut(&lane) {
                        dial.failed(now);
                    }
                    return;
                }
                match lane {
                    Lane::Control => self.up(slot, admitted, now, poll),
                    Lane::Bulk(lane) => self.hand_over(slot, lane, admitted.stream),
                }
            }
            Err(error) => self.not_connected(slot, lane, &error),
        }
    }

    /// Says why a peer is not connected; loudly where an operator has to look at it.
    fn not_connected(&mut self, slot: Slot, lane: Lane, error: &Error) {
        let Some(peer) = self.peers.get_mut(&slot) else { return };
        let is_unencrypted = matches!(error, Error::RefusedByPeer(Refusal::Unencrypted));
        if is_unencrypted && lane != Lane::Control && self.certificates.is_some() {
            // It encrypts everything, and this node does not: the next try does.
            peer.wants_encryption = true;
            return;
        }
        let (name, text) = (&peer.name, error.to_string());
        if error.is_about_encryption() && self.told.is_news(name, &text) {
            let at = peer.addresses.join(", ");
            tracing::warn!("node {name} at {at} is not connected: {text}");
        } else {
            tracing::debug!("connecting to node {name} in slot {slot}: {text}");
        }
    }
}

/// Begins to connect.
fn connect(
    address: Option<&str>,
    local: &Arc<Local>,
    credentials: Option<Arc<Credentials>>,
    purpose: Purpose,
    now: Duration,
) -> io::Result<Greeting<LaneStream>> {
    let address = address.and_then(|address| address.parse().ok());
    let missing = || io::Error::new(io::ErrorKind::NotFound, "it has no address with a number");
    let stream = TcpStream::connect(address.ok_or_else(missing)?)?;
    let stream = match credentials {
        Some(credentials) => SecureStream::connect(stream, &credentials)?,
        None => SecureStream::plain(stream),
    };
    let nonce: Nonce = random()?;
    Ok(Greeting::connect(stream, local.clone(), purpose, nonce, now))
}

#[cfg(test)]
mod tests;
