//! When a keeper starts the next daemon, and when it gives up: a pure decision.
//!
//! A daemon that dies before it serves will die again, so a few such deaths in a row are the end.
//! One that could not start because the machine is out of something is another matter: the objects
//! are all there, and the next one may start, so the keeper waits for minutes. One that served and
//! was killed is started again at once; only a long row of short lives, which no person and no test
//! makes by hand, is slowed down and ended.

use std::time::Duration;

/// Deaths in a row before serving, after which the keeper gives up.
pub(crate) const FAILED_STARTS_MAX: u32 = 5;
/// The wait after the first failed start; it doubles with each.
pub(crate) const FAILED_START_WAIT: Duration = Duration::from_millis(20);
/// Starts in a row for which the machine was out of something, after which the keeper gives up:
/// after ten minutes.
pub(crate) const SHORTAGES_MAX: u32 = 600;
/// The longest wait after one of them. It begins with [`FAILED_START_WAIT`] and doubles, too.
pub(crate) const SHORTAGE_WAIT_MAX: Duration = Duration::from_secs(1);
/// A daemon that served for less than this had a short life.
pub(crate) const SHORT_LIFE: Duration = Duration::from_millis(1000);
/// Short lives in a row that cost no wait.
pub(crate) const SHORT_LIVES_FREE: u32 = 16;
/// The wait after each further one.
pub(crate) const SHORT_LIFE_WAIT: Duration = Duration::from_millis(50);
/// Short lives in a row after which the keeper gives up.
pub(crate) const SHORT_LIVES_MAX: u32 = 10_000;

/// How one daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Before it accepted connections.
    Starting,
    /// Before that, because the machine was out of memory, descriptors or the like.
    Shortage,
    /// After it had done so for this long.
    Serving(Duration),
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Start another one after this time.
    Restart(Duration),
    /// Let the store go.
    GiveUp,
}

/// The deaths seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RestartPolicy {
    failed_starts: u32,
    shortages: u32,
    short_lives: u32,
}

impl RestartPolicy {
    /// Daemons that died in a row before they served, over something else than a shortage.
    pub(crate) fn failed_starts(&self) -> u32 {
        self.failed_starts
    }

    /// Decides about one more death.
    pub(crate) fn after(&mut self, death: Death) -> Decision {
        match death {
            Death::Starting => {
                self.failed_starts += 1;
                if self.failed_starts >= FAILED_STARTS_MAX {
                    return Decision::GiveUp;
                }
                Decision::Restart(FAILED_START_WAIT * (1 << (self.failed_starts - 1)))
            }
            Death::Shortage => {
                self.shortages += 1;
                if self.shortages >= SHORTAGES_MAX {
                    return Decision::GiveUp;
                }
                let doubled = FAILED_START_WAIT.saturating_mul(1 << (self.shortages - 1).min(16));
                Decision::Restart(doubled.min(SHORTAGE_WAIT_MAX))
            }
            Death::Serving(life) if life < SHORT_LIFE => {
                (self.failed_starts, self.shortages) = (0, 0);
                self.short_lives += 1;
                match self.short_lives {
                    count if count >= SHORT_LIVES_MAX => Decision::GiveUp,
                    count if count > SHORT_LIVES_FREE => Decision::Restart(SHORT_LIFE_WAIT),
                    _ => Decision::Restart(Duration::ZERO),
                }
            }
            Death::Serving(_) => {
                *self = Self::default();
                Decision::Restart(Duration::ZERO)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_starts_wait_longer_and_end() {
        let mut restart_policy = RestartPolicy::default();
        for wait_ms in [20, 40, 80, 160] {
            let wait = Duration::from_millis(wait_ms);
            assert_eq!(restart_policy.after(Death::Starting), Decision::Restart(wait));
        }
        assert_eq!(restart_policy.failed_starts(), 4);
        assert_eq!(restart_policy.after(Death::Starting), Decision::GiveUp);
    }

    /// Half a second without free descriptors while the daemon was started again ended the store,
    /// with every object in it.
    #[test]
    fn a_shortage_is_waited_for_and_is_no_failed_start() {
        let mut restart_policy = RestartPolicy::default();
        let mut waited = Duration::ZERO;
        for count in 1..SHORTAGES_MAX {
            let Decision::Restart(wait) = restart_policy.after(Death::Shortage) else {
                panic!("it gives up after {count}")
            };
            assert!((FAILED_START_WAIT..=SHORTAGE_WAIT_MAX).contains(&wait));
            waited += wait;
        }
        assert!(waited > Duration::from_secs(9 * 60));
        assert_eq!(restart_policy.failed_starts(), 0);
        assert_eq!(restart_policy.after(Death::Shortage), Decision::GiveUp);
        restart_policy.after(Death::Serving(Duration::ZERO));
        assert_eq!(restart_policy.after(Death::Shortage), Decision::Restart(FAILED_START_WAIT));
    }

    #[test]
    fn a_served_life_forgives_failed_starts_and_a_long_one_everything() {
        let mut restart_policy = RestartPolicy::default();
        for _ in 1..FAILED_STARTS_MAX {
            restart_policy.after(Death::Starting);
        }
        let short = Death::Serving(Duration::from_millis(1));
        assert_eq!(restart_policy.after(short), Decision::Restart(Duration::ZERO));
        for _ in 1..SHORT_LIVES_FREE {
            assert_eq!(restart_policy.after(short), Decision::Restart(Duration::ZERO));
        }
        assert_eq!(restart_policy.after(short), Decision::Restart(SHORT_LIFE_WAIT));
        assert_eq!(
            restart_policy.after(Death::Serving(SHORT_LIFE)),
            Decision::Restart(Duration::ZERO)
        );
        assert_eq!(restart_policy.after(short), Decision::Restart(Duration::ZERO));
    }

    #[test]
    fn endless_short_lives_end() {
        let mut restart_policy = RestartPolicy::default();
        let short = Death::Serving(Duration::ZERO);
        for _ in 1..SHORT_LIVES_MAX {
            assert_ne!(restart_policy.after(short), Decision::GiveUp);
        }
        assert_eq!(restart_policy.after(short), Decision::GiveUp);
    }
}
