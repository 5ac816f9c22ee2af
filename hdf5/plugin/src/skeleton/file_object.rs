//! Files that h5py reads through a Python object, such as `open("x.h5", "rb")`.
//!
//! HDF5 knows such a file under the object's `repr`, which says nothing of where it is. h5py's file
//! driver keeps the object itself in the access property list, so it can be asked for its file
//! descriptor, and the kernel for the path of that. An object without one (`BytesIO`, a file on
//! another machine) is in no folder, and data beside it cannot be found.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use plasmon_hdf5_sys::{Hid, Ptr, program_symbol};

use crate::host::{Host, Lists};
use crate::id::Id;

/// The name of h5py's driver. The setting that it keeps in a list is a `PyObject`.
const DRIVER: &CStr = c"fileobj";

type Object = Option<NonNull<c_void>>;

macro_rules! functions {
    ($($field:ident = $name:literal: $kind:ty;)*) => {
        /// The functions of Python that are needed. They are part of its stable interface.
        struct Python {
            $($field: $kind,)*
        }

        impl Python {
            /// The Python of this process.
            fn here() -> Option<Self> {
                Some(Self {
                    $($field: {
                        let found = program_symbol($name)?;
                        // SAFETY: the symbol is Python's function of this name, which has this
                        // signature in every version.
                        unsafe { std::mem::transmute::<NonNull<c_void>, $kind>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    ensure = c"PyGILState_Ensure": unsafe extern "C" fn() -> c_int;
    release = c"PyGILState_Release": unsafe extern "C" fn(c_int);
    attribute = c"PyObject_GetAttrString": unsafe extern "C" fn(Ptr, *const c_char) -> Object;
    call = c"PyObject_CallObject": unsafe extern "C" fn(Ptr, Ptr) -> Object;
    to_long = c"PyLong_AsLong": unsafe extern "C" fn(Ptr) -> c_long;
    drop = c"Py_DecRef": unsafe extern "C" fn(Ptr);
    clear = c"PyErr_Clear": unsafe extern "C" fn();
}

impl Python {
    /// The result of `object.fileno()`.
    ///
    /// # Safety
    ///
    /// The object is one of Python's, and lives.
    unsafe fn descriptor(&self, object: Ptr) -> Option<c_int> {
        // SAFETY: the interpreter runs, for its object lives; its lock is taken before it is asked
        // anything. What was got is given back, and errors of the object's own end here.
        unsafe {
            let lock = (self.ensure)();
            let mut answer = -1;
            if let Some(method) = (self.attribute)(object, c"fileno".as_ptr()) {
                if let Some(number) = (self.call)(method.as_ptr(), std::ptr::null_mut()) {
                    answer = (self.to_long)(number.as_ptr());
                    (self.drop)(number.as_ptr());
                }
                (self.drop)(method.as_ptr());
            }
            (self.clear)();
            (self.release)(lock);
            c_int::try_from(answer).ok().filter(|answer| *answer >= 0)
        }
    }
}

/// Where the file is that an access property list has a Python object for.
pub(crate) fn path(host: &'static Host, fapl: Hid) -> Option<PathBuf> {
    let object = host.keeping_errors(|| object(host, fapl))?;
    // SAFETY: h5py's driver keeps an object of Python, which lives as long as the list.
    let descriptor = unsafe { Python::here()?.descriptor(object.as_ptr())? };
    path_of(descriptor)
}

/// The path of an open file, if it still leads to that file.
fn path_of(descriptor: c_int) -> Option<PathBuf> {
    let link = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
    let path = std::fs::read_link(&link).ok()?;
    let (open, named) = (std::fs::metadata(&link).ok()?, std::fs::metadata(&path).ok()?);
    let same = open.dev() == named.dev() && open.ino() == named.ino();
    (same && open.is_file()).then_some(path)
}

/// The object that h5py's driver has, if that is the driver of the list.
fn object(host: &'static Host, fapl: Hid) -> Object {
    // SAFETY: the lists are open, and the second is ours. A driver that is not registered would be
    // looked for among the plugins, so that is asked first.
    unsafe {
        if (host.api.H5FDis_driver_registered_by_name)(DRIVER.as_ptr()) <= 0 {
            return None;
        }
        let known = Id::of_list(host, host.copy_list(host.default_list(Lists::FileAccess)))?;
        let set = (host.api.H5Pset_driver_by_name)(known.get(), DRIVER.as_ptr(), std::ptr::null());
        if set < 0 || (host.api.H5Pget_driver)(fapl) != (host.api.H5Pget_driver)(known.get()) {
            return None;
        }
        NonNull::new((host.api.H5Pget_driver_info)(fapl).cast_mut())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    /// A descriptor leads to its file, also after a change of name, and nowhere once another file
    /// has taken the name or there is none.
    #[test]
    fn a_descriptor_has_a_path_while_it_leads_to_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        let [one, two] = ["one.h5", "two.h5"].map(|name| root.join(name));
        std::fs::write(&one, "1").expect("a file");
        let file = File::open(&one).expect("it opens");
        assert_eq!(path_of(file.as_raw_fd()), Some(one.clone()));
        std::fs::rename(&one, &two).expect("renamed");
        std::fs::write(&one, "2").expect("another file");
        assert_eq!(path_of(file.as_raw_fd()), Some(two.clone()));
        std::fs::remove_file(&two).expect("removed");
        assert_eq!(path_of(file.as_raw_fd()), None);
        assert_eq!(path_of(-1), None);
    }
}
