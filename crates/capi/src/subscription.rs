//! Notifications.

use std::ffi::c_char;
use std::os::fd::AsRawFd;

use plasmon_client::{Code, Error, Notice, Notification, Subscription};

use crate::arguments::{
    borrow, borrow_mut, check_out, clear_out, filter, give, take_back, timeout, write_out,
};
use crate::boundary::{done, value};
use crate::connection::plasmon_store;
use crate::id::plasmon_id;

/// A subscription, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_subscription(Subscription);

/// See the header.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct plasmon_notification {
    lost: i32,
    lost_count: u64,
    id: plasmon_id,
    state: i32,
    data_bytes: u64,
    metadata_bytes: u64,
}

impl From<Notification> for plasmon_notification {
    fn from(notification: Notification) -> Self {
        match notification {
            Notification::Lost(count) => Self { lost: 1, lost_count: count, ..Self::default() },
            Notification::Notice(Notice { id, state, data_bytes, metadata_bytes }) => Self {
                id: id.into(),
                state: state as i32,
                data_bytes,
                metadata_bytes,
                ..Self::default()
            },
        }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_subscribe(
    store: *const plasmon_store,
    name_space: *const c_char,
    prefix: *const c_char,
    subscription: *mut *mut plasmon_subscription,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(subscription, "subscription") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives strings with a terminating zero, or null.
        let subscribed = store.0.subscribe(&unsafe { filter(name_space, prefix) }?)?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(subscription, "subscription", plasmon_subscription(subscribed)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_subscription_next(
    subscription: *mut plasmon_subscription,
    timeout_ms: i64,
    notification: *mut plasmon_notification,
) -> i32 {
    done(|| {
        check_out(notification, "notification")?;
        // SAFETY: the caller gives a subscription that no other thread uses, or null.
        let subscription = unsafe { borrow_mut(subscription, "subscription") }?;
        let next = subscription.0.next(timeout(timeout_ms))?;
        let late = || Error::new(Code::TimedOut, "waiting for a notification");
        // SAFETY: the caller gives room for the struct.
        unsafe { write_out(notification, "notification", next.ok_or_else(late)?.into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_subscription_fd(subscription: *const plasmon_subscription) -> i32 {
    // SAFETY: the caller gives a subscription, or null.
    value(-1, || unsafe { subscription.as_ref() }.map_or(-1, |it| it.0.fd().as_raw_fd()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_subscription_free(subscription: *mut plasmon_subscription) {
    // SAFETY: the caller gives back what subscribe gave, once, or null.
    value((), || drop(unsafe { take_back(subscription) }));
}
