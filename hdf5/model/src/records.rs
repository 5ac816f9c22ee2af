//! Records in memory, put together out of columns and taken apart into them.
//!
//! Members of four or eight bytes that follow each other are moved in square blocks: as many
//! elements of as many columns as make sixteen bytes of a record each, transposed in registers.
//! Others are moved one member after the other while the records are in the nearest cache.

use plasmon_scatter::NonTemporalMemory;

use crate::memory::Member;
use crate::transpose::{self, PIECE_BYTES, Sink};

/// Members of one size that follow each other in memory: from which on, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) members: usize,
    /// The size of one member in memory.
    pub(crate) bytes: usize,
}

impl Tile {
    /// All of the tile as if it were one member.
    pub(crate) fn as_member(self, members: &[Member]) -> Member {
        Member { memory_bytes: self.bytes * self.members, ..members[self.first] }
    }

    /// How many of the members are moved in blocks.
    fn blocked(self) -> usize {
        match self.bytes {
            4 | 8 => self.members - self.members % (PIECE_BYTES / self.bytes),
            _ => 0,
        }
    }
}

/// Divides members into tiles.
pub(crate) fn tiles(members: &[Member]) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = Vec::new();
    for (at, member) in members.iter().enumerate() {
        if let Some(tile) = tiles.last_mut() {
            let follows = member.offset == members[tile.first].offset + tile.bytes * tile.members;
            if follows && tile.bytes == member.memory_bytes {
                tile.members += 1;
                continue;
            }
        }
        tiles.push(Tile { first: at, members: 1, bytes: member.memory_bytes });
    }
    tiles
}

/// Puts packed elements of a tile's members, from one on, into every stride of memory, with
/// non-temporal stores if `streams` is set and the tile is a whole record.
pub(crate) fn scatter(
    packed: &[Vec<u8>],
    tile: Tile,
    start: usize,
    memory: &mut [u8],
    (stride, streams): (usize, bool),
) {
    let records = memory.len().div_ceil(stride);
    let from = |one: usize| &packed[one][start * tile.bytes..][..records * tile.bytes];
    let columns: Vec<&[u8]> = (0..tile.members).map(from).collect();
    let blocked = tile.blocked();
    let mut done = 0;
    if blocked > 0 {
        let whole = blocked * tile.bytes == stride;
        done = if streams
            && whole
            && let Some(streamed) = NonTemporalMemory::of(&mut *memory)
        {
            scatter_blocks(&columns[..blocked], streamed, tile.bytes, stride)
        } else {
            scatter_blocks(&columns[..blocked], &mut *memory, tile.bytes, stride)
        };
    }
    for (at, column) in columns.iter().enumerate() {
        let first = if at < blocked { done } else { 0 };
        let place = first * stride + at * tile.bytes;
        if let Some(to) = memory.get_mut(place..) {
            let from = (&column[first * tile.bytes..], tile.bytes);
            copy_strided(from, (to, stride), tile.bytes, records - first);
        }
    }
}

fn scatter_blocks(columns: &[&[u8]], mut sink: impl Sink, bytes: usize, stride: usize) -> usize {
    if bytes == 4 {
        transpose::scatter::<4>(columns, &mut sink, stride)
    } else {
        transpose::scatter::<8>(columns, &mut sink, stride)
    }
}

/// Takes the elements of a tile's members out of every stride of memory, to each from one on.
pub(crate) fn gather(
    memory: &[u8],
    packed: &mut [Vec<u8>],
    tile: Tile,
    start: usize,
    stride: usize,
) {
    let records = memory.len().div_ceil(stride);
    let blocked = tile.blocked();
    let mut columns: Vec<&mut [u8]> = packed
        .iter_mut()
        .map(|one| &mut one[start * tile.bytes..][..records * tile.bytes])
        .collect();
    let done = match (blocked, tile.bytes) {
        (0, _) => 0,
        (_, 4) => transpose::gather::<4>(memory, &mut columns[..blocked], stride),
        _ => transpose::gather::<8>(memory, &mut columns[..blocked], stride),
    };
    for (at, column) in columns.iter_mut().enumerate() {
        let first = if at < blocked { done } else { 0 };
        let place = first * stride + at * tile.bytes;
        if let Some(from) = memory.get(place..) {
            let to = (&mut column[first * tile.bytes..], tile.bytes);
            copy_strided((from, stride), to, tile.bytes, records - first);
        }
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
        assert_eq!(tiles(&many).iter().map(|tile| tile.members).collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn every_size_of_tile_comes_back() {
        for (bytes, gap) in [(1, 5), (2, 5), (4, 5), (8, 5), (3, 5), (4, 0), (8, 0), (5, 0)] {
            for members in 1..=9 {
                let (records, stride) = (37, bytes * members + gap);
                let tile = Tile { first: 0, members, bytes };
                let columns: Vec<Vec<u8>> = (0..members)
                    .map(|m| (0..records * bytes).map(|at| (at * 7 + m * 31) as u8).collect())
                    .collect();
                // The last record ends with the tile, as a buffer may.
                let mut memory = vec![0xEE; (records - 1) * stride + bytes * members];
                scatter(&columns, tile, 0, &mut memory, (stride, true));
                assert_eq!(&memory[..bytes], &columns[0][..bytes]);
                assert!(gap == 0 || memory[bytes * members] == 0xEE, "what lies between stays");
                let mut back = vec![vec![0; records * bytes]; members];
                gather(&memory, &mut back, tile, 0, stride);
                assert_eq!(back, columns, "{members} members of {bytes} bytes");
            }
        }
    }
}
