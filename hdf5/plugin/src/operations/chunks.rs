//! Chunks of datasets whose data is ours.
//!
//! A program that divided a dataset into chunks may read and write whole ones, and ask where they
//! are. The values lie otherwise in the Arrow file, so chunks are put together and taken apart, and
//! none has an address that leads to something in the HDF5 file.

use std::ffi::{c_int, c_uint, c_void};

use plasmon_hdf5_model::{Member, Run, Table, WrittenChunks};
use plasmon_hdf5_sys::arguments::{Optional, dataset};
use plasmon_hdf5_sys::{Hid, Ptr};

use crate::arrow::array::{Array, Work};
use crate::arrow::datatype;
use crate::arrow::transfer::Memory;
use crate::host::Host;
use crate::id::Id;
use crate::node::Node;
use crate::skeleton::get;

const GET_STORAGE_SIZE: c_int = 2;
const GET_COUNT: c_int = 3;
const GET_BY_INDEX: c_int = 4;
const GET_BY_PLACE: c_int = 5;
const READ: c_int = 6;
const WRITE: c_int = 7;
const EACH: c_int = 10;
/// `H5D_SPACE_STATUS_NOT_ALLOCATED`, and so on.
const NONE_ALLOCATED: c_int = 0;
const PART_ALLOCATED: c_int = 1;
const ALL_ALLOCATED: c_int = 2;
/// The address of a chunk that is there: beyond the end of any file, so that a program that reads
/// there itself gets an error. h5py takes an undefined address for a chunk that is not there.
const ELSEWHERE: u64 = u64::MAX - 1;
/// The address of a chunk that is not there (`HADDR_UNDEF`).
const NOWHERE: u64 = u64::MAX;

#[repr(C)]
struct StorageSize {
    offset: *const u64,
    size: *mut u64,
}

#[repr(C)]
struct Count {
    space: Hid,
    count: *mut u64,
}

#[repr(C)]
struct ByIndex {
    space: Hid,
    index: u64,
    offset: *mut u64,
    found: ChunkAnswers,
}

#[repr(C)]
struct ByPlace {
    offset: *const u64,
    found: ChunkAnswers,
}

/// Where the answers go; each may be null.
#[repr(C)]
struct ChunkAnswers {
    filter_mask: *mut c_uint,
    address: *mut u64,
    size: *mut u64,
}

impl ChunkAnswers {
    /// # Safety
    ///
    /// HDF5 handed this over.
    unsafe fn fill(&self, bytes: Option<u64>) {
        // SAFETY: promised by the caller.
        unsafe {
            if let Some(mask) = self.filter_mask.as_mut() {
                *mask = 0;
            }
            if let Some(address) = self.address.as_mut() {
                *address = if bytes.is_some() { ELSEWHERE } else { NOWHERE };
            }
            if let Some(size) = self.size.as_mut() {
                *size = bytes.unwrap_or(0);
            }
        }
    }
}

/// The arguments in all versions, and all of them before HDF5 2.0: the program knows how long a
/// chunk is.
#[repr(C)]
struct ReadArguments {
    offset: *const u64,
    filters: u32,
    buffer: *mut c_void,
}

/// Since HDF5 2.0. The size is null for programs that were made for the older interface.
#[repr(C)]
struct SizedReadArguments {
    read: ReadArguments,
    buffer_bytes: *mut usize,
}

/// The arguments of a read, in any version.
struct Target {
    offset: *const u64,
    buffer: *mut c_void,
    /// The length of the program's buffer; receives the length of a chunk.
    buffer_bytes: Option<&'static mut usize>,
}

impl Target {
    /// Also reports that the chunk passed no filters.
    ///
    /// # Safety
    ///
    /// The arguments are those of reading a chunk in this version, and outlive this.
    unsafe fn of(version: (u32, u32, u32), arguments: Ptr) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            let read = &mut *arguments.cast::<ReadArguments>();
            read.filters = 0;
            let buffer_bytes = match version.0 {
                ..2 => None,
                _ => (*arguments.cast::<SizedReadArguments>()).buffer_bytes.as_mut(),
            };
            Self { offset: read.offset, buffer: read.buffer, buffer_bytes }
        }
    }

    /// Reports how long a chunk is. `None` when that was the question, or when the buffer is too
    /// short for one: HDF5 itself then reports no more either, and writes nothing.
    fn room_for(&mut self, chunk_bytes: usize) -> Result<Option<*mut u8>, String> {
        let room = self.buffer_bytes.as_deref().copied();
        if let Some(bytes) = self.buffer_bytes.as_deref_mut() {
            *bytes = chunk_bytes;
        }
        match (room, self.buffer.is_null()) {
            (Some(_), true) => Ok(None),
            (None, true) => Err("no buffer".to_owned()),
            (Some(room), false) if room < chunk_bytes => Ok(None),
            (_, false) => Ok(Some(self.buffer.cast())),
        }
    }
}

/// Before HDF5 2.0.
#[repr(C)]
struct NarrowWrite {
    offset: *const u64,
    filters: u32,
    bytes: u32,
    buffer: *const c_void,
}

/// Since HDF5 2.0, where chunks may be larger.
#[repr(C)]
struct WideWrite {
    offset: *const u64,
    filters: u32,
    bytes: u64,
    buffer: *const c_void,
}

/// The arguments of a write, in any version.
struct Write {
    offset: *const u64,
    bytes: u64,
    buffer: *const c_void,
}

impl Write {
    /// # Safety
    ///
    /// The arguments are those of writing a chunk.
    unsafe fn of(host: &Host, arguments: Ptr) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            if host.version.0 < 2 {
                let NarrowWrite { offset, bytes, buffer, .. } =
                    arguments.cast::<NarrowWrite>().read();
                return Self { offset, bytes: u64::from(bytes), buffer };
            }
            let WideWrite { offset, bytes, buffer, .. } = arguments.cast::<WideWrite>().read();
            Self { offset, bytes, buffer }
        }
    }
}

type Visit = unsafe extern "C" fn(*const u64, c_uint, u64, u64, Ptr) -> c_int;

#[repr(C)]
struct VisitArguments {
    visit: Visit,
    data: Ptr,
}

/// The chunks of a dataset.
struct Chunks<'a> {
    host: &'static Host,
    array: &'a Array,
    under: Ptr,
    table: Table,
    chunk: Vec<u64>,
    /// How long a chunk is.
    bytes: usize,
    members: Vec<Member>,
    /// How many chunks lie along each dimension.
    grid: Vec<u64>,
    /// Those that are there; `None` for all of them.
    written: Option<WrittenChunks>,
    /// How many bytes an element has in HDF5's type.
    stride: usize,
}

/// How long a chunk of elements of `stride` bytes is, if memory can hold one.
fn chunk_bytes(chunk: &[u64], stride: usize) -> Option<usize> {
    let bytes = chunk.iter().try_fold(stride as u64, |bytes, size| bytes.checked_mul(*size))?;
    isize::try_from(bytes).ok().map(isize::cast_unsigned)
}

/// Carries an operation about chunks out, if it is one and the data is ours.
///
/// # Safety
///
/// The arguments are those of an operation that only some connectors have.
pub(crate) unsafe fn answer(
    host: &'static Host,
    node: &Node,
    arguments: Ptr,
) -> Option<Result<c_int, String>> {
    // SAFETY: promised by the caller.
    let optional = unsafe { &*arguments.cast::<Optional>() };
    if !matches!(optional.operation, GET_STORAGE_SIZE..=WRITE | EACH) {
        return None;
    }
    let array = node.array(host).filter(|array| array.grows())?;
    let chunks = Chunks::of(host, array, node.native())?;
    // SAFETY: the operation has these arguments.
    Some(unsafe { chunks.operate(optional.operation, optional.arguments) })
}

/// The space that the chunks of a dataset take.
pub(crate) struct SpaceUsage {
    /// In bytes, with what the last ones have beyond the last row.
    pub(crate) bytes: u64,
    /// As `H5Dget_space_status` returns it.
    pub(crate) status: c_int,
}

/// The space that the chunks of a dataset take, if its data is ours and has chunks.
pub(crate) fn room(host: &'static Host, node: &Node) -> Option<SpaceUsage> {
    let array = node.array(host).filter(|array| array.grows())?;
    let Some(chunks) = Chunks::of(host, array, node.native()) else {
        // The file of data, which says what chunks there are, is not there.
        return Some(SpaceUsage { bytes: array.bytes(node.native())?, status: ALL_ALLOCATED });
    };
    let status = match chunks.count() {
        0 => NONE_ALLOCATED,
        count if count < chunks.room() => PART_ALLOCATED,
        _ => ALL_ALLOCATED,
    };
    Some(SpaceUsage { bytes: chunks.count().checked_mul(chunks.bytes())?, status })
}

impl<'a> Chunks<'a> {
    fn of(host: &'static Host, array: &'a Array, under: Ptr) -> Option<Self> {
        let kind = Id::of_type(host, get(host, under, dataset::GET_TYPE)?)?;
        let leaves = datatype::leaves(host, kind.get(), "").ok()?;
        let member = |(column, leaf): (usize, &datatype::Leaf)| {
            let bytes = leaf.column.bytes();
            let (file_bytes, memory_bytes) = (bytes, bytes);
            Member { column, file_bytes, memory_bytes, offset: leaf.offset, converts: false }
        };
        let table = array.now(under).ok()?;
        let chunk = array.chunk(under);
        // SAFETY: the type is open.
        let stride = unsafe { (host.api.H5Tget_size)(kind.get()) };
        let grid = table.grid(chunk)?;
        Some(Self {
            host,
            array,
            under,
            table,
            chunk: chunk.to_vec(),
            bytes: chunk_bytes(chunk, stride)?,
            members: leaves.iter().enumerate().map(member).collect(),
            grid,
            written: array.written(under).ok()?,
            stride,
        })
    }

    /// # Safety
    ///
    /// The arguments are those of the operation.
    unsafe fn operate(&self, operation: c_int, arguments: Ptr) -> Result<c_int, String> {
        // SAFETY: promised by the caller, for each of these operations.
        unsafe {
            match operation {
                GET_STORAGE_SIZE => {
                    let asked = &*arguments.cast::<StorageSize>();
                    self.present(asked.offset)?;
                    asked.size.write(self.bytes());
                }
                GET_COUNT => (*arguments.cast::<Count>()).count.write(self.count()),
                GET_BY_INDEX => {
                    let asked = &*arguments.cast::<ByIndex>();
                    let offset = self.offset(asked.index).ok_or("there is no such chunk")?;
                    if !asked.offset.is_null() {
                        asked.offset.copy_from_nonoverlapping(offset.as_ptr(), offset.len());
                    }
                    asked.found.fill(Some(self.bytes()));
                }
                GET_BY_PLACE => {
                    let asked = &*arguments.cast::<ByPlace>();
                    asked.found.fill(self.covers(asked.offset).then(|| self.bytes()));
                }
                READ => {
                    let mut asked = Target::of(self.host.version, arguments);
                    let place = self.present(asked.offset)?;
                    let Some(buffer) = asked.room_for(self.bytes)? else { return Ok(0) };
                    buffer.write_bytes(0, self.bytes);
                    self.transfer(&place, Memory::Target(buffer))?;
                }
                WRITE => {
                    let asked = Write::of(self.host, arguments);
                    if asked.bytes != self.bytes() || asked.buffer.is_null() {
                        return Err(format!("a chunk has {} bytes", self.bytes()));
                    }
                    let buffer = Memory::Source(asked.buffer.cast());
                    self.transfer(&self.place(asked.offset)?, buffer)?;
                }
                _ => return self.each(&*arguments.cast::<VisitArguments>()),
            }
        }
        Ok(0)
    }

    /// # Safety
    ///
    /// HDF5 handed the visitor over.
    unsafe fn each(&self, each: &VisitArguments) -> Result<c_int, String> {
        for index in 0..self.count() {
            let Some(offset) = self.offset(index) else { break };
            // SAFETY: promised by the caller.
            let done =
                unsafe { (each.visit)(offset.as_ptr(), 0, ELSEWHERE, self.bytes(), each.data) };
            if done != 0 {
                return Ok(done);
            }
        }
        Ok(0)
    }

    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// How many chunks there would be if all were written.
    fn room(&self) -> u64 {
        self.grid.iter().product()
    }

    fn count(&self) -> u64 {
        self.written.as_ref().map_or_else(|| self.room(), WrittenChunks::count)
    }

    /// Where a chunk begins that is there; the last dimension is counted fastest.
    fn offset(&self, index: u64) -> Option<Vec<u64>> {
        let mut number = match &self.written {
            Some(written) => written.nth(index)?,
            None => Some(index).filter(|index| *index < self.room())?,
        };
        let mut offset = Vec::with_capacity(self.chunk.len());
        for (chunks, chunk) in self.grid.iter().zip(&self.chunk).rev() {
            offset.push(number % chunks * chunk);
            number /= chunks;
        }
        offset.reverse();
        Some(offset)
    }

    /// Whether the chunk with an element is there.
    fn has(&self, element: &[u64]) -> bool {
        let each = element.iter().zip(&self.chunk).zip(&self.grid);
        let number = each.fold(0, |number, ((at, chunk), chunks)| number * chunks + at / chunk);
        self.written.as_ref().is_none_or(|written| written.contains(number))
    }

    /// Whether an element lies in a chunk that is there, as HDF5 sees it: also beyond the last row,
    /// where the last chunk goes on.
    ///
    /// # Safety
    ///
    /// There are as many numbers as the dataset has dimensions.
    unsafe fn covers(&self, element: *const u64) -> bool {
        // SAFETY: promised by the caller.
        let element = unsafe { std::slice::from_raw_parts(element, self.chunk.len()) };
        let mut each = element.iter().zip(&self.chunk).zip(self.table.shape());
        each.all(|((at, chunk), size)| at - at % chunk < *size) && self.has(element)
    }

    /// Where a chunk begins, checked to be the first element of one.
    ///
    /// # Safety
    ///
    /// There are as many numbers as the dataset has dimensions.
    unsafe fn place(&self, offset: *const u64) -> Result<Vec<u64>, String> {
        // SAFETY: promised by the caller.
        let offset = unsafe { std::slice::from_raw_parts(offset, self.chunk.len()) };
        let each = offset.iter().zip(&self.chunk).zip(self.table.shape());
        for ((at, chunk), size) in each {
            if at % chunk != 0 || at >= size {
                return Err("the offset is not that of a chunk of the dataset".to_owned());
            }
        }
        Ok(offset.to_vec())
    }

    /// The same for a chunk that is there.
    ///
    /// # Safety
    ///
    /// As for [`Self::place`].
    unsafe fn present(&self, offset: *const u64) -> Result<Vec<u64>, String> {
        // SAFETY: promised by the caller.
        let place = unsafe { self.place(offset) }?;
        if self.has(&place) { Ok(place) } else { Err("the chunk was never written".to_owned()) }
    }

    /// Moves the part of a chunk that lies within the dataset.
    ///
    /// # Safety
    ///
    /// The memory has room for, or holds, a chunk.
    unsafe fn transfer(&self, offset: &[u64], memory: Memory) -> Result<(), String> {
        let shape = self.table.shape();
        let inside: Vec<u64> =
            (0..shape.len()).map(|at| self.chunk[at].min(shape[at] - offset[at])).collect();
        let lines: u64 = inside[..inside.len() - 1].iter().product();
        let mut runs = Vec::new();
        for line in 0..lines {
            let (mut left, mut file, mut chunk) = (line, 0, 0);
            let (mut file_step, mut chunk_step) = (1, 1);
            for at in (0..shape.len()).rev() {
                let within = if at + 1 == shape.len() { 0 } else { left % inside[at] };
                if at + 1 < shape.len() {
                    left /= inside[at];
                }
                file += (offset[at] + within) * file_step;
                chunk += within * chunk_step;
                (file_step, chunk_step) = (file_step * shape[at], chunk_step * self.chunk[at]);
            }
            runs.push(Run::of(file, chunk, inside[inside.len() - 1]));
        }
        let work = Work { table: &self.table, members: &self.members, stride: self.stride };
        let elements = self.chunk.iter().product();
        // SAFETY: promised by the caller.
        unsafe { self.array.move_plainly(self.under, &work, &runs, (memory, elements)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: (u32, u32, u32) = (1, 14, 6);
    const NEW: (u32, u32, u32) = (2, 0, 0);
    const CHUNK_BYTES: usize = 64;

    fn room(
        version: (u32, u32, u32),
        buffer: Option<&mut [u8]>,
        size: Option<&mut usize>,
    ) -> Result<Option<*mut u8>, String> {
        let buffer = buffer.map_or(std::ptr::null_mut(), |found| found.as_mut_ptr().cast());
        let read = ReadArguments { offset: std::ptr::null(), filters: 7, buffer };
        let buffer_bytes = size.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let mut arguments = SizedReadArguments { read, buffer_bytes };
        // SAFETY: these are the arguments of either version.
        let mut target = unsafe { Target::of(version, (&raw mut arguments).cast()) };
        let found = target.room_for(CHUNK_BYTES);
        assert_eq!(arguments.read.filters, 0);
        found
    }

    /// Since HDF5 2.0 the program passes the length of its buffer. The connector ignored it, and
    /// wrote a whole chunk into any buffer.
    #[test]
    fn a_buffer_that_is_too_short_is_not_written() {
        for short in [0, 16, CHUNK_BYTES - 1] {
            let (mut buffer, mut size) = (vec![0; CHUNK_BYTES], short);
            let found = room(NEW, Some(&mut buffer), Some(&mut size));
            assert_eq!(found, Ok(None), "{short}");
            assert_eq!(size, CHUNK_BYTES, "the program is told what it needs");
        }
        for long in [CHUNK_BYTES, CHUNK_BYTES + 1] {
            let (mut buffer, mut size) = (vec![0; CHUNK_BYTES], long);
            let place = buffer.as_mut_ptr();
            assert_eq!(room(NEW, Some(&mut buffer), Some(&mut size)), Ok(Some(place)));
            assert_eq!(size, CHUNK_BYTES);
        }
    }

    #[test]
    fn the_size_of_a_chunk_can_be_asked_for() {
        let mut size = 0;
        assert_eq!(room(NEW, None, Some(&mut size)), Ok(None));
        assert_eq!(size, CHUNK_BYTES);
        assert!(room(NEW, None, None).is_err());
        assert!(room(OLD, None, None).is_err());
    }

    #[test]
    fn older_versions_have_no_size() {
        // What lies after the arguments of an older version is not read.
        let (mut buffer, mut stray) = (vec![0; CHUNK_BYTES], 1);
        let place = buffer.as_mut_ptr();
        assert_eq!(room(OLD, Some(&mut buffer), Some(&mut stray)), Ok(Some(place)));
        assert_eq!(stray, 1);
        assert_eq!(room(NEW, Some(&mut buffer), None), Ok(Some(place)));
    }

    /// A file may claim any dimensions: a size that wraps around is refused.
    #[test]
    fn chunks_larger_than_memory_are_refused() {
        assert_eq!(chunk_bytes(&[3, 5], 8), Some(120));
        assert_eq!(chunk_bytes(&[1 << 32, 1 << 32], 1), None);
        assert_eq!(chunk_bytes(&[1 << 61], 8), None);
        assert_eq!(chunk_bytes(&[1 << 59], 8), Some(1 << 62));
    }
}
