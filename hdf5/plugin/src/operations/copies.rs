//! Copies of datasets get their own data.
//!
//! `H5Ocopy` copies the skeleton's part of a dataset, which names the original's file. So after it
//! every dataset of ours in the copy is made once more over a copy of that file, with its
//! attributes, and takes the place of what HDF5 had made.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::path::PathBuf;

use plasmon_hdf5_model::{Marker, Place};
use plasmon_hdf5_sys::arguments::{HardLink, LINK_CREATE_HARD, dataset};
use plasmon_hdf5_sys::{KIND_DATASET, KIND_GROUP, Location, Ptr, Text};

use crate::arrow::array::Array;
use crate::backend::{self, Original};
use crate::data::source::Source;
use crate::host::{Host, Lists};
use crate::id::Id;
use crate::info::Backend;
use crate::node::Node;
use crate::operations::creation::{ready, unlink};
use crate::operations::first_link::{make_unnamed, remake};
use crate::operations::references;
use crate::skeleton::attributes;
use crate::skeleton::creation_list::{give_back, marker};
use crate::skeleton::read_all;
use crate::skeleton::walk::{self, NativeObject};
use crate::skeleton::{file_name, get, object_path};

/// Gives the datasets of a fresh copy their own data, or takes the copy away again: writing to one
/// that shares its data would change the original.
pub(crate) fn separate(
    host: &'static Host,
    source: (&Node, &Location, Text),
    target: (&Node, &Location, Text),
) -> Result<(), String> {
    give_data(host, source, target).map_err(|error| {
        let (node, to, name) = target;
        // SAFETY: HDF5 handed object and name over.
        if unsafe { unlink(host, node.native(), to, name) } {
            return error;
        }
        format!("{error}; the copy shares its data with the original: delete it")
    })
}

fn give_data(
    host: &'static Host,
    source: (&Node, &Location, Text),
    target: (&Node, &Location, Text),
) -> Result<(), String> {
    let (target, to, name) = target;
    let place = Location::named(to.kind, name);
    // SAFETY: HDF5 handed the objects over; the name is a text that ends.
    let copy = unsafe { NativeObject::new(host, target.native(), &place) };
    let Some(copy) = copy else { return Ok(()) };
    let skeleton = original_skeleton(host, source).ok_or("the original's file has no name")?;
    let mut work = Separation { host, target, kind: to.kind, skeleton, made: HashMap::new() };
    match copy.kind {
        KIND_DATASET => {
            // SAFETY: HDF5 gives a text that ends.
            let name = unsafe { CStr::from_ptr(name) };
            work.dataset(target.native(), to.kind, name, &copy)
        }
        KIND_GROUP => {
            work.group(&copy, 0)?;
            work.redirect(&copy)
        }
        _ => Ok(()),
    }
}

/// The original's skeleton: a link may have led into another file.
fn original_skeleton(
    host: &'static Host,
    (source, from, name): (&Node, &Location, Text),
) -> Option<PathBuf> {
    let place = Location::named(from.kind, name);
    // SAFETY: HDF5 handed object and name over.
    let original = unsafe { NativeObject::new(host, source.native(), &place) }?;
    let given = file_name(host, original.under, original.kind)?;
    Some(source.container.path_of(&given))
}

struct Separation<'a> {
    host: &'static Host,
    target: &'a Node,
    /// What it is.
    kind: c_int,
    /// The original's skeleton.
    skeleton: PathBuf,
    /// The replacements of datasets that more than one link leads to.
    made: HashMap<[u8; 16], NativeObject>,
}

impl Separation<'_> {
    fn group(&mut self, group: &NativeObject, depth: usize) -> Result<(), String> {
        let unreadable = || "the objects of the copy cannot be visited".to_owned();
        let names = walk::names(self.host, group.under, depth).ok_or_else(unreadable)?;
        for name in names {
            let place = Location::named(KIND_GROUP, name.as_ptr());
            // SAFETY: the group is the native connector's and open; the name ends.
            let found = unsafe { NativeObject::new(self.host, group.under, &place) };
            let found = found.ok_or_else(unreadable)?;
            match found.kind {
                KIND_DATASET => self.dataset(group.under, KIND_GROUP, &name, &found)?,
                KIND_GROUP => self.group(&found, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets references in the copy lead to the datasets with their own data.
    fn redirect(&self, copy: &NativeObject) -> Result<(), String> {
        let mut moved = HashMap::new();
        for (token, made) in &self.made {
            let info = walk::info(self.host, made.under, KIND_DATASET);
            let info = info.ok_or("the copy is unknown")?;
            moved.insert(references::address(*token), references::address(info.token));
        }
        if moved.is_empty() {
            return Ok(());
        }
        walk::datasets(self.host, copy.under, KIND_GROUP, &mut |under| {
            references::redirect(self.host, under, &moved)
        })
        .ok_or_else(|| "references in the copy cannot be changed".to_owned())
    }

    /// Puts a dataset with its own data in the place of one that shares it.
    fn dataset(
        &mut self,
        group: Ptr,
        kind: c_int,
        name: &CStr,
        shared: &NativeObject,
    ) -> Result<(), String> {
        let host = self.host;
        let list = |under| Id::of_list(host, get(host, under, dataset::GET_CREATION)?);
        let dcpl = list(shared.under).ok_or("the copy has no creation properties")?;
        let Some((marker, offset)) = marker(host, dcpl.get()) else { return Ok(()) };
        let info = walk::info(host, shared.under, KIND_DATASET).ok_or("the copy is unknown")?;
        if !self.made.contains_key(&info.token) {
            let under = self.own(shared.under, dcpl, &marker, offset)?;
            self.made.insert(info.token, NativeObject::adopt(host, under, KIND_DATASET));
        }
        let own = self.made[&info.token].under;
        replace(host, (group, kind), name, own)
    }

    /// A dataset without a link that has its own data.
    fn own(&self, shared: Ptr, dcpl: Id, marker: &Marker, offset: u64) -> Result<Ptr, String> {
        let host = self.host;
        let container = &self.target.container;
        let old = Source::new(&marker.place, &self.skeleton, &container.settings);
        let old = old.checked(container.tie_of(host, &self.skeleton).as_deref())?;
        let home = container.is_own(file_name(host, shared, KIND_DATASET).as_deref());
        let array = Array::of_source(host, shared, old.clone(), offset);
        let array = array.ok_or("the copy is not a table")?;
        let grows = array.grows() && container.settings.backend != Backend::Files;
        if !container.keeps_arrow || !home || container.ranks.is_some() || grows {
            let made = self.plain(shared, dcpl, old, offset)?;
            return with_attributes(host, shared, made);
        }
        ready(host, self.target, self.kind)?;
        let path = object_path(host, shared, KIND_DATASET).unwrap_or_default();
        let original = Original { source: &old, table: array.table(), body_offset: offset };
        let (place, offset) = backend::copy(container, &original, &path)?;
        // What needed the connector where it was goes on needing it.
        let plain = marker.plain && matches!(place, Place::File(_));
        let marker = Marker { place, plain };
        let Some(made) = remake(host, shared, dcpl, &marker, offset) else {
            container.source(&marker.place).remove();
            return Err("the copy cannot be made".to_owned());
        };
        with_attributes(host, shared, made)
    }

    /// A dataset without a link that keeps its data in the skeleton, for a file that is not kept
    /// under its name, such as one in memory.
    fn plain(&self, shared: Ptr, dcpl: Id, old: Source, offset: u64) -> Result<Ptr, String> {
        let host = self.host;
        let array = Array::of_source(host, shared, old, offset).ok_or("the copy is not a table")?;
        let kind = get(host, shared, dataset::GET_TYPE).and_then(|id| Id::of_type(host, id));
        let kind = kind.ok_or("the copy has no type")?;
        let mut values = array.values(shared, kind.get())?;
        give_back(host, dcpl.get(), array.chunk(shared));
        let made = make_unnamed(host, shared, &dcpl).ok_or("the copy cannot be made")?;
        // SAFETY: the dataset is the native connector's; the memory holds all of its values.
        let done = unsafe { read_all::write(host, made, kind.get(), values.as_mut_ptr().cast()) };
        if done < 0 { Err("the copy cannot be written".to_owned()) } else { Ok(made) }
    }
}

/// A copy with the attributes of the original.
fn with_attributes(host: &'static Host, from: Ptr, to: Ptr) -> Result<Ptr, String> {
    attributes::copy(host, from, to).ok_or("an attribute of the copy cannot be made")?;
    Ok(to)
}

/// Lets a link lead to another dataset.
fn replace(
    host: &'static Host,
    (group, kind): (Ptr, c_int),
    name: &CStr,
    dataset: Ptr,
) -> Result<(), String> {
    let (native, dxpl) = (host.native(), host.default_list(Lists::Transfer));
    let place = Location::named(kind, name.as_ptr());
    let mut link = HardLink {
        operation: LINK_CREATE_HARD,
        current: dataset,
        location: Location::itself(KIND_DATASET),
    };
    let (lcpl, lapl) =
        (host.default_list(Lists::LinkCreation), host.default_list(Lists::LinkAccess));
    // SAFETY: group and dataset are the native connector's; the name ends.
    let done = unsafe {
        let (link, none) = ((&raw mut link).cast(), std::ptr::null_mut());
        unlink(host, group, &place, name.as_ptr())
            && (host.api.H5VLlink_create)(
                link,
                group,
                &raw const place,
                native,
                lcpl,
                lapl,
                dxpl,
                none,
            ) >= 0
    };
    if done { Ok(()) } else { Err(format!("the copy {} cannot be linked", text(name))) }
}

fn text(name: &CStr) -> String {
    CString::from(name).to_string_lossy().into_owned()
}
