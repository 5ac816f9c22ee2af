//! Datasets: those whose data is ours, and those that stay in the skeleton.

use std::ffi::c_void;

use plasmon_hdf5_sys::arguments::{Single, dataset};
use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::arrow::transfer::{Call, Memory};
use crate::guard;
use crate::host::{self, Fault, Host};
use crate::node::{Failure, Kind, Node, Parts};
use crate::operations::attribute_mirror;
use crate::operations::chunks;
use crate::operations::creation::{self, Draft, Order};
use crate::operations::extent;
use crate::operations::inspect;
use crate::operations::virtuals::Virtual;
use crate::skeleton::creation_list;
use crate::vol::forward::{call, open, pass};

open! {
    /// `H5Dopen`.
    open(object, place: *const Location, name: Text, dapl: Hid, dxpl: Hid, request: Request)
        -> Some(Kind::Dataset) =>
        |api, under, native|
            (api.H5VLdataset_open)(under, place, native, name, dapl, dxpl, request);
    /// `H5Dcreate` of a dataset that stays in the skeleton, or of the skeleton's part of another.
    create_native(object, place: *const Location, name: Text, lcpl: Hid, kind: Hid, space: Hid,
        dcpl: Hid, dapl: Hid, dxpl: Hid, request: Request) -> Some(Kind::Dataset) =>
        |api, under, native|
            (api.H5VLdataset_create)(
                under, place, native, name, lcpl, kind, space, dcpl, dapl, dxpl, request);
}

pass! {
    /// `H5Dset_extent`, `H5Drefresh` and `H5Dflush` in the skeleton.
    specific_native(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdataset_specific)(under, native, arguments, dxpl, request);
    /// The skeleton's record of a dataset.
    get_native(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdataset_get)(under, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional_native(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdataset_optional)(under, native, arguments, dxpl, request);
}

call! {
    /// `H5Dcreate`.
    create<SLOT>(object: Ptr, place: *const Location, name: Text, lcpl: Hid, kind: Hid,
        space: Hid, dcpl: Hid, dapl: Hid, dxpl: Hid, request: Request) -> Ptr = {
        let host = host::of::<SLOT>();
        let order = Order { place, name, kind, space, dcpl };
        let draft = guard::or(None, || Draft::new(host, Node::of(object)?, order));
        let make = |dcpl| create_native::<SLOT>(
            object, place, name, lcpl, kind, space, dcpl, dapl, dxpl, request);
        match draft {
            None => make(dcpl),
            Some(Ok(draft)) => {
                let made = make(draft.dcpl.get());
                if made.is_null() {
                    draft.discard();
                    return made;
                }
                let stays = guard::or(true, || creation::is_at_home(host, made));
                if stays {
                    return made;
                }
                // The name led into another file: its data cannot be beside this one.
                if let Some(made) = Node::withdraw(made) {
                    let done = close_native(host, made.native(), dxpl, request);
                    made.end(done);
                }
                draft.discard();
                if let Some(under) = Node::under(object) {
                    creation::unlink(host, under, &*place, name);
                }
                make(dcpl)
            }
            Some(Err(error)) => {
                host.push_error(Fault::Write, &error);
                std::ptr::null_mut()
            }
        }
    };
    /// Operations of single connectors: ours, and those of the native one.
    optional<SLOT>(object: Ptr, arguments: Ptr, dxpl: Hid, request: Request) -> Herr = {
        let answer = || inspect::answer(host::of::<SLOT>(), Node::of(object)?, arguments);
        if guard::or(None, answer).is_some() {
            return 0;
        }
        let chunks = || chunks::answer(host::of::<SLOT>(), Node::of(object)?, arguments);
        if let Some(done) = guard::or(None, chunks) {
            return done.unwrap_or_else(|error| {
                host::of::<SLOT>().push_error(Fault::Read, &error);
                -1
            });
        }
        optional_native::<SLOT>(object, arguments, dxpl, request)
    };
    /// Information about a dataset.
    get<SLOT>(object: Ptr, arguments: Ptr, dxpl: Hid, request: Request) -> Herr = {
        let host = host::of::<SLOT>();
        let done = get_native::<SLOT>(object, arguments, dxpl, request);
        let is_list = arguments.cast::<i32>().read() == dataset::GET_CREATION;
        if done >= 0 && is_list {
            let list = (*arguments.cast::<Single>()).value.cast_signed();
            let ours = guard::or(false, || {
                Node::of(object).and_then(|node| node.array(host)).is_some()
            });
            if ours {
                guard::or((), || give_back(host, object, list));
            }
        }
        let asked = arguments.cast::<i32>().read();
        if done >= 0 && matches!(asked, dataset::GET_STORAGE_SIZE | dataset::GET_SPACE_STATUS) {
            let node = Node::of(object);
            // The skeleton's answer is that of the day it was made.
            let answer = (&raw const (*arguments.cast::<Single>()).value).cast::<Ptr>().read();
            if let Some(room) = guard::or(None, || chunks::room(host, node?)) {
                match asked {
                    dataset::GET_STORAGE_SIZE => answer.cast::<u64>().write(room.bytes),
                    _ => answer.cast::<i32>().write(room.status),
                }
            }
        }
        done
    };
    /// `H5Dset_extent`, `H5Dflush`, `H5Drefresh`.
    specific<SLOT>(object: Ptr, arguments: Ptr, dxpl: Hid, request: Request) -> Herr = {
        let host = host::of::<SLOT>();
        if arguments.cast::<i32>().read() == dataset::SET_EXTENT
            && let Some(node) = Node::of(object)
        {
            let native = || specific_native::<SLOT>(object, arguments, dxpl, request);
            let stopped = || Err("the connector failed because of a bug in it; please report \
                                  it".to_owned());
            let done =
                guard::or_else(stopped, || extent::set_extent(host, node, arguments, &native));
            return done.unwrap_or_else(|error| {
                host.push_error(Fault::Write, &error);
                -1
            });
        }
        if arguments.cast::<i32>().read() == dataset::FLUSH
            && let Some(node) = Node::of(object)
            && let Err(error) = guard::or(Ok(()), || commit(node, false).and_then(|()| sync(node)))
        {
            host.push_error(Fault::Write, &error);
            return -1;
        }
        specific_native::<SLOT>(object, arguments, dxpl, request)
    };
    /// `H5Dclose`. HDF5 gives a dataset up also when this fails, so the skeleton's part is closed
    /// whatever happened before: while it is open, HDF5 does not write the skeleton.
    close<SLOT>(object: Ptr, dxpl: Hid, request: Request) -> Herr = {
        let host = host::of::<SLOT>();
        let Some(node) = Node::of(object) else { return 0 };
        let stopped = || Err("the connector failed because of a bug in it; please report \
                              it".to_owned());
        let settled = guard::or_else(stopped, || settle(host, node));
        let Some(node) = Node::withdraw(object) else { return 0 };
        let done = close_native(host, node.native(), dxpl, request);
        match settled {
            Ok(()) => node.end(done),
            Err(error) => {
                host.push_error(Fault::Write, &error);
                node.end(-1)
            }
        }
    };
    /// `H5Dread` and `H5Dread_multi`.
    read<SLOT>(count: usize, datasets: *mut Ptr, memory_types: *mut Hid, memory_spaces: *mut Hid,
        file_spaces: *mut Hid, dxpl: Hid, buffers: *mut Ptr, request: Request) -> Herr = {
        let many =
            Many { count, datasets, memory_types, memory_spaces, file_spaces, dxpl, request };
        let memory = |at: usize| Memory::Target(buffers.add(at).read().cast());
        if many.is_ours(host::of::<SLOT>()) {
            return many.each(host::of::<SLOT>(), Fault::Read, &memory, &|at| {
                read_native::<SLOT>(&many.one(at), buffers.add(at))
            });
        }
        read_native::<SLOT>(&many, buffers)
    };
    /// `H5Dwrite` and `H5Dwrite_multi`.
    write<SLOT>(count: usize, datasets: *mut Ptr, memory_types: *mut Hid, memory_spaces: *mut Hid,
        file_spaces: *mut Hid, dxpl: Hid, buffers: *mut *const c_void, request: Request) -> Herr = {
        let many =
            Many { count, datasets, memory_types, memory_spaces, file_spaces, dxpl, request };
        let memory = |at: usize| Memory::Source(buffers.add(at).read().cast());
        if many.is_ours(host::of::<SLOT>()) {
            return many.each(host::of::<SLOT>(), Fault::Write, &memory, &|at| {
                write_native::<SLOT>(&many.one(at), buffers.add(at))
            });
        }
        write_native::<SLOT>(&many, buffers)
    };
}

/// Makes a creation property list of the skeleton what the program gave.
fn give_back(host: &'static Host, object: Ptr, dcpl: Hid) {
    // SAFETY: the object is a dataset of ours, and open.
    let node = unsafe { Node::of(object) };
    let array = node.and_then(|node| Some((node.array(host)?, node.native())));
    let chunk = array.filter(|(array, _)| array.grows()).map(|(array, at)| array.chunk(at));
    creation_list::give_back(host, dcpl, chunk.unwrap_or_default());
}

/// Lets others see what was written into a dataset that is about to be closed.
fn settle(host: &'static Host, node: &Node) -> Result<(), String> {
    if let Some(array) = node.known_array() {
        array.settle(node.native())?;
    }
    sync(node)?;
    if node.may_have_attributes() {
        guard::or(None, || host.keeping_errors(|| attribute_mirror::refresh(host, node)));
    }
    commit(node, true)?;
    // A dataset that was written and closed survives the end of the process: the skeleton that
    // names its data is written, too. Several processes write it when they flush or close the
    // file: not all of them need to have written into this dataset.
    if node.was_written() && node.container.ranks.is_none() {
        node.flush_dataset(host)?;
    }
    Ok(())
}

/// Lets others see what was written.
fn commit(node: &Node, closing: bool) -> Result<(), String> {
    node.known_array().map_or(Ok(()), |array| array.commit(closing))
}

/// Waits until what was written is on the disk, if the program's settings ask for that.
fn sync(node: &Node) -> Result<(), String> {
    match node.known_array() {
        Some(array) if node.container.settings.syncs => array.sync(),
        _ => Ok(()),
    }
}

/// Closes the skeleton's part of a dataset.
///
/// # Safety
///
/// It is the native connector's, and is not used again, whatever the outcome.
unsafe fn close_native(host: &Host, under: Ptr, dxpl: Hid, request: Request) -> Herr {
    // SAFETY: promised by the caller.
    unsafe { (host.api.H5VLdataset_close)(under, host.native(), dxpl, request) }
}

/// A transfer of several datasets at once, as HDF5 hands it over.
#[derive(Clone, Copy)]
struct Many {
    count: usize,
    datasets: *mut Ptr,
    memory_types: *mut Hid,
    memory_spaces: *mut Hid,
    file_spaces: *mut Hid,
    dxpl: Hid,
    request: Request,
}

impl Many {
    /// The datasets.
    ///
    /// # Safety
    ///
    /// HDF5 handed this over, and the call is not over.
    unsafe fn nodes(&self) -> impl Iterator<Item = Option<&Node>> {
        // SAFETY: there are as many datasets of ours as HDF5 says.
        let nodes = unsafe { std::slice::from_raw_parts(self.datasets, self.count) };
        // SAFETY: each is a dataset of ours, open during the call.
        nodes.iter().map(|node| unsafe { Node::of(*node) })
    }

    /// Whether the data of any of them is ours, or a virtual one shows it.
    ///
    /// # Safety
    ///
    /// As for [`Many::nodes`].
    unsafe fn is_ours(&self, host: &'static Host) -> bool {
        // SAFETY: promised by the caller.
        let mut nodes = unsafe { self.nodes() };
        let is_ours = |node: &Node| node.array(host).is_some() || parts(host, node).is_some();
        guard::or(false, || nodes.any(|node| node.is_some_and(is_ours)))
    }

    /// Only one of them.
    ///
    /// # Safety
    ///
    /// As for [`Many::nodes`]; the place is below the count.
    unsafe fn one(&self, at: usize) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            Self {
                count: 1,
                datasets: self.datasets.add(at),
                memory_types: self.memory_types.add(at),
                memory_spaces: self.memory_spaces.add(at),
                file_spaces: self.file_spaces.add(at),
                ..*self
            }
        }
    }

    /// Transfers one dataset after the other.
    ///
    /// # Safety
    ///
    /// As for [`Many::nodes`]; the memory of each has room for, or holds, what is selected.
    unsafe fn each(
        &self,
        host: &'static Host,
        fault: Fault,
        memory: &dyn Fn(usize) -> Memory,
        native: &dyn Fn(usize) -> Herr,
    ) -> Herr {
        // SAFETY: promised by the caller.
        for (at, node) in unsafe { self.nodes() }.enumerate() {
            // SAFETY: there are as many of each as HDF5 says.
            let call = unsafe {
                Call {
                    memory_type: self.memory_types.add(at).read(),
                    memory_space: self.memory_spaces.add(at).read(),
                    file_space: self.file_spaces.add(at).read(),
                    dxpl: self.dxpl,
                }
            };
            let stopped = || {
                Some(Err(Some(
                    "the connector failed because of a bug in it; please report it".to_owned(),
                )))
            };
            // SAFETY: promised by the caller.
            let done = guard::or_else(stopped, || unsafe { one(host, node?, &call, memory(at)) });
            match done {
                Some(Ok(())) => {}
                None if native(at) >= 0 => {}
                None | Some(Err(None)) => return -1,
                Some(Err(Some(error))) => {
                    host.push_error(fault, &error);
                    return -1;
                }
            }
        }
        0
    }
}

/// The parts of a virtual dataset.
fn parts<'n>(host: &'static Host, node: &'n Node) -> Option<&'n dyn Parts> {
    node.parts(|| Virtual::of_node(host, node))
}

/// Transfers one dataset; `None` when the native connector is to do it.
///
/// # Safety
///
/// The memory has room for, or holds, what is selected.
unsafe fn one(
    host: &'static Host,
    node: &Node,
    call: &Call,
    memory: Memory,
) -> Option<Result<(), Failure>> {
    if let Some(array) = node.array(host) {
        // SAFETY: promised by the caller.
        return Some(unsafe { array.transfer(node.native(), call, memory) }.map_err(Some));
    }
    // SAFETY: promised by the caller.
    unsafe { parts(host, node)?.transfer(node.native(), call, memory) }
}

macro_rules! transfer {
    ($($(#[$about:meta])* $name:ident: $buffer:ty = $function:ident;)*) => {$(
        $(#[$about])*
        unsafe fn $name<const SLOT: usize>(
            many: &Many,
            buffers: *mut $buffer,
        ) -> Herr {
            let host = host::of::<SLOT>();
            // SAFETY: promised by the caller.
            let mut under: Vec<Ptr> = unsafe {
                many.nodes().map(|node| node.map_or(std::ptr::null_mut(), Node::native))
            }
            .collect();
            // SAFETY: the other arguments are passed on as they came.
            unsafe {
                (host.api.$function)(
                    many.count,
                    under.as_mut_ptr(),
                    host.native(),
                    many.memory_types,
                    many.memory_spaces,
                    many.file_spaces,
                    many.dxpl,
                    buffers,
                    many.request,
                )
            }
        }
    )*};
}

transfer! {
    /// Reading by the native connector.
    ///
    /// # Safety
    ///
    /// As for [`Many::nodes`].
    read_native: Ptr = H5VLdataset_read;
    /// Writing by the native connector.
    ///
    /// # Safety
    ///
    /// As for [`Many::nodes`].
    write_native: *const c_void = H5VLdataset_write;
}
