//! How clients, sessions and processes end.
//!
//! A client that must go is only written down where that is found out, which may be deep within
//! something else: the end of a ring, the reply to another client. It goes when the turn is over.
//! So a thousand clients that end at once are a thousand steps of one loop and not of the stack.

mod closing;

use std::time::Duration;

/// Messages that are read and thrown away from a connection that is going to be closed.
const UNREAD_MAX: usize = 64;

/// How long a restarted daemon waits for the clients that its predecessor had, at least.
const RETURN_WITHIN: Duration = Duration::from_secs(10);

/// How long a store waits for a client whose starter is gone: its workers may be connecting again.
const ORPHAN_LINGER: Duration = Duration::from_millis(200);

/// Why a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// It was told why: nothing that it says counts any more.
    Dismissed,
    /// It does not hear the daemon any more.
    Gone,
}
