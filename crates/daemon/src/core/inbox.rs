//! The requests of clients on their sockets, until they are answered.

use std::collections::VecDeque;

use plasmon_store::ClientNo;

/// What clients ask through their sockets.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Clients whose sockets are to be read.
    pub(super) asking: VecDeque<ClientNo>,
    /// Clients that asked something, in the order of their questions.
    pub(super) questions: VecDeque<ClientNo>,
    /// Room for a message.
    pub(super) message: Vec<u8>,
}

impl Inbox {
    /// Whether no socket is to be read and no question to be answered.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty() && self.asking.is_empty()
    }
}
