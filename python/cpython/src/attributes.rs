//! Attributes that are read without running code: of classes that did not change since they were
//! looked at, from objects whose `__dict__` holds plain names.
//!
//! A class has a version as long as neither it nor a base changes. `object.__getattribute__` runs
//! code of others in two cases only: when the class has a descriptor by the name, which the version
//! rules out, and when a dict compares a key that is not a plain str with the name. The second is
//! ruled out here, object by object.

use std::ffi::c_uint;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::Ptr;

#[cfg(not(Py_3_12))]
unsafe extern "C" {
    fn _PyType_Lookup(class: *mut ffi::PyTypeObject, name: Ptr) -> Ptr;
}
#[cfg(Py_3_12)]
unsafe extern "C" {
    fn PyUnstable_Type_AssignVersionTag(class: *mut ffi::PyTypeObject) -> std::ffi::c_int;
}

/// The version of a class, which changes when the class or a base does; 0 when it has none now.
///
/// # Safety
///
/// `class` must be alive, and the thread attached to the interpreter.
#[inline]
pub unsafe fn class_version(class: *mut ffi::PyTypeObject) -> c_uint {
    // SAFETY: alive by this function's contract.
    unsafe {
        #[cfg(not(Py_3_13))]
        if (*class).tp_flags & ffi::Py_TPFLAGS_VALID_VERSION_TAG == 0 {
            return 0;
        }
        (*class).tp_version_tag
    }
}

/// Gives a class a version if it can have one, and returns it. This may run code of others.
pub fn assign_class_version(class: &Bound<'_, pyo3::types::PyType>) -> c_uint {
    let class_object = class.as_type_ptr();
    // SAFETY: attached, and the class is alive. A lookup gives the class a version; what it finds
    // is borrowed and not used. An error that a key of the class raised is of no interest.
    unsafe {
        #[cfg(not(Py_3_12))]
        {
            _PyType_Lookup(class_object, pyo3::intern!(class.py(), "__dict__").as_ptr());
            ffi::PyErr_Clear();
        }
        #[cfg(Py_3_12)]
        PyUnstable_Type_AssignVersionTag(class_object);
        class_version(class_object)
    }
}

/// Where an object has what belongs to it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instance {
    /// In a dict.
    Dict(Ptr),
    /// In the object, or nowhere: its names are the class's, which are plain.
    Plain,
    /// This version of Python keeps it in a way that is not known here.
    Unknown,
}

/// Where an object of a class that leaves its dict to the interpreter has its attributes.
///
/// # Safety
///
/// `object` must be alive, and of a class with the flag for such dicts.
unsafe fn managed(object: Ptr) -> Instance {
    // SAFETY: such objects have these words before their header.
    unsafe {
        #[cfg(not(Py_3_12))]
        {
            let words = object.cast::<Ptr>();
            let (values, dict) = (*words.sub(4), *words.sub(3));
            if values.is_null() && !dict.is_null() {
                return Instance::Dict(dict);
            }
            Instance::Plain
        }
        #[cfg(all(Py_3_12, not(Py_3_15)))]
        {
            let dict = *object.cast::<Ptr>().sub(3);
            // Python 3.12 marks the address of values with a bit.
            let values = cfg!(not(Py_3_13)) && dict.addr() & 1 != 0;
            if values || dict.is_null() { Instance::Plain } else { Instance::Dict(dict) }
        }
        #[cfg(Py_3_15)]
        {
            let _ = object;
            Instance::Unknown
        }
    }
}

/// Whether what [`managed`] believes holds for this interpreter, found out with an object. It may
/// run code of others.
pub fn probe(py: Python<'_>) {
    FITS.get_or_init(py, || try_probe(py).unwrap_or(false));
}

static FITS: PyOnceLock<bool> = PyOnceLock::new();

fn try_probe(py: Python<'_>) -> PyResult<bool> {
    let make = py.get_type::<pyo3::types::PyType>();
    let class = make.call1(("Probe", pyo3::types::PyTuple::empty(py), PyDict::new(py)))?;
    let object = class.call0()?;
    let is_managed = || {
        // SAFETY: the object is alive.
        let class = unsafe { ffi::Py_TYPE(object.as_ptr()) };
        // SAFETY: so is its class.
        unsafe { (*class).tp_flags & ffi::Py_TPFLAGS_MANAGED_DICT != 0 }
    };
    if !is_managed() {
        return Ok(false);
    }
    object.setattr("attribute", 1)?;
    // SAFETY: the flag is set.
    let before = unsafe { managed(object.as_ptr()) };
    let dict = object.getattr("__dict__")?;
    // SAFETY: as above.
    let after = unsafe { managed(object.as_ptr()) };
    Ok(before == Instance::Plain && after == Instance::Dict(dict.as_ptr()))
}

/// Whether it is known how this interpreter keeps attributes: after [`probe`], if it is.
#[inline]
pub fn are_known(py: Python<'_>) -> bool {
    FITS.get(py) == Some(&true)
}

/// Whether looking for a plain name among what belongs to an object runs no code. Only to be asked
/// when [`are_known`].
///
/// # Safety
///
/// `object` must be alive, and the thread attached to the interpreter.
#[inline]
pub unsafe fn has_plain_names(object: Ptr) -> bool {
    // SAFETY: alive by this function's contract.
    let found = unsafe {
        let class = ffi::Py_TYPE(object);
        let offset = (*class).tp_dictoffset;
        if (*class).tp_flags & ffi::Py_TPFLAGS_MANAGED_DICT != 0 {
            managed(object)
        } else if offset == 0 {
            Instance::Plain
        } else if offset < 0 {
            Instance::Unknown
        } else {
            let dict = *object.byte_offset(offset).cast::<Ptr>();
            if dict.is_null() { Instance::Plain } else { Instance::Dict(dict) }
        }
    };
    match found {
        Instance::Plain => true,
        Instance::Unknown => false,
        Instance::Dict(dict) => {
            let mut plain = true;
            // SAFETY: the object holds its dict, and nothing runs meanwhile.
            unsafe {
                crate::dict_items(dict, |key, _| {
                    plain = crate::is_exact(key, &raw mut ffi::PyUnicode_Type);
                    plain
                });
            }
            plain
        }
    }
}

/// The value of an attribute, borrowed from the object or its class. `None` when there is none, or
/// when nothing but the caller would hold it.
///
/// # Safety
///
/// The thread must be attached. `object` must be alive, its class one that says that reading the
/// attribute by `object.__getattribute__` runs no code, and [`has_plain_names`] true.
#[inline]
pub unsafe fn plain_attribute(object: Ptr, name: Ptr) -> Option<Ptr> {
    // SAFETY: by this function's contract.
    let value = unsafe { ffi::PyObject_GenericGetAttr(object, name) };
    if value.is_null() {
        // SAFETY: attached. That the attribute is missing is found out again where it matters.
        unsafe { ffi::PyErr_Clear() };
        return None;
    }
    // SAFETY: the reference is ours to drop; after that the owner's keeps the value.
    unsafe {
        let held = crate::references(value) > 1;
        ffi::Py_DECREF(value);
        held.then_some(value)
    }
}
