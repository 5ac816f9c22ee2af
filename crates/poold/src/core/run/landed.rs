//! Landings that are over: the store gets them, and what waited for that goes on.

use plasmon_pool::Ticket;
use plasmon_pool::message::TransferNo;

use super::Core;
use crate::core::landings::{After, Closed, Ending};
use crate::memory::BoxedLanding;

impl Core {
    /// Ends a landing at once, or when a mover has given its memory back.
    pub(super) fn end_landing(&mut self, ticket: Ticket, ending: Ending) {
        if self.backlog.forget(ticket) {
            return;
        }
        match self.landings.end(ticket, ending) {
            After::Now(ended) => self.end(ended),
            After::Later(id) => self.backlog.begin(id),
            After::Nothing => {}
        }
    }

    /// A mover gave the memory of a transfer back.
    pub(super) fn returned(&mut self, transfer: TransferNo, memory: BoxedLanding) {
        if let Some(ended) = self.landings.returned(transfer, memory, &self.movers) {
            self.end(ended);
        }
    }

    /// Gives the store a landing that is over, and carries out what waited for that.
    pub(super) fn end(&mut self, closed: Closed) {
        let Closed { ticket, id, memory, ending } = closed;
        match (memory, ending) {
            (Some(memory), Ending::Seal(options)) => self.store.seal(ticket, memory, options),
            (Some(memory), Ending::Abandon) => self.store.abandon(ticket, memory),
            (None, _) => {}
        }
        for effect in self.backlog.end(&id) {
            self.carry_out(effect);
        }
    }
}
