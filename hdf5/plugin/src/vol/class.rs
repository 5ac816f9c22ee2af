//! The table of callbacks, one for each slot.

use plasmon_hdf5_sys::class::{
    AttributeClass, BlobClass, CLASS_VERSION, DatasetClass, DatatypeClass, FileClass, GroupClass,
    InfoClass, IntrospectClass, LinkClass, ObjectClass, RequestClass, TokenClass, VolClass,
    WrapClass,
};
use plasmon_hdf5_sys::{Herr, Hid, Ptr, Request};

use crate::connector::{NAME, VALUE, VERSION};
use crate::host;
use crate::host::{HOSTS_MAX, Host};
use crate::info;
use crate::vol::attribute;
use crate::vol::blob;
use crate::vol::close;
use crate::vol::dataset;
use crate::vol::datatype;
use crate::vol::file;
use crate::vol::forward::pass;
use crate::vol::group;
use crate::vol::introspect;
use crate::vol::link;
use crate::vol::object;
use crate::vol::request;
use crate::vol::token;
use crate::vol::wrap;

/// Makes the table of a slot.
const TABLES: [fn() -> VolClass; HOSTS_MAX] = [
    table::<0>,
    table::<1>,
    table::<2>,
    table::<3>,
    table::<4>,
    table::<5>,
    table::<6>,
    table::<7>,
    table::<8>,
    table::<9>,
    table::<10>,
    table::<11>,
];

/// The table of a slot, which is kept with the libhdf5 in it.
pub(crate) fn of_slot(slot: usize, host: &'static Host) -> *const VolClass {
    std::ptr::from_ref(host.fill_table(TABLES[slot]))
}

unsafe extern "C" fn initialize(_vipl: Hid) -> Herr {
    0
}

unsafe extern "C" fn terminate<const SLOT: usize>() -> Herr {
    host::of::<SLOT>().forget_native();
    0
}

pass! {
    /// Operations of single connectors that belong to no class.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLoptional)(under, native, arguments, dxpl, request);
}

fn table<const SLOT: usize>() -> VolClass {
    VolClass {
        version: CLASS_VERSION,
        value: VALUE,
        name: NAME.as_ptr(),
        connector_version: VERSION,
        capabilities: 0,
        initialize: Some(initialize),
        terminate: Some(terminate::<SLOT>),
        info: InfoClass {
            bytes: info::BYTES,
            copy: Some(info::copy),
            compare: Some(info::compare),
            free: Some(info::free),
            to_text: Some(info::to_text::<SLOT>),
            from_text: Some(info::from_text),
        },
        wrap: WrapClass {
            get_object: Some(wrap::get_object::<SLOT>),
            get_context: Some(wrap::get_context::<SLOT>),
            wrap: Some(wrap::wrap::<SLOT>),
            unwrap: Some(wrap::unwrap::<SLOT>),
            free_context: Some(wrap::free_context::<SLOT>),
        },
        attribute: attributes::<SLOT>(),
        dataset: datasets::<SLOT>(),
        datatype: DatatypeClass {
            commit: Some(datatype::commit::<SLOT>),
            open: Some(datatype::open::<SLOT>),
            get: Some(datatype::get::<SLOT>),
            specific: Some(datatype::specific::<SLOT>),
            optional: Some(datatype::optional::<SLOT>),
            close: Some(close::close::<SLOT>),
        },
        file: files::<SLOT>(),
        group: groups::<SLOT>(),
        link: links::<SLOT>(),
        object: objects::<SLOT>(),
        introspect: IntrospectClass {
            class: Some(introspect::connector::<SLOT>),
            capabilities: Some(introspect::capabilities::<SLOT>),
            optional: Some(introspect::optional::<SLOT>),
        },
        request: requests::<SLOT>(),
        blob: BlobClass {
            put: Some(blob::put::<SLOT>),
            get: Some(blob::get::<SLOT>),
            specific: Some(blob::specific::<SLOT>),
            optional: Some(blob::optional::<SLOT>),
        },
        token: TokenClass {
            compare: Some(token::compare::<SLOT>),
            to_text: Some(token::to_text::<SLOT>),
            from_text: Some(token::from_text::<SLOT>),
        },
        optional: Some(optional::<SLOT>),
    }
}

fn attributes<const SLOT: usize>() -> AttributeClass {
    AttributeClass {
        create: Some(attribute::create::<SLOT>),
        open: Some(attribute::open::<SLOT>),
        read: Some(attribute::read::<SLOT>),
        write: Some(attribute::write::<SLOT>),
        get: Some(attribute::get::<SLOT>),
        specific: Some(attribute::specific::<SLOT>),
        optional: Some(attribute::optional::<SLOT>),
        close: Some(close::close::<SLOT>),
    }
}

fn datasets<const SLOT: usize>() -> DatasetClass {
    DatasetClass {
        create: Some(dataset::create::<SLOT>),
        open: Some(dataset::open::<SLOT>),
        read: Some(dataset::read::<SLOT>),
        write: Some(dataset::write::<SLOT>),
        get: Some(dataset::get::<SLOT>),
        specific: Some(dataset::specific::<SLOT>),
        optional: Some(dataset::optional::<SLOT>),
        close: Some(close::close::<SLOT>),
    }
}

fn files<const SLOT: usize>() -> FileClass {
    FileClass {
        create: Some(file::create::<SLOT>),
        open: Some(file::open::<SLOT>),
        get: Some(file::get::<SLOT>),
        specific: Some(file::specific::<SLOT>),
        optional: Some(file::optional::<SLOT>),
        close: Some(close::close::<SLOT>),
    }
}

fn groups<const SLOT: usize>() -> GroupClass {
    GroupClass {
        create: Some(group::create::<SLOT>),
        open: Some(group::open::<SLOT>),
        get: Some(group::get::<SLOT>),
        specific: Some(group::specific::<SLOT>),
        optional: Some(group::optional::<SLOT>),
        close: Some(close::close::<SLOT>),
    }
}

fn links<const SLOT: usize>() -> LinkClass {
    LinkClass {
        create: Some(link::create::<SLOT>),
        copy: Some(link::copy::<SLOT>),
        relocate: Some(link::relocate::<SLOT>),
        get: Some(link::get::<SLOT>),
        specific: Some(link::specific::<SLOT>),
        optional: Some(link::optional::<SLOT>),
    }
}

fn objects<const SLOT: usize>() -> ObjectClass {
    ObjectClass {
        open: Some(object::open::<SLOT>),
        copy: Some(object::copy::<SLOT>),
        get: Some(object::get::<SLOT>),
        specific: Some(object::specific::<SLOT>),
        optional: Some(object::optional::<SLOT>),
    }
}

fn requests<const SLOT: usize>() -> RequestClass {
    RequestClass {
        wait: Some(request::wait::<SLOT>),
        notify: Some(request::notify::<SLOT>),
        cancel: Some(request::cancel::<SLOT>),
        specific: Some(request::specific::<SLOT>),
        optional: Some(request::optional::<SLOT>),
        free: Some(request::free::<SLOT>),
    }
}
