//! Scopes: objects that stay together or not at all.

use plasmon_client::Scope;

use crate::arguments::{bad_request, borrow, clear_out, give, take_back};
use crate::boundary::done;
use crate::connection::plasmon_store;
use crate::id::{ids, plasmon_id};

/// A scope, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_scope(Scope);

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_scope_open(
    store: *const plasmon_store,
    ids_given: *const plasmon_id,
    count: usize,
    scope: *mut *mut plasmon_scope,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(scope, "scope") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives so many ids, or null when there are none.
        let opened = store.0.scope(&unsafe { ids(ids_given, count) }?)?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(scope, "scope", plasmon_scope(opened)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_scope_add(
    scope: *const plasmon_scope,
    ids_given: *const plasmon_id,
    count: usize,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a scope, or null.
        let scope = unsafe { borrow(scope, "scope") }?;
        // SAFETY: the caller gives so many ids, or null when there are none.
        scope.0.add(&unsafe { ids(ids_given, count) }?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_scope_publish(scope: *mut plasmon_scope) -> i32 {
    done(|| {
        // SAFETY: the caller gives back what open gave, once, or null.
        let scope = unsafe { take_back(scope) }.ok_or_else(|| bad_request("\"scope\" is null"))?;
        scope.0.publish()
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_scope_abort(scope: *mut plasmon_scope) -> i32 {
    done(|| {
        // SAFETY: the caller gives back what open gave, once, or null.
        unsafe { take_back(scope) }.map_or(Ok(()), |scope| scope.0.abort())
    })
}
