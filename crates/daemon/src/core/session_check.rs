//! Looking whether a process still has the memory of a session that is not connected.
//!
//! A process can go on as another program: `exec` closes the connection and unmaps everything, and
//! the process lives. What it pinned and what was lent to it would wait for the end of that other
//! program. So a thread looks at what the process has mapped or open, at once and at growing
//! intervals. A session has ended when its channel is not among that any more, because a client
//! maps the channel for as long as anything of it reads or writes; without a channel it is the
//! control page, which all sessions of a process share.
//!
//! Where that cannot be read (a process of another user, or of another pid namespace) the
//! session stays until the process ends.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::sessions::SessionNo;

/// When a session is looked at first: a process that is ending has mostly ended by then.
const FIRST_AFTER: Duration = Duration::from_millis(5);

/// A session is looked at after twice the time each time, up to this.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Processes that are looked at in one go.
const LOOKS_AT_ONCE: usize = 64;

/// A session that was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionCheck {
    session: SessionNo,
    /// Its number may be another session's by the time that the thread is done.
    token: u64,
}

/// When which session is looked at next.
#[derive(Debug, Default)]
pub(super) struct Looks {
    due: BTreeSet<(Instant, SessionNo)>,
    /// When each of them is due, and how long after the look before.
    by_session: BTreeMap<SessionNo, (Instant, Duration)>,
    /// Whether a thread is looking.
    busy: bool,
}

impl Looks {
    /// The session is not connected from now on.
    pub(super) fn begin(&mut self, session: SessionNo, now: Instant) {
        self.forget(session);
        self.set(session, now, FIRST_AFTER);
    }

    fn set(&mut self, session: SessionNo, now: Instant, pause: Duration) {
        let at = now + pause;
        self.due.insert((at, session));
        self.by_session.insert(session, (at, pause));
    }

    fn forget(&mut self, session: SessionNo) {
        if let Some((at, _)) = self.by_session.remove(&session) {
            self.due.remove(&(at, session));
        }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.busy { None } else { self.due.first().map(|(at, _)| *at) }
    }

    fn take_due(&mut self, now: Instant) -> Vec<SessionNo> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now).take(LOOKS_AT_ONCE);
        let due: Vec<SessionNo> = due.map(|(_, session)| *session).collect();
        for session in &due {
            let pause = self.by_session.get(session).map_or(FIRST_AFTER, |(_, pause)| *pause);
            self.forget(*session);
            self.set(*session, now, (pause * 2).min(PAUSE_MAX));
        }
        due
    }
}
