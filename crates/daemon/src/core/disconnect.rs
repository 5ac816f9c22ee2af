//! How clients, sessions and processes end.
//!
//! A client that must go is only written down where that is found out, which may be deep within
//! something else: the end of a ring, the reply to another client. It goes when the turn is over.
//! So a thousand clients that end at once are a thousand steps of one loop and not of the stack.

mod close;

use std::collections::BTreeMap;
use std::time::Duration;

use plasmon_store::ClientNo;

/// Messages that are read and thrown away from a connection that is going to be closed.
const UNREAD_MAX: usize = 64;

/// How long a restarted daemon waits for the clients that its predecessor had, at least.
const RETURN_WITHIN: Duration = Duration::from_secs(10);

/// How long a store waits for a client whose starter is gone: its workers may be connecting again.
const STARTER_GONE_LINGER: Duration = Duration::from_millis(200);

/// Clients that end.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// Those that end with this turn, and why.
    clients: BTreeMap<ClientNo, DisconnectReason>,
    /// How many were expelled.
    pub(super) expelled_total: u64,
}

impl Departures {
    /// Whether no client ends with this turn.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether the client ends with this turn.
    pub(super) fn contains(&self, client: ClientNo) -> bool {
        self.clients.contains_key(&client)
    }
}

/// Why a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// It was told why: nothing that it says counts any more.
    Dismissed,
    /// It does not read from the daemon any more.
    Gone,
}
