//! A wait that an event loop of the caller watches.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use plasmon_proto::message::Reply;
use plasmon_proto::object::ObjectState;
use plasmon_shm::eventfd::Doorbell;

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};

pub(crate) const WAITING: &str = "waiting for objects";

/// A wait in progress. Dropped, it is cancelled.
#[derive(Debug)]
pub struct PendingWait {
    /// Keeps the connection, and with it the wait, alive.
    _store: Client,
    connection: Arc<Connection>,
    signal: Arc<Doorbell>,
    number: u64,
    taken: bool,
}

impl PendingWait {
    pub(crate) fn new(
        store: Client,
        connection: Arc<Connection>,
        signal: Arc<Doorbell>,
        number: u64,
    ) -> Self {
        Self { _store: store, connection, signal, number, taken: false }
    }

    /// An eventfd that is readable as soon as the answer is there; it stays readable.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// The answer: one state for each id, once; `None` while the wait goes on and after the answer
    /// was taken.
    pub fn poll(&mut self) -> Option<Result<Vec<ObjectState>>> {
        if self.taken {
            return None;
        }
        let answer = self.connection.rpc().take(self.number)?;
        self.taken = true;
        Some(answer.and_then(|answer| match answer.reply {
            Reply::States(states) => Ok(states),
            Reply::Failed(failure) => Err(Error::of_failure(WAITING, failure)),
            _ => Err(Error::unexpected(WAITING)),
        }))
    }

    /// Ends the wait early; it is answered with the states of that moment.
    pub fn cancel(&self) {
        if !self.taken {
            self.connection.take_back(|requests| requests.cancel(self.number));
        }
    }
}

impl Drop for PendingWait {
    fn drop(&mut self) {
        if !self.taken && self.connection.is_ours() {
            self.connection.abandon_request(self.number);
        }
    }
}
