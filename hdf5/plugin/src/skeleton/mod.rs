//! Access to a skeleton and the objects in it, through the native connector.

pub(crate) mod attributes;
pub(crate) mod comment;
pub(crate) mod creation_list;
pub(crate) mod file_object;
pub(crate) mod read_all;
pub(crate) mod walk;

use std::ffi::{CStr, CString, OsStr, OsString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use plasmon_hdf5_sys::arguments::{FileFlush, FileName, OBJECT_GET_NAME, ObjectName, Single, file};
use plasmon_hdf5_sys::{DEFAULT, Hid, Location, Ptr};

use crate::connector::VALUE;
use crate::host::{Host, Lists};
use crate::id::Id;

/// The longest name of a file or an object that is looked at.
const NAME_BYTES: usize = 8192;

/// Something that the native connector tells of a dataset as an identifier, which is ours then.
pub(crate) fn get(host: &Host, under: Ptr, what: c_int) -> Option<Hid> {
    let mut arguments = Single::new(what, 0);
    // SAFETY: the dataset is the native connector's; the arguments are long enough for any answer.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLdataset_get)(under, host.native(), arguments, DEFAULT, std::ptr::null_mut())
    };
    (done >= 0).then_some(arguments.value.cast_signed())
}

/// The name of the skeleton that an object is in.
pub(crate) fn file_name(host: &Host, under: Ptr, kind: c_int) -> Option<OsString> {
    let mut text = vec![0_u8; NAME_BYTES];
    let mut length = 0;
    let mut arguments = FileName {
        operation: file::GET_NAME,
        padding: 0,
        kind,
        bytes: text.len(),
        text: text.as_mut_ptr().cast(),
        length: &raw mut length,
    };
    // SAFETY: the object is the native connector's, of that kind; the text is cut off at the room.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLfile_get)(under, host.native(), arguments, DEFAULT, std::ptr::null_mut())
    };
    let name = CStr::from_bytes_until_nul(&text).ok()?;
    (done >= 0).then(|| OsStr::from_bytes(name.to_bytes()).to_owned())
}

/// The path of an object in its file.
pub(crate) fn object_path(host: &Host, under: Ptr, kind: c_int) -> Option<Vec<u8>> {
    let mut text = vec![0_u8; NAME_BYTES];
    let mut length = 0;
    let mut arguments = ObjectName {
        operation: OBJECT_GET_NAME,
        bytes: text.len(),
        text: text.as_mut_ptr().cast(),
        length: &raw mut length,
    };
    let place = Location::itself(kind);
    // SAFETY: the object is the native connector's; the text is cut off at the room for it.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        let none = std::ptr::null_mut();
        (host.api.H5VLobject_get)(under, &raw const place, host.native(), arguments, DEFAULT, none)
    };
    let name = CStr::from_bytes_until_nul(&text).ok()?;
    (done >= 0).then(|| name.to_bytes().to_vec())
}

/// Writes the skeleton that an object is in.
pub(crate) fn flush(host: &Host, under: Ptr, kind: c_int) -> bool {
    let mut arguments =
        FileFlush { operation: file::FLUSH, padding: 0, kind, scope: 0, rest: [0; 4] };
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: the object is the native connector's.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLfile_specific)(under, host.native(), arguments, dxpl, std::ptr::null_mut())
    };
    done >= 0
}

/// Asks a file something that is opened for that, for reading; `None` when it cannot be opened.
///
/// It is opened through this connector. The program may have it open through it as well, and HDF5
/// takes every object of one file for that connector's which opened it first: the native one could
/// not close the file again.
pub(crate) fn with_file<T>(
    host: &'static Host,
    path: &Path,
    ask: impl FnOnce(Ptr) -> Option<T>,
) -> Option<T> {
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    host.keeping_errors(|| {
        let list = Id::of_list(host, host.copy_list(host.default_list(Lists::FileAccess)))?;
        // SAFETY: the list is ours, the connector is registered, and it has default settings; the
        // name ends; a file that cannot be opened says nothing.
        let opened = unsafe {
            let own = Id::of_connector(host, (host.api.H5VLget_connector_id_by_value)(VALUE))?;
            (host.api.H5Pset_vol)(list.get(), own.get(), std::ptr::null());
            (host.api.H5Fopen)(name.as_ptr(), 0, list.get())
        };
        let opened = Id::of_file(host, opened)?;
        // SAFETY: the file is open; HDF5 gives the object of the native connector.
        ask(unsafe { (host.api.H5VLobject)(opened.get()) })
    })
}
