//! Connecting to a store, starting one, and describing it.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::time::Duration;

use plasmon_client::{
    Access, Client, Code, ConnectOptions, Error, Result, StartOptions, default_socket, start,
};

use crate::arguments::{
    array, array_mut, bad_request, borrow, clear_out, give, optional_text, options, take_back,
    text, timeout, write_optional, write_out,
};
use crate::boundary::{done, value};

/// No user is named: `PLASMON_ANY_OWNER`.
const ANY_OWNER: i64 = -1;

/// A store, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_store(pub(crate) Client);

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_connect_options {
    struct_bytes: usize,
    socket: *const c_char,
    name: *const c_char,
    without_channel: i32,
    connect_timeout_ms: i64,
    reconnect_timeout_ms: i64,
    copy_threads: u32,
    request_timeout_ms: i64,
    owner: i64,
}

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_setting {
    key: *const c_char,
    value: *const c_char,
}

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_start_options {
    struct_bytes: usize,
    daemon: *const c_char,
    settings: *const plasmon_setting,
    settings_count: usize,
    timeout_ms: i64,
}

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_store_facts {
    capacity_bytes: u64,
    level: i32,
    read_only: i32,
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Default for plasmon_connect_options {
    fn default() -> Self {
        let defaults = ConnectOptions::default();
        Self {
            struct_bytes: size_of::<Self>(),
            socket: std::ptr::null(),
            name: std::ptr::null(),
            without_channel: i32::from(!defaults.channel),
            connect_timeout_ms: milliseconds(defaults.connect_timeout),
            reconnect_timeout_ms: milliseconds(defaults.reconnect_timeout),
            copy_threads: 0,
            request_timeout_ms: milliseconds(defaults.request_timeout),
            owner: ANY_OWNER,
        }
    }
}

impl Default for plasmon_start_options {
    fn default() -> Self {
        Self {
            struct_bytes: size_of::<Self>(),
            daemon: std::ptr::null(),
            settings: std::ptr::null(),
            settings_count: 0,
            timeout_ms: milliseconds(StartOptions::default().timeout),
        }
    }
}

/// # Safety
///
/// As the header requires of the struct.
unsafe fn connect_options(pointer: *const plasmon_connect_options) -> Result<ConnectOptions> {
    // SAFETY: the caller's promise, passed on.
    let given = unsafe { options(pointer, plasmon_connect_options::default(), "options") }?;
    // SAFETY: the strings of the struct are terminated, or null.
    let socket = unsafe { optional_text(given.socket, "socket") }?.map(PathBuf::from);
    // SAFETY: the same.
    let name = unsafe { optional_text(given.name, "name") }?.unwrap_or_default().to_owned();
    let threads = given.copy_threads as usize;
    let owner = match given.owner {
        ANY_OWNER => None,
        owner => Some(
            u32::try_from(owner)
                .map_err(|_| bad_request("\"owner\" must be a user id or PLASMON_ANY_OWNER"))?,
        ),
    };
    Ok(ConnectOptions {
        socket,
        name,
        channel: given.without_channel == 0,
        connect_timeout: timeout(given.connect_timeout_ms).unwrap_or(Duration::MAX),
        reconnect_timeout: timeout(given.reconnect_timeout_ms).unwrap_or(Duration::MAX),
        request_timeout: timeout(given.request_timeout_ms).unwrap_or(Duration::MAX),
        owner,
        copy_threads: (threads > 0).then_some(threads),
        ..ConnectOptions::default()
    })
}

/// # Safety
///
/// As the header requires of the struct.
unsafe fn start_options(pointer: *const plasmon_start_options) -> Result<StartOptions> {
    // SAFETY: the caller's promise, passed on.
    let given = unsafe { options(pointer, plasmon_start_options::default(), "start") }?;
    // SAFETY: the strings of the struct are terminated, or null.
    let daemon = unsafe { optional_text(given.daemon, "daemon") }?.map(PathBuf::from);
    // SAFETY: the struct has the number of settings.
    let given_settings = unsafe { array(given.settings, given.settings_count, "settings") }?;
    let mut settings = Vec::with_capacity(given_settings.len());
    for setting in given_settings {
        // SAFETY: the strings of a setting are terminated, or null, which is refused.
        let key = unsafe { text(setting.key, "key") }?;
        // SAFETY: the same.
        settings.push((key.to_owned(), unsafe { text(setting.value, "value") }?.to_owned()));
    }
    let timeout = timeout(given.timeout_ms).unwrap_or(Duration::MAX);
    Ok(StartOptions { daemon, settings, timeout })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_connect_options_init(
    options: *mut plasmon_connect_options,
) -> i32 {
    // SAFETY: the caller gives room for the struct, or null.
    done(|| unsafe { write_out(options, "options", plasmon_connect_options::default()) })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_start_options_init(options: *mut plasmon_start_options) -> i32 {
    // SAFETY: the caller gives room for the struct, or null.
    done(|| unsafe { write_out(options, "options", plasmon_start_options::default()) })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_connect(
    options: *const plasmon_connect_options,
    store: *mut *mut plasmon_store,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(store, "store") }?;
        // SAFETY: the caller gives an initialized struct, or null.
        let options = unsafe { connect_options(options) }?;
        let connected = Client::connect(&options)?;
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { give(store, "store", plasmon_store(connected)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_connect_or_start(
    options: *const plasmon_connect_options,
    start: *const plasmon_start_options,
    store: *mut *mut plasmon_store,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(store, "store") }?;
        // SAFETY: the caller gives an initialized struct, or null.
        let options = unsafe { connect_options(options) }?;
        // SAFETY: the same.
        let start = unsafe { start_options(start) }?;
        let connected = Client::connect_or_start(&options, &start)?;
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { give(store, "store", plasmon_store(connected)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_start(
    options: *const plasmon_start_options,
    pid: *mut u32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an initialized struct, or null.
        let started = start(&unsafe { start_options(options) }?)?;
        // SAFETY: the caller gives room for a number, or null.
        unsafe { write_optional(pid, started.pid) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_default_socket(text: *mut c_char, bytes: usize) -> i32 {
    done(|| {
        let socket = default_socket()?.into_os_string().into_encoded_bytes();
        if bytes <= socket.len() {
            return Err(Error::new(Code::LimitReached, "writing the path of the socket")
                .with_amounts(socket.len() as u64 + 1, bytes as u64));
        }
        // SAFETY: the caller gives room for `bytes` bytes, or null; these are fewer.
        let room = unsafe { array_mut(text.cast::<u8>(), socket.len() + 1, "text") }?;
        for (to, byte) in room.iter_mut().zip(socket.into_iter().chain([0])) {
            to.write(byte);
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_store_close(store: *mut plasmon_store) {
    // SAFETY: the caller gives back what a connect gave, once, or null.
    value((), || drop(unsafe { take_back(store) }));
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_store_disconnect(store: *mut plasmon_store) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        unsafe { borrow(store, "store") }?.0.disconnect();
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_store_shutdown(store: *mut plasmon_store) -> i32 {
    // SAFETY: the caller gives an open store, or null.
    done(|| unsafe { borrow(store, "store") }?.0.shutdown())
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_store_describe(
    store: *const plasmon_store,
    facts: *mut plasmon_store_facts,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = &unsafe { borrow(store, "store") }?.0;
        let described = plasmon_store_facts {
            capacity_bytes: store.capacity_bytes(),
            level: store.level() as i32,
            read_only: i32::from(store.access() == Access::ReadOnly),
        };
        // SAFETY: the caller gives room for the struct, or null.
        unsafe { write_out(facts, "facts", described) }
    })
}

/// # Safety
///
/// The caller gives room for a pointer, or null.
unsafe fn give_json(json: *mut *mut c_char, value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::new(Code::Io, "writing JSON").with_detail(error.to_string()))?;
    let text = CString::new(text).map_err(|_| bad_request("a string with a zero byte in it"))?;
    // SAFETY: the caller's promise, passed on. `plasmon_text_free` takes it back.
    unsafe { write_out(json, "json", text.into_raw()) }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_status_json(
    store: *const plasmon_store,
    json: *mut *mut c_char,
) -> i32 {
    done(|| {
        crate::arguments::check_out(json, "json")?;
        // SAFETY: the caller gives an open store, or null.
        let status = unsafe { borrow(store, "store") }?.0.status()?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give_json(json, &status) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_clients_json(
    store: *const plasmon_store,
    json: *mut *mut c_char,
) -> i32 {
    done(|| {
        crate::arguments::check_out(json, "json")?;
        // SAFETY: the caller gives an open store, or null.
        let clients = unsafe { borrow(store, "store") }?.0.clients()?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give_json(json, &clients) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_text_free(text: *mut c_char) {
    value((), || {
        if !text.is_null() {
            // SAFETY: the caller gives back a text that this library gave, once.
            drop(unsafe { CString::from_raw(text) });
        }
    });
}
