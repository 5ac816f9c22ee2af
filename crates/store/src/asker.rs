//! The origin of a request that is answered later, and how it is answered.

use crate::event::ClientNo;

/// The origin of a request that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) client: ClientNo,
    pub(crate) session: u32,
    /// A client that comes back on another connection asks again: what it asked on this one is
    /// answered no more.
    pub(crate) connection: u64,
}

/// A request that is answered later, if the connection that it came on is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingReply {
    pub(crate) connection: u64,
    pub(crate) request: u64,
}

/// How a lease is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To the request of this number.
    Socket(u64),
    /// To the submission at this position.
    Ring(u64),
}
