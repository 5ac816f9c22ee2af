//! The clients that have something to be sent.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use plasmon_store::ClientNo;

/// When a message is tried again that could not be sent for a reason that no event ends.
const SEND_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Clients that have something to be sent, now or a little later.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    clients: BTreeSet<ClientNo>,
    later: Vec<ClientNo>,
    again_at: Option<Instant>,
}

impl SendQueue {
    /// The client has something to be sent.
    pub(super) fn insert(&mut self, client: ClientNo) {
        self.clients.insert(client);
    }

    /// The client is sent no more.
    pub(super) fn remove(&mut self, client: ClientNo) {
        self.clients.remove(&client);
    }

    /// The next client to be served.
    pub(super) fn pop_first(&mut self) -> Option<ClientNo> {
        self.clients.pop_first()
    }

    /// The client cannot be sent its message now.
    pub(super) fn put_off(&mut self, client: ClientNo, now: Instant) {
        self.again_at.get_or_insert(now + SEND_AGAIN_AFTER);
        self.later.push(client);
    }

    /// When those that were put off are tried again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.again_at
    }

    /// Has those that were put off tried again, if it is time.
    pub(super) fn retry(&mut self, now: Instant) {
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.clients.extend(self.later.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_was_put_off_is_tried_again_at_its_time() {
        let (mut unsent, now) = (SendQueue::default(), Instant::now());
        unsent.insert(ClientNo(2));
        unsent.put_off(ClientNo(1), now);
        unsent.put_off(ClientNo(3), now + SEND_AGAIN_AFTER / 2);
        unsent.retry(now);
        assert_eq!((unsent.pop_first(), unsent.pop_first()), (Some(ClientNo(2)), None));
        let at = unsent.next_deadline().expect("two clients were put off");
        assert_eq!(at, now + SEND_AGAIN_AFTER);
        unsent.retry(at);
        assert_eq!(unsent.next_deadline(), None);
        assert_eq!(
            (unsent.pop_first(), unsent.pop_first()),
            (Some(ClientNo(1)), Some(ClientNo(3)))
        );
    }
}
