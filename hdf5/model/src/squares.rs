//! Squares of elements, turned in registers: columns become records and the other way.

use bytemuck::{bytes_of, pod_read_unaligned};
use plasmon_scatter::{Past, turn_four, turn_two};

/// How many bytes of a record a square has.
pub(crate) use plasmon_scatter::PIECE_BYTES;

/// Where pieces of records go.
pub(crate) trait Sink {
    /// Writes a piece at a byte.
    fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]);
}

impl Sink for Past<'_> {
    #[inline(always)]
    fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]) {
        Past::put(self, at, piece);
    }
}

impl Sink for &mut [u8] {
    #[inline(always)]
    fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]) {
        self[at..at + PIECE_BYTES].copy_from_slice(&piece);
    }
}

/// Puts columns of elements of `BYTES` bytes into records; how many records were filled, which may
/// be some less than there are. The columns make whole squares.
pub(crate) fn scatter<const BYTES: usize>(
    columns: &[&[u8]],
    mut sink: impl Sink,
    stride: usize,
) -> usize {
    let side = PIECE_BYTES / BYTES;
    let squares = columns.first().map_or(0, |column| column.len() / PIECE_BYTES);
    for square in 0..squares {
        let (from, record) = (square * PIECE_BYTES, square * side);
        for (group, columns) in columns.chunks_exact(side).enumerate() {
            let mut piece = [[0; PIECE_BYTES]; 4];
            for (piece, column) in piece.iter_mut().zip(columns) {
                *piece = pod_read_unaligned(&column[from..from + PIECE_BYTES]);
            }
            let turned = turn::<BYTES>(piece);
            for (at, piece) in turned.iter().take(side).enumerate() {
                sink.put((record + at) * stride + group * PIECE_BYTES, *piece);
            }
        }
    }
    squares * side
}

/// Takes elements of `BYTES` bytes out of records; how many records were read, which may be some
/// less than there are. The columns make whole squares.
pub(crate) fn gather<const BYTES: usize>(
    memory: &[u8],
    columns: &mut [&mut [u8]],
    stride: usize,
) -> usize {
    let side = PIECE_BYTES / BYTES;
    let squares = columns.first().map_or(0, |column| column.len() / PIECE_BYTES);
    for square in 0..squares {
        let (to, record) = (square * PIECE_BYTES, square * side);
        for (group, columns) in columns.chunks_exact_mut(side).enumerate() {
            let mut piece = [[0; PIECE_BYTES]; 4];
            for (at, piece) in piece.iter_mut().take(side).enumerate() {
                let from = (record + at) * stride + group * PIECE_BYTES;
                *piece = pod_read_unaligned(&memory[from..from + PIECE_BYTES]);
            }
            for (column, piece) in columns.iter_mut().zip(turn::<BYTES>(piece)) {
                column[to..to + PIECE_BYTES].copy_from_slice(bytes_of(&piece));
            }
        }
    }
    squares * side
}

/// Turns a square: four lines of four elements of 4 bytes, or two of two of 8.
#[inline(always)]
fn turn<const BYTES: usize>(lines: [[u8; PIECE_BYTES]; 4]) -> [[u8; PIECE_BYTES]; 4] {
    if BYTES == 4 {
        return turn_four(lines);
    }
    let [a, b, ..] = lines;
    let [a, b] = turn_two([a, b]);
    [a, b, lines[2], lines[3]]
}
