//! Arrays of nothing but nulls, as some producers hand them over.
//!
//! The Arrow C data interface gives them no buffers. Some producers give them one, empty, and the
//! import of arrow-rs refuses that. The buffers are hidden while the array is in use; the producer
//! gets its structures back as they were when it is asked to release them.

use std::ffi::c_void;

use arrow_schema::DataType;

use crate::raw::RawArray;
use crate::structure::children as types;

/// The original structures of an array.
struct OriginalStructure {
    /// The outermost one's number of buffers; it may be moved, the others stay where they are.
    own: Option<i64>,
    inner: Vec<(*mut RawArray, i64)>,
    release: unsafe extern "C" fn(*mut RawArray),
    private_data: *mut c_void,
}

/// Hides the buffers of nulls in an array, at any depth, until it is released.
///
/// # Safety
///
/// `array` is a valid array of the C data interface, of this type, and used by nothing else.
pub(crate) unsafe fn hide_buffers(array: *mut RawArray, data_type: &DataType) {
    // SAFETY: by this function's contract.
    let raw = unsafe { &mut *array };
    let Some(release) = raw.release else { return };
    let mut inner = Vec::new();
    // SAFETY: by this function's contract.
    unsafe { hide_in_children(raw, data_type, &mut inner) };
    let own = is_wrong(raw, data_type).then(|| std::mem::take(&mut raw.n_buffers));
    if own.is_none() && inner.is_empty() {
        return;
    }
    let hidden = OriginalStructure { own, inner, release, private_data: raw.private_data };
    raw.private_data = Box::into_raw(Box::new(hidden)).cast();
    raw.release = Some(show_and_release);
}

fn is_wrong(raw: &RawArray, data_type: &DataType) -> bool {
    matches!(data_type, DataType::Null) && raw.n_buffers != 0
}

/// # Safety
///
/// As for [`hide_buffers`].
unsafe fn hide_in_children(
    raw: &RawArray,
    data_type: &DataType,
    hidden: &mut Vec<(*mut RawArray, i64)>,
) {
    let children = usize::try_from(raw.n_children).unwrap_or_default();
    for (at, inner) in types(data_type).into_iter().enumerate().take(children) {
        // SAFETY: an array has as many children as it says.
        unsafe { hide_in(*raw.children.add(at), inner, hidden) };
    }
    if let DataType::Dictionary(_, values) = data_type {
        // SAFETY: an array of this type has a dictionary, or null.
        unsafe { hide_in(raw.dictionary, values, hidden) };
    }
}

/// # Safety
///
/// As for [`hide_buffers`]; the array may be null.
unsafe fn hide_in(
    array: *mut RawArray,
    data_type: &DataType,
    hidden: &mut Vec<(*mut RawArray, i64)>,
) {
    // SAFETY: by this function's contract.
    let Some(raw) = (unsafe { array.as_mut() }) else { return };
    // SAFETY: as above.
    unsafe { hide_in_children(raw, data_type, hidden) };
    if is_wrong(raw, data_type) {
        hidden.push((array, std::mem::take(&mut raw.n_buffers)));
    }
}

/// Puts the structures back as they were, and releases them.
unsafe extern "C" fn show_and_release(array: *mut RawArray) {
    // SAFETY: the C data interface calls this once, with the array that it was put into.
    unsafe {
        let raw = &mut *array;
        let hidden = Box::from_raw(raw.private_data.cast::<OriginalStructure>());
        for (inner, buffers) in &hidden.inner {
            (**inner).n_buffers = *buffers;
        }
        if let Some(buffers) = hidden.own {
            raw.n_buffers = buffers;
        }
        raw.private_data = hidden.private_data;
        raw.release = Some(hidden.release);
        (hidden.release)(array);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use arrow_schema::Field;

    use super::*;

    /// The buffers that the producer saw when it was asked to release an array and its child.
    static SEEN: AtomicI64 = AtomicI64::new(0);

    unsafe extern "C" fn release(array: *mut RawArray) {
        // SAFETY: the array of the test, which has one child.
        unsafe {
            let child = &**(*array).children;
            SEEN.store((*array).n_buffers * 10 + child.n_buffers, Ordering::Relaxed);
            (*array).release = None;
        }
    }

    fn raw(n_buffers: i64, children: &mut [*mut RawArray]) -> RawArray {
        RawArray {
            length: 1,
            null_count: 0,
            offset: 0,
            n_buffers,
            n_children: children.len() as i64,
            buffers: std::ptr::null_mut(),
            children: children.as_mut_ptr(),
            dictionary: std::ptr::null_mut(),
            release: Some(release),
            private_data: std::ptr::null_mut(),
        }
    }

    /// The producer's structure was changed for good: what it would have freed by the number of
    /// buffers leaked. Only the children of structures were looked at.
    #[test]
    fn a_producer_gets_its_structures_back() {
        let mut nulls = raw(1, &mut []);
        let mut children = [&raw mut nulls];
        let mut list = raw(2, &mut children);
        let inner = Arc::new(Field::new("item", DataType::Null, true));
        // SAFETY: the structures are lists of nulls.
        unsafe { hide_buffers(&raw mut list, &DataType::List(inner)) };
        assert_eq!((nulls.n_buffers, list.n_buffers), (0, 2));
        // Arrays are moved while they are in use.
        let mut moved = Box::new(list);
        let release = moved.release.expect("it is not released yet");
        // SAFETY: called once, as the interface has it.
        unsafe { release(&raw mut *moved) };
        assert_eq!(SEEN.load(Ordering::Relaxed), 21);
        assert!(moved.release.is_none());
    }
}
