//! Sleep and doorbell: how one side sleeps without missing what the other side publishes.
//!
//! ```text
//!   sleeper: flag = n; fence; look again ── nothing ──> sleep        flag = 0 after waking
//!   waker:   publish;  fence; flag = n, not rung for n yet ── ring the doorbell
//! ```
//!
//! Store buffering once more: of the two fences one comes first, so either the sleeper sees what
//! was published or the waker sees the flag.
//!
//! Every sleep has a number, so that a waker rings once for each: the sleeper may need long until
//! it runs, and whatever is published meanwhile would ring again. A waker that saw `n` and did not
//! ring, because another had rung for it, did not see `n + 1`, so the look before that sleep finds
//! what was published.

//!
//! The same pattern tells a sleeper that looks at many things whose turn it is: each of them has a
//! flag of its own ([`number_to_ring`]), set while the sleeper does not look there. A thread then
//! counts something as published only once the doorbell is rung, and it keeps still only if it
//! knows that another thread *has* rung ([`has_rung`]), not that it is about to: what it tells
//! others next must not overtake the doorbell.

use crate::sync::{AtomicU32, Ordering, fence, model_fence};

/// Says that the caller is about to sleep for the time with this number, which is not 0. It must
/// look for work once more before it does.
#[inline]
pub(crate) fn prepare_to_sleep(flag: &AtomicU32, number: u32) {
    flag.store(number, Ordering::Relaxed);
    // Pairs with the load in `must_ring_once`.
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

/// Whether a thread sleeps and must be woken, asked after publishing.
#[inline]
pub(crate) fn must_ring(flag: &AtomicU32) -> bool {
    // Pairs with the fence in `join_sleepers`.
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0
}

/// Whether this caller is the first that must wake the sleeper from its present sleep, asked after
/// publishing with a sequentially consistent read-modify-write. `rung` is what the wakers share
/// about the sleeps that they rang for.
#[inline]
pub(crate) fn must_ring_once(flag: &AtomicU32, rung: &AtomicU32) -> bool {
    // Pairs with the fence in `prepare_to_sleep`. Of what was published and this load, neither
    // overtakes the other, and no extra fence is paid for.
    model_fence();
    let number = flag.load(Ordering::SeqCst);
    number != 0
        && rung.load(Ordering::Relaxed) != number
        && rung.swap(number, Ordering::Relaxed) != number
}

/// The number that the caller must ring for before what it published counts, 0 for none; asked
/// after publishing with a sequentially consistent read-modify-write. `rung` is what the wakers
/// share about the numbers that they have rung for.
#[inline]
pub(crate) fn number_to_ring(flag: &AtomicU32, rung: &AtomicU32) -> u32 {
    // Pairs with the fence in `prepare_to_sleep`, as in `must_ring_once`.
    model_fence();
    let number = flag.load(Ordering::SeqCst);
    // Pairs with the release in `has_rung`: that doorbell comes before whatever this caller does
    // next.
    if rung.load(Ordering::Acquire) == number { 0 } else { number }
}

/// Says that the doorbell was rung for this number.
#[inline]
pub(crate) fn has_rung(rung: &AtomicU32, number: u32) {
    rung.store(number, Ordering::Release);
}
