//! Moving runs between the columns of one extent and memory.
//!
//! ```text
//! large run, memory packed           file ◄──────────────────────► memory
//! large run, records or conversion   file ◄─► packed block ◄─────► memory, in strides
//! small runs near each other         file ◄─► window over them ◄─► memory, in strides
//! ```

use std::io;

use crate::bytes::Bytes;
use crate::conversion::Convert;
use crate::error::TransferError;
use crate::memory::{Member, Memory, Records};
use crate::records::{Tile, copy_strided, gather, scatter, tiles};
use crate::run::Run;

/// How many bytes of columns are read at once: what the second cache holds besides the records.
const READ_BYTES: usize = 512 * 1024;
/// How many are written at once: files are laid out better in larger pieces.
const WRITE_BYTES: usize = 2 * 1024 * 1024;
/// Pieces have a multiple of this many elements.
const PART_ELEMENTS: usize = 512;
/// How many bytes of records are put together or taken apart at once: what the nearest cache holds.
const PART_BYTES: usize = 16 * 1024;
/// How many elements are moved at once when nothing has to be done to them.
const PACKED_ELEMENTS: u64 = 1 << 24;
/// From this size on a run is moved separately.
const LARGE_BYTES: usize = 16 * 1024;
/// How far apart small runs may lie to be moved together.
const WINDOW_BYTES: u64 = 64 * 1024;
/// How many bytes between two runs are read or written needlessly at most.
const GAP_BYTES: u64 = 4 * 1024;

/// A transfer between memory and the columns of one extent after the other.
pub(crate) struct Job<'a> {
    bytes: &'a dyn Bytes,
    members: &'a [Member],
    tiles: Vec<Tile>,
    records: Records,
    /// Whether there is so much that records are written past the cache.
    streams: bool,
    /// Where each column begins.
    offsets: Vec<u64>,
    /// The element that the columns begin with.
    first: u64,
    /// One for each member.
    buffers: Vec<Vec<u8>>,
    /// For runs that are converted one by one.
    spare: Vec<u8>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        bytes: &'a dyn Bytes,
        members: &'a [Member],
        records: Records,
        streams: bool,
    ) -> Self {
        Self {
            bytes,
            members,
            // What goes straight between file and memory is not put together.
            tiles: tiles(members)
                .into_iter()
                .filter(|tile| !is_packed(&members[tile.first], records.stride))
                .collect(),
            records,
            streams,
            offsets: Vec::new(),
            first: 0,
            buffers: vec![Vec::new(); members.len()],
            spare: Vec::new(),
        }
    }

    /// Goes on with another extent.
    pub(crate) fn enter(&mut self, columns: &[u64], first: u64) {
        self.offsets = self.members.iter().map(|member| columns[member.column]).collect();
        self.first = first;
    }

    /// Moves runs that lie in this extent.
    pub(crate) fn work(
        &mut self,
        runs: &[Run],
        mut memory: Memory<'_>,
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let block = match memory {
            Memory::Target(_) => READ_BYTES,
            Memory::Source(_) => WRITE_BYTES,
        };
        for group in Groups::of(runs, self.members, self.records.stride, block) {
            match (group, memory.again()) {
                (Group::Large(run), Memory::Target(memory)) => {
                    self.read_large(run, memory, convert)?;
                }
                (Group::Large(run), Memory::Source(memory)) => {
                    self.write_large(run, memory, convert)?;
                }
                (Group::Near(near), mut memory) => {
                    for at in 0..self.members.len() {
                        self.near(at, &near, memory.again(), convert)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn read_large(
        &mut self,
        run: Run,
        memory: &mut [u8],
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let (members, records, elements) = (self.members, self.records, count(run.elements));
        for (at, member) in members.iter().enumerate() {
            if is_packed(member, records.stride) {
                let range = records.range(member, run.memory, run.elements);
                let piece = range.and_then(|range| memory.get_mut(range));
                self.read(at, piece.ok_or(TransferError::Outside)?, run.file)?;
                continue;
            }
            let mut packed = std::mem::take(&mut self.buffers[at]);
            let bytes = room(&mut packed, member, elements);
            self.read(at, &mut packed[..elements * member.file_bytes], run.file)?;
            if member.converts {
                let converted = convert.convert(at, elements, &mut packed[..bytes]);
                converted.map_err(TransferError::Conversion)?;
            }
            self.buffers[at] = packed;
        }
        // Every record is put together while it lies in the nearest cache.
        for part in parts(run, records.stride) {
            let start = count(part.file - run.file);
            for tile in &self.tiles {
                let columns = &self.buffers[tile.first..tile.first + tile.members];
                let range = records.range(&tile.as_member(members), part.memory, part.elements);
                let piece = range.and_then(|range| memory.get_mut(range));
                let piece = piece.ok_or(TransferError::Outside)?;
                scatter(columns, *tile, start, piece, (records.stride, self.streams));
            }
        }
        Ok(())
    }

    fn write_large(
        &mut self,
        run: Run,
        memory: &[u8],
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let (members, records, elements) = (self.members, self.records, count(run.elements));
        for (member, buffer) in members.iter().zip(&mut self.buffers) {
            if !is_packed(member, records.stride) {
                room(buffer, member, elements);
            }
        }
        for part in parts(run, records.stride) {
            let start = count(part.file - run.file);
            for tile in &self.tiles {
                let columns = &mut self.buffers[tile.first..tile.first + tile.members];
                let range = records.range(&tile.as_member(members), part.memory, part.elements);
                let piece = range.and_then(|range| memory.get(range));
                let piece = piece.ok_or(TransferError::Outside)?;
                gather(piece, columns, *tile, start, records.stride);
            }
        }
        for (at, member) in members.iter().enumerate() {
            if is_packed(member, records.stride) {
                let range = records.range(member, run.memory, run.elements);
                let piece = range.and_then(|range| memory.get(range));
                self.write(at, piece.ok_or(TransferError::Outside)?, run.file)?;
                continue;
            }
            let mut packed = std::mem::take(&mut self.buffers[at]);
            let bytes = room(&mut packed, member, elements);
            if member.converts {
                let converted = convert.convert(at, elements, &mut packed[..bytes]);
                converted.map_err(TransferError::Conversion)?;
            }
            self.write(at, &packed[..elements * member.file_bytes], run.file)?;
            self.buffers[at] = packed;
        }
        Ok(())
    }

    /// Moves small runs of one member through a window over all of them.
    fn near(
        &mut self,
        at: usize,
        near: &[Run],
        mut memory: Memory<'_>,
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let member = self.members[at];
        let first = near[0].file;
        let elements = near[near.len() - 1].file_end() - first;
        let mut window = std::mem::take(&mut self.buffers[at]);
        room(&mut window, &member, count(elements));
        let bytes = count(elements) * member.file_bytes;
        let covered: u64 = near.iter().map(Run::total).sum();
        if matches!(memory, Memory::Target(_)) || covered < elements {
            // What lies between runs that are written is written again as it was.
            self.read(at, &mut window[..bytes], first)?;
        }
        for run in near {
            let start = count(run.file - first) * member.file_bytes;
            let piece = &mut window[start..bytes];
            self.tooth_by_tooth(at, *run, piece, memory.again(), convert)?;
        }
        if matches!(memory, Memory::Source(_)) {
            self.write(at, &window[..bytes], first)?;
        }
        self.buffers[at] = window;
        Ok(())
    }

    /// Moves the elements of a run between a window that begins with it and memory.
    fn tooth_by_tooth(
        &mut self,
        at: usize,
        run: Run,
        window: &mut [u8],
        mut memory: Memory<'_>,
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let (member, stride) = (self.members[at], self.records.stride);
        let (file_bytes, memory_bytes) = (member.file_bytes, member.memory_bytes);
        let range = self.records.range(&member, run.memory, run.memory_end() - run.memory);
        let range = range.ok_or(TransferError::Outside)?;
        let in_memory = Strides::of(run, run.memory_step, stride);
        let in_file = Strides::of(run, run.file_step, file_bytes);
        if !member.converts {
            match memory.again() {
                Memory::Target(to) => {
                    let to = to.get_mut(range).ok_or(TransferError::Outside)?;
                    copy_blocks((window, in_file), (to, in_memory), file_bytes, run);
                }
                Memory::Source(from) => {
                    let from = from.get(range).ok_or(TransferError::Outside)?;
                    copy_blocks((from, in_memory), (window, in_file), file_bytes, run);
                }
            }
            return Ok(());
        }
        let mut one = std::mem::take(&mut self.spare);
        let total = count(run.total());
        let bytes = room(&mut one, &member, total);
        let mut change = |one: &mut [u8]| {
            convert.convert(at, total, &mut one[..bytes]).map_err(TransferError::Conversion)
        };
        match memory {
            Memory::Target(to) => {
                let packed = Strides::of(run, run.elements, file_bytes);
                copy_blocks((window, in_file), (&mut one, packed), file_bytes, run);
                change(&mut one)?;
                let to = to.get_mut(range).ok_or(TransferError::Outside)?;
                let packed = Strides::of(run, run.elements, memory_bytes);
                copy_blocks((&one, packed), (to, in_memory), memory_bytes, run);
            }
            Memory::Source(from) => {
                let from = from.get(range).ok_or(TransferError::Outside)?;
                let packed = Strides::of(run, run.elements, memory_bytes);
                copy_blocks((from, in_memory), (&mut one, packed), memory_bytes, run);
                change(&mut one)?;
                let packed = Strides::of(run, run.elements, file_bytes);
                copy_blocks((&one, packed), (window, in_file), file_bytes, run);
            }
        }
        self.spare = one;
        Ok(())
    }

    fn place(&self, at: usize, element: u64) -> u64 {
        self.offsets[at] + (element - self.first) * self.members[at].file_bytes as u64
    }

    fn read(&self, at: usize, bytes: &mut [u8], element: u64) -> io::Result<()> {
        self.bytes.read_exact_at(bytes, self.place(at, element))
    }

    fn write(&self, at: usize, bytes: &[u8], element: u64) -> io::Result<()> {
        self.bytes.write_all_at(bytes, self.place(at, element))
    }
}

/// The steps of a run on one side, in bytes.
#[derive(Clone, Copy)]
struct Strides {
    /// From one block of the run to the next.
    block: usize,
    /// From one element of a block to the next.
    element: usize,
}

impl Strides {
    fn of(run: Run, step: u64, element: usize) -> Self {
        let step = if run.blocks > 1 { step } else { run.elements };
        Self { block: count(step) * element, element }
    }
}

/// Copies a run from one side to the other.
fn copy_blocks(
    (from, from_steps): (&[u8], Strides),
    (to, to_steps): (&mut [u8], Strides),
    bytes: usize,
    run: Run,
) {
    let (blocks, elements) = (count(run.blocks), count(run.elements));
    if elements == 1 {
        copy_strided((from, from_steps.block), (to, to_steps.block), bytes, blocks);
        return;
    }
    for block in 0..blocks {
        let from = &from[block * from_steps.block..];
        let to = &mut to[block * to_steps.block..];
        copy_strided((from, from_steps.element), (to, to_steps.element), bytes, elements);
    }
}

/// Whether the bytes of a member go straight between file and memory.
fn is_packed(member: &Member, stride: usize) -> bool {
    !member.converts && stride == member.memory_bytes
}

/// Makes room for `elements` of the larger kind; how many bytes that is.
fn room(buffer: &mut Vec<u8>, member: &Member, elements: usize) -> usize {
    let bytes = elements * member.file_bytes.max(member.memory_bytes);
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    bytes
}

/// Elements that are moved together.
enum Group {
    /// A run of one block, or a piece of one.
    Large(Run),
    /// Small runs, upwards in the file and not far apart.
    Near(Vec<Run>),
}

/// Divides runs into what is moved at once.
struct Groups<'r> {
    runs: std::slice::Iter<'r, Run>,
    /// The rest of earlier runs, the next one last.
    rest: Vec<Run>,
    /// How many elements of a large run are moved at once.
    piece: u64,
    /// How many elements make a run large.
    large: u64,
    /// How many elements small runs may reach over.
    reach: u64,
    /// How many elements may lie between two.
    gap: u64,
}

impl<'r> Groups<'r> {
    fn of(runs: &'r [Run], members: &[Member], stride: usize, block: usize) -> Self {
        let widest = members.iter().map(|member| member.file_bytes).max().unwrap_or(1).max(1);
        let record: usize =
            members.iter().map(|member| member.file_bytes.max(member.memory_bytes)).sum();
        // What needs no buffer goes at once, however long it is.
        let packed = members.iter().all(|member| is_packed(member, stride));
        let parts = (block / record.max(1) / PART_ELEMENTS).clamp(1, 128);
        Self {
            runs: runs.iter(),
            rest: Vec::new(),
            piece: if packed { PACKED_ELEMENTS } else { (parts * PART_ELEMENTS) as u64 },
            large: (LARGE_BYTES / widest).max(1) as u64,
            reach: (WINDOW_BYTES / widest as u64).max(1),
            gap: GAP_BYTES / widest as u64,
        }
    }

    fn pull(&mut self) -> Option<Run> {
        self.rest.pop().or_else(|| self.runs.next().copied())
    }

    fn is_large(&self, run: &Run) -> bool {
        run.elements >= self.large
    }

    /// How many blocks of a run lie near each other and before the element `end`.
    fn near_blocks(&self, run: &Run, end: u64) -> u64 {
        let Some(room) = end.checked_sub(run.file + run.elements) else { return 0 };
        if run.blocks == 1 || run.file_step - run.elements > self.gap {
            return 1;
        }
        (room / run.file_step + 1).min(run.blocks)
    }
}

impl Iterator for Groups<'_> {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let first = self.pull()?;
        if self.is_large(&first) {
            let (block, others) = first.split_blocks(1);
            let (piece, left) = block.split_elements(self.piece);
            self.rest.extend(others.into_iter().chain(left));
            return Some(Group::Large(piece));
        }
        let limit = first.file + self.reach;
        let (mut near, mut end) = (Vec::new(), first.file);
        let mut next = Some(first);
        while let Some(run) = next {
            let follows = run.file >= end && run.file - end <= self.gap;
            let blocks = if near.is_empty() {
                self.near_blocks(&run, limit).max(1)
            } else if follows && !self.is_large(&run) {
                self.near_blocks(&run, limit)
            } else {
                0
            };
            if blocks == 0 {
                self.rest.push(run);
                break;
            }
            let (own, others) = run.split_blocks(blocks);
            near.push(own);
            end = own.file_end();
            if others.is_some() {
                self.rest.extend(others);
                break;
            }
            next = self.pull();
        }
        Some(Group::Near(near))
    }
}

/// The parts of a run whose records lie in the nearest cache.
fn parts(run: Run, stride: usize) -> impl Iterator<Item = Run> {
    // A multiple of the elements that are moved together.
    let most = (PART_BYTES / stride.max(1)).clamp(16, 4096) / 16 * 16;
    (0..run.elements).step_by(most).map(move |from| {
        let elements = (run.elements - from).min(most as u64);
        Run::of(run.file + from, run.memory + from, elements)
    })
}

/// A number of elements or bytes that lie in memory, and so can be counted.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
