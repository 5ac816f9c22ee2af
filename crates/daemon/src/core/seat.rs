//! The seat of the pool daemon: which process may take it, and what it is sent.

use plasmon_proto::Code;
use plasmon_proto::message::Failure;
use plasmon_proto::pool::{Call, Origin};
use plasmon_store::event::SealLanded;
use plasmon_store::{ClientNo, Event};

use super::Core;
use super::requests::no_index;

impl Core {
    /// A process of the store's owner asks for the seat. It says which store it was started for: a
    /// pool daemon that outlived its store must not speak for the next one at its socket.
    pub(super) fn give_seat(&mut self, client: ClientNo, number: u64, token: u64, slot: u16) {
        let boot = self.keeping.store_token;
        if token != boot {
            let detail = "this pool daemon was started for another store";
            let failure = Failure::of(Code::NotPermitted).with_detail(detail);
            return self.fail(client, number, failure);
        }
        self.apply_event(Event::Agent(client, number, Origin { slot, boot }));
    }

    /// Queues what the pool daemon is told; what is queued in one turn of the loop goes in as few
    /// messages as there can be.
    pub(super) fn call_agent(&mut self, client: ClientNo, call: Call) {
        let Some(peer) = self.peers.get_mut(client) else { return };
        if peer.outbox.call(call) {
            self.unsent.insert(client);
        } else {
            self.expel(client, 0, "this pool daemon does not read what it is told");
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
