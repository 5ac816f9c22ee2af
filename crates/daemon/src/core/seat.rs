//! The seat of the pool daemon: which process may take it, and what it is sent.

use std::io;
use std::time::Instant;

use plasmon_proto::Code;
use plasmon_proto::frame::encode_push;
use plasmon_proto::limits::INVENTORY_QUEUED_MAX;
use plasmon_proto::message::{Failure, Push};
use plasmon_proto::pool::{Call, Origin, Slot};
use plasmon_proto::pool_adoption::AdoptionCall;
use plasmon_shm::edge;
use plasmon_store::event::SealLanded;
use plasmon_store::{ClientNo, Event};

use super::Core;
use super::requests::no_index;
use crate::outbox::OutgoingFrame;
use crate::workers::Done;

impl Core {
    /// A process of the store's owner asks for the seat. It says which store it was started for: a
    /// pool daemon that outlived its store must not speak for the next one at its socket.
    pub(super) fn give_seat(&mut self, client: ClientNo, number: u64, token: u64, slot: Slot) {
        let boot = self.keeping.store_token;
        if token != boot {
            let detail = "this pool daemon was started for another store";
            let failure = Failure::of(Code::NotPermitted).with_detail(detail);
            return self.fail(client, number, failure);
        }
        self.apply_event(Event::Agent(client, number, Origin { slot, boot }));
        // The store has refused it where another process has the seat.
        if self.store.is_agent(client) {
            self.shared().control.set_home(Some(slot));
        }
        self.arm_idle_exit();
    }

    /// Queues what the pool daemon is told; what is queued in one turn of the loop goes in as few
    /// messages as there can be.
    pub(super) fn call_agent(&mut self, client: ClientNo, call: Call) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        if peer.outbox.call(call) {
            let is_behind = peer.outbox.calls() >= INVENTORY_QUEUED_MAX;
            self.unsent.insert(client);
            if is_behind {
                self.store.set_agent_behind(true);
            }
        } else {
            self.expel(client, 0, "this pool daemon does not read what it is told");
        }
    }

    /// Queues what the pool daemon is told of namespaces. It is little, so it goes as replies do.
    pub(super) fn call_adoption(&mut self, client: ClientNo, call: AdoptionCall) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        // A call with a namespace within its limit fits a frame.
        if let Ok(bytes) = encode_push(&Push::Adoption(call)) {
            peer.outbox.push(OutgoingFrame { bytes, fds: Vec::new() });
            self.unsent.insert(client);
        }
    }

    /// Something was sent to a client: a pool daemon that has read most of what it was told is told
    /// more.
    pub(super) fn note_sent(&mut self, client: ClientNo) {
        if self.store.is_agent(client)
            && self.peers.get(client).is_some_and(|it| it.outbox.calls() < INVENTORY_QUEUED_MAX / 2)
        {
            self.store.set_agent_behind(false);
        }
    }

    /// Starts a pool daemon when one is due and no process has the seat.
    pub(super) fn check_pool_daemon(&mut self, now: Instant) {
        let has_agent = self.store.has_agent();
        let Some(pool_daemon) = &mut self.pool_daemon else { return };
        if !pool_daemon.is_due(now) {
            return;
        }
        if has_agent {
            return pool_daemon.put_off(now);
        }
        let start = pool_daemon.starter();
        if let Err(error) = self.workers.aside("plasmon-poolds", || Done::PoolDaemon(start())) {
            pool_daemon.started(Err(error), &self.poll, now);
        }
    }

    /// The pool daemon of the daemon before this one may come back.
    pub(crate) fn expect_pool_daemon(&mut self) {
        if let Some(pool_daemon) = &mut self.pool_daemon {
            pool_daemon.expect_back(edge::now());
        }
    }

    pub(super) fn pool_daemon_started(&mut self, started: io::Result<()>) {
        if let Some(pool_daemon) = &mut self.pool_daemon {
            pool_daemon.started(started, &self.poll, edge::now());
        }
    }

    pub(super) fn pool_daemon_ended(&mut self) {
        if let Some(pool_daemon) = &mut self.pool_daemon {
            pool_daemon.ended(&self.poll, edge::now());
        }
    }

    /// A copy of another node is complete; its attributes lie in memory by now.
    pub(super) fn seal_landed(&mut self, client: ClientNo, number: u64, landed: SealLanded) {
        if !self.store.directory().index.has_room() {
            return self.fail(client, number, no_index(landed.id));
        }
        let attributes = match self.store.creating(client, &landed.id) {
            Some((range, _)) if !self.is_protected(client, &range) => return,
            Some((range, sizes)) => self.extents.attributes(range.placement(), &sizes),
            None => None,
        };
        self.apply_event(Event::SealLanded(client, number, landed, attributes));
    }
}
