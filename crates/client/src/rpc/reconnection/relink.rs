//! Claiming a broken connection, and putting a new one in its place.

use std::sync::Arc;

use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;

use super::{AT_ONCE, BrokenConnection, Fruitless, LastConnection, ReconnectClaim};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::rpc::{Rpc, State, ring};

impl Rpc {
    /// Whether the caller is to reconnect the connection with this number. Waits while another
    /// does.
    pub(crate) fn claim_reconnect(
        &self,
        link_number: u64,
        deadline: Deadline,
    ) -> Result<ReconnectClaim> {
        loop {
            let mut state = self.lock();
            let until = interrupt::step(deadline);
            let others =
                |it: &State| it.reconnecting && it.link_number == link_number && !it.closed;
            while others(&state) && !until.is_past() {
                state = self.sleep(state, until);
            }
            if !others(&state) {
                return Ok(state.begin_reconnect(link_number));
            }
            drop(state);
            if deadline.is_past() {
                return Ok(ReconnectClaim::TimedOut);
            }
            interrupt::check("waiting for the daemon to come back")?;
        }
    }

    /// The caller that reconnects has no more time: another thread goes on where it stopped.
    pub(crate) fn leave_reconnect(&self) {
        let mut state = self.lock();
        state.reconnecting = false;
        self.notify_all_threads(&state);
    }

    /// Goes on with a new connection, to the daemon of this epoch: everything unanswered is asked
    /// again.
    pub(crate) fn relink(&self, link: Connection, epoch: u64) {
        let mut state = self.lock();
        state.end_reconnect();
        if !state.closed {
            state.link = Some(Arc::new(link));
            state.linked = Some(LastConnection { at: edge::now(), epoch });
        }
        state.sent_unread = 0;
        state.requests.send_again();
        self.notify_all_threads(&state);
        drop(self.send(state));
    }

    /// Everything unanswered fails, and the connection is restored all the same.
    pub(crate) fn fail_all(&self, why: &dyn Fn() -> Error) {
        let mut state = self.lock();
        let signals = state.requests.fail_all(why);
        self.notify_all_threads(&state);
        drop(state);
        signals.iter().for_each(|signal| ring(signal));
    }

    /// The connection could not be restored: everything unanswered fails. A later request tries
    /// again.
    pub(crate) fn give_up(&self, why: &dyn Fn() -> Error) {
        let mut state = self.lock();
        state.end_reconnect();
        let signals = state.requests.fail_all(why);
        self.notify_all_threads(&state);
        drop(state);
        signals.iter().for_each(|signal| ring(signal));
    }
}

impl State {
    fn begin_reconnect(&mut self, link_number: u64) -> ReconnectClaim {
        if self.link_number != link_number || self.closed {
            return ReconnectClaim::Done;
        }
        self.reconnecting = true;
        self.link = None;
        let broken = self.broken.unwrap_or_else(|| {
            let at_once = self.linked.take().filter(|linked| edge::since(linked.at) < AT_ONCE);
            let none = Fruitless::default();
            self.fruitless = at_once.map_or(none, |linked| self.fruitless.and(linked.epoch));
            BrokenConnection { fruitless: self.fruitless, since: edge::now() }
        });
        self.broken = Some(broken);
        ReconnectClaim::Mine(broken)
    }

    fn end_reconnect(&mut self) {
        self.reconnecting = false;
        self.broken = None;
        self.link = None;
        self.link_number += 1;
    }
}
