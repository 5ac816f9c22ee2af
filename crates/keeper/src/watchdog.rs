//! When a daemon counts as hung: a pure decision of the keeper.
//!
//! ```text
//! tick ── no message ─────► ask ── answered ──► (from the start)
//!                            └─ ticks without an answer: four, and it is killed
//! ```
//!
//! The daemon answers from the loop that serves its clients, so a daemon that does not answer
//! serves no client. But it is not killed for what the machine does to it:
//!
//! * a tick that this process itself saw too late does not count: the machine was suspended, or has
//!   no processor for any process;
//! * a tick in which the daemon waited for a processor, or ran again and again for a moment (it
//!   waits for memory or a disk each time), counts an eighth;
//! * a tick in which it is traced by a debugger does not count.

use std::time::Duration;

/// Ticks within the time that a daemon may be silent.
const TICKS: u32 = 4;

/// What a tick counts.
const WHOLE: u32 = 8;

/// What a tick counts in which the daemon could not do much.
const EIGHTH: u32 = 1;

/// What the kernel says about the daemon's main thread, all of it since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// How long it ran, in nanoseconds.
    pub(crate) run_ns: u64,
    /// How long it waited for a processor, in nanoseconds.
    pub(crate) delay_ns: u64,
    /// How often it got one.
    pub(crate) turns: u64,
    /// Whether a debugger holds it.
    pub(crate) is_traced: bool,
}

impl Progress {
    /// Reads `/proc/PID/schedstat` and the line of the tracer in `/proc/PID/status`.
    pub(crate) fn parse(schedstat: &str, status: &str) -> Option<Self> {
        let mut numbers = schedstat.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        Some(Self {
            run_ns: next()?,
            delay_ns: next()?,
            turns: next()?,
            is_traced: tracer.is_some_and(|pid| pid.trim() != "0"),
        })
    }
}

/// What the keeper does after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Wait,
    /// Ask the daemon for a sign of life.
    Ask,
    /// Kill it.
    Hung,
}

/// The silence of one daemon.
#[derive(Debug)]
pub(crate) struct Watchdog {
    tick: Duration,
    has_asked: bool,
    silence: u32,
    before: Option<Progress>,
}

impl Watchdog {
    /// Watches a daemon that may be silent for this long.
    pub(crate) fn new(hang_timeout: Duration) -> Self {
        let tick = (hang_timeout / TICKS).max(Duration::from_millis(1));
        Self { tick, has_asked: false, silence: 0, before: None }
    }

    /// How long to listen before the next call of [`Self::ticked`].
    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }

    /// The daemon said something.
    pub(crate) fn note_message(&mut self) {
        (self.has_asked, self.silence, self.before) = (false, 0, None);
    }

    /// No message came for a tick, which took `elapsed`.
    pub(crate) fn ticked(&mut self, elapsed: Duration, now: Option<Progress>) -> Verdict {
        let before = std::mem::replace(&mut self.before, now);
        if !self.has_asked {
            self.has_asked = true;
            return Verdict::Ask;
        }
        // Shorter only when a signal ended the waiting.
        if elapsed >= self.tick * 3 / 4 && elapsed < self.tick * 3 / 2 {
            self.silence += weight(self.tick, before, now);
        }
        if self.silence < TICKS * WHOLE { Verdict::Wait } else { Verdict::Hung }
    }
}

fn weight(tick: Duration, before: Option<Progress>, now: Option<Progress>) -> u32 {
    // A kernel that does not count says nothing in the daemon's favour.
    let (Some(before), Some(now)) = (before, now) else { return WHOLE };
    if now.is_traced {
        return 0;
    }
    let half = tick.as_nanos() as u64 / 2;
    let ran = now.run_ns.saturating_sub(before.run_ns);
    let waited = now.delay_ns.saturating_sub(before.delay_ns);
    let is_starved = waited >= half || (now.turns != before.turns && ran + waited < half);
    if is_starved { EIGHTH } else { WHOLE }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(2500);

    fn asked(progress: Option<Progress>) -> Watchdog {
        let mut watchdog = Watchdog::new(TICK * TICKS);
        assert_eq!(watchdog.tick(), TICK);
        assert_eq!(watchdog.ticked(TICK, progress), Verdict::Ask);
        watchdog
    }

    /// After how many ticks the daemon is killed, if it is within 100.
    fn killed_after(
        elapsed: Duration,
        mut progress: impl FnMut(u64) -> Option<Progress>,
    ) -> Option<u32> {
        let mut watchdog = asked(progress(0));
        (1..=100)
            .find(|count| watchdog.ticked(elapsed, progress(u64::from(*count))) == Verdict::Hung)
    }

    #[test]
    fn a_silent_daemon_is_killed_after_the_time_and_one_that_answers_never() {
        let still = Progress { run_ns: 5, delay_ns: 6, turns: 7, is_traced: false };
        assert_eq!(killed_after(TICK, |_| Some(still)), Some(TICKS));
        assert_eq!(killed_after(TICK, |_| None), Some(TICKS), "a kernel that does not count");
        let mut watchdog = asked(Some(still));
        for _ in 0..100 {
            for _ in 1..TICKS {
                assert_eq!(watchdog.ticked(TICK, Some(still)), Verdict::Wait);
            }
            watchdog.note_message();
            assert_eq!(watchdog.ticked(TICK, Some(still)), Verdict::Ask);
        }
    }

    #[test]
    fn a_daemon_that_loops_is_killed_and_one_that_starves_much_later() {
        let tick_ns = TICK.as_nanos() as u64;
        let at = |run: u64, delay: u64, turns: u64| {
            move |tick: u64| {
                let (run_ns, delay_ns) = (tick * run, tick * delay);
                Some(Progress { run_ns, delay_ns, turns: tick * turns, is_traced: false })
            }
        };
        assert_eq!(killed_after(TICK, at(tick_ns, 0, 100)), Some(TICKS), "it loops");
        let late = Some(TICKS * WHOLE);
        assert_eq!(killed_after(TICK, at(tick_ns / 10, tick_ns / 2, 9)), late, "no processor");
        assert_eq!(killed_after(TICK, at(tick_ns / 100, 0, 50)), late, "it waits for a disk");
    }

    #[test]
    fn a_machine_that_was_suspended_and_a_debugger_kill_nothing() {
        assert_eq!(killed_after(TICK * 2, |_| None), None);
        assert_eq!(killed_after(TICK / 2, |_| None), None);
        let traced = Progress { is_traced: true, ..Progress::default() };
        assert_eq!(killed_after(TICK, |_| Some(traced)), None);
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let read = Progress::parse("17 4 2\n", "Name:\tplasmond\nTracerPid:\t0\nUid:\t0\n");
        let wanted = Progress { run_ns: 17, delay_ns: 4, turns: 2, is_traced: false };
        assert_eq!(read, Some(wanted));
        let read = Progress::parse("17 4 2\n", "TracerPid:\t77\n").unwrap();
        assert!(read.is_traced);
        assert_eq!(Progress::parse("", "TracerPid:\t0\n"), None);
    }
}
