//! Requests over the socket: those about the daemon are answered here, the others go to
//! the store.

use std::io;
use std::time::Duration;

use plasmon_proto::extent::ExtentId;
use plasmon_proto::frame;
use plasmon_proto::limits::PINS_PER_CLIENT_MAX;
use plasmon_proto::message::{Access, ClientInfo, Failure, IndexTable, Reply, Request};
use plasmon_proto::object::Level;
use plasmon_proto::request::{Class, Cost};
use plasmon_proto::ring::Put;
use plasmon_proto::status::Status;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::edge::{self, Mutation};
use plasmon_store::event::{GrownSeal, SealLanded, SealTarget};
use plasmon_store::{ClientNo, Event};

use super::Core;
use super::handshake::io_failure;
use crate::outbox::PassedDescriptor;
use crate::peers::{Question, Stage};
use crate::poll::Interest;
use crate::sessions::writer_mark;

/// Requests that were read and are not answered, one of a client at most.
const QUESTIONS_MAX: usize = 64;

/// For how long a turn of the loop answers requests, or disconnects clients: after the first that
/// takes it beyond that, the others wait for the next turn.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// Clients in one page of a listing; each takes at most some 150 bytes.
const CLIENTS_PAGE_MAX: usize = 256;

/// Entries of ledgers after which a page ends: to look through those of one client may take a
/// millisecond.
const ENTRIES_PAGE_MAX: usize = PINS_PER_CLIENT_MAX;

impl Core {
    /// Has a client's socket be read.
    pub(super) fn queue(&mut self, client: ClientNo) {
        if let Some(peer) = self.peers.get_mut(client)
            && !peer.is_asking
        {
            peer.is_asking = true;
            self.inbox.asking.push_back(client);
        }
    }

    /// Reads one request each of clients that sent something. It is answered after the next pass
    /// over the rings: what any client submitted before the question was asked counts for its
    /// answer.
    pub(super) fn read_requests(&mut self) {
        for _ in 0..self.inbox.asking.len() {
            if self.inbox.questions.len() >= QUESTIONS_MAX {
                return;
            }
            let Some(client) = self.inbox.asking.pop_front() else { return };
            if let Some(peer) = self.peers.get_mut(client) {
                peer.is_asking = false;
                self.read_request(client);
            }
        }
    }

    fn read_request(&mut self, client: ClientNo) {
        let Some(peer) = self.peers.get(client) else { return };
        if peer.question.is_some() || self.departures.contains(client) {
            return;
        }
        if peer.outbox.is_full() {
            // It should read some answers first. Its questions wait in the socket.
            let interest = Interest { readable: false, ..peer.interest };
            self.set_interest(client, interest);
            self.unsent.insert(client);
            return;
        }
        let received = match peer.connection.recv(&mut self.inbox.message, false) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                tracing::debug!(?client, %error, "a connection broke");
                return self.leave(client);
            }
        };
        if !received.fds.is_empty() {
            let uid = peer.credentials.uid;
            self.close_foreign(uid, received.fds);
            return self.expel(client, 0, "it sent descriptors that the daemon did not ask for");
        }
        if received.truncated {
            return self.expel(client, 0, "it sent a message that is longer than a frame may be");
        }
        if received.bytes == 0 {
            return self.leave(client);
        }
        match frame::decode_request(&self.inbox.message) {
            Ok((number, request)) => self.note_question(client, number, request),
            Err(error) => self.expel(client, 0, &error.to_string()),
        }
    }

    fn note_question(&mut self, client: ClientNo, number: u64, request: Request) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        peer.question = Some(Question { number, request, pass: self.passes.next() });
        if edge::is_broken(Mutation::AnswerBeforeDraining) {
            return self.answer(client);
        }
        self.passes.ring();
        self.inbox.questions.push_back(client);
    }

    /// Answers the questions that waited for the rings, for as long as a turn may take.
    pub(super) fn answer_questions(&mut self) {
        let begun = edge::now();
        while let Some(client) = self.inbox.questions.front().copied() {
            let question = self.peers.get(client).and_then(|peer| peer.question.as_ref());
            if question.is_some_and(|question| !self.passes.is_over(question.pass)) {
                // Those after it were read later.
                return;
            }
            self.inbox.questions.pop_front();
            self.answer(client);
            if edge::since(begun) >= SLICE {
                return;
            }
        }
    }

    fn answer(&mut self, client: ClientNo) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        // Without one, the number is another connection's by now.
        let Some(Question { number, request, .. }) = peer.question.take() else { return };
        let stage = peer.stage;
        if self.departures.contains(client) {
            return;
        }
        match (stage, request) {
            (Stage::Handshake(_), Request::Hello(hello)) => self.hello(client, number, hello),
            (Stage::Handshake(_), _) => {
                self.expel(client, number, "its first message is not a hello")
            }
            (Stage::Ready, Request::Hello(_)) => {
                self.expel(client, number, "it sent a second hello")
            }
            (Stage::Ready, request) => self.ask(client, number, request),
        }
    }

    fn ask(&mut self, client: ClientNo, number: u64, request: Request) {
        if let Err(failure) = request.check() {
            return self.fail(client, number, failure);
        }
        if request.class() == Class::Owner && !self.is_owner(client) {
            return self.fail(client, number, Failure::of(Code::NotPermitted));
        }
        match request {
            Request::Index => self.send_index(client, number),
            Request::Slot { id } => {
                let place = self.store.directory().index.place(&id);
                self.reply(client, number, &Reply::Slot(place), Vec::new());
            }
            Request::Extents { extents, write } => {
                self.send_extents(client, number, &extents, write);
            }
            Request::Clients { skip } => {
                let page = Reply::Clients(self.clients_page(skip as usize));
                self.reply(client, number, &page, Vec::new());
            }
            // The rings were drained just now.
            Request::Sync => self.reply(client, number, &Reply::Done, Vec::new()),
            Request::Shutdown => self.shut_down(client, number),
            Request::ShutdownUnused => match self.need() {
                None => self.shut_down(client, number),
                Some(need) => {
                    self.fail(client, number, Failure::of(Code::InUse).with_detail(need));
                }
            },
            Request::Agent { token, slot } => self.give_seat(client, number, token, slot),
            Request::SealLanded { id, birth, visible, keep } => {
                self.seal_landed(client, number, SealLanded { id, birth, visible, keep });
            }
            Request::Seal { id } => self.seal(client, number, SealTarget { id, target: id }),
            Request::Replace { id, target } => self.seal(client, number, SealTarget { id, target }),
            Request::PutDurable { id, target, placement, sizes, traits } => {
                let put = Put { id, placement, sizes, traits };
                self.put_durable(client, number, put, target);
            }
            Request::SealGrownPooled { id, target, data, attributes } => {
                let sealing = GrownSeal { id, target, data, attributes };
                self.seal_grown(client, number, sealing);
            }
            Request::SealGrown { id, .. } if !self.store.directory().index.has_room() => {
                self.fail(client, number, no_index(id));
            }
            request => {
                if request.cost() == Cost::Memory {
                    self.collect_touches(Some(client));
                }
                if request == Request::Unsubscribe
                    && let Some(peer) = self.peers.get_mut(client)
                {
                    peer.outbox.forget_notices();
                }
                self.apply_event(Event::Request(client, number, request));
            }
        }
    }

    pub(super) fn fail(&mut self, client: ClientNo, number: u64, failure: Failure) {
        self.reply(client, number, &Reply::Failed(failure), Vec::new());
    }

    fn send_index(&mut self, client: ClientNo, number: u64) {
        let table = &self.store.directory().index.table;
        let reply = IndexTable { number: table.number(), slots: table.slots() as u64 };
        match table.memfd().read_only() {
            Ok(fd) => {
                self.reply(client, number, &Reply::Index(reply), vec![PassedDescriptor::Made(fd)])
            }
            Err(error) => self.fail(client, number, io_failure(error)),
        }
    }

    fn send_extents(&mut self, client: ClientNo, number: u64, extents: &[ExtentId], write: bool) {
        if write && let Err(failure) = self.may_write(client, extents) {
            return self.fail(client, number, failure);
        }
        let (mut sizes, mut fds) = (Vec::new(), Vec::new());
        for extent in extents {
            match self.extents.descriptor(*extent, write) {
                Ok(Some((bytes, fd))) => {
                    self.note_recipient(client, *extent);
                    sizes.push(Some(bytes));
                    fds.push(fd);
                }
                Ok(None) => sizes.push(None),
                Err(error) => return self.fail(client, number, io_failure(error)),
            }
        }
        self.reply(client, number, &Reply::Extents(sizes), fds);
    }

    /// Where memory stays as long as a process has it mapped: this client may, from now on.
    pub(super) fn note_recipient(&mut self, client: ClientNo, extent: ExtentId) {
        if self.config.level != Level::Shared
            && let Some(session) = self.store.directory().sessions.of_client(client)
        {
            self.extents.note_recipient(extent, session);
        }
    }

    /// Only an extent's present writer gets it for writing.
    fn may_write(&self, client: ClientNo, extents: &[ExtentId]) -> Result<(), Failure> {
        if self.peers.get(client).is_none_or(|peer| peer.access == Access::ReadOnly) {
            return Err(Failure::of(Code::NotPermitted));
        }
        let shared = self.store.directory();
        let session = shared.sessions.of_client(client).and_then(|no| shared.sessions.get(no));
        let token = session.map_or(0, |session| session.token);
        let foreign = extents.iter().find(|extent| {
            self.extents.get(**extent).is_some()
                && (token == 0 || shared.control.writer(**extent) != Some(writer_mark(token)))
        });
        match foreign {
            None => Ok(()),
            Some(extent) => Err(Failure::of(Code::NotOwner)
                .with_detail(format!("extent {:#x} is leased to another client", extent.0))),
        }
    }

    fn clients_page(&self, skip: usize) -> Vec<ClientInfo> {
        let shared = self.store.directory();
        let mut looked = 0;
        let mut page = Vec::new();
        for (client, peer) in self.peers.ready().skip(skip).take(CLIENTS_PAGE_MAX) {
            let session = shared.sessions.of_client(client).and_then(|no| shared.sessions.get(no));
            let channel = session.and_then(|session| session.channel.as_ref());
            let (pins, entries) = channel.map_or((0, 0), |channel| channel.count_pins());
            let mut info = ClientInfo {
                client: client.0,
                name: peer.name.clone(),
                pid: peer.credentials.pid,
                uid: peer.credentials.uid,
                access: peer.access,
                pins: pins as u32,
                owned_bytes: 0,
                quota_bytes: 0,
                subscribed: false,
            };
            self.store.client_into(client, &mut info);
            page.push(info);
            looked += entries;
            if looked >= ENTRIES_PAGE_MAX {
                break;
            }
        }
        page
    }

    /// Whether the client belongs to the user who owns the store.
    fn is_owner(&self, client: ClientNo) -> bool {
        self.peers.get(client).is_some_and(|peer| peer.credentials.uid == self.owner_uid)
    }

    fn shut_down(&mut self, client: ClientNo, number: u64) {
        tracing::info!(?client, "stopping at a client's request");
        self.reply(client, number, &Reply::Done, Vec::new());
        self.lifetime.is_stopping = true;
    }

    /// What this daemon is needed for, in words; `None` when it could end without a loss.
    fn need(&self) -> Option<String> {
        let ends = self.config.end_with_last_client;
        let mut status = Status::default();
        self.store.status_into(&mut status);
        let held = status.objects + status.creating + status.spilled;
        let clients = self.peers.ready().count().saturating_sub(1);
        match (ends, held, clients) {
            (false, ..) => Some("it was started with `plasmon start`".to_owned()),
            (_, 0, 0) => None,
            (_, 0, clients) => Some(format!("it has other clients: {clients}")),
            (_, held, _) => Some(format!("it holds objects: {held}")),
        }
    }

    /// Seals an object that was created over the socket; its attributes lie in memory by now.
    fn seal(&mut self, client: ClientNo, number: u64, sealing: SealTarget) {
        let id = sealing.id;
        if !self.store.directory().index.has_room() {
            return self.fail(client, number, no_index(id));
        }
        let attributes = match self.store.creating(client, &id) {
            Some((range, _)) if !self.is_protected(client, &range) => return,
            Some((range, sizes)) => self.extents.attributes(range.placement(), &sizes),
            None => None,
        };
        self.apply_event(Event::Seal(client, number, sealing, attributes));
    }
}

impl Core {
    /// Seals an object that grew as one of the pool; its attributes lie after its data by now.
    fn seal_grown(&mut self, client: ClientNo, number: u64, sealing: GrownSeal) {
        if !self.store.directory().index.has_room() {
            return self.fail(client, number, no_index(sealing.id));
        }
        let attributes = match self.store.creating(client, &sealing.id) {
            Some((range, _)) => self.extents.attributes_of_growing(range.extent, &sealing.sizes()),
            None => None,
        };
        self.apply_event(Event::SealGrown(client, number, sealing, attributes));
    }
}

/// Nothing can be sealed for now.
pub(super) fn no_index(id: ObjectId) -> Failure {
    let detail = "there is no memory for a larger index";
    Failure::of(Code::LimitReached).with_id(id).with_detail(detail)
}
