//! Sleep and doorbell: how one side sleeps without missing what the other side publishes.
//!
//! ```text
//!   sleeper: flag = 1; fence; look again ── nothing ──> sleep        flag = 0 after waking
//!   waker:   publish;  fence; flag != 0  ── ring the doorbell
//! ```
//!
//! Store buffering once more: of the two fences one comes first, so either the sleeper sees what
//! was published or the waker sees the flag.

use crate::sync::{AtomicU32, Ordering, fence};

/// Says that the caller is about to sleep. It must look for work once more before it does.
#[inline]
pub(crate) fn prepare_to_sleep(flag: &AtomicU32) {
    flag.store(1, Ordering::Relaxed);
    // Pairs with the fence in `must_ring`.
    fence(Ordering::SeqCst);
}

/// Says that the caller is awake, or stays so.
#[inline]
pub(crate) fn stay_awake(flag: &AtomicU32) {
    flag.store(0, Ordering::Relaxed);
}

/// Counts the caller among several sleepers. It must look once more before it sleeps.
#[inline]
pub(crate) fn join_sleepers(flag: &AtomicU32) {
    flag.fetch_add(1, Ordering::Relaxed);
    // Pairs with the fence in `must_ring`.
    fence(Ordering::SeqCst);
}

/// The opposite of [`join_sleepers`].
#[inline]
pub(crate) fn leave_sleepers(flag: &AtomicU32) {
    flag.fetch_sub(1, Ordering::Relaxed);
}

/// Whether somebody sleeps and must be woken, asked after publishing.
#[inline]
pub(crate) fn must_ring(flag: &AtomicU32) -> bool {
    // Pairs with the fence in `prepare_to_sleep` and `join_sleepers`.
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0
}
