//! The clock of the node: it never runs backwards, and goes on while the machine is suspended, for
//! a lease runs out then, too.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Neither is negative on this clock.
    (now.tv_sec as u64).saturating_mul(1_000_000).saturating_add(now.tv_nsec as u64 / 1000)
}

/// Milliseconds.
pub fn now_ms() -> u64 {
    now_us() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_run_backwards() {
        let first = now_us();
        let then = now_us();
        assert!(first > 0 && then >= first && now_ms() >= then / 1000);
    }
}
