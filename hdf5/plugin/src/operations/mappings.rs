//! The mappings of a virtual dataset, as its creation property list has them.

use std::ffi::{CString, c_char, c_int};
use std::ops::Range;

use plasmon_hdf5_model::{Blocks, is_numbered, numbered};
use plasmon_hdf5_sys::{Hid, RANK_MAX, UNLIMITED};

use crate::host::Host;
use crate::id::Id;

/// `H5S_SEL_HYPERSLABS`.
const SELECTED_SLABS: c_int = 2;
/// `H5S_SELECT_SET`.
const SET: c_int = 0;
/// `H5S_SELECT_OR`.
const OR: c_int = 1;

/// A file and a dataset in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    /// The file; `.` is the one that the virtual dataset is in.
    pub(crate) file: String,
    /// The dataset.
    pub(crate) dataset: String,
}

/// One part of a virtual dataset, and what it shows.
pub(crate) struct Mapping {
    host: &'static Host,
    name: Name,
    /// Which elements of the virtual dataset.
    part: Id,
    /// Which elements of the source.
    source: Id,
    /// How the former goes on without an end.
    part_slab: Option<Slab>,
    /// How the latter does.
    source_slab: Option<Slab>,
}

/// A regular selection that is unlimited in one dimension.
struct Slab {
    dimension: usize,
    blocks: Blocks,
    start: Vec<u64>,
    stride: Vec<u64>,
    count: Vec<u64>,
    block: Vec<u64>,
}

/// One source of a mapping.
pub(crate) struct Part {
    pub(crate) name: Name,
    /// Which elements of the virtual dataset; none where that depends on the size of the source.
    pub(crate) elements: Option<Id>,
}

/// The mappings of a creation property list; none when it is not that of a virtual dataset that
/// can be understood.
pub(crate) fn of_list(host: &'static Host, dcpl: &Id) -> Option<Vec<Mapping>> {
    let mut count = 0;
    // SAFETY: the list is open.
    if unsafe { (host.api.H5Pget_virtual_count)(dcpl.get(), &raw mut count) } < 0 {
        return None;
    }
    (0..count).map(|at| Mapping::of_list(host, dcpl.get(), at)).collect()
}

type GetName = unsafe extern "C" fn(Hid, usize, *mut c_char, usize) -> isize;

/// A name in a list: the function tells its length, and then the name.
fn name_of(get: GetName, list: Hid, at: usize) -> Option<String> {
    // SAFETY: without a buffer the length is told; then there is room for the name and its end.
    let name = unsafe {
        let length = usize::try_from(get(list, at, std::ptr::null_mut(), 0)).ok()?;
        let mut name = vec![0_u8; length.checked_add(1)?];
        usize::try_from(get(list, at, name.as_mut_ptr().cast(), name.len())).ok()?;
        CString::from_vec_with_nul(name).ok()?
    };
    name.into_string().ok()
}

impl Mapping {
    fn of_list(host: &'static Host, list: Hid, at: usize) -> Option<Self> {
        let name = Name {
            file: name_of(host.api.H5Pget_virtual_filename, list, at)?,
            dataset: name_of(host.api.H5Pget_virtual_dsetname, list, at)?,
        };
        // SAFETY: the list is open, and has as many mappings.
        let (part, source) = unsafe {
            (
                (host.api.H5Pget_virtual_vspace)(list, at),
                (host.api.H5Pget_virtual_srcspace)(list, at),
            )
        };
        let (part, source) = (Id::of_space(host, part), Id::of_space(host, source));
        let (part, source) = (part?, source?);
        let (part_slab, source_slab) = (Slab::of(host, &part), Slab::of(host, &source));
        Some(Self { host, name, part, source, part_slab, source_slab })
    }

    /// Whether the mapping always shows the same dataset.
    pub(crate) fn is_single(&self) -> bool {
        !is_numbered(&self.name.file) && !is_numbered(&self.name.dataset)
    }

    /// The name of the source for a block.
    pub(crate) fn name(&self, block: u64) -> Name {
        Name {
            file: numbered(&self.name.file, block),
            dataset: numbered(&self.name.dataset, block),
        }
    }

    /// The sources that may have elements of a selection in the virtual dataset.
    pub(crate) fn parts(&self, selected: &Id) -> Option<Vec<Part>> {
        let Some(slab) = &self.part_slab else {
            let elements = copy(self.host, &self.part)?;
            // SAFETY: both are open spaces; what is selected stays.
            let same = unsafe { (self.host.api.H5Sextent_copy)(elements.get(), selected.get()) };
            return (same >= 0)
                .then(|| vec![Part { name: self.name(0), elements: Some(elements) }]);
        };
        if self.source_slab.is_some() {
            return Some(vec![Part { name: self.name(0), elements: None }]);
        }
        let part = |block| {
            let elements = slab.one_block(self.host, selected, block)?;
            Some(Part { name: self.name(block), elements: Some(elements) })
        };
        bounds(self.host, selected, slab)?.map(part).collect()
    }

    /// Which elements of the virtual dataset a source has, and which of its own they are.
    pub(crate) fn sides(&self, part: Part, selected: &Id, extent: &Id) -> Option<(Id, Id)> {
        let host = self.host;
        if let Some(elements) = part.elements {
            let source = copy(host, &self.source)?;
            // SAFETY: both are open spaces; what is selected stays.
            let same = unsafe { (host.api.H5Sextent_copy)(source.get(), extent.get()) };
            return (same >= 0).then_some((elements, source));
        }
        let (part, source) = (self.part_slab.as_ref()?, self.source_slab.as_ref()?);
        let room = |slab: &Slab, space| {
            Some(slab.blocks.slices(*dimensions(host, space)?.get(slab.dimension)?))
        };
        let slices = room(part, selected)?.min(room(source, extent)?);
        if slices == 0 {
            return None;
        }
        Some((part.first(host, selected, slices)?, source.first(host, extent, slices)?))
    }
}

impl Slab {
    /// The unlimited selection of a space, if it is one.
    fn of(host: &Host, space: &Id) -> Option<Self> {
        let [mut start, mut stride, mut count, mut block] = [[0_u64; RANK_MAX]; 4];
        // SAFETY: the space is open; a space has at most as many dimensions as there is room for.
        let rank = unsafe {
            let (api, space) = (&host.api, space.get());
            if (api.H5Sget_select_type)(space) != SELECTED_SLABS
                || (api.H5Sis_regular_hyperslab)(space) <= 0
                || (api.H5Sget_regular_hyperslab)(
                    space,
                    start.as_mut_ptr(),
                    stride.as_mut_ptr(),
                    count.as_mut_ptr(),
                    block.as_mut_ptr(),
                ) < 0
            {
                return None;
            }
            usize::try_from((api.H5Sget_simple_extent_ndims)(space)).ok()?
        };
        let endless = |at: &usize| count[*at] == UNLIMITED || block[*at] == UNLIMITED;
        let dimension = (0..rank).find(endless)?;
        let length = (block[dimension] != UNLIMITED).then_some(block[dimension]);
        let blocks = Blocks { start: start[dimension], stride: stride[dimension], block: length };
        let cut = |all: [u64; RANK_MAX]| all[..rank].to_vec();
        let (start, stride, count, block) = (cut(start), cut(stride), cut(count), cut(block));
        Some(Self { dimension, blocks, start, stride, count, block })
    }

    /// Selects blocks of the unlimited dimension, from one place on.
    fn select(
        &self,
        host: &Host,
        space: &Id,
        how: c_int,
        (at, count, length): (u64, u64, u64),
    ) -> Option<()> {
        let [mut start, mut counts, mut block] =
            [&self.start, &self.count, &self.block].map(Clone::clone);
        start[self.dimension] = at;
        (counts[self.dimension], block[self.dimension]) = (count, length);
        // SAFETY: the space is ours, and has as many dimensions as the selection.
        let done = unsafe {
            let stride = self.stride.as_ptr();
            (host.api.H5Sselect_hyperslab)(
                space.get(),
                how,
                start.as_ptr(),
                stride,
                counts.as_ptr(),
                block.as_ptr(),
            )
        };
        (done >= 0).then_some(())
    }

    /// The first slices, in a space of the same size as another one.
    fn first(&self, host: &'static Host, like: &Id, slices: u64) -> Option<Id> {
        let space = copy(host, like)?;
        let (whole, last) = self.blocks.divided(slices);
        let length = self.blocks.block.unwrap_or(0);
        if whole > 0 {
            self.select(host, &space, SET, (self.blocks.start, whole, length))?;
        }
        if last > 0 {
            let how = if whole > 0 { OR } else { SET };
            let at = self.blocks.start.checked_add(whole.checked_mul(self.blocks.stride)?)?;
            self.select(host, &space, how, (at, 1, last))?;
        }
        Some(space)
    }

    /// One block, in a space that is like another one, but has room for the whole block.
    fn one_block(&self, host: &'static Host, like: &Id, block: u64) -> Option<Id> {
        let (space, mut extent) = (copy(host, like)?, dimensions(host, like)?);
        let length = self.blocks.block?;
        let at = self.blocks.start.checked_add(block.checked_mul(self.blocks.stride)?)?;
        let room = extent.get_mut(self.dimension)?;
        *room = at.checked_add(length)?.max(*room);
        let rank = c_int::try_from(extent.len()).ok()?;
        // SAFETY: the space is ours; there are as many dimensions as are said.
        let done = unsafe {
            let most = std::ptr::null();
            (host.api.H5Sset_extent_simple)(space.get(), rank, extent.as_ptr(), most)
        };
        (done >= 0).then_some(())?;
        self.select(host, &space, SET, (at, 1, length))?;
        Some(space)
    }
}

/// The numbers of the blocks that may have elements of a selection.
fn bounds(host: &Host, selected: &Id, slab: &Slab) -> Option<Range<u64>> {
    let [mut first, mut last] = [[0_u64; RANK_MAX]; 2];
    // SAFETY: the space is open; it has at most as many dimensions as there is room for.
    let done = unsafe {
        (host.api.H5Sget_select_bounds)(selected.get(), first.as_mut_ptr(), last.as_mut_ptr())
    };
    (done >= 0).then(|| slab.blocks.between(first[slab.dimension], last[slab.dimension]))
}

/// The dimensions of a space.
fn dimensions(host: &Host, space: &Id) -> Option<Vec<u64>> {
    let mut now = [0; RANK_MAX];
    // SAFETY: the space is open; it has at most as many dimensions as there is room for.
    let rank = unsafe {
        let most = std::ptr::null_mut();
        (host.api.H5Sget_simple_extent_dims)(space.get(), now.as_mut_ptr(), most)
    };
    Some(now[..usize::try_from(rank).ok()?].to_vec())
}

/// A copy of a space.
pub(crate) fn copy(host: &'static Host, space: &Id) -> Option<Id> {
    // SAFETY: the space is open.
    Id::of_space(host, unsafe { (host.api.H5Scopy)(space.get()) })
}
