//! The way of elements between a file's columns and a program's memory.
//!
//! A selection comes as runs: so many elements from here in the file to there in the memory. Runs
//! are worked off in blocks that stay in the cache: for each block all columns in turn, so that
//! the records in memory are gone over once.
//!
//! ```text
//! large run, memory packed           file ◄──────────────────────► memory
//! large run, records or conversion   file ◄─► packed block ◄─────► memory, in strides
//! small runs near each other         file ◄─► window over them ◄─► memory, in strides
//! ```
//!
//! Reading and writing of files go through system calls, never through a mapping: a file that another
//! program cuts off, or a disk that is full, must be an error, not the end of the process.

use std::io;
use std::ops::Range;

use crate::bytes::{Bytes, Columns};
use crate::records::{gather, scatter, tiles};

/// How many elements are worked off at once.
pub const BLOCK_ELEMENTS: usize = 16 * 1024;
/// How many records are put together or taken apart at once.
const PART_ELEMENTS: usize = 512;
/// How many elements are moved at once when nothing has to be done to them.
const PACKED_ELEMENTS: u64 = 1 << 24;
/// From this size on a run is moved by itself.
const LARGE_BYTES: usize = 16 * 1024;
/// How far apart small runs may lie to be moved together.
const WINDOW_BYTES: u64 = 64 * 1024;

/// A piece of a selection: elements that follow each other on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first element in the dataset.
    pub file: u64,
    /// The first element in the memory.
    pub memory: u64,
    /// How many.
    pub elements: u64,
}

/// How a column is seen from the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which column.
    pub column: usize,
    /// How many bytes an element has in the file.
    pub file_bytes: usize,
    /// And in memory.
    pub memory_bytes: usize,
    /// Where it lies within a record in memory.
    pub offset: usize,
    /// Whether the bytes are other ones.
    pub converts: bool,
}

/// Changes elements of the file into those of the memory, or the other way.
pub trait Convert {
    /// Converts the first `elements` of a buffer in place. The buffer has room for that many of the
    /// larger kind.
    ///
    /// # Errors
    ///
    /// What HDF5 says.
    fn convert(&mut self, member: usize, elements: usize, buffer: &mut [u8]) -> Result<(), String>;
}

/// Why a transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The system refuses.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The types cannot be converted.
    #[error("{0}")]
    Conversion(String),
    /// The runs do not lie within the memory; our own mistake.
    #[error("a run of elements lies outside of the memory")]
    Outside,
}

/// The memory of a program: records of `stride` bytes. Its first byte belongs to the element
/// `first`.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The element that the memory begins with.
    pub first: u64,
    /// From one record to the next.
    pub stride: usize,
}

impl Records {
    /// Where elements of a member lie in the memory, from the first byte of the first to the last
    /// byte of the last.
    fn range(self, member: &Member, from: u64, elements: usize) -> Option<Range<usize>> {
        let records = usize::try_from(from.checked_sub(self.first)?).ok()?;
        let start = records.checked_mul(self.stride)?.checked_add(member.offset)?;
        let last = elements.checked_sub(1)?.checked_mul(self.stride)?;
        Some(start..start.checked_add(last)?.checked_add(member.memory_bytes)?)
    }
}

fn piece<'m>(
    memory: &'m mut [u8],
    records: Records,
    member: &Member,
    run: Run,
) -> Result<&'m mut [u8], TransferError> {
    let range = records.range(member, run.memory, count(run.elements));
    range.and_then(|range| memory.get_mut(range)).ok_or(TransferError::Outside)
}

fn source<'m>(
    memory: &'m [u8],
    records: Records,
    member: &Member,
    run: Run,
) -> Result<&'m [u8], TransferError> {
    let range = records.range(member, run.memory, count(run.elements));
    range.and_then(|range| memory.get(range)).ok_or(TransferError::Outside)
}

/// Reads runs of a dataset into memory.
///
/// # Errors
///
/// The system or the conversion refuses; the memory may be filled in part.
pub fn read(
    data: Columns<'_>,
    members: &[Member],
    runs: &[Run],
    memory: &mut [u8],
    records: Records,
    convert: &mut dyn Convert,
) -> Result<(), TransferError> {
    let mut buffers = vec![Vec::new(); members.len()];
    let (columns, tiles) = (Column::all(data, members), tiles(members));
    for group in groups(runs, members, records.stride) {
        match group {
            Group::Large(run) => {
                for (at, column) in columns.iter().enumerate() {
                    if column.is_packed(records.stride) {
                        column.read(piece(memory, records, column.member, run)?, run.file)?;
                    } else {
                        column.load(at, run, &mut buffers[at], convert)?;
                    }
                }
                // Every record is put together while it lies in the nearest cache.
                for part in parts(run) {
                    for tile in &tiles {
                        let member = tile.as_member(members);
                        if columns[tile.first].is_packed(records.stride) {
                            continue;
                        }
                        let start = count(part.file - run.file) * tile.bytes;
                        let all = tile.first..tile.first + tile.members;
                        let from: Vec<&[u8]> =
                            buffers[all].iter().map(|buffer| &buffer[start..]).collect();
                        let to = piece(memory, records, &member, part)?;
                        scatter(&from, to, tile.bytes, records.stride);
                    }
                }
            }
            Group::Near(near) => {
                for (at, column) in columns.iter().enumerate() {
                    let mut convert = |n: usize, bytes: &mut [u8]| {
                        convert.convert(at, n, bytes).map_err(TransferError::Conversion)
                    };
                    let memory = (&mut *memory, records);
                    read_near(column, near, memory, &mut buffers[at], &mut convert)?;
                }
            }
        }
    }
    Ok(())
}

/// Writes runs of memory into a dataset.
///
/// # Errors
///
/// The system or the conversion refuses; the dataset may be written in part.
pub fn write(
    data: Columns<'_>,
    members: &[Member],
    runs: &[Run],
    memory: &[u8],
    records: Records,
    convert: &mut dyn Convert,
) -> Result<(), TransferError> {
    let mut buffers = vec![Vec::new(); members.len()];
    let (columns, tiles) = (Column::all(data, members), tiles(members));
    for group in groups(runs, members, records.stride) {
        match group {
            Group::Large(run) => {
                for (column, buffer) in columns.iter().zip(&mut buffers) {
                    if !column.is_packed(records.stride) {
                        column.block(buffer, count(run.elements));
                    }
                }
                for part in parts(run) {
                    for tile in &tiles {
                        if columns[tile.first].is_packed(records.stride) {
                            continue;
                        }
                        let start = count(part.file - run.file) * tile.bytes;
                        let all = tile.first..tile.first + tile.members;
                        let mut to: Vec<&mut [u8]> =
                            buffers[all].iter_mut().map(|buffer| &mut buffer[start..]).collect();
                        let from = source(memory, records, &tile.as_member(members), part)?;
                        gather(from, &mut to, tile.bytes, records.stride);
                    }
                }
                for (at, column) in columns.iter().enumerate() {
                    if column.is_packed(records.stride) {
                        column.write(source(memory, records, column.member, run)?, run.file)?;
                    } else {
                        column.store(at, run, &mut buffers[at], convert)?;
                    }
                }
            }
            Group::Near(near) => {
                for (at, column) in columns.iter().enumerate() {
                    let mut convert = |n: usize, bytes: &mut [u8]| {
                        convert.convert(at, n, bytes).map_err(TransferError::Conversion)
                    };
                    write_near(column, near, (memory, records), &mut buffers[at], &mut convert)?;
                }
            }
        }
    }
    Ok(())
}

type Converting<'a> = &'a mut dyn FnMut(usize, &mut [u8]) -> Result<(), TransferError>;

/// A column of a dataset, seen as a member.
struct Column<'a> {
    bytes: &'a dyn Bytes,
    offset: u64,
    member: &'a Member,
}

impl<'a> Column<'a> {
    /// All columns that are moved.
    fn all(data: Columns<'a>, members: &'a [Member]) -> Vec<Self> {
        let column = |member: &'a Member| Self {
            bytes: data.bytes,
            offset: data.offsets[member.column],
            member,
        };
        members.iter().map(column).collect()
    }

    /// Reads a run into a buffer, as elements of the memory.
    fn load(
        &self,
        at: usize,
        run: Run,
        buffer: &mut Vec<u8>,
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let elements = count(run.elements);
        let packed = self.block(buffer, elements);
        self.read(&mut packed[..elements * self.member.file_bytes], run.file)?;
        if self.member.converts {
            convert.convert(at, elements, packed).map_err(TransferError::Conversion)?;
        }
        Ok(())
    }

    /// Writes a run from a buffer with elements of the memory.
    fn store(
        &self,
        at: usize,
        run: Run,
        buffer: &mut Vec<u8>,
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let elements = count(run.elements);
        let packed = self.block(buffer, elements);
        if self.member.converts {
            convert.convert(at, elements, packed).map_err(TransferError::Conversion)?;
        }
        self.write(&packed[..elements * self.member.file_bytes], run.file)?;
        Ok(())
    }

    /// Whether the bytes go straight between file and memory.
    fn is_packed(&self, stride: usize) -> bool {
        !self.member.converts && stride == self.member.memory_bytes
    }

    /// A buffer for so many elements, as long as the larger kind needs.
    fn block<'b>(&self, buffer: &'b mut Vec<u8>, elements: usize) -> &'b mut [u8] {
        let bytes = elements * self.member.file_bytes.max(self.member.memory_bytes);
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        &mut buffer[..bytes]
    }

    fn at(&self, element: u64) -> u64 {
        self.offset + element * self.member.file_bytes as u64
    }

    fn read(&self, bytes: &mut [u8], element: u64) -> io::Result<()> {
        self.bytes.read_exact_at(bytes, self.at(element))
    }

    fn write(&self, bytes: &[u8], element: u64) -> io::Result<()> {
        self.bytes.write_all_at(bytes, self.at(element))
    }
}

/// What is moved at once.
#[derive(Clone, Copy)]
enum Group<'a> {
    /// A run, or a block of one.
    Large(Run),
    /// Small runs, upwards in the file and not far apart.
    Near(&'a [Run]),
}

/// Divides runs into what is moved at once.
fn groups<'a>(
    runs: &'a [Run],
    members: &[Member],
    stride: usize,
) -> impl Iterator<Item = Group<'a>> {
    let narrow = members.iter().map(|member| member.file_bytes).max().unwrap_or(1).max(1);
    // What needs no buffer goes at once, however long it is.
    let packed = |member: &Member| !member.converts && stride == member.memory_bytes;
    let block = if members.iter().all(packed) { PACKED_ELEMENTS } else { BLOCK_ELEMENTS as u64 };
    let large = (LARGE_BYTES / narrow).max(1) as u64;
    let reach = (WINDOW_BYTES / narrow as u64).max(1);
    let mut rest = runs;
    let mut within = 0;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        if first.elements >= large || within > 0 {
            let run = Run {
                file: first.file + within,
                memory: first.memory + within,
                elements: first.elements - within,
            };
            let now = run.elements.min(block);
            within += now;
            if within == first.elements {
                (rest, within) = (&rest[1..], 0);
            }
            return Some(Group::Large(Run { elements: now, ..run }));
        }
        let (mut taken, mut end) = (0, first.file);
        for run in rest {
            let fits = run.file >= end && run.file + run.elements - first.file <= reach;
            if run.elements >= large || !fits {
                break;
            }
            end = run.file + run.elements;
            taken += 1;
        }
        let (near, behind) = rest.split_at(taken.max(1));
        rest = behind;
        Some(Group::Near(near))
    })
}

/// The parts of a run whose records lie in the nearest cache.
fn parts(run: Run) -> impl Iterator<Item = Run> {
    (0..run.elements).step_by(PART_ELEMENTS).map(move |from| Run {
        file: run.file + from,
        memory: run.memory + from,
        elements: (run.elements - from).min(PART_ELEMENTS as u64),
    })
}

/// The elements from the first to the last of some runs.
fn window(near: &[Run]) -> (u64, usize) {
    let first = near[0].file;
    let last = near[near.len() - 1];
    (first, count(last.file + last.elements - first))
}

fn read_near(
    column: &Column<'_>,
    near: &[Run],
    (memory, records): (&mut [u8], Records),
    buffer: &mut Vec<u8>,
    convert: Converting<'_>,
) -> Result<(), TransferError> {
    let member = column.member;
    let (first, elements) = window(near);
    let packed = column.block(buffer, elements);
    column.read(&mut packed[..elements * member.file_bytes], first)?;
    let mut one = vec![0; if member.converts { packed.len() } else { 0 }];
    for run in near {
        let n = count(run.elements);
        let start = count(run.file - first) * member.file_bytes;
        let found = &packed[start..][..n * member.file_bytes];
        let piece = piece(memory, records, member, *run)?;
        if member.converts {
            one[..found.len()].copy_from_slice(found);
            convert(n, &mut one)?;
            scatter(&[&one], piece, member.memory_bytes, records.stride);
        } else {
            scatter(&[found], piece, member.memory_bytes, records.stride);
        }
    }
    Ok(())
}

fn write_near(
    column: &Column<'_>,
    near: &[Run],
    (memory, records): (&[u8], Records),
    buffer: &mut Vec<u8>,
    convert: Converting<'_>,
) -> Result<(), TransferError> {
    let member = column.member;
    let (first, elements) = window(near);
    let packed = column.block(buffer, elements);
    let covered: u64 = near.iter().map(|run| run.elements).sum();
    if count(covered) < elements {
        // What lies between the runs is written again as it was.
        column.read(&mut packed[..elements * member.file_bytes], first)?;
    }
    let wide = member.file_bytes.max(member.memory_bytes);
    let mut one = vec![0; if member.converts { elements * wide } else { 0 }];
    for run in near {
        let n = count(run.elements);
        let start = count(run.file - first) * member.file_bytes;
        let piece = source(memory, records, member, *run)?;
        let place = &mut packed[start..][..n * member.file_bytes];
        if member.converts {
            gather(piece, &mut [&mut one], member.memory_bytes, records.stride);
            convert(n, &mut one)?;
            place.copy_from_slice(&one[..place.len()]);
        } else {
            gather(piece, &mut [&mut *place], member.memory_bytes, records.stride);
        }
    }
    column.write(&packed[..elements * member.file_bytes], first)?;
    Ok(())
}

/// A number of elements or bytes that lie in memory, and so can be counted.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
