//! Operations that only the simulator performs on a client. See `tests/sim`.

use std::os::fd::OwnedFd;

use crate::client::Client;

impl Client {
    /// Breaks the connection of this client, which does not notice it now.
    pub fn sever(&self) {
        if let Some(link) = self.here().ok().and_then(|connection| connection.rpc().link()) {
            // One that is broken already stays so.
            let _ = link.shutdown();
        }
    }

    /// How many sessions this client has had, counting those that it could not take up again.
    pub fn sessions(&self) -> usize {
        self.here().map_or(0, |connection| connection.sessions().count())
    }

    /// The connection as a forked child has it open.
    pub fn duplicate_link(&self) -> Option<OwnedFd> {
        self.here().ok()?.rpc().link()?.duplicate().ok()
    }
}
