//! Making a dataset whose data is ours.
//!
//! The file of data is complete before the skeleton names it, so a process that is killed in
//! between leaves a file that no skeleton names, never a name without a file.

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use plasmon_hdf5_model::{Marker, Table};
use plasmon_hdf5_sys::arguments::{LINK_DELETE, Single};
use plasmon_hdf5_sys::{Hid, KIND_DATASET, Location, Ptr, Text, UNLIMITED};

use crate::arrow::datatype;
use crate::arrow::eligibility;
use crate::backend;
use crate::container::Container;
use crate::data::Data;
use crate::data::source::Source;
use crate::host::{Host, Lists};
use crate::id::Id;
use crate::info::Backend;
use crate::mpi_processes::Ranks;
use crate::node::Node;
use crate::skeleton::creation_list::{external, name_data, set_external};
use crate::skeleton::{file_name, object_path};
use crate::tie::SkeletonFile;

/// `H5D_FILL_VALUE_USER_DEFINED`.
const FILL_IS_GIVEN: i32 = 2;
/// `H5D_FILL_TIME_NEVER`.
const FILL_NEVER: i32 = 1;

/// The data of a dataset that is being made.
pub(crate) struct Draft {
    /// The creation property list for the skeleton.
    pub(crate) dcpl: Id,
    /// The data, if this process made it.
    own: Option<CreatedData>,
}

/// Data that this process made.
struct CreatedData {
    source: Source,
    data: Arc<dyn Data>,
    container: Arc<Container>,
}

/// The arguments of a creation.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    /// From where the name is seen.
    pub(crate) place: *const Location,
    /// The name; null for a dataset without a link.
    pub(crate) name: Text,
    /// The type.
    pub(crate) kind: Hid,
    /// The dataspace.
    pub(crate) space: Hid,
    /// The program's creation property list.
    pub(crate) dcpl: Hid,
}

impl Draft {
    /// The data for a new dataset; `None` when it stays as HDF5 keeps it.
    ///
    /// # Safety
    ///
    /// The order is what HDF5 handed over.
    pub(crate) unsafe fn new(
        host: &'static Host,
        parent: &Node,
        order: Order,
    ) -> Option<Result<Self, String>> {
        if !parent.container.keeps_arrow {
            return None;
        }
        // SAFETY: promised by the caller.
        let kind = unsafe { (*order.place).kind };
        if !parent.container.is_own(file_name(host, parent.native(), kind).as_deref()) {
            return None;
        }
        // SAFETY: promised by the caller.
        let path = unsafe { future_path(host, parent, order.place, order.name) };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let table = eligibility::table(host, &name, order.kind, order.space, order.dcpl).ok()?;
        let container = &parent.container;
        if table.grows()
            && (container.ranks.is_some() || container.settings.backend != Backend::Files)
        {
            return None;
        }
        if let Err(error) = ready(host, parent, kind) {
            return Some(Err(error));
        }
        let make = || Self::of_table(host, parent, order, &path, &table);
        let Some(ranks) = &parent.container.ranks else { return Some(make()) };
        if !can_be_shared(host, order) {
            return None;
        }
        Some(Self::of_ranks(host, ranks, order, make))
    }

    /// The data that the first of several processes makes for all of them.
    fn of_ranks(
        host: &'static Host,
        ranks: &Ranks,
        order: Order,
        make: impl FnOnce() -> Result<Self, String>,
    ) -> Result<Self, String> {
        let mut own = None;
        let place = ranks.once(|| {
            let draft = own.insert(make()?);
            let (name, offset, bytes) =
                external(host, draft.dcpl.get()).ok_or("the data has no name")?;
            Ok(format!("{offset} {bytes} {name}"))
        })?;
        if let Some(own) = own {
            return Ok(own);
        }
        let unreadable = || format!("the first process says {place:?}");
        let mut words = place.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let numbers = number().zip(number());
        let (numbers, name) = numbers.zip(words.next()).ok_or_else(unreadable)?;
        let dcpl = host.copy_list(order.dcpl);
        let dcpl = Id::of_list(host, dcpl).ok_or("a property list cannot be copied")?;
        set_external(host, dcpl.get(), name, numbers)?;
        Ok(Self { dcpl, own: None })
    }

    fn of_table(
        host: &'static Host,
        parent: &Node,
        order: Order,
        path: &[u8],
        table: &Table,
    ) -> Result<Self, String> {
        let made = backend::make(&parent.container, path, table)?;
        let plain = made.plain && !datatype::is_structure(host, order.kind);
        let dcpl = Id::of_list(host, host.copy_list(order.dcpl))
            .ok_or("a property list cannot be copied")?;
        let filled = fill_values(host, order.kind, order.dcpl)
            .and_then(|values| {
                made.data.columns().fill(table, 0, &values).map_err(|error| error.to_string())
            })
            .map(|()| made.data.begin_filled())
            .map_err(|error| format!("{}: {error}", made.source));
        let container = Arc::clone(&parent.container);
        container.staging.hold(&made.data);
        let own = CreatedData { source: made.source, data: made.data, container };
        let draft = Self { dcpl, own: Some(own) };
        let bytes = skeleton_bytes(host, order.kind, table);
        let marker = Marker { place: made.place, plain };
        let finished = filled
            .and_then(|()| name_data(host, draft.dcpl.get(), &marker, (made.body_offset, bytes)));
        if finished.is_err() {
            draft.discard();
        }
        finished.map(|()| draft)
    }

    /// Removes the data: the skeleton does not name it.
    pub(crate) fn discard(&self) {
        if let Some(own) = &self.own {
            own.container.staging.release(&own.data);
            own.source.remove();
        }
    }
}

/// Sees to it that the file that an object is in has a folder for new data.
pub(crate) fn ready(host: &'static Host, node: &Node, kind: c_int) -> Result<(), String> {
    let (under, ranks) = (node.native(), node.container.ranks.as_ref());
    match node.container.tie() {
        Some(tie) => tie.ready(SkeletonFile { host, under, kind, ranks }).map(drop),
        None => Err("the file was not looked at when it was opened".to_owned()),
    }
}

/// Whether several processes can write a dataset's data, which is of a fixed size: it has its name,
/// and no values to begin with.
fn can_be_shared(host: &Host, order: Order) -> bool {
    !order.name.is_null() && !wants_fill(host, order.dcpl)
}

/// Whether a new dataset lies in the file that it was made through.
///
/// # Safety
///
/// The dataset is one of ours.
pub(crate) unsafe fn is_at_home(host: &Host, made: Ptr) -> bool {
    // SAFETY: promised by the caller.
    let Some(node) = (unsafe { Node::of(made) }) else { return true };
    node.container.is_own(file_name(host, node.native(), KIND_DATASET).as_deref())
}

/// Removes a link, seen from an object of the native connector.
///
/// # Safety
///
/// The name is a text that ends, or null.
pub(crate) unsafe fn unlink(host: &Host, from: Ptr, place: &Location, name: Text) -> bool {
    if name.is_null() {
        return true;
    }
    let mut delete = Single::new(LINK_DELETE, 0);
    let place = Location::named(place.kind, name);
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: promised by the caller.
    let done = unsafe {
        let (delete, none) = ((&raw mut delete).cast(), std::ptr::null_mut());
        (host.api.H5VLlink_specific)(from, &raw const place, host.native(), delete, dxpl, none)
    };
    done >= 0
}

/// How many bytes HDF5 takes a dataset for: those of its own type, which may have gaps; without a
/// limit when rows can be added.
fn skeleton_bytes(host: &Host, kind: Hid, table: &Table) -> u64 {
    if table.grows() {
        return UNLIMITED;
    }
    // SAFETY: the type is the program's.
    table.elements().saturating_mul(unsafe { (host.api.H5Tget_size)(kind) } as u64)
}

/// Whether the program wants new data filled with a value of its own. Where several processes make
/// a file HDF5 does that at once, by its own means, and so such data stays with HDF5.
fn wants_fill(host: &Host, dcpl: Hid) -> bool {
    let (mut defined, mut time) = (0, 0);
    // SAFETY: the list is the program's; the answers go into what we own.
    unsafe {
        (host.api.H5Pfill_value_defined)(dcpl, &raw mut defined);
        (host.api.H5Pget_fill_time)(dcpl, &raw mut time);
    }
    defined == FILL_IS_GIVEN && time != FILL_NEVER
}

/// The value that the program wants new elements to have, for each column; none when they are to be
/// zeros.
pub(crate) fn fill_values(
    host: &'static Host,
    kind: Hid,
    dcpl: Hid,
) -> Result<Vec<Vec<u8>>, String> {
    if !wants_fill(host, dcpl) {
        return Ok(Vec::new());
    }
    // SAFETY: the type is open.
    let bytes = unsafe { (host.api.H5Tget_size)(kind) };
    let mut value = vec![0_u8; bytes];
    // SAFETY: the value has the size of the type that it is asked for in.
    let got = unsafe { (host.api.H5Pget_fill_value)(dcpl, kind, value.as_mut_ptr().cast()) };
    if got < 0 {
        return Err("the fill value cannot be read".to_owned());
    }
    let leaves = datatype::leaves(host, kind, "")?;
    let piece = |leaf: &datatype::Leaf| {
        value.get(leaf.offset..leaf.offset + leaf.column.bytes()).unwrap_or_default().to_vec()
    };
    Ok(leaves.iter().map(piece).collect())
}

/// The path that a name will have in its file; empty for a dataset without a link.
///
/// # Safety
///
/// HDF5 handed name and place over.
pub(crate) unsafe fn future_path(
    host: &Host,
    parent: &Node,
    place: *const Location,
    name: Text,
) -> Vec<u8> {
    if name.is_null() {
        return Vec::new();
    }
    // SAFETY: HDF5 gives a text that ends, and a place.
    let (name, place) = unsafe { (CStr::from_ptr(name).to_bytes(), &*place) };
    if name.starts_with(b"/") {
        return name.to_vec();
    }
    let mut path = object_path(host, parent.native(), place.kind).unwrap_or_default();
    path.push(b'/');
    path.extend_from_slice(name);
    path
}
