//! Whether this machine's clock goes at the rate that leases need.
//!
//! A node counts its lease with its own monotonic clock, and the pool takes over its groups by that
//! of etcd's machine. Both count the same time as long as no rate is off by more than a twentieth.
//! The monotonic clock is the hardware's, corrected by the service that sets the time; how much it
//! corrects is seen beside the clock that it leaves alone.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::commands::check::{Check, Verdict, check};

/// How long the clocks are compared.
const WATCHED: Duration = Duration::from_millis(100);

/// Pairs of readings, of which one is taken.
const READINGS: u32 = 20;

/// Leases count on rates that differ by no more than this.
const DIFFERENCE_MAX: f64 = 0.05;

/// No service that sets the time corrects by more than this while all is well.
const DIFFERENCE_WANTED: f64 = 0.001;

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Compares the clocks of this machine.
pub(super) fn clock_check() -> Check {
    let before = both();
    sleep(WATCHED);
    let after = both();
    let source = fs::read_to_string(SOURCE).unwrap_or_default();
    rate_check((after.0 - before.0) / (after.1 - before.1) - 1.0, source.trim())
}

/// The corrected clock and the one that is left alone, in seconds. Another process may run between
/// two readings, so the pair of several counts that was read in the shortest time.
fn both() -> (f64, f64) {
    let read = |id| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
        tv_sec as f64 + tv_nsec as f64 / 1e9
    };
    let pair = |_| {
        let before = read(ClockId::Monotonic);
        let raw = read(ClockId::MonotonicRaw);
        (read(ClockId::Monotonic) - before, before, raw)
    };
    let pairs = (0..READINGS).map(pair);
    let first = pair(0);
    let (_, corrected, raw) = pairs.fold(first, |best, it| if it.0 < best.0 { it } else { best });
    (corrected, raw)
}

fn rate_check(difference: f64, source: &str) -> Check {
    let verdict = match difference.abs() {
        off if off > DIFFERENCE_MAX => Verdict::Bad,
        off if off > DIFFERENCE_WANTED => Verdict::Note,
        _ => Verdict::Good,
    };
    let source = if source.is_empty() { "the hardware" } else { source };
    // Nothing is no less than nothing.
    let percent = (difference * 1e5).round() / 1e3 + 0.0;
    let found = format!("its rate is corrected by {percent:+.3} % of that of {source}");
    check("clock", verdict, found).advise(
        "a node whose clock goes wrong by a twentieth may serve after its lease has ended: look at \
         the service that sets the time (chronyc tracking, timedatectl)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_far_off_is_told() {
        for (difference, verdict) in
            [(0.0, "good"), (-0.0004, "good"), (0.01, "note"), (-0.06, "bad")]
        {
            let told = serde_json::to_value(rate_check(difference, "tsc")).unwrap();
            assert_eq!(told["verdict"], verdict, "{told}");
        }
        let told = serde_json::to_value(rate_check(-1e-9, "tsc")).unwrap();
        assert_eq!(told["found"], "its rate is corrected by +0.000 % of that of tsc");
        let told = serde_json::to_value(rate_check(0.012, "")).unwrap();
        assert_eq!(told["found"], "its rate is corrected by +1.200 % of that of the hardware");
    }

    #[test]
    fn the_clocks_of_this_machine_can_be_compared() {
        assert!(serde_json::to_value(clock_check()).unwrap()["verdict"] != "bad");
    }
}
