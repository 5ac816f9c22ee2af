//! How a connection becomes a client.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use plasmon_proto::Code;
use plasmon_proto::limits::{CLIENT_NAME_BYTES_MAX, CLIENTS_MAX};
use plasmon_proto::message::{
    Access, Failure, Hello, IndexTable, MissingClaims, PROTOCOL_VERSION, Reply, Welcome,
};
use plasmon_proto::object::Level;
use plasmon_shm::pidfd::is_same_process;
use plasmon_shm::socket::{BindError, Peer as Credentials};
use plasmon_shm::{ChannelDaemon, Connection, Doorbell, edge};
use plasmon_store::event::Peer as StorePeer;
use plasmon_store::{ClientNo, Event};

use super::Core;
use super::send::{UNASKED, encode};
use super::submissions::range_is_aligned;
use crate::acceptor::AcceptOutcome;
use crate::closer::CLOSING_PER_USER_MAX;
use crate::connection_limits::{HELLO_WITHIN, NoRoom, UNIDENTIFIED_PER_USER_MAX};
use crate::descriptors_in_flight::UnreadDescriptors;
use crate::directory::SharedTables;
use crate::outbox::{Outbox, PassedDescriptor};
use crate::peers::{Peer, Stage};
use crate::poll::{Interest, Source};
use crate::sessions::{DETACHED_MAX, Session, SessionNo, writer_mark};
use plasmon_keeper::Label;

/// Messages that are read and thrown away from a connection that is refused: more than a
/// socket holds.
const TURNED_AWAY_UNREAD_MAX: usize = 512;

/// Connections accepted before others are looked at again.
const ACCEPTED_AT_ONCE: usize = 64;

/// The session that a hello leads to.
struct Entrance {
    session: SessionNo,
    resumed: bool,
    fds: Vec<PassedDescriptor>,
    doorbell: Option<Doorbell>,
}

impl Core {
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.acceptor.answer() {
                AcceptOutcome::Connection(connection) => self.greet(connection),
                AcceptOutcome::NoRoom(connection) => {
                    self.turn_away(connection, &out_of_descriptors());
                    self.acceptor.restock();
                }
                AcceptOutcome::None => return,
                AcceptOutcome::Failed(error) => {
                    tracing::warn!(%error, "no connection can be accepted for now");
                    self.poll.remove(&self.acceptor);
                    self.acceptor.pause();
                    return;
                }
            }
        }
    }

    /// Listens again where clients look for the store: the socket's file was removed.
    pub(super) fn take_name_again(&mut self) {
        // Those who came before.
        self.accept();
        let path = self.config.socket.display().to_string();
        self.poll.remove(&self.acceptor);
        match self.acceptor.take_name_again() {
            Ok(()) => {
                tracing::warn!(path, "the socket file was removed and has been created again");
                self.lifetime.is_displaced = false;
                self.refuses_descriptors &= self.acceptor.listener().refuse_descriptors();
                let Self { store, acceptor, .. } = self;
                let listener = acceptor.listener();
                let fds: Vec<_> =
                    std::iter::once(listener.as_fd()).chain(listener.lock()).collect();
                store.directory_mut().keeper.hold(&Label::Listener, &fds);
            }
            Err(error @ BindError::AlreadyRunning { .. }) if !self.lifetime.is_displaced => {
                tracing::error!(%error, "the socket file was removed and another daemon serves the \
                    socket; this daemon ends after its last client");
                self.lifetime.is_displaced = true;
                self.arm_idle_exit();
            }
            Err(BindError::AlreadyRunning { .. }) => {}
            Err(error) => {
                tracing::error!(%error, "the socket file was removed; new clients cannot connect");
            }
        }
        if self.acceptor.paused_until().is_none()
            && let Err(error) = self.poll.add(&self.acceptor, Source::Listener)
        {
            tracing::error!(%error, "the listener cannot be watched");
            self.acceptor.pause();
        }
    }

    /// Lets a connection in until it says hello. Nothing is read from a user who is not admitted.
    fn greet(&mut self, connection: Connection) {
        let prepared = connection.set_nonblocking(true).and_then(|()| connection.peer());
        let credentials = match prepared {
            Ok(credentials) => credentials,
            Err(error) => {
                tracing::info!(%error, "a connection closed before it was accepted");
                return self.close_connection(u32::MAX, connection);
            }
        };
        if let Err(failure) = self.room_for(&credentials) {
            return self.turn_away(connection, &failure);
        }
        if let Some(unidentified) = self.peers.surplus_unidentified(credentials.uid) {
            let detail = "too many connections of this user have not sent a hello";
            let failure = Failure::of(Code::LimitReached)
                .with_amounts(
                    UNIDENTIFIED_PER_USER_MAX as u64 + 1,
                    UNIDENTIFIED_PER_USER_MAX as u64,
                )
                .with_detail(detail);
            // Now, because others may come before the turn is over.
            self.dismiss_now(unidentified, UNASKED, failure);
        }
        let client = self.peers.insert(Peer {
            connection,
            credentials,
            stage: Stage::Handshake(edge::now() + HELLO_WITHIN),
            name: String::new(),
            access: Access::ReadOnly,
            outbox: Outbox::new(&self.budget),
            unread: UnreadDescriptors::default(),
            interest: Interest { readable: true, writable: false },
            is_asking: false,
            question: None,
        });
        let watched = self
            .peers
            .get(client)
            .map(|peer| self.poll.add(&peer.connection, Source::Peer(client.0)));
        if let Some(Err(error)) = watched {
            tracing::warn!(%error, "a connection cannot be watched");
            self.part(client);
        }
        self.lifetime.idle_deadline = None;
    }

    /// Whether a user may have one more connection.
    fn room_for(&self, credentials: &Credentials) -> Result<(), Failure> {
        let uid = credentials.uid;
        self.access_of(uid)?;
        if self.closer.is_full(uid) {
            let detail = "descriptors from earlier connections of this user are still being \
                          closed; try again";
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(CLOSING_PER_USER_MAX as u64 + 1, CLOSING_PER_USER_MAX as u64)
                .with_detail(detail));
        }
        let Err(no_room) = self.peers.has_room_for(credentials) else { return Ok(()) };
        let (most, detail) = match no_room {
            NoRoom::Full => (CLIENTS_MAX, "the store has the maximum number of clients".to_owned()),
            NoRoom::User(count) => {
                let limit = "the setting connections_per_user_max allows no more";
                (count, format!("too many connections of this user: it has {count}, and {limit}"))
            }
            NoRoom::Process(count) => {
                let limit = "the setting connections_per_process_max allows no more";
                let whose = format!("this process (pid {})", credentials.pid);
                (count, format!("too many connections of {whose}: it has {count}, and {limit}"))
            }
        };
        let failure = Failure::of(Code::LimitReached);
        Err(failure.with_amounts(most as u64 + 1, most as u64).with_detail(detail))
    }

    /// Closes a connection that is no client yet, and says why.
    fn turn_away(&mut self, connection: Connection, failure: &Failure) {
        if let Ok(bytes) = encode(UNASKED, &Reply::Failed(failure.clone())) {
            // It is closed in any case; without the reason the client sees only that.
            let _ = connection.try_send(&bytes, &[]);
        }
        // From here on nothing more arrives. What has arrived is thrown away with the connection,
        // and the answer with it, unless it is read.
        let _ = connection.shutdown();
        let uid = connection.peer().map_or(u32::MAX, |peer| peer.uid);
        for _ in 0..TURNED_AWAY_UNREAD_MAX {
            match connection.recv(&mut self.inbox.message, false) {
                Ok(received) if received.bytes > 0 => self.close_foreign(uid, received.fds),
                Ok(_) | Err(_) => break,
            }
        }
        self.close_connection(uid, connection);
    }

    /// Parts from connections that have not said hello in time.
    pub(super) fn drop_unidentified(&mut self, now: Instant) {
        while let Some(client) = self.peers.late(now) {
            let failure =
                Failure::of(Code::TimedOut).with_detail("the client sent no hello in time");
            self.dismiss_now(client, UNASKED, failure);
        }
    }

    /// Answers the first message of a client.
    pub(super) fn hello(&mut self, client: ClientNo, number: u64, hello: Hello) {
        if let Err(failure) = self.welcome(client, number, hello) {
            self.dismiss(client, number, failure);
        }
    }

    fn welcome(&mut self, client: ClientNo, number: u64, hello: Hello) -> Result<(), Failure> {
        let access = self.admit(client, &hello)?;
        let Hello { name, channel, resume, .. } = hello;
        let (token, mut leases, mut creating) = match resume {
            Some(resume) => (Some(resume.token), resume.leases, resume.creating),
            None => (None, Vec::new(), Vec::new()),
        };
        leases.retain(range_is_aligned);
        creating.retain(|object| range_is_aligned(&object.range));
        let entrance = self.enter(client, access, channel, token)?;
        let expected = self.take_expected(client, entrance.session);
        let client = expected.unwrap_or(client);
        let Some(peer) = self.peers.get_mut(client) else { return Ok(()) };
        peer.stage = Stage::Ready;
        peer.access = access;
        peer.name.clone_from(&name);
        let (pid, uid) = (peer.credentials.pid, peer.credentials.uid);
        let mut welcome = self.welcome_of(client, &entrance, access);
        let sessions = &mut self.store.directory_mut().sessions;
        // One that was away has the doorbell of its earlier connection.
        let doorbell = sessions.get_mut(entrance.session).and_then(|found| found.doorbell.take());
        self.rings.unwatch(entrance.session, doorbell.as_ref());
        sessions.connect(entrance.session, client, entrance.doorbell);
        self.rings.rest(entrance.session, sessions);
        if expected.is_none() {
            let session = writer_mark(welcome.token);
            let peer = StorePeer { pid, uid, name, access, channel, session };
            self.apply_event(Event::Connect(client, peer));
        }
        if entrance.resumed {
            // The ring first: what it holds was put into leases that the client still had then.
            self.drain_ring(entrance.session, client);
            self.apply_event(Event::Resume(client, leases, creating));
            welcome.lost = self.lost.remove(&client).unwrap_or_default();
        }
        self.reply(client, number, &Reply::Welcome(welcome), entrance.fds);
        Ok(())
    }

    /// Moves a client that was expected back to the number by which the store knows it.
    fn take_expected(&mut self, client: ClientNo, session: SessionNo) -> Option<ClientNo> {
        let expected = self.shared().sessions.get(session)?.client?;
        if !self.peers.move_to_expected(client, expected) {
            return None;
        }
        let peer = self.peers.get(expected)?;
        let source = Source::Peer(expected.0);
        if let Err(error) = self.poll.change(&peer.connection, source, peer.interest) {
            // Its messages would be taken for another client's, which finds nothing to read.
            tracing::error!(%error, "a client that reconnected cannot be watched");
        }
        Some(expected)
    }

    /// What a user may do here.
    fn access_of(&self, uid: u32) -> Result<Access, Failure> {
        self.config.access_of(uid, self.owner_uid).ok_or_else(|| {
            let detail = format!("user {uid} is not admitted to this store");
            Failure::of(Code::NotPermitted).with_detail(detail)
        })
    }

    /// What the client may do here, if its hello is right.
    fn admit(&self, client: ClientNo, hello: &Hello) -> Result<Access, Failure> {
        let uid = self.peers.get(client).map_or(u32::MAX, |peer| peer.credentials.uid);
        let access = self.access_of(uid)?;
        if hello.version != PROTOCOL_VERSION {
            return Err(Failure::of(Code::VersionMismatch)
                .with_amounts(PROTOCOL_VERSION.into(), hello.version.into())
                .with_detail(format!(
                    "the store speaks version {PROTOCOL_VERSION}, the client {}",
                    hello.version
                )));
        }
        if hello.name.len() > CLIENT_NAME_BYTES_MAX {
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(hello.name.len() as u64, CLIENT_NAME_BYTES_MAX as u64)
                .with_detail("the client's name is too long"));
        }
        Ok(access)
    }

    /// Finds or makes the session of a client, with the descriptors that it is sent. Nothing has
    /// changed when it fails.
    fn enter(
        &mut self,
        client: ClientNo,
        access: Access,
        channel: bool,
        token: Option<u64>,
    ) -> Result<Entrance, Failure> {
        let earlier = token.and_then(|token| self.resumable(client, channel, token));
        let doorbell = if channel { Some(Doorbell::new().map_err(io_failure)?) } else { None };
        let shared = self.store.directory();
        let mut fds = vec![
            shared.control.memfd().read_only().map_err(io_failure)?,
            shared.index.table.memfd().read_only().map_err(io_failure)?,
        ];
        let session = match earlier {
            Some(session) => session,
            None => {
                let made = self.new_session(client, access, channel)?;
                self.shared().sessions.insert(made)
            }
        };
        let descriptors = self.channel_descriptors(session, doorbell.as_ref(), &mut fds);
        let watched = descriptors.and_then(|()| match &doorbell {
            Some(doorbell) => self.rings.watch(doorbell, session),
            None => Ok(()),
        });
        if let Err(error) = watched {
            if earlier.is_none() {
                self.forget_session(session);
            }
            return Err(io_failure(error));
        }
        let fds = fds.into_iter().map(PassedDescriptor::Made).collect();
        Ok(Entrance { session, resumed: earlier.is_some(), fds, doorbell })
    }

    /// The session that a client may take up again. Only the very process that it belongs to may.
    fn resumable(&mut self, client: ClientNo, channel: bool, token: u64) -> Option<SessionNo> {
        let found = self.peers.get(client)?.credentials;
        let sessions = &self.store.directory().sessions;
        let no = sessions.of_token(token)?;
        let session = sessions.get(no)?;
        // Without numbers two processes of different containers look alike.
        let is_certain = found.pid != 0
            || self.peers.get(client).is_some_and(|peer| {
                let process = peer.connection.process().ok();
                process.is_some_and(|it| is_same_process(&session.process, it) == Some(true))
            });
        let same = (session.pid, session.uid) == (found.pid, found.uid) && is_certain;
        if !same || session.is_abandoned || session.channel.is_some() != channel {
            return None;
        }
        // Its old connection may not have been noticed as closed yet.
        if let Some(old) = session.client.filter(|old| self.peers.get(*old).is_some()) {
            self.part(old);
        }
        self.shared().sessions.get(no).map(|_| no)
    }

    fn new_session(
        &mut self,
        client: ClientNo,
        access: Access,
        channel: bool,
    ) -> Result<Session, Failure> {
        let Some(peer) = self.peers.get(client) else {
            return Err(Failure::of(Code::Disconnected));
        };
        let (pid, uid) = (peer.credentials.pid, peer.credentials.uid);
        let left = self.store.directory().sessions.left_holding_by(pid, uid);
        if left >= DETACHED_MAX {
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(left as u64 + 1, DETACHED_MAX as u64)
                .with_detail(format!(
                    "{left} earlier connections of process {pid} ended and still pin objects or \
                     may write: release these, or end the process"
                )));
        }
        let process = peer.connection.process().map_err(io_failure)?;
        let process = process.as_fd().try_clone_to_owned().map_err(io_failure)?;
        let channel =
            if channel { Some(ChannelDaemon::create().map_err(io_failure)?) } else { None };
        let token = self.new_token()?;
        Ok(Session {
            token,
            pid,
            uid,
            access,
            process,
            channel,
            lost_channel: None,
            doorbell: None,
            client: None,
            is_deaf: false,
            is_abandoned: false,
        })
    }

    /// A token that cannot be guessed and is not in use.
    fn new_token(&self) -> Result<u64, Failure> {
        loop {
            let token = crate::random_word().map_err(io_failure)?;
            if token != 0 && self.store.directory().sessions.of_token(token).is_none() {
                return Ok(token);
            }
        }
    }

    /// The descriptors of a client's channel; a session that is new is watched and held from here
    /// on.
    fn channel_descriptors(
        &mut self,
        no: SessionNo,
        doorbell: Option<&Doorbell>,
        fds: &mut Vec<OwnedFd>,
    ) -> io::Result<()> {
        let level = self.config.level;
        let has_page = |session: &Session| has_wake_page(session, self.owner_uid, level);
        let SharedTables { sessions, keeper, wakes, .. } = self.store.directory_mut();
        let session = sessions.get(no).ok_or(io::ErrorKind::NotFound)?;
        if let (Some(channel), Some(doorbell)) = (&session.channel, doorbell) {
            fds.push(channel.memfd().writable()?);
            fds.push(doorbell.duplicate()?);
        }
        if has_page(session) {
            fds.push(wakes.writable()?);
        }
        // A session that is resumed is watched and held already.
        match self.poll.add(&session.process, Source::Process(no.0)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                keeper.hold(&session.label(), &session.held());
                Ok(())
            }
        }
    }

    fn welcome_of(&self, client: ClientNo, entrance: &Entrance, access: Access) -> Welcome {
        let shared = self.store.directory();
        let session = shared.sessions.get(entrance.session);
        Welcome {
            client: client.0,
            token: session.map_or(0, |session| session.token),
            store: self.keeping.store_token,
            epoch: shared.control.epoch(),
            resumed: entrance.resumed,
            lost: MissingClaims::default(),
            channel: session.is_some_and(|session| session.channel.is_some()),
            wake_page: session
                .is_some_and(|found| has_wake_page(found, self.owner_uid, self.config.level)),
            access,
            level: self.config.level,
            capacity_bytes: self.config.capacity_bytes,
            durable: self.config.durable.is_some(),
            log_closed: self.store.awaits_log(),
            index: IndexTable {
                number: shared.index.table.number(),
                slots: shared.index.table.slots() as u64,
            },
        }
    }
}

/// Whether this client and the others that get the page could trace each other anyway.
fn has_wake_page(session: &Session, owner_uid: u32, level: Level) -> bool {
    let is_owners = session.uid == owner_uid && session.access == Access::ReadWrite;
    session.channel.is_some() && is_owners && level == Level::Shared
}

fn out_of_descriptors() -> Failure {
    Failure::of(Code::OutOfDescriptors).with_detail("the daemon has no free file descriptors")
}

/// What a failed system call means to the client that caused it.
pub(super) fn io_failure(error: io::Error) -> Failure {
    use rustix::io::Errno;

    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => out_of_descriptors(),
        _ => Failure::of(Code::Io).with_detail(error.to_string()),
    }
}
