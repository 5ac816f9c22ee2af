//! Records in memory, put together out of columns and taken apart into them.
//!
//! Members of one size that follow each other are moved in tiles of up to eight, so that a record
//! is written or read in few large pieces instead of many small ones.

use crate::transfer::Member;

/// How many members a tile has at most.
const TILE: usize = 8;

/// Members that are moved together: from which on, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) members: usize,
    /// What one member has in memory.
    pub(crate) bytes: usize,
}

impl Tile {
    /// All of the tile as if it were one member.
    pub(crate) fn as_member(self, members: &[Member]) -> Member {
        Member { memory_bytes: self.bytes * self.members, ..members[self.first] }
    }
}

/// Divides members into tiles.
pub(crate) fn tiles(members: &[Member]) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = Vec::new();
    for (at, member) in members.iter().enumerate() {
        if let Some(tile) = tiles.last_mut() {
            let follows = member.offset == members[tile.first].offset + tile.bytes * tile.members;
            if follows && tile.bytes == member.memory_bytes && tile.members < TILE {
                tile.members += 1;
                continue;
            }
        }
        tiles.push(Tile { first: at, members: 1, bytes: member.memory_bytes });
    }
    tiles
}

/// How many records are put together or taken apart at once by the kernels.
const RECORDS: usize = 4;

/// Puts packed elements of a tile's members, from a byte of each on, into every stride of memory.
pub(crate) fn scatter(
    packed: &[Vec<u8>],
    start: usize,
    memory: &mut [u8],
    bytes: usize,
    stride: usize,
) {
    let records = memory.len().div_ceil(stride);
    let columns = packed.iter().map(|one| &one[start..][..records * bytes]);
    match bytes {
        4 => scatter_tile::<4>(columns, memory, stride),
        8 => scatter_tile::<8>(columns, memory, stride),
        _ => {
            for (at, one) in columns.enumerate() {
                copy_strided((one, bytes), (&mut memory[at * bytes..], stride), bytes, records);
            }
        }
    }
}

fn scatter_tile<'a, const BYTES: usize>(
    columns: impl Iterator<Item = &'a [u8]>,
    memory: &mut [u8],
    stride: usize,
) {
    let mut all: [&[[u8; BYTES]]; TILE] = [&[]; TILE];
    let mut members = 0;
    for (place, column) in all.iter_mut().zip(columns) {
        (*place, members) = (column.as_chunks::<BYTES>().0, members + 1);
    }
    match members {
        TILE => scatter_members::<BYTES, TILE>(&all, memory, stride),
        7 => scatter_members::<BYTES, 7>(&all, memory, stride),
        6 => scatter_members::<BYTES, 6>(&all, memory, stride),
        5 => scatter_members::<BYTES, 5>(&all, memory, stride),
        4 => scatter_members::<BYTES, 4>(&all, memory, stride),
        3 => scatter_members::<BYTES, 3>(&all, memory, stride),
        2 => scatter_members::<BYTES, 2>(&all, memory, stride),
        _ => scatter_members::<BYTES, 1>(&all, memory, stride),
    }
}

/// `MEMBERS` of the columns. Elements of some records are loaded together, so that the compiler
/// makes vectors of them.
fn scatter_members<const BYTES: usize, const MEMBERS: usize>(
    columns: &[&[[u8; BYTES]]; TILE],
    memory: &mut [u8],
    stride: usize,
) {
    let mut at = 0;
    let mut blocks = memory.chunks_exact_mut(stride * RECORDS);
    for block in &mut blocks {
        let mut wide = [[[0; BYTES]; RECORDS]; MEMBERS];
        for (wide, column) in wide.iter_mut().zip(columns) {
            if let Some(elements) = column.get(at..).and_then(|rest| rest.first_chunk()) {
                *wide = *elements;
            }
        }
        for (record, place) in block.chunks_exact_mut(stride).enumerate() {
            let mut whole = [[0; BYTES]; MEMBERS];
            for (part, wide) in whole.iter_mut().zip(&wide) {
                *part = wide[record];
            }
            if let Some(parts) = place.as_chunks_mut::<BYTES>().0.first_chunk_mut::<MEMBERS>() {
                *parts = whole;
            }
        }
        at += RECORDS;
    }
    for place in blocks.into_remainder().chunks_mut(stride) {
        for (part, column) in place.as_chunks_mut::<BYTES>().0.iter_mut().zip(&columns[..MEMBERS]) {
            *part = column[at];
        }
        at += 1;
    }
}

/// Takes the elements of a tile's members out of every stride of memory, to each from a byte on.
pub(crate) fn gather(
    memory: &[u8],
    packed: &mut [Vec<u8>],
    start: usize,
    bytes: usize,
    stride: usize,
) {
    let records = memory.len().div_ceil(stride);
    let columns = packed.iter_mut().map(|one| &mut one[start..][..records * bytes]);
    match bytes {
        4 => gather_tile::<4>(memory, columns, stride),
        8 => gather_tile::<8>(memory, columns, stride),
        _ => {
            for (at, one) in columns.enumerate() {
                copy_strided((&memory[at * bytes..], stride), (one, bytes), bytes, records);
            }
        }
    }
}

fn gather_tile<'a, const BYTES: usize>(
    memory: &[u8],
    columns: impl Iterator<Item = &'a mut [u8]>,
    stride: usize,
) {
    let mut all: [&mut [[u8; BYTES]]; TILE] = std::array::from_fn(|_| Default::default());
    let mut members = 0;
    for (place, column) in all.iter_mut().zip(columns) {
        (*place, members) = (column.as_chunks_mut::<BYTES>().0, members + 1);
    }
    match members {
        TILE => gather_members::<BYTES, TILE>(memory, &mut all, stride),
        7 => gather_members::<BYTES, 7>(memory, &mut all, stride),
        6 => gather_members::<BYTES, 6>(memory, &mut all, stride),
        5 => gather_members::<BYTES, 5>(memory, &mut all, stride),
        4 => gather_members::<BYTES, 4>(memory, &mut all, stride),
        3 => gather_members::<BYTES, 3>(memory, &mut all, stride),
        2 => gather_members::<BYTES, 2>(memory, &mut all, stride),
        _ => gather_members::<BYTES, 1>(memory, &mut all, stride),
    }
}

fn gather_members<const BYTES: usize, const MEMBERS: usize>(
    memory: &[u8],
    columns: &mut [&mut [[u8; BYTES]]; TILE],
    stride: usize,
) {
    let mut at = 0;
    let mut blocks = memory.chunks_exact(stride * RECORDS);
    for block in &mut blocks {
        let mut wide = [[[0; BYTES]; RECORDS]; MEMBERS];
        for (record, place) in block.chunks_exact(stride).enumerate() {
            if let Some(parts) = place.as_chunks::<BYTES>().0.first_chunk::<MEMBERS>() {
                for (wide, part) in wide.iter_mut().zip(parts) {
                    wide[record] = *part;
                }
            }
        }
        for (wide, column) in wide.iter().zip(columns.iter_mut()) {
            if let Some(elements) = column.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *elements = *wide;
            }
        }
        at += RECORDS;
    }
    for place in blocks.remainder().chunks(stride) {
        let parts = place.as_chunks::<BYTES>().0;
        for (part, column) in parts.iter().zip(&mut columns[..MEMBERS]) {
            column[at] = *part;
        }
        at += 1;
    }
}

/// Copies elements that lie at equal steps on both sides.
pub(crate) fn copy_strided(
    (from, from_step): (&[u8], usize),
    (to, to_step): (&mut [u8], usize),
    bytes: usize,
    elements: usize,
) {
    if from_step == bytes && to_step == bytes {
        to[..elements * bytes].copy_from_slice(&from[..elements * bytes]);
        return;
    }
    let sides = from.chunks(from_step).zip(to.chunks_mut(to_step)).take(elements);
    match bytes {
        1 => sides.for_each(copy_one::<1>),
        2 => sides.for_each(copy_one::<2>),
        4 => sides.for_each(copy_one::<4>),
        8 => sides.for_each(copy_one::<8>),
        16 => sides.for_each(copy_one::<16>),
        _ => sides.for_each(|(from, to)| to[..bytes].copy_from_slice(&from[..bytes])),
    }
}

fn copy_one<const BYTES: usize>((from, to): (&[u8], &mut [u8])) {
    if let (Some(from), Some(to)) = (from.first_chunk::<BYTES>(), to.first_chunk_mut::<BYTES>()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(offset: usize, bytes: usize) -> Member {
        Member { column: 0, file_bytes: bytes, memory_bytes: bytes, offset, converts: false }
    }

    #[test]
    fn tiles_are_members_of_one_size_that_follow_each_other() {
        let members = [member(0, 4), member(4, 4), member(8, 8), member(24, 8), member(32, 8)];
        let found: Vec<(usize, usize)> =
            tiles(&members).iter().map(|tile| (tile.first, tile.members)).collect();
        assert_eq!(found, [(0, 2), (2, 1), (3, 2)]);
        let many: Vec<Member> = (0..11).map(|at| member(at * 4, 4)).collect();
        assert_eq!(tiles(&many).iter().map(|tile| tile.members).collect::<Vec<_>>(), [8, 3]);
    }

    #[test]
    fn every_size_of_tile_comes_back() {
        for bytes in [1, 2, 4, 8, 3] {
            for members in 1..=TILE {
                let (records, stride) = (37, bytes * members + 5);
                let columns: Vec<Vec<u8>> = (0..members)
                    .map(|m| (0..records * bytes).map(|at| (at * 7 + m * 31) as u8).collect())
                    .collect();
                // The last record ends with the tile, as a buffer may.
                let mut memory = vec![0xEE; (records - 1) * stride + bytes * members];
                scatter(&columns, 0, &mut memory, bytes, stride);
                assert_eq!(&memory[..bytes], &columns[0][..bytes]);
                assert_eq!(memory[bytes * members], 0xEE, "what lies between stays");
                let mut back = vec![vec![0; records * bytes]; members];
                gather(&memory, &mut back, 0, bytes, stride);
                assert_eq!(back, columns, "{members} members of {bytes} bytes");
            }
        }
    }
}
