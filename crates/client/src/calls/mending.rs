//! Which thread makes a new connection when the old one broke: the first that notices.
//!
//! A thread whose own time is over leaves it to another, which goes on where that one stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;

use super::{Calls, State, ring};
use crate::error::{Error, Result};
use crate::interrupt;

/// A connection that ends sooner after it was made was not ended by bad luck.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Who mends a broken connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mending {
    /// The caller; it must end with [`Calls::relink`], [`Calls::give_up`] or
    /// [`Calls::leave_mending`].
    Mine(Broken),
    /// Another thread did already.
    Done,
    /// The time has passed while another thread was at it.
    TimedOut,
}

/// A connection that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked {
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

/// A connection that is to be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The connections in a row, this one included, that ended at once without an answer.
    pub(crate) fruitless: Fruitless,
    /// When it was found to be broken.
    pub(crate) since: Instant,
}

impl Calls {
    /// Whether the caller is to mend the connection with this number. Waits while another does.
    pub(crate) fn claim_mending(&self, link_number: u64, deadline: Deadline) -> Result<Mending> {
        loop {
            let mut state = self.lock();
            let until = interrupt::step(deadline);
            let others = |it: &State| it.mending && it.link_number == link_number && !it.closed;
            while others(&state) && !until.is_past() {
                state = self.sleep(state, until);
            }
            if !others(&state) {
                return Ok(state.begin_mending(link_number));
            }
            drop(state);
            if deadline.is_past() {
                return Ok(Mending::TimedOut);
            }
            interrupt::check("waiting for the daemon to come back")?;
        }
    }

    /// The caller who mends has no more time: another thread goes on where it stopped.
    pub(crate) fn leave_mending(&self) {
        let mut state = self.lock();
        state.mending = false;
        self.tell_all(&state);
    }

    /// Goes on with a new connection, to the daemon of this epoch: everything unanswered is asked
    /// again.
    pub(crate) fn relink(&self, link: Connection, epoch: u64) {
        let mut state = self.lock();
        state.end_mending();
        if !state.closed {
            state.link = Some(Arc::new(link));
            state.linked = Some(Linked { at: edge::now(), epoch });
        }
        state.sent_unread = 0;
        state.requests.send_again();
        self.tell_all(&state);
        drop(self.send(state));
    }

    /// Everything unanswered fails, and the connection is mended all the same.
    pub(crate) fn fail_all(&self, why: &dyn Fn() -> Error) {
        let mut state = self.lock();
        let signals = state.requests.fail_all(why);
        self.tell_all(&state);
        drop(state);
        signals.iter().for_each(|signal| ring(signal));
    }

    /// The connection could not be mended: everything unanswered fails. A later request tries
    /// again.
    pub(crate) fn give_up(&self, why: &dyn Fn() -> Error) {
        let mut state = self.lock();
        state.end_mending();
        let signals = state.requests.fail_all(why);
        self.tell_all(&state);
        drop(state);
        signals.iter().for_each(|signal| ring(signal));
    }
}

impl State {
    fn begin_mending(&mut self, link_number: u64) -> Mending {
        if self.link_number != link_number || self.closed {
            return Mending::Done;
        }
        self.mending = true;
        self.link = None;
        let broken = self.broken.unwrap_or_else(|| {
            let at_once = self.linked.take().filter(|linked| edge::since(linked.at) < AT_ONCE);
            let none = Fruitless::default();
            self.fruitless = at_once.map_or(none, |linked| self.fruitless.and(linked.epoch));
            Broken { fruitless: self.fruitless, since: edge::now() }
        });
        self.broken = Some(broken);
        Mending::Mine(broken)
    }

    fn end_mending(&mut self) {
        self.mending = false;
        self.broken = None;
        self.link = None;
        self.link_number += 1;
    }
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
