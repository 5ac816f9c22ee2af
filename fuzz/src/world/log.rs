//! A log of durable objects that has room or not.

use plasmon_proto::Code;
use plasmon_store::event::{LogFailure, Lsn, RecordCheck};
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

    /// A record is right, or is not.
    pub(super) fn checked(&self, ticket: Ticket, done: bool) -> Event {
        let found = if done { RecordCheck::Right(1) } else { RecordCheck::Damaged };
        Event::LogChecked(ticket, found)
    }

    /// The end of one is.
    pub(super) fn dead(&self, ticket: Ticket, done: bool) -> Event {
        Event::Unlogged(ticket, if done { Ok(()) } else { Err(no_room()) })
    }
}

fn no_room() -> LogFailure {
    LogFailure { code: Code::StoreFull, detail: String::new() }
}
