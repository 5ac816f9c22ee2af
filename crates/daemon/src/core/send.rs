//! Sending clients what waits for them.

use std::io;

use plasmon_proto::Code;
use plasmon_proto::message::{Failure, Reply};
use plasmon_shm::edge;
use plasmon_store::ClientNo;
use rustix::io::Errno;

use super::Core;
use crate::descriptors_in_flight::{ASKED_AT_ONCE, DescriptorsInFlight};
use crate::outbox::{OutgoingFrame, PassedDescriptor, SendOutcome};
use crate::peers::Peer;
use crate::poll::{Interest, Source};

/// The request number of an answer to a connection that has not asked anything yet.
pub(super) const UNASKED: u64 = 0;

impl Core {
    /// Queues a reply for a client that is still there.
    pub(super) fn reply(
        &mut self,
        client: ClientNo,
        number: u64,
        reply: &Reply,
        fds: Vec<PassedDescriptor>,
    ) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        match encode(number, reply) {
            Ok(bytes) => peer.outbox.push(OutgoingFrame { bytes, fds }),
            Err(error) => {
                tracing::error!(%error, "a reply cannot be encoded");
                return;
            }
        }
        self.unsent.insert(client);
    }

    pub(super) fn flush_all(&mut self) {
        while let Some(client) = self.unsent.pop_first() {
            // The receiver was asleep, and may need the very core that polling would keep: yielding
            // does not give it away on every kernel.
            self.spinning.stop();
            self.flush(client);
        }
    }

    fn flush(&mut self, client: ClientNo) {
        self.make_way_for(client);
        let Some(peer) = self.peers.get_mut(client) else { return };
        let sent = send(peer, &mut self.passing);
        let is_full = peer.outbox.is_full();
        self.shared().sessions.sound_mail(client);
        match sent {
            Ok(sent) => {
                if sent == SendOutcome::Later {
                    self.unsent.put_off(client, edge::now());
                }
                let interest =
                    Interest { readable: !is_full, writable: sent == SendOutcome::Blocked };
                self.set_interest(client, interest);
                self.note_sent(client);
            }
            Err(error) => {
                tracing::debug!(?client, %error, "a reply cannot be sent to a client");
                self.leave(client);
            }
        }
    }

    /// Looks which clients have received what they were sent, where too much of it is on its way to
    /// pass this client what it is to have. One that leaves it there for long ends.
    fn make_way_for(&mut self, client: ClientNo) {
        let Some(peer) = self.peers.get(client) else { return };
        if self.passing.has_common_room_for(peer.credentials.uid, peer.outbox.next_fds()) {
            return;
        }
        let now = edge::now();
        for other in self.peers.next_unread(self.passing.next, ASKED_AT_ONCE) {
            self.passing.next = other.0 + 1;
            let Some(peer) = self.peers.get_mut(other) else { continue };
            if !peer.connection.has_unread().unwrap_or(false) {
                self.passing.received(peer.credentials.uid, &mut peer.unread);
            } else if peer.unread.is_overdue(now) && !self.departures.contains(other) {
                let why =
                    "it did not receive its descriptors while other clients waited to send theirs";
                self.expel(other, UNASKED, why);
            }
        }
    }

    pub(super) fn set_interest(&mut self, client: ClientNo, interest: Interest) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        if peer.interest == interest {
            return;
        }
        peer.interest = interest;
        if let Err(error) = self.poll.change(&peer.connection, Source::Peer(client.0), interest) {
            tracing::warn!(?client, %error, "a client cannot be watched");
            self.leave(client);
        }
    }
}

/// Sends a client what waits for it, as far as that goes.
pub(super) fn send(peer: &mut Peer, passing: &mut DescriptorsInFlight) -> io::Result<SendOutcome> {
    let Peer { connection, outbox, unread, credentials, .. } = peer;
    outbox.flush(|bytes, fds| {
        if !passing.has_room_for(credentials.uid, unread, fds.len()) {
            if unread.is_any() && !connection.has_unread()? {
                passing.received(credentials.uid, unread);
            }
            if !passing.has_room_for(credentials.uid, unread, fds.len()) {
                return Err(Errno::TOOMANYREFS.into());
            }
        }
        connection.try_send(bytes, fds)?;
        passing.sent(credentials.uid, unread, fds.len());
        Ok(())
    })
}

/// The frame of a reply; one that is too long becomes a failure that says so.
pub(super) fn encode(
    number: u64,
    reply: &Reply,
) -> Result<Vec<u8>, plasmon_proto::frame::BadFrame> {
    use plasmon_proto::frame::{BadFrame, encode_reply};
    use plasmon_proto::limits::FRAME_BYTES_MAX;

    match encode_reply(number, reply) {
        Err(BadFrame::Long { found }) => {
            let failure = Failure::of(Code::LimitReached)
                .with_amounts(found as u64, FRAME_BYTES_MAX as u64)
                .with_detail("the answer is longer than a message may be: ask for fewer objects");
            encode_reply(number, &Reply::Failed(failure))
        }
        other => other,
    }
}
