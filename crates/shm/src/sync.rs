//! The atomics that the protocols are written with: the standard ones, or loom's in a model.

#[cfg(not(loom))]
pub(crate) use std::sync::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The fence between a sequentially consistent store and the load that must not overtake it.
///
/// The hot path stores with a sequentially consistent read-modify-write and loads with sequentially
/// consistent loads, which is all the language asks for; on x86-64 the locked instruction already
/// drains the store buffer and a second fence would cost as much again. Loom treats sequentially
/// consistent *accesses* as acquire and release only and knows just the *fence* in full, so a model
/// needs it spelled out.
#[inline(always)]
pub(crate) fn model_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
