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

/// Puts packed elements of a tile's members into every stride of memory.
pub(crate) fn scatter(packed: &[&[u8]], memory: &mut [u8], bytes: usize, stride: usize) {
    if let ([one], true) = (packed, bytes == stride) {
        memory.copy_from_slice(&one[..memory.len()]);
        return;
    }
    match (bytes, packed.len()) {
        (4, TILE) => scatter_tile::<4, TILE>(packed, memory, stride),
        (8, TILE) => scatter_tile::<8, TILE>(packed, memory, stride),
        (4, 4) => scatter_tile::<4, 4>(packed, memory, stride),
        (8, 4) => scatter_tile::<8, 4>(packed, memory, stride),
        (4, 3) => scatter_tile::<4, 3>(packed, memory, stride),
        (8, 3) => scatter_tile::<8, 3>(packed, memory, stride),
        (4, 2) => scatter_tile::<4, 2>(packed, memory, stride),
        (8, 2) => scatter_tile::<8, 2>(packed, memory, stride),
        (4, 1) => scatter_tile::<4, 1>(packed, memory, stride),
        (8, 1) => scatter_tile::<8, 1>(packed, memory, stride),
        _ => {
            for (at, one) in packed.iter().enumerate() {
                let columns = one.chunks_exact(bytes).zip(memory.chunks_mut(stride));
                for (from, to) in columns {
                    to[at * bytes..][..bytes].copy_from_slice(from);
                }
            }
        }
    }
}

fn scatter_tile<const BYTES: usize, const MEMBERS: usize>(
    packed: &[&[u8]],
    memory: &mut [u8],
    stride: usize,
) {
    let records = memory.len().div_ceil(stride);
    let columns: [&[[u8; BYTES]]; MEMBERS] =
        std::array::from_fn(|at| &packed[at].as_chunks::<BYTES>().0[..records]);
    for (at, record) in memory.chunks_mut(stride).enumerate() {
        let parts = record.as_chunks_mut::<BYTES>().0;
        if let Some(parts) = parts.first_chunk_mut::<MEMBERS>() {
            // Not `map` of the array, which was called and not inlined.
            for (part, column) in parts.iter_mut().zip(&columns) {
                *part = column[at];
            }
        }
    }
}

/// Takes the elements of a tile's members out of every stride of memory.
pub(crate) fn gather(memory: &[u8], packed: &mut [&mut [u8]], bytes: usize, stride: usize) {
    if let ([one], true) = (&mut *packed, bytes == stride) {
        one[..memory.len()].copy_from_slice(memory);
        return;
    }
    match (bytes, packed.len()) {
        (4, TILE) => gather_tile::<4, TILE>(memory, packed, stride),
        (8, TILE) => gather_tile::<8, TILE>(memory, packed, stride),
        (4, 4) => gather_tile::<4, 4>(memory, packed, stride),
        (8, 4) => gather_tile::<8, 4>(memory, packed, stride),
        (4, 3) => gather_tile::<4, 3>(memory, packed, stride),
        (8, 3) => gather_tile::<8, 3>(memory, packed, stride),
        (4, 2) => gather_tile::<4, 2>(memory, packed, stride),
        (8, 2) => gather_tile::<8, 2>(memory, packed, stride),
        (4, 1) => gather_tile::<4, 1>(memory, packed, stride),
        (8, 1) => gather_tile::<8, 1>(memory, packed, stride),
        _ => {
            for (at, one) in packed.iter_mut().enumerate() {
                let columns = memory.chunks(stride).zip(one.chunks_exact_mut(bytes));
                for (from, to) in columns {
                    to.copy_from_slice(&from[at * bytes..][..bytes]);
                }
            }
        }
    }
}

fn gather_tile<const BYTES: usize, const MEMBERS: usize>(
    memory: &[u8],
    packed: &mut [&mut [u8]],
    stride: usize,
) {
    let records = memory.len().div_ceil(stride);
    let mut columns = packed.iter_mut().map(|one| &mut one.as_chunks_mut::<BYTES>().0[..records]);
    let mut columns: [&mut [[u8; BYTES]]; MEMBERS] =
        std::array::from_fn(|_| columns.next().unwrap_or_default());
    for (at, record) in memory.chunks(stride).enumerate() {
        if let Some(parts) = record.as_chunks::<BYTES>().0.first_chunk::<MEMBERS>() {
            for (column, part) in columns.iter_mut().zip(parts) {
                column[at] = *part;
            }
        }
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
                let packed: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
                scatter(&packed, &mut memory, bytes, stride);
                assert_eq!(&memory[..bytes], &columns[0][..bytes]);
                assert_eq!(memory[bytes * members], 0xEE, "what lies between stays");
                let mut back = vec![vec![0; records * bytes]; members];
                let mut places: Vec<&mut [u8]> = back.iter_mut().map(Vec::as_mut_slice).collect();
                gather(&memory, &mut places, bytes, stride);
                assert_eq!(back, columns, "{members} members of {bytes} bytes");
            }
        }
    }
}
