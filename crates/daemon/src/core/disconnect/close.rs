//! Ending connections, sessions and their clients.

use std::os::fd::OwnedFd;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::message::{Failure, Reply};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge::{self, Mutation};
use plasmon_store::{ClientNo, Event};

use super::{DisconnectReason, RETURN_WITHIN, STARTER_GONE_LINGER, UNREAD_MAX};
use crate::core::Core;
use crate::core::requests::SLICE;
use crate::core::send::send;
use crate::peers::{FormerPeer, Peer};
use crate::poll::Source;
use crate::sessions::SessionNo;

impl Core {
    /// Ends a client that broke the protocol: it is told, if it listens, and counted.
    pub(in crate::core) fn expel(&mut self, client: ClientNo, number: u64, why: &str) {
        let pid = self.peers.get(client).map_or(0, |peer| peer.credentials.pid);
        tracing::warn!(?client, pid, why, "a client is expelled");
        self.departures.expelled_total += 1;
        self.dismiss(client, number, Failure::of(Code::BadRequest).with_detail(why));
    }

    /// Tells a client why, and disconnects it when the turn is over.
    pub(in crate::core) fn dismiss(&mut self, client: ClientNo, number: u64, failure: Failure) {
        self.reply(client, number, &Reply::Failed(failure), Vec::new());
        self.departures.clients.insert(client, DisconnectReason::Dismissed);
    }

    /// Whether nothing that this client says counts any more.
    pub(in crate::core) fn is_dismissed(&self, client: ClientNo) -> bool {
        self.departures.clients.get(&client) == Some(&DisconnectReason::Dismissed)
    }

    /// Disconnects a client that does not read from the daemon any more.
    pub(in crate::core) fn leave(&mut self, client: ClientNo) {
        self.departures.clients.entry(client).or_insert(DisconnectReason::Gone);
    }

    /// Ends the clients that must go, and those that turn out to be gone while others are notified,
    /// for as long as a turn may take.
    pub(in crate::core) fn part_leaving(&mut self) {
        let begun = edge::now();
        while let Some((client, reason)) = self.departures.clients.pop_first() {
            self.let_leave(client, reason);
            if edge::since(begun) >= SLICE {
                return;
            }
        }
    }

    /// Ends a client that is told why before anything else happens.
    pub(in crate::core) fn dismiss_now(&mut self, client: ClientNo, number: u64, failure: Failure) {
        self.dismiss(client, number, failure);
        if let Some(reason) = self.departures.clients.remove(&client) {
            self.let_leave(client, reason);
        }
    }

    fn let_leave(&mut self, client: ClientNo, reason: DisconnectReason) {
        if reason == DisconnectReason::Dismissed {
            self.flush_and_shut_down(client);
        }
        self.part(client);
        self.flush_all();
    }

    /// Sends a client what it is still to be told.
    fn flush_and_shut_down(&mut self, client: ClientNo) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        // A client that does not read is closed silently.
        let _ = send(peer, &mut self.passing);
        let uid = peer.credentials.uid;
        // Closing with messages unread would throw ours away, too.
        for _ in 0..UNREAD_MAX {
            let Some(peer) = self.peers.get(client) else { return };
            match peer.connection.recv(&mut self.inbox.message, false) {
                Ok(received) => {
                    let is_end = received.bytes == 0;
                    self.close_foreign(uid, received.fds);
                    if is_end {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Closes descriptors that a client passed, where it may take as long as it likes.
    pub(in crate::core) fn close_foreign(&mut self, uid: u32, fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            self.closer.close(uid, fds.len(), fds);
        }
    }

    /// Closes a connection with what lies in it unread.
    pub(in crate::core) fn close_connection(&mut self, uid: u32, connection: impl Send + 'static) {
        if self.refuses_descriptors {
            // There is nothing in it that could take long.
            drop(connection);
        } else {
            self.closer.end(uid, connection);
        }
    }

    /// Parts from a client, for good unless something is lent to it that it may be writing to. What
    /// it submitted before counts.
    pub(in crate::core) fn part(&mut self, client: ClientNo) {
        let session = self.shared().sessions.of_client(client);
        if let Some(session) = session {
            self.drain_ring(session, client);
        }
        match session {
            // Draining its ring may have ended it already, which is found there.
            Some(session) if self.may_be_writing(session, client) => {
                self.part_for_now(session, client)
            }
            _ => self.end_client(client),
        }
    }

    /// Whether memory is lent to a client that lives.
    fn may_be_writing(&self, session: SessionNo, client: ClientNo) -> bool {
        let session = self.store.directory().sessions.get(session);
        session.is_some_and(|session| !session.is_dead() && !session.has_left())
            && self.store.is_lent_to(client)
            && !edge::is_broken(Mutation::ForgetDetached)
    }

    /// The client may be writing, and may come back.
    fn part_for_now(&mut self, session: SessionNo, client: ClientNo) {
        // It may be away already.
        let Some(peer) = self.peers.part(client) else { return };
        self.close_peer(peer);
        self.unsent.remove(client);
        self.apply_event(Event::Part(client));
        self.shared().sessions.part(session);
        self.looks.begin(session, edge::now());
        self.arm_idle_exit();
    }

    fn end_client(&mut self, client: ClientNo) {
        let was_known = self.peers.is_known(client);
        match self.peers.remove(client) {
            // Draining its ring has ended it already.
            None => return,
            Some(FormerPeer::Peer(peer)) => self.close_peer(peer),
            Some(FormerPeer::Expected) => {}
        }
        self.unsent.remove(client);
        if was_known {
            self.apply_event(Event::Disconnect(client));
        }
        if let Some((session, doorbell)) = self.shared().sessions.disconnect(client) {
            self.rings.unwatch(session, doorbell.as_ref());
            self.outlive(session);
        }
        self.arm_idle_exit();
    }

    fn close_peer(&mut self, mut peer: Box<Peer>) {
        self.passing.received(peer.credentials.uid, &mut peer.unread);
        self.poll.remove(&peer.connection);
        let uid = peer.credentials.uid;
        if peer.outbox.is_empty() {
            self.close_connection(uid, peer);
        } else {
            // It may be the last that holds an extent, and freeing that takes a while.
            self.closer.end(uid, peer);
        }
    }

    /// Keeps a session while its process lives.
    pub(in crate::core) fn outlive(&mut self, session: SessionNo) {
        let is_over = |session: &crate::sessions::Session| session.is_dead() || session.has_left();
        let is_over = self.shared().sessions.get(session).is_some_and(is_over);
        if is_over || edge::is_broken(Mutation::ForgetDetached) {
            self.end_session(session);
            return;
        }
        self.looks.begin(session, edge::now());
        if let Some(surplus) = self.shared().sessions.surplus() {
            tracing::debug!(?surplus, "too many disconnected sessions: the oldest is dropped");
            self.end_session(surplus);
        }
    }

    /// A process ended, with or without its connection being closed: a child that it forked may
    /// still have that open.
    pub(in crate::core) fn process_ended(&mut self, no: SessionNo) {
        let Some(session) = self.shared().sessions.get(no) else { return };
        if !session.is_dead() || edge::is_broken(Mutation::IgnoreDeath) {
            return;
        }
        // What only that process had mapped is free now.
        self.dropped_extents.hurry(edge::now());
        match self.shared().sessions.get(no).and_then(|session| session.client) {
            // Parting notices that the process is dead and ends the session.
            Some(client) => self.leave(client),
            None => self.end_session(no),
        }
    }

    /// Forgets a session for good: its pins count no more, and its memory may be used.
    pub(in crate::core) fn end_session(&mut self, no: SessionNo) {
        if let Some(client) = self.shared().sessions.get(no).and_then(|session| session.client) {
            self.drain_ring(no, client);
            self.end_client(client);
        }
        self.forget_session(no);
    }

    /// Takes a session out of everything that knows it.
    pub(in crate::core) fn forget_session(&mut self, no: SessionNo) {
        let Some(session) = self.shared().sessions.remove(no) else { return };
        self.poll.remove(&session.process);
        self.shared().keeper.forget(&session.label());
        // Its channel may have megabytes, which take a while to unmap.
        self.closer.end(session.uid, session);
    }

    /// Watches the processes whose sessions were taken over.
    pub(in crate::core) fn watch_processes(&mut self) {
        for (no, session) in self.store.directory().sessions.iter() {
            // Its end is then noticed when the next session ends.
            if let Err(error) = self.poll.add(&session.process, Source::Process(no.0)) {
                tracing::error!(pid = session.pid, %error, "a client's process cannot be watched");
            }
        }
    }

    /// The process is gone that the store was started for: it ends after its last client.
    pub(in crate::core) fn starter_ended(&mut self) {
        if self.lifetime.starter.ended(&self.poll) {
            tracing::info!("the process that started this store has ended");
            self.arm_idle_exit();
        }
    }

    fn linger(&self) -> Duration {
        Duration::from_millis(self.config.linger_ms)
    }

    /// Starts to count the time without clients. The pool daemon is not a client: it ends with the
    /// store.
    pub(in crate::core) fn arm_idle_exit(&mut self) {
        let is_starter_gone = self.lifetime.starter.is_gone();
        let ends =
            self.config.end_with_last_client || self.lifetime.is_displaced || is_starter_gone;
        if !ends || self.peers.len() > usize::from(self.store.has_agent()) {
            return;
        }
        let linger = if is_starter_gone { STARTER_GONE_LINGER } else { self.linger() };
        // After a restart, every client that is still alive is about to reconnect.
        let taken_over = self.store.directory().control.epoch() > 1
            && self.clock.uptime_ms() < RETURN_WITHIN.as_millis() as u64
            && self.store.directory().sessions.iter().next().is_some();
        let wait = if taken_over { linger.max(RETURN_WITHIN) } else { linger };
        self.lifetime.idle_deadline = Deadline::after(wait).instant();
    }
}
