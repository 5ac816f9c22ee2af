//! A log of durable objects that has room or not.

use plasmon_proto::Code;
use plasmon_store::event::{LogFailure, Lsn};
use plasmon_store::{Event, Ticket};

/// It numbers its records.
#[derive(Debug, Default)]
pub(super) struct Log {
    last: Lsn,
}

impl Log {
    /// An object is in the log, or is not.
    pub(super) fn put(&mut self, ticket: Ticket, done: bool) -> Event {
        self.last += 1;
        Event::Logged(ticket, if done { Ok(self.last) } else { Err(no_room()) })
    }

    /// The end of one is.
    pub(super) fn dead(&self, ticket: Ticket, done: bool) -> Event {
        Event::Unlogged(ticket, if done { Ok(()) } else { Err(no_room()) })
    }
}

fn no_room() -> LogFailure {
    LogFailure { code: Code::StoreFull, detail: String::new() }
}
