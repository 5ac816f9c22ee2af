//! One lane that this node connects, again and again until it is there.
//!
//! ```text
//!            begun                     over
//!   due ───────────────► greeting ──────────────► done
//!    ▲ ▲                    │                      │ │
//!    │ └── pause is over ── resting ◄── failed ────┘ │ ended soon
//!    └─────────────────────── ended after a while ───┘
//! ```
//!
//! A lane that ends soon after its handshake counts as a failure: a peer that closes what it has
//! just accepted, because its map is older, is not connected in a busy loop.

use std::time::Duration;

use plasmon_net::{Admitted, Error, Greeting};

use super::stream::LaneStream;

/// The pause after the first failure; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A lane that was there for so long is connected again at once.
const STEADY: Duration = Duration::from_secs(2);

/// What came of going on with a handshake.
pub(super) type Driven = Result<Option<Admitted<LaneStream>>, Error>;

/// A lane that is connected, or to be.
#[derive(Debug, Default)]
pub(super) struct Dial {
    state: State,
    failures: u32,
    address: usize,
}

#[derive(Debug, Default)]
enum State {
    /// It is to be connected.
    #[default]
    Due,
    /// It is to be connected at this time.
    Resting(Duration),
    /// The handshake is under way, with this number of the poll.
    Greeting(u64, Box<Greeting<LaneStream>>),
    /// It is there since then.
    Done(Duration),
}

impl Dial {
    pub(super) fn is_due(&self, now: Duration) -> bool {
        match self.state {
            State::Due => true,
            State::Resting(at) => at <= now,
            State::Greeting(..) | State::Done(_) => false,
        }
    }

    /// Whether the handshake takes too long.
    pub(super) fn is_overdue(&self, now: Duration) -> bool {
        matches!(&self.state, State::Greeting(_, greeting) if greeting.deadline() <= now)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Due => Some(Duration::ZERO),
            State::Resting(at) => Some(*at),
            State::Greeting(_, greeting) => Some(greeting.deadline()),
            State::Done(_) => None,
        }
    }

    /// The address to try: each in turn.
    pub(super) fn next_address<'a>(&self, addresses: &'a [String]) -> Option<&'a str> {
        addresses.get(self.address.checked_rem(addresses.len())?).map(String::as_str)
    }

    pub(super) fn begun(&mut self, number: u64, greeting: Greeting<LaneStream>) {
        self.state = State::Greeting(number, Box::new(greeting));
    }

    /// The handshake that is under way, and its number of the poll.
    pub(super) fn greeting(&self) -> Option<(u64, &Greeting<LaneStream>)> {
        match &self.state {
            State::Greeting(number, greeting) => Some((*number, greeting)),
            State::Due | State::Resting(_) | State::Done(_) => None,
        }
    }

    /// Goes on with the handshake, if one is under way; the lane once it is there.
    pub(super) fn drive(&mut self, now: Duration) -> Driven {
        let State::Greeting(_, greeting) = &mut self.state else { return Ok(None) };
        match greeting.drive(now) {
            Ok(None) => Ok(None),
            Ok(Some(peer)) => match std::mem::replace(&mut self.state, State::Done(now)) {
                State::Greeting(_, greeting) => Ok(Some(greeting.into_admitted(peer))),
                State::Due | State::Resting(_) | State::Done(_) => Ok(None),
            },
            Err(error) => {
                self.failed(now);
                Err(error)
            }
        }
    }

    /// It failed: it rests, and then the next address is tried.
    pub(super) fn failed(&mut self, now: Duration) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(8)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.address = self.address.wrapping_add(1);
        self.state = State::Resting(now.saturating_add(pause));
    }

    /// The lane that was there ended: it is connected again.
    pub(super) fn ended(&mut self, now: Duration) {
        let State::Done(since) = self.state else { return };
        if now.saturating_sub(since) < STEADY {
            return self.failed(now);
        }
        self.failures = 0;
        self.state = State::Due;
    }

    /// What was tried before says nothing any more: unless the lane is there, it is connected now.
    /// The number of the handshake that this ends.
    pub(super) fn restart(&mut self) -> Option<u64> {
        self.failures = 0;
        match self.state {
            State::Done(_) => None,
            State::Due | State::Resting(_) => {
                self.state = State::Due;
                None
            }
            State::Greeting(number, _) => {
                self.state = State::Due;
                Some(number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_addresses_take_turns() {
        let mut dial = Dial::default();
        let addresses = ["a".to_owned(), "b".to_owned()];
        let now = Duration::from_secs(1);
        let mut pauses = Vec::new();
        let mut tried = Vec::new();
        for _ in 0..8 {
            tried.push(dial.next_address(&addresses).unwrap());
            dial.failed(now);
            pauses.push((dial.next_deadline().unwrap() - now).as_millis());
            assert!(!dial.is_due(now) && dial.is_due(now + PAUSE_MAX));
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(tried[..3], ["a", "b", "a"]);
        assert_eq!(dial.restart(), None);
        assert!(dial.is_due(now));
        assert_eq!(dial.next_address(&[]), None);
    }

    #[test]
    fn a_lane_that_ended_soon_rests_and_one_that_lasted_does_not() {
        let since = Duration::from_secs(1);
        let ended_after = |lasted: Duration| {
            let mut dial = Dial { state: State::Done(since), ..Dial::default() };
            dial.ended(since + lasted);
            dial.is_due(since + lasted)
        };
        assert!(!ended_after(Duration::ZERO) && !ended_after(STEADY - Duration::from_micros(1)));
        assert!(ended_after(STEADY));
    }
}
