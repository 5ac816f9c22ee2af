//! How a client goes, and what of it stays until it is gone.
//!
//! ```text
//!             its connection breaks              its process ended, or maps nothing of the store
//!  connected ───────────────────────► away ───────────────────────────────────────────► gone
//!      │  ▲                             │  ▲                                              ▲
//!      │  └── comes back, and says ─────┘  └── a daemon that was restarted expects it     │
//!      │      what it holds                                                               │
//!      └── leaves properly: it says so, or nothing is lent to it ─────────────────────────┘
//! ```
//!
//! A broken connection says nothing about what the client's threads do: one may be in the middle of
//! a copy into a lease. So whatever is lent to a client (leases, memory of objects that it creates)
//! stays charged to it and is given to no other until it is known that the client is gone, or the
//! client has said what of it it still holds. The ring of a client that is away is applied as ever,
//! but no lease is given to it.

use crate::clients::Clients;
use crate::construction::Stage;
use crate::event::ClientNo;
use crate::objects::Objects;
use crate::ports::Directory;
use crate::store::Store;
use crate::work::{Leftover, PIECE, ReturnedLeases};

impl<D: Directory> Store<D> {
    /// Takes back everything that the client held: what it was creating, its waits, its leases, its
    /// extents, its pins. Its objects have no owner from now on; those in its scopes and in
    /// namespaces that it had adopted are deleted. A long list of anything goes in pieces.
    pub(crate) fn disconnect(&mut self, no: ClientNo) {
        self.leave_seat(no);
        self.seat.settles.forget_client(no);
        let Some(mut client) = self.sessions.clients.disconnect(no) else { return };
        self.end_pooled_adoptions(client.peer.session);
        let creating = std::mem::take(&mut client.creating).into_iter().collect();
        self.work.leave(Leftover::Creating(client.session, creating));
        let unattached = std::mem::take(&mut client.unattached).into_iter().collect();
        self.work.leave(Leftover::Unattached(unattached));
        for scope in client.scopes.take_all() {
            let unpublished = self.objects.unpublished(client.session, &scope);
            self.work.leave(Leftover::Scope(unpublished));
        }
        self.work.leave(Leftover::Pins(std::mem::take(&mut client.pins)));
        self.end_adoptions(no);
        self.work.leave(Leftover::Waits(client.waits.values().copied().collect()));
        self.work.leave(Leftover::Leases(ReturnedLeases {
            session: client.session,
            leases: std::mem::take(&mut client.leases),
            unsure: client.leases_unsure,
            gone: true,
        }));
        self.space.jobs.stuck = None;
        self.go_on();
        self.work.feed = true;
    }

    /// The client's connection broke. What it asked is answered no more: it asks again when it
    /// comes back. What is lent to it, and what it is creating, stays its own.
    pub(crate) fn part(&mut self, no: ClientNo) {
        self.leave_seat(no);
        self.seat.settles.forget_client(no);
        let Some(client) = self.sessions.clients.part(no) else { return };
        let waits = std::mem::take(&mut client.waits).into_values().collect();
        client.waiting_ids = 0;
        // Only clients without a channel have any, and these do not come back.
        let pins = std::mem::take(&mut client.pins);
        client.pins_count = 0;
        self.work.leave(Leftover::Pins(pins));
        self.work.leave(Leftover::Waits(waits));
        self.end_adoptions(no);
        // Its requests for memory end.
        self.work.feed = true;
        self.go_on();
    }

    /// Whether the client may be writing to memory of the store, or objects would go with it: then
    /// it must not be taken for gone because its connection broke ([`crate::Event::Part`]).
    pub fn is_lent_to(&self, client: ClientNo) -> bool {
        let Some(found) = self.sessions.clients.get(client) else { return false };
        // What it announced lies in its leases.
        let is_lent = |id| {
            self.objects
                .pending_objects
                .get(id)
                .is_some_and(|creating| creating.stage != Stage::Announced)
        };
        found.leases.bytes() > 0
            || found.creating.iter().any(is_lent)
            || !found.scopes.is_empty()
            || self.seat.namespaces.is_holder(found.peer.session)
    }

    /// Takes a piece of leases back.
    pub(crate) fn end_leases(&mut self, mut lent: ReturnedLeases) -> Leftover {
        for _ in 0..PIECE {
            let Some(range) = lent.leases.pop() else { break };
            self.sessions.clients.uncharge(lent.session, range.bytes);
            if lent.unsure {
                self.space.memory.release_in_doubt(range, &mut self.out);
            } else {
                self.space.memory.release(range, range.bytes, &mut self.out);
            }
        }
        self.space.jobs.stuck = None;
        self.work.feed = true;
        if lent.gone && lent.leases.is_empty() {
            return Leftover::Extents(lent.session);
        }
        Leftover::Leases(lent)
    }

    /// The extents of a client that is gone are free for any client, or closed. `None` after the
    /// last.
    pub(crate) fn end_extents(&mut self, session: u32) -> Option<Leftover> {
        let piece: Vec<_> = self.space.memory.extents_of(session).take(PIECE).collect();
        for extent in &piece {
            self.no_writer(*extent);
            self.space.memory.orphan(*extent, &mut self.out);
        }
        self.work.feed = true;
        (piece.len() == PIECE).then_some(Leftover::Extents(session))
    }
}

impl<D: Directory> Objects<D> {
    /// Bytes that are lent to clients whose connection broke.
    pub(crate) fn away_bytes(&self, clients: &Clients) -> u64 {
        let creating = |ids: &std::collections::BTreeSet<_>| -> u64 {
            ids.iter().filter_map(|id| self.pending_objects.get(id)).map(|it| it.charge).sum()
        };
        clients.away().map(|client| client.leases.bytes() + creating(&client.creating)).sum()
    }
}
