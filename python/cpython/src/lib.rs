//! Fast access to CPython's objects: types by address, numbers and strings in place.
//!
//! Everything that depends on how a version of Python lays objects out is here, with a way around
//! it for versions that it is not known for.

pub mod attributes;
pub mod buffer;
pub mod destructor;
pub mod dtype;
pub mod memo;
pub mod ndarray;
pub mod signals;

// Lists and dicts are read where they lie, on the promise that no other thread runs meanwhile.
#[cfg(Py_GIL_DISABLED)]
compile_error!(
    "plasmon needs a Python with a global interpreter lock: build it for python3.11 and later \
     without the suffix t"
);
#[cfg(any(PyPy, GraalPy))]
compile_error!("plasmon needs CPython: it reads its objects where they lie");

use std::ffi::{c_char, c_int};

use pyo3::ffi;
use pyo3::prelude::*;

/// An object. Each type that keeps one says whether it holds a reference, or what does.
pub type Ptr = *mut ffi::PyObject;

/// The types of objects that the encoder distinguishes itself. Subclasses are foreign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `None`.
    None,
    /// An exact `bool`.
    Bool,
    /// An exact `int`.
    Int,
    /// An exact `float`.
    Float,
    /// An exact `str`.
    Str,
    /// An exact `bytes`.
    Bytes,
    /// An exact `list`.
    List,
    /// An exact `tuple`.
    Tuple,
    /// An exact `dict`.
    Dict,
    /// An exact `set`.
    Set,
    /// An exact `frozenset`.
    FrozenSet,
    /// Anything else.
    Foreign,
}

impl Shape {
    /// Whether it holds other objects.
    pub fn is_container(self) -> bool {
        matches!(self, Self::List | Self::Tuple | Self::Dict | Self::Set | Self::FrozenSet)
    }
}

/// The type of an object.
///
/// # Safety
///
/// `object` must be alive, and the thread attached to the interpreter.
#[inline]
pub unsafe fn type_of(object: Ptr) -> *mut ffi::PyTypeObject {
    // SAFETY: alive by this function's contract.
    unsafe { ffi::Py_TYPE(object) }
}

/// What an object is.
///
/// # Safety
///
/// As for [`type_of`].
#[inline]
pub unsafe fn shape(object: Ptr) -> Shape {
    // SAFETY: alive by this function's contract.
    let kind = unsafe { type_of(object) };
    if kind == &raw mut ffi::PyUnicode_Type {
        Shape::Str
    } else if kind == &raw mut ffi::PyLong_Type {
        Shape::Int
    } else if kind == &raw mut ffi::PyFloat_Type {
        Shape::Float
    } else if kind == &raw mut ffi::PyDict_Type {
        Shape::Dict
    } else if kind == &raw mut ffi::PyList_Type {
        Shape::List
    } else if kind == &raw mut ffi::PyTuple_Type {
        Shape::Tuple
    } else if kind == &raw mut ffi::PyBool_Type {
        Shape::Bool
    } else if is_none(object) {
        Shape::None
    } else if kind == &raw mut ffi::PySet_Type {
        Shape::Set
    } else if kind == &raw mut ffi::PyBytes_Type {
        Shape::Bytes
    } else if kind == &raw mut ffi::PyFrozenSet_Type {
        Shape::FrozenSet
    } else {
        Shape::Foreign
    }
}

/// Whether an object is of exactly this type.
///
/// # Safety
///
/// As for [`type_of`].
#[inline]
pub unsafe fn is_exact(object: Ptr, kind: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: alive by this function's contract.
    unsafe { type_of(object) == kind }
}

/// Whether an object is `None`.
#[inline]
pub fn is_none(object: Ptr) -> bool {
    // SAFETY: None is alive for as long as the interpreter is.
    object == unsafe { ffi::Py_None() }
}

/// How many references there are to an object; those that live forever have very many.
///
/// # Safety
///
/// As for [`type_of`].
#[inline]
pub unsafe fn references(object: Ptr) -> isize {
    // SAFETY: alive by this function's contract.
    unsafe { ffi::Py_REFCNT(object) }
}

/// The value of an exact float.
///
/// # Safety
///
/// `object` must be an exact float that is alive.
#[inline]
pub unsafe fn float(object: Ptr) -> f64 {
    // SAFETY: an exact float by this function's contract.
    unsafe { ffi::PyFloat_AS_DOUBLE(object) }
}

/// The value of an exact int, if it has 64 bits.
///
/// # Safety
///
/// `object` must be an exact int that is alive.
#[cfg(not(Py_3_12))]
#[inline]
pub unsafe fn int(object: Ptr) -> Option<i64> {
    // Up to Python 3.11 an int is a size and digits of 30 bits, as `sys.int_info` would say.
    #[repr(C)]
    struct Long {
        base: ffi::PyVarObject,
        digits: [u32; 2],
    }
    // SAFETY: an exact int of Python 3.11, alive; one of size 1 or 2 has that many digits.
    unsafe {
        let long = object.cast::<Long>();
        match (*long).base.ob_size {
            1 => return Some(i64::from((*long).digits[0])),
            2 => {
                let digits = (*long).digits;
                return Some(i64::from(digits[0]) | i64::from(digits[1]) << 30);
            }
            _ => {}
        }
    }
    // SAFETY: as above.
    unsafe { checked_int(object) }
}

/// The value of an exact int, if it has 64 bits.
///
/// # Safety
///
/// `object` must be an exact int that is alive.
#[cfg(Py_3_12)]
#[inline]
pub unsafe fn int(object: Ptr) -> Option<i64> {
    // SAFETY: by this function's contract.
    unsafe { checked_int(object) }
}

/// # Safety
///
/// As for [`int`].
#[inline]
unsafe fn checked_int(object: Ptr) -> Option<i64> {
    let mut overflow: c_int = 0;
    // SAFETY: an exact int never runs Python code and never fails.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
    (overflow == 0).then_some(value)
}

/// The UTF-8 of an exact str, and whether it is ASCII. `None` for one with surrogates.
///
/// # Safety
///
/// `object` must be an exact str that is alive; the bytes live as long as it does.
#[inline]
pub unsafe fn utf8<'a>(object: Ptr) -> Option<&'a [u8]> {
    #[cfg(not(Py_3_14))]
    // SAFETY: an exact str; a compact ASCII one has its bytes after its header.
    unsafe {
        if ffi::PyUnicode_IS_COMPACT_ASCII(object) != 0 {
            let bytes = ffi::PyUnicode_1BYTE_DATA(object);
            let length = ffi::PyUnicode_GET_LENGTH(object);
            return Some(std::slice::from_raw_parts(bytes, length as usize));
        }
    }
    let mut length = 0;
    // SAFETY: an exact str; its UTF-8 is kept with it.
    let bytes = unsafe { ffi::PyUnicode_AsUTF8AndSize(object, &raw mut length) };
    if bytes.is_null() {
        // SAFETY: attached to the interpreter; the error is that it has surrogates.
        unsafe { ffi::PyErr_Clear() };
        return None;
    }
    // SAFETY: the call says how many bytes there are.
    Some(unsafe { std::slice::from_raw_parts(bytes.cast(), length as usize) })
}

/// The bytes of an exact bytes object.
///
/// # Safety
///
/// `object` must be an exact bytes object that is alive; the bytes live as long as it does.
#[inline]
pub unsafe fn bytes<'a>(object: Ptr) -> &'a [u8] {
    // SAFETY: an exact bytes object by this function's contract.
    unsafe {
        let start = ffi::PyBytes_AS_STRING(object);
        std::slice::from_raw_parts(start.cast(), ffi::PyBytes_Size(object) as usize)
    }
}

/// The items of an exact list, where they lie. They move when the list changes.
///
/// # Safety
///
/// `list` must be an exact list that is alive and does not change meanwhile.
#[inline]
pub unsafe fn list_items<'a>(list: Ptr) -> &'a [Ptr] {
    // SAFETY: by this function's contract; a list without items may have no memory for them.
    unsafe {
        let length = ffi::PyList_GET_SIZE(list) as usize;
        if length == 0 {
            return &[];
        }
        std::slice::from_raw_parts((*list.cast::<ffi::PyListObject>()).ob_item, length)
    }
}

/// The items of an exact tuple, where they lie.
///
/// # Safety
///
/// `tuple` must be an exact tuple that is alive; the slice must not outlive it.
#[inline]
pub unsafe fn tuple_items<'a>(tuple: Ptr) -> &'a [Ptr] {
    // SAFETY: by this function's contract.
    unsafe {
        let length = ffi::PyTuple_GET_SIZE(tuple) as usize;
        let items = &raw const (*tuple.cast::<ffi::PyTupleObject>()).ob_item;
        std::slice::from_raw_parts(items.cast::<Ptr>(), length)
    }
}

/// Gives each key and value of an exact dict, borrowed from it.
///
/// # Safety
///
/// `dict` must be an exact dict that is alive and does not change meanwhile.
#[inline]
pub unsafe fn dict_items(dict: Ptr, mut give: impl FnMut(Ptr, Ptr) -> bool) {
    let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: by this function's contract.
    while unsafe { ffi::PyDict_Next(dict, &raw mut position, &raw mut key, &raw mut value) != 0 } {
        if !give(key, value) {
            return;
        }
    }
}

#[cfg(not(Py_3_13))]
unsafe extern "C" {
    fn _PySet_NextEntry(
        set: Ptr,
        position: *mut ffi::Py_ssize_t,
        key: *mut Ptr,
        hash: *mut ffi::Py_hash_t,
    ) -> c_int;
}

/// Appends the items of an exact set or frozenset, borrowed from it.
///
/// # Safety
///
/// `set` must be an exact set or frozenset that is alive and does not change meanwhile.
#[inline]
pub unsafe fn set_items(py: Python<'_>, set: Ptr, items: &mut Vec<Ptr>) -> PyResult<()> {
    #[cfg(not(Py_3_13))]
    {
        let _ = py;
        let (mut position, mut key, mut hash) = (0, std::ptr::null_mut(), 0);
        // SAFETY: by this function's contract; Python 3.11 and 3.12 export the function.
        while unsafe { _PySet_NextEntry(set, &raw mut position, &raw mut key, &raw mut hash) != 0 }
        {
            items.push(key);
        }
    }
    #[cfg(Py_3_13)]
    {
        // SAFETY: by this function's contract; the iterator of an exact set runs no Python code.
        unsafe {
            let iterator = Bound::from_owned_ptr_or_err(py, ffi::PyObject_GetIter(set))?;
            loop {
                let item = ffi::PyIter_Next(iterator.as_ptr());
                if item.is_null() {
                    break;
                }
                // The set holds a reference of its own.
                ffi::Py_DECREF(item);
                items.push(item);
            }
        }
        if let Some(error) = PyErr::take(py) {
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(not(Py_3_14))]
unsafe extern "C" {
    fn _PyDict_NewPresized(length: ffi::Py_ssize_t) -> Ptr;
}

/// A new dict with room for `count` items, or null with an error set.
///
/// # Safety
///
/// The thread must be attached to the interpreter.
#[inline]
pub unsafe fn new_dict(length: usize) -> Ptr {
    #[cfg(not(Py_3_14))]
    // SAFETY: attached; Python exports the function for its own modules.
    unsafe {
        _PyDict_NewPresized(length as ffi::Py_ssize_t)
    }
    #[cfg(Py_3_14)]
    // SAFETY: attached.
    unsafe {
        let _ = length;
        ffi::PyDict_New()
    }
}

/// Up to this many bytes are copied one by one.
const FEW: usize = 16;

/// A new str of text that is probably ASCII, or null with an error set, also for what is not UTF-8.
///
/// The text may change meanwhile: what it is is decided on the copy.
///
/// # Safety
///
/// The thread must be attached to the interpreter.
#[inline]
pub unsafe fn new_ascii(text: &[u8]) -> Ptr {
    if text.len() < 2 {
        // The empty one and those of one character are shared.
        let copy = [text.first().copied().unwrap_or_default()];
        // SAFETY: attached.
        return unsafe { decoded(&copy[..text.len()]) };
    }
    // SAFETY: attached; the new object has room for that many characters of one byte, and no code
    // has seen it. One that turns out not to be ASCII is dropped as it is.
    unsafe {
        let made = ffi::PyUnicode_New(text.len() as ffi::Py_ssize_t, 127);
        if made.is_null() {
            return made;
        }
        let ascii = copy_ascii(text, ffi::PyUnicode_1BYTE_DATA(made));
        if ascii {
            return made;
        }
        ffi::Py_DECREF(made);
    }
    // SAFETY: attached.
    unsafe { new_str(text) }
}

/// Copies text that may change meanwhile, and says whether the copy is ASCII.
///
/// A string that says it is ASCII and is not crashes Python. So every byte is read once: a compiler
/// that sees plain reads makes one `memcpy` of the copy, and looks at the text again.
///
/// # Safety
///
/// There is room for as many bytes.
#[inline]
unsafe fn copy_ascii(text: &[u8], room: *mut u8) -> bool {
    if text.len() <= FEW {
        // For few bytes a call would take longer.
        let mut all = 0;
        for (at, byte) in text.iter().enumerate() {
            // SAFETY: a byte of the text, and room for it.
            unsafe {
                let byte = std::ptr::from_ref(byte).read_volatile();
                room.add(at).write(byte);
                all |= byte;
            }
        }
        return all < 128;
    }
    // SAFETY: room for all of it. What the compiler cannot see may have changed the copy, so the
    // copy is what it looks at.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), room, text.len());
        std::slice::from_raw_parts(std::hint::black_box(room), text.len()).is_ascii()
    }
}

/// Longer text is copied to the heap before it is decoded.
const STACK_BYTES: usize = 256;

/// A new str of UTF-8, or null with an error set, also for what is not UTF-8.
///
/// The text may change meanwhile: a copy is decoded, because the decoder looks at bytes twice.
///
/// # Safety
///
/// The thread must be attached to the interpreter.
#[inline]
pub unsafe fn new_str(text: &[u8]) -> Ptr {
    let mut few = [0; STACK_BYTES];
    let many;
    let text = match few.get_mut(..text.len()) {
        Some(copy) => {
            copy.copy_from_slice(text);
            copy
        }
        None => {
            many = text.to_vec();
            &many[..]
        }
    };
    // SAFETY: attached.
    unsafe { decoded(text) }
}

/// # Safety
///
/// The thread must be attached, and `text` does not change.
#[inline]
unsafe fn decoded(text: &[u8]) -> Ptr {
    let start = text.as_ptr().cast::<c_char>();
    // SAFETY: attached; the bytes are read only.
    unsafe { ffi::PyUnicode_DecodeUTF8(start, text.len() as ffi::Py_ssize_t, c"strict".as_ptr()) }
}

/// The characters of an exact str in UTF-8, surrogates as if they were characters.
///
/// # Safety
///
/// `object` must be an exact str that is alive, and the thread attached to the interpreter.
pub unsafe fn utf8_with_surrogates(py: Python<'_>, object: Ptr) -> PyResult<Vec<u8>> {
    // SAFETY: an exact str by this function's contract; the call gives memory that is ours.
    let (start, length) = unsafe {
        (ffi::PyUnicode_AsUCS4Copy(object), ffi::PyUnicode_GET_LENGTH(object).unsigned_abs())
    };
    if start.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: that many characters, and a zero after them.
    let characters = unsafe { std::slice::from_raw_parts(start, length) };
    let mut text = Vec::with_capacity(length);
    for character in characters {
        match char::from_u32(*character) {
            Some(character) => {
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            // Three bytes, of 4, 6 and 6 bits, as for every character from U+0800 to U+FFFF.
            None => text.extend([
                0xE0 | (character >> 12) as u8,
                0x80 | (character >> 6 & 0x3F) as u8,
                0x80 | (character & 0x3F) as u8,
            ]),
        }
    }
    // SAFETY: the memory that the call gave.
    unsafe { ffi::PyMem_Free(start.cast()) };
    Ok(text)
}

/// Hides a new container from the garbage collector and from `gc.get_objects`.
///
/// # Safety
///
/// `object` must be a new exact list or tuple with items, and the thread attached.
#[inline]
pub unsafe fn hide(object: Ptr) {
    // SAFETY: by this function's contract.
    unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
}

/// Shows a container that was hidden, now that it is whole.
///
/// # Safety
///
/// `object` must be hidden by [`hide`], and all its items set.
#[inline]
pub unsafe fn show(object: Ptr) {
    // SAFETY: by this function's contract.
    unsafe { ffi::PyObject_GC_Track(object.cast()) };
}

/// Keeps the garbage collector from running until it is dropped.
///
/// As long as the thread stays attached and calls no code of others, it does so for certain. Once
/// other code runs, that code may switch the collector on.
#[derive(Debug)]
pub struct NoCollection {
    was_on: bool,
}

impl NoCollection {
    /// Switches it off until this is dropped, if it is on.
    #[inline]
    pub fn new(_py: Python<'_>) -> Self {
        // SAFETY: attached to the interpreter.
        Self { was_on: unsafe { ffi::PyGC_Disable() } != 0 }
    }
}

impl Drop for NoCollection {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: these live in functions that are called attached to the interpreter.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}
