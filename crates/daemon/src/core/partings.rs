//! How clients, sessions and processes end.

use std::time::{Duration, Instant};

use plasmon_proto::Code;
use plasmon_proto::message::{Failure, Reply};
use plasmon_store::{ClientNo, Event};

use super::Core;
use crate::peers::Departed;
use crate::poll::Source;
use crate::sessions::SessionNo;

/// Messages that are read and thrown away from a connection that is going to be closed.
const UNREAD_MAX: usize = 64;

/// How long a restarted daemon waits for the clients that its predecessor had, at least.
const RETURN_WITHIN: Duration = Duration::from_secs(10);

impl Core {
    /// Ends a client that broke the protocol: it is told, if it listens, and counted.
    pub(super) fn expel(&mut self, client: ClientNo, number: u64, why: &str) {
        let pid = self.peers.get(client).map_or(0, |peer| peer.credentials.pid);
        tracing::warn!(?client, pid, why, "a client is expelled");
        self.expelled_total += 1;
        self.dismiss(client, number, Failure::of(Code::BadRequest).with_detail(why));
    }

    /// Tells a client why, then parts from it.
    pub(super) fn dismiss(&mut self, client: ClientNo, number: u64, failure: Failure) {
        self.reply(client, number, &Reply::Failed(failure), Vec::new());
        self.unsent.remove(&client);
        if let Some(peer) = self.peers.get_mut(client) {
            let connection = &peer.connection;
            // Who does not read is closed without a word.
            let _ = peer.outbox.flush(|bytes, fds| connection.try_send(bytes, fds));
            // Closing with messages unread would throw ours away, too.
            let mut unread = 0;
            while unread < UNREAD_MAX
                && connection.recv(&mut self.message, false).is_ok_and(|got| got.bytes > 0)
            {
                unread += 1;
            }
        }
        self.part(client);
    }

    /// Ends a client. What it submitted before counts; what it was creating ends.
    pub(super) fn part(&mut self, client: ClientNo) {
        if let Some(session) = self.shared().sessions.of_client(client) {
            self.drain_ring(session, client);
        }
        let was_known = self.peers.is_known(client);
        match self.peers.remove(client) {
            // Draining its ring has ended it already.
            None => return,
            Some(Departed::Peer(peer)) => self.poll.remove(&peer.connection),
            Some(Departed::Expected) => {}
        }
        self.unsent.remove(&client);
        if was_known {
            self.feed(Event::Disconnect(client));
        }
        if let Some((session, doorbell)) = self.shared().sessions.disconnect(client) {
            if let Some(doorbell) = doorbell {
                self.poll.remove(&doorbell);
            }
            self.outlive(session);
        }
        self.wait_for_company();
    }

    /// Keeps a session while its process lives.
    pub(super) fn outlive(&mut self, session: SessionNo) {
        if self.shared().sessions.get(session).is_some_and(|session| session.is_dead()) {
            self.end_session(session);
            return;
        }
        if let Some(surplus) = self.shared().sessions.surplus() {
            tracing::debug!(?surplus, "a session that lingered for long is forgotten");
            self.end_session(surplus);
        }
    }

    /// A process ended, with or without its connection being closed: a child that it forked may
    /// still have that open.
    pub(super) fn process_ended(&mut self, no: SessionNo) {
        let Some(session) = self.shared().sessions.get(no) else { return };
        if !session.is_dead() {
            return;
        }
        match session.client {
            // Parting notices that the process is dead and ends the session.
            Some(client) => self.part(client),
            None => self.end_session(no),
        }
    }

    /// Forgets a session for good: its pins count no more, and its memory may be used.
    pub(super) fn end_session(&mut self, no: SessionNo) {
        let token = self.shared().sessions.get(no).map(|session| session.token);
        self.forget_session(no);
        if let Some(token) = token {
            self.end_of_writer(token);
        }
    }

    /// Takes a session out of everything that knows it.
    pub(super) fn forget_session(&mut self, no: SessionNo) {
        let Some(session) = self.shared().sessions.remove(no) else { return };
        self.poll.remove(&session.process);
        self.shared().keeper.forget(&session.label());
    }

    /// Watches the processes whose sessions were taken over.
    pub(super) fn watch_processes(&mut self) {
        for (no, session) in self.store.directory().sessions.iter() {
            // Its end is then noticed when the next session parts from the daemon.
            if let Err(error) = self.poll.add(&session.process, Source::Process(no.0)) {
                tracing::error!(pid = session.pid, %error, "a client's process cannot be watched");
            }
        }
    }

    /// Starts to count the time without clients.
    pub(super) fn wait_for_company(&mut self) {
        if !self.config.end_with_last_client || !self.peers.is_empty() {
            return;
        }
        let linger = Duration::from_millis(self.config.linger_ms);
        // After a restart, everybody who is still alive is about to come back.
        let taken_over = self.store.directory().control.epoch() > 1
            && self.clock.uptime_ms() < RETURN_WITHIN.as_millis() as u64
            && self.store.directory().sessions.iter().next().is_some();
        let wait = if taken_over { linger.max(RETURN_WITHIN) } else { linger };
        self.lonely_until = Some(Instant::now() + wait);
    }
}
