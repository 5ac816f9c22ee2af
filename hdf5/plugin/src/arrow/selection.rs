//! Selections of elements as runs.

use plasmon_hdf5_model::Run;
use plasmon_hdf5_sys::{Hid, SPACE_ALL, SPACE_BLOCK, SPACE_PLIST};

use crate::host::Host;
use crate::id::Id;

/// How many sequences are requested from the library at once.
const SEQUENCES: usize = 512;
/// Offsets and lengths may refer to the dataspace while it is not changed
/// (`H5S_SEL_ITER_SHARE_WITH_DATASPACE`).
const SHARE: u32 = 2;

/// One side of a transfer.
enum Side {
    /// All elements, or a block of memory.
    Whole,
    /// The selection of a dataspace.
    Selected(Id),
}

/// The elements of one side, in the order of the selection.
struct Sequences {
    host: &'static Host,
    side: Side,
    offsets: Vec<u64>,
    lengths: Vec<usize>,
    at: usize,
    filled: usize,
    /// Not yet requested.
    left: u64,
}

impl Sequences {
    fn whole(host: &'static Host, elements: u64) -> Self {
        Self {
            host,
            side: Side::Whole,
            offsets: vec![0],
            lengths: vec![usize::try_from(elements).unwrap_or(usize::MAX)],
            at: 0,
            filled: 1,
            left: 0,
        }
    }

    fn selected(host: &'static Host, space: Hid, elements: u64) -> Result<Self, String> {
        // SAFETY: the space is open and stays as it is during the call. Sizes are counted in
        // elements, so an element has size 1.
        let iterator = unsafe { (host.api.H5Ssel_iter_create)(space, 1, SHARE) };
        let iterator = Id::of_iterator(host, iterator).ok_or("a selection cannot be iterated")?;
        Ok(Self {
            host,
            side: Side::Selected(iterator),
            offsets: vec![0; SEQUENCES],
            lengths: vec![0; SEQUENCES],
            at: 0,
            filled: 0,
            left: elements,
        })
    }

    /// The sequence that is next, if there is one.
    fn peek(&mut self) -> Result<Option<(u64, u64)>, String> {
        if self.at == self.filled {
            let Side::Selected(iterator) = &self.side else { return Ok(None) };
            if self.left == 0 {
                return Ok(None);
            }
            let (mut sequences, mut elements) = (0, 0);
            // SAFETY: the iterator is ours; there is room for as many sequences as are asked for.
            let done = unsafe {
                (self.host.api.H5Ssel_iter_get_seq_list)(
                    iterator.get(),
                    SEQUENCES,
                    usize::try_from(self.left).unwrap_or(usize::MAX),
                    &raw mut sequences,
                    &raw mut elements,
                    self.offsets.as_mut_ptr(),
                    self.lengths.as_mut_ptr(),
                )
            };
            if done < 0 || sequences == 0 {
                return Err("a selection ends too early".to_owned());
            }
            self.left = self.left.saturating_sub(elements as u64);
            (self.at, self.filled) = (0, sequences);
        }
        Ok(Some((self.offsets[self.at], self.lengths[self.at] as u64)))
    }

    /// Takes elements from the sequence that is next.
    fn take(&mut self, elements: u64) {
        let now = usize::try_from(elements).unwrap_or(usize::MAX);
        self.offsets[self.at] += elements;
        self.lengths[self.at] -= now;
        if self.lengths[self.at] == 0 {
            self.at += 1;
        }
    }
}

/// Both sides of a transfer.
pub(crate) struct Selection {
    file: Sequences,
    memory: Sequences,
    /// How many elements the dataset has.
    elements: u64,
    /// How many are selected.
    pub(crate) selected: u64,
}

impl Selection {
    /// The selections of a call, checked as HDF5 does.
    pub(crate) fn new(
        host: &'static Host,
        elements: u64,
        file_space: Hid,
        memory_space: Hid,
    ) -> Result<Self, String> {
        if file_space == SPACE_PLIST {
            return Err("selections in property lists are not supported for Arrow data".to_owned());
        }
        // Memory without its own dataspace is selected like the file.
        let memory_space = if memory_space == SPACE_ALL { file_space } else { memory_space };
        let selected =
            if file_space == SPACE_ALL { elements } else { points(host, file_space, "file")? };
        let in_memory = match memory_space {
            SPACE_ALL => elements,
            SPACE_BLOCK => selected,
            space => points(host, space, "memory")?,
        };
        if selected != in_memory {
            return Err(format!(
                "src and dest dataspaces have different number of elements selected: {selected} \
                 in the file, {in_memory} in memory"
            ));
        }
        let side = |space: Hid| match space {
            SPACE_ALL | SPACE_BLOCK => Ok(Sequences::whole(host, selected)),
            space => Sequences::selected(host, space, selected),
        };
        Ok(Self { file: side(file_space)?, memory: side(memory_space)?, elements, selected })
    }

    /// The next runs; none at the end.
    pub(crate) fn next_runs(&mut self, runs: &mut Vec<Run>) -> Result<(), String> {
        runs.clear();
        while runs.len() < SEQUENCES {
            let (Some(file), Some(memory)) = (self.file.peek()?, self.memory.peek()?) else {
                return Ok(());
            };
            let elements = file.1.min(memory.1);
            if file.0.checked_add(elements).is_none_or(|end| end > self.elements) {
                return Err("the selection in the file leaves the dataset".to_owned());
            }
            push(runs, file.0, memory.0, elements);
            self.file.take(elements);
            self.memory.take(elements);
        }
        Ok(())
    }
}

/// Appends a run, or lengthens the last one, by elements or by a block.
fn push(runs: &mut Vec<Run>, file: u64, memory: u64, elements: u64) {
    let Some(last) = runs.last_mut() else { return runs.push(Run::of(file, memory, elements)) };
    if last.blocks == 1 {
        if last.file + last.elements == file && last.memory + last.elements == memory {
            last.elements += elements;
            return;
        }
        let upwards = file >= last.file + last.elements && memory >= last.memory + last.elements;
        if elements == last.elements && upwards {
            (last.file_step, last.memory_step) = (file - last.file, memory - last.memory);
            last.blocks = 2;
            return;
        }
    } else if elements == last.elements
        && file == last.file + last.blocks * last.file_step
        && memory == last.memory + last.blocks * last.memory_step
    {
        last.blocks += 1;
        return;
    }
    runs.push(Run::of(file, memory, elements));
}

/// How many elements are selected in a dataspace, if the selection lies within it.
fn points(host: &Host, space: Hid, side: &str) -> Result<u64, String> {
    // SAFETY: the space is one that the program gave.
    let (valid, points) =
        unsafe { ((host.api.H5Sselect_valid)(space), (host.api.H5Sget_select_npoints)(space)) };
    if valid <= 0 {
        return Err(format!("selection + offset not within extent for {side} dataspace"));
    }
    u64::try_from(points).map_err(|_| format!("the {side} dataspace cannot be used"))
}
