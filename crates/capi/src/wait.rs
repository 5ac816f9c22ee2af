//! States, waits, and waits that an event loop watches.

use std::os::fd::AsRawFd;

use plasmon_client::{ObjectState, PendingWait, Result};

use crate::arguments::{
    array_mut, borrow, borrow_mut, check_out, clear_out, give, take_back, timeout, write_out,
};
use crate::boundary::{PLASMON_END, PLASMON_OK, PLASMON_PENDING, done, run, value};
use crate::connection::plasmon_store;
use crate::id::{ids, plasmon_id};

/// A wait in progress, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_pending {
    wait: PendingWait,
    count: usize,
    taken: bool,
}

/// # Safety
///
/// The caller gives room for as many states, or null.
unsafe fn write_states(pointer: *mut i32, states: &[ObjectState]) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    let room = unsafe { array_mut(pointer, states.len(), "states") }?;
    for (to, state) in room.iter_mut().zip(states) {
        to.write(*state as i32);
    }
    Ok(())
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_contains(
    store: *const plasmon_store,
    id: *const plasmon_id,
    contained: *mut i32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an id, or null.
        let found = store.0.contains(&unsafe { borrow(id, "id") }?.id())?;
        // SAFETY: the caller gives room for a number, or null.
        unsafe { write_out(contained, "contained", i32::from(found)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_states(
    store: *const plasmon_store,
    ids_given: *const plasmon_id,
    count: usize,
    states: *mut i32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        let found = store.0.states(&unsafe { ids(ids_given, count) }?)?;
        // SAFETY: the caller gives room for that many states.
        unsafe { write_states(states, &found) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_wait(
    store: *const plasmon_store,
    ids_given: *const plasmon_id,
    count: usize,
    wanted: usize,
    timeout_ms: i64,
    states: *mut i32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        let ids = unsafe { ids(ids_given, count) }?;
        let found = store.0.wait(&ids, wanted, timeout(timeout_ms))?;
        // SAFETY: the caller gives room for that many states.
        unsafe { write_states(states, &found) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_wait_start(
    store: *const plasmon_store,
    ids_given: *const plasmon_id,
    count: usize,
    wanted: usize,
    timeout_ms: i64,
    pending: *mut *mut plasmon_pending,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(pending, "pending") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        let ids = unsafe { ids(ids_given, count) }?;
        let wait = store.0.start_wait(&ids, wanted, timeout(timeout_ms))?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(pending, "pending", plasmon_pending { wait, count, taken: false }) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pending_fd(pending: *const plasmon_pending) -> i32 {
    // SAFETY: the caller gives a pending wait, or null.
    value(-1, || unsafe { pending.as_ref() }.map_or(-1, |it| it.wait.fd().as_raw_fd()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pending_poll(
    pending: *mut plasmon_pending,
    states: *mut i32,
) -> i32 {
    run(|| {
        // SAFETY: the caller gives a pending wait that no other thread uses, or null.
        let pending = unsafe { borrow_mut(pending, "pending") }?;
        if pending.count > 0 {
            // Before the answer is taken: it is given only once.
            check_out(states, "states")?;
        }
        if pending.taken {
            return Ok(PLASMON_END);
        }
        let Some(answer) = pending.wait.poll() else {
            return Ok(PLASMON_PENDING);
        };
        pending.taken = true;
        // SAFETY: the caller gives room for that many states.
        unsafe { write_states(states, &answer?) }?;
        Ok(PLASMON_OK)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pending_cancel(pending: *const plasmon_pending) -> i32 {
    done(|| {
        // SAFETY: the caller gives a pending wait, or null.
        unsafe { borrow(pending, "pending") }?.wait.cancel();
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pending_free(pending: *mut plasmon_pending) {
    // SAFETY: the caller gives back what a start gave, once, or null.
    value((), || drop(unsafe { take_back(pending) }));
}
