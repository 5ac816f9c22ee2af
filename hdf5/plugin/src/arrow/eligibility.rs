//! Which datasets become Arrow, and why others do not.

use std::ffi::c_int;

use plasmon_hdf5_model::{Column, Table, WrittenChunks};
use plasmon_hdf5_sys::{Hid, RANK_MAX};

use crate::arrow::datatype;
use crate::host::Host;
use crate::skeleton::creation_list::{LAYOUT_CHUNKED, LAYOUT_COMPACT, LAYOUT_CONTIGUOUS};

/// `H5D_ALLOC_TIME_LATE`.
const ALLOCATE_LATE: c_int = 2;
/// `H5D_ALLOC_TIME_EARLY`.
const ALLOCATE_EARLY: c_int = 1;
/// `H5S_SIMPLE`.
const SPACE_SIMPLE: c_int = 1;

/// The columns of a type.
pub(crate) fn columns(
    host: &'static Host,
    kind: Hid,
    name: &str,
) -> Result<Vec<Column>, &'static str> {
    let leaves = datatype::leaves(host, kind, name)?;
    Ok(leaves.into_iter().map(|leaf| leaf.column).collect())
}

/// The dimensions of a dataspace and those that it may grow to.
pub(crate) fn shape(host: &Host, space: Hid) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut now, mut most) = ([0; RANK_MAX], [0; RANK_MAX]);
    // SAFETY: a dataspace has at most as many dimensions as there is room for.
    let rank = unsafe {
        if (host.api.H5Sget_simple_extent_type)(space) != SPACE_SIMPLE {
            return None;
        }
        (host.api.H5Sget_simple_extent_dims)(space, now.as_mut_ptr(), most.as_mut_ptr())
    };
    let rank = usize::try_from(rank).ok()?;
    Some((now[..rank].to_vec(), most[..rank].to_vec()))
}

/// The dimensions of the chunks of a creation property list; none when it has no chunks. Why the
/// layout has no form in Arrow.
fn chunk(host: &Host, dcpl: Hid) -> Result<Vec<u64>, &'static str> {
    // SAFETY: the list is an open creation property list.
    let (layout, filters) =
        unsafe { ((host.api.H5Pget_layout)(dcpl), (host.api.H5Pget_nfilters)(dcpl)) };
    match layout {
        LAYOUT_CONTIGUOUS => return Ok(Vec::new()),
        LAYOUT_COMPACT => return Err("compact"),
        LAYOUT_CHUNKED => {}
        _ => return Err("virtual"),
    }
    if filters != 0 {
        return Err("compressed or filtered");
    }
    let (mut dimensions, mut options) = ([0; RANK_MAX], 0);
    // SAFETY: chunks have at most as many dimensions as there is room for.
    let rank = unsafe {
        (host.api.H5Pget_chunk_opts)(dcpl, &raw mut options);
        (host.api.H5Pget_chunk)(dcpl, RANK_MAX as c_int, dimensions.as_mut_ptr())
    };
    match usize::try_from(rank) {
        Ok(rank) if rank > 0 && options == 0 => Ok(dimensions[..rank].to_vec()),
        _ => Err("chunked in an unusual way"),
    }
}

/// The chunks of a new dataset that are there; `None` for all of them.
fn written(host: &Host, dcpl: Hid) -> Option<WrittenChunks> {
    let mut time = 0;
    // SAFETY: the list is an open creation property list; the answer goes into what we own.
    let done = unsafe { (host.api.H5Pget_alloc_time)(dcpl, &raw mut time) };
    (done >= 0 && time != ALLOCATE_EARLY).then(|| WrittenChunks::none(time == ALLOCATE_LATE))
}

/// The table that a new dataset becomes, or why it stays as HDF5 keeps it.
pub(crate) fn table(
    host: &'static Host,
    name: &str,
    kind: Hid,
    space: Hid,
    dcpl: Hid,
) -> Result<Table, &'static str> {
    // SAFETY: the list is an open creation property list.
    if unsafe { (host.api.H5Pget_external_count)(dcpl) } > 0 {
        return Err("stored in external files by the program");
    }
    let chunk = chunk(host, dcpl)?;
    let (now, most) = shape(host, space).ok_or("a scalar or without a value")?;
    if now.is_empty() {
        return Err("a scalar or without a value");
    }
    if now[1..] != most[1..] {
        return Err("of a size that may change in another dimension than the first");
    }
    let chunked = !chunk.is_empty();
    if chunked && chunk.len() != now.len() || !chunked && now != most {
        return Err("of a size that may change, without chunks");
    }
    if chunked && now.len() > 1 && now == most {
        // Such a dataset may shrink in every dimension, and has no rows to come.
        return Err("chunked in more than one dimension, without rows to add");
    }
    if now[1..].contains(&0) || now[0] == 0 && !chunked {
        return Err("without elements");
    }
    let columns = columns(host, kind, name)?;
    let table = Table::new(now, columns).ok_or("too large to be counted, or of rows that are")?;
    let written = written(host, dcpl).filter(|_| chunked);
    let entries = written.iter().map(WrittenChunks::entry).collect();
    Ok(table.chunked(chunk, chunked).with_entries(entries))
}
