//! Which thread makes a new connection when the old one broke: the first that notices.
//!
//! A thread whose own time is over leaves it to another, which goes on where that one stopped.

mod relink;

use std::time::{Duration, Instant};

/// A connection that ends sooner after it was made was not ended by bad luck.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Which thread reconnects a broken connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReconnectClaim {
    /// The caller; it must end with [`Rpc::relink`], [`Rpc::give_up`] or
    /// [`Rpc::leave_reconnect`].
    Mine(BrokenConnection),
    /// Another thread did already.
    Done,
    /// The time has passed while another thread was at it.
    TimedOut,
}

/// A connection that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastConnection {
    at: Instant,
    /// The daemon's epoch.
    epoch: u64,
}

/// Connections in a row that ended at once without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fruitless {
    /// Those that the last daemon ended.
    pub(crate) of_daemon: u32,
    /// Daemons that ended, or were killed, with such a connection.
    pub(crate) daemons: u32,
    epoch: u64,
}

impl Fruitless {
    fn and(self, epoch: u64) -> Self {
        if self.daemons > 0 && self.epoch == epoch {
            return Self { of_daemon: self.of_daemon + 1, ..self };
        }
        Self { of_daemon: 1, daemons: self.daemons + 1, epoch }
    }
}

/// A connection that is to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenConnection {
    /// The connections in a row, this one included, that ended at once without an answer.
    pub(crate) fruitless: Fruitless,
    /// When it was found to be broken.
    pub(crate) since: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client whose daemon was killed three times in a row, while it waited for one answer, left
    /// its session behind, with what was lent to it. The store was full then, and ids were taken.
    #[test]
    fn a_daemon_that_was_killed_has_not_ended_the_connection_on_purpose() {
        let of = |epochs: &[u64]| epochs.iter().fold(Fruitless::default(), |it, at| it.and(*at));
        let counts = |epochs: &[u64]| (of(epochs).of_daemon, of(epochs).daemons);
        assert_eq!(counts(&[]), (0, 0));
        assert_eq!(counts(&[0, 0, 0]), (3, 1));
        assert_eq!(counts(&[4, 5, 6, 7]), (1, 4));
        assert_eq!(counts(&[4, 5, 5]), (2, 2));
    }
}
