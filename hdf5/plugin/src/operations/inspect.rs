//! Reports for the tools: where the data of a dataset is, and why it is not Arrow.

use std::ffi::{CStr, c_char, c_int};

use plasmon_hdf5_sys::arguments::{Optional, dataset};
use plasmon_hdf5_sys::{DEFAULT, Hid, KIND_DATASET, Ptr, Text};

use crate::arrow::eligibility;
use crate::guard;
use crate::host::{self, Host};
use crate::id::Id;
use crate::node::Node;
use crate::skeleton::get;

/// The number of the operation, above those that the native connector reserves.
const EXPLAIN: c_int = 20_583;

/// Describes an open dataset that was opened through the connector. Writes a text that ends into
/// `out`: four lines.
///
/// ```text
/// arrow | store | view | native
/// the file of data | the object | the column | why the dataset is native
/// plain | connector   (what reads it; empty for native ones)
/// why the data is not this dataset's (mostly empty)
/// ```
///
/// `library` is a part of the path of the libhdf5 that the identifier belongs to, or null when
/// only one has loaded the plugin. Returns the length of the text, or a negative number: -1 the
/// library is not known, -2 the identifier is no dataset of ours, -3 there is no room.
///
/// # Safety
///
/// `library` is null or a text that ends; `out` has room for `room` bytes. Not during a call of
/// that libhdf5.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn plasmon_hdf5_explain(
    id: Hid,
    library: Text,
    out: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: promised by the caller.
    let library = (!library.is_null()).then(|| unsafe { CStr::from_ptr(library) });
    guard::or(-2, || {
        let library = library.map(CStr::to_string_lossy);
        let Some(host) = host::named(library.as_deref()) else { return -1 };
        // SAFETY: promised by the caller: the identifier belongs to this library.
        let Some(text) = (unsafe { explain(host, id) }) else { return -2 };
        if text.len() >= room {
            return -3;
        }
        // SAFETY: promised by the caller: there is room for the text and its end.
        unsafe {
            out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            out.add(text.len()).write(0);
        }
        c_int::try_from(text.len()).unwrap_or(-3)
    })
}

/// Asks for the description by a call of the library: only during one of those the native
/// connector may be asked anything.
///
/// # Safety
///
/// The identifier belongs to this library.
unsafe fn explain(host: &'static Host, id: Hid) -> Option<String> {
    let mut text: Option<String> = None;
    let mut arguments = Optional { operation: EXPLAIN, arguments: (&raw mut text).cast() };
    // SAFETY: asking for the kind of an identifier is always allowed. Only our own connector is
    // asked to explain; it writes into a text of ours.
    unsafe {
        if (host.api.H5Iget_type)(id) != KIND_DATASET || !is_ours(host, id) {
            return None;
        }
        let (here, arguments) = (c"plasmon".as_ptr(), (&raw mut arguments).cast());
        (host.api.H5VLdataset_optional_op)(here, here, 0, id, arguments, DEFAULT, DEFAULT);
    }
    text
}

/// Carries the operation out, if it is that of describing a dataset.
///
/// # Safety
///
/// The arguments are those of an operation that only some connectors have; those of this one come
/// from `explain`.
pub(crate) unsafe fn answer(host: &'static Host, node: &Node, arguments: Ptr) -> Option<()> {
    // SAFETY: promised by the caller.
    let arguments = unsafe { &*arguments.cast::<Optional>() };
    if arguments.operation != EXPLAIN {
        return None;
    }
    let text = describe(host, node);
    // SAFETY: promised by the caller.
    unsafe { arguments.arguments.cast::<Option<String>>().write(text) };
    Some(())
}

fn describe(host: &'static Host, node: &Node) -> Option<String> {
    if let Some(array) = node.array(host) {
        let reader = if array.plain { "plain" } else { "connector" };
        let kind = array.source().kind();
        return Some(match array.located() {
            Ok(place) => format!("{kind}\n{place}\n{reader}\n"),
            Err(wrong) => format!("{kind}\n{}\n{reader}\n{wrong}", array.source()),
        });
    }
    let under = node.native();
    let kind = Id::of_type(host, get(host, under, dataset::GET_TYPE)?)?;
    let space = Id::of_space(host, get(host, under, dataset::GET_SPACE)?)?;
    let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
    let reason = match eligibility::table(host, "", kind.get(), space.get(), dcpl.get()) {
        Err(reason) => reason,
        // The file does not say which of these it was.
        Ok(table) if table.grows() => {
            "written without the connector; or with it, where rows to be added stay with HDF5: \
             with backend=store, MPI or another file driver"
        }
        Ok(_) => {
            "written without the connector; or with it, where values stay with HDF5: with another \
             file driver, and some with MPI"
        }
    };
    Some(format!("native\n{reason}\n\n"))
}

/// Whether an identifier's object was opened through our connector.
///
/// # Safety
///
/// The identifier belongs to this library.
unsafe fn is_ours(host: &Host, id: Hid) -> bool {
    // SAFETY: promised by the caller; the connector's identifier is given back.
    unsafe {
        let connector = (host.api.H5VLget_connector_id)(id);
        if connector < 0 {
            return false;
        }
        let mut value = 0;
        let asked = (host.api.H5VLget_value)(connector, &raw mut value);
        (host.api.H5VLclose)(connector);
        asked >= 0 && value == crate::connector::VALUE
    }
}
