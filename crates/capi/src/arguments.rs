//! From C's pointers to Rust's values, and back. A null pointer that is not allowed is an error.

use std::ffi::{CStr, c_char};
use std::slice;
use std::time::Duration;

use plasmon_client::{Code, Error, Filter, Result};

/// An invalid call.
pub(crate) fn bad_request(detail: impl Into<String>) -> Error {
    Error::new(Code::BadRequest, "reading the arguments of a call").with_detail(detail)
}

fn null(name: &str) -> Error {
    bad_request(format!("\"{name}\" is null"))
}

/// The value behind a pointer.
///
/// # Safety
///
/// The pointer is null, or points to a value that stays as it is during the call.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: promised by the caller; null is handled here.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The value behind a pointer, which is not used elsewhere meanwhile.
///
/// # Safety
///
/// As [`borrow`], and the value is not used otherwise during the call.
pub(crate) unsafe fn borrow_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: promised by the caller; null is handled here.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Refuses a null before there is anything to write through it.
pub(crate) fn check_out<T>(pointer: *mut T, name: &str) -> Result<()> {
    if pointer.is_null() { Err(null(name)) } else { Ok(()) }
}

/// Writes a result.
///
/// # Safety
///
/// The pointer is null, or points to memory of the caller for one value, initialized or not.
pub(crate) unsafe fn write_out<T>(pointer: *mut T, name: &str, value: T) -> Result<()> {
    check_out(pointer, name)?;
    // SAFETY: not null, and the caller promises the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes an optional result.
///
/// # Safety
///
/// As [`write_out`].
pub(crate) unsafe fn write_optional<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not null, and the caller promises the rest.
        unsafe { pointer.write(value) };
    }
}

/// Writes null where [`give`] is to put a value, so that a failed call leaves no value there that
/// could be given back.
///
/// # Safety
///
/// As [`write_out`].
pub(crate) unsafe fn clear_out<T>(pointer: *mut *mut T, name: &str) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe { write_out(pointer, name, std::ptr::null_mut()) }
}

/// Gives a value to the caller, who gives it back to [`take_back`].
///
/// # Safety
///
/// As [`write_out`].
pub(crate) unsafe fn give<T>(pointer: *mut *mut T, name: &str, value: T) -> Result<()> {
    check_out(pointer, name)?;
    // SAFETY: not null, and the caller promises the rest.
    unsafe { pointer.write(Box::into_raw(Box::new(value))) };
    Ok(())
}

/// Takes back what [`give`] gave; `None` for null.
///
/// # Safety
///
/// The pointer is null or comes from `give`, and was not taken back before.
pub(crate) unsafe fn take_back<T>(pointer: *mut T) -> Option<T> {
    // SAFETY: it comes from `Box::into_raw` in `give`, once.
    (!pointer.is_null()).then(|| *unsafe { Box::from_raw(pointer) })
}

/// Bytes; null is allowed for an empty array.
///
/// # Safety
///
/// `count` values lie at the pointer and stay as they are during the call.
pub(crate) unsafe fn array<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(bad_request(format!(
            "\"{name}\" has {count} elements, more than memory can hold"
        )));
    }
    check_out(pointer.cast_mut(), name)?;
    // SAFETY: not null, of a possible length, and the caller promises the rest.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Room for results.
///
/// # Safety
///
/// As [`array`], and nothing else uses the memory during the call. It must be initialized, or `T`
/// be made of integers, for which C promises no more than memory.
pub(crate) unsafe fn array_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [std::mem::MaybeUninit<T>]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_out(pointer, name)?;
    // SAFETY: not null, and the caller promises the rest; nothing is read through it.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), count) })
}

/// A string that may be absent.
///
/// # Safety
///
/// The pointer is null, or a string with a terminating zero lies there during the call.
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| bad_request(format!("\"{name}\" is not UTF-8")))
}

/// A string.
///
/// # Safety
///
/// As [`optional_text`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise, passed on.
    unsafe { optional_text(pointer, name) }?.ok_or_else(|| null(name))
}

/// A filter; null means any.
///
/// # Safety
///
/// As [`optional_text`], for both.
pub(crate) unsafe fn filter(name_space: *const c_char, prefix: *const c_char) -> Result<Filter> {
    // SAFETY: the caller's promise, passed on.
    let namespace = unsafe { optional_text(name_space, "name_space") }?.map(str::to_owned);
    // SAFETY: the same.
    let prefix = unsafe { optional_text(prefix, "prefix") }?.map(str::to_owned);
    Ok(Filter { namespace, prefix })
}

/// A timeout; negative numbers wait without a limit.
pub(crate) fn timeout(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// The fields of an options struct that the caller's header knew; the defaults for the rest.
///
/// # Safety
///
/// The pointer is null or points to a struct whose first field, `struct_bytes`, is how many bytes
/// of it the caller has.
pub(crate) unsafe fn options<T: Copy>(pointer: *const T, defaults: T, name: &str) -> Result<T> {
    if pointer.is_null() {
        return Ok(defaults);
    }
    // SAFETY: the struct begins with its size, as the caller ensures.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    if bytes < size_of::<usize>() || bytes > size_of::<T>() {
        return Err(bad_request(format!(
            "\"{name}\" has {bytes} bytes where at most {} are known: \
             fill it with its init function",
            size_of::<T>()
        )));
    }
    let mut options = defaults;
    // SAFETY: `bytes` bytes are readable at the pointer by its own size field, and fit
    // `options`; both are structs of integers and pointers.
    unsafe {
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut options).cast::<u8>(), bytes);
    }
    Ok(options)
}
