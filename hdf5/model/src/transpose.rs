//! Square blocks of elements, transposed in registers: columns become records and back.

use bytemuck::pod_read_unaligned;
use plasmon_scatter::{NonTemporalMemory, transpose_2x2, transpose_4x4};

/// How many bytes of a record a block has.
pub(crate) use plasmon_scatter::PIECE_BYTES;

/// Where pieces of records go.
pub(crate) trait Sink {
    /// Writes a piece at a byte.
    fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]);
}

impl Sink for NonTemporalMemory<'_> {
    #[inline(always)]
    fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]) {
        NonTemporalMemory::put(self, at, piece);
    }
}

impl Sink for &mut [u8] {
    #[inline(always)]
    fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]) {
        self[at..at + PIECE_BYTES].copy_from_slice(&piece);
    }
}

/// How many blocks beside each other in a record are written in one pass at most.
const GROUPS_MAX: usize = 4;

/// Puts columns of elements of `BYTES` bytes into records; how many records were filled, which may
/// be some less than there are. The columns make whole blocks.
pub(crate) fn scatter<const BYTES: usize>(
    columns: &[&[u8]],
    sink: &mut impl Sink,
    stride: usize,
) -> usize {
    let side = PIECE_BYTES / BYTES;
    let blocks = columns.first().map_or(0, |column| column.len() / PIECE_BYTES);
    for (at, columns) in columns.chunks(side * GROUPS_MAX).enumerate() {
        let place = Place { first: at * GROUPS_MAX * PIECE_BYTES, stride, blocks };
        match columns.len() / side {
            1 => scatter_groups::<BYTES, 1>(columns, sink, place),
            2 => scatter_groups::<BYTES, 2>(columns, sink, place),
            3 => scatter_groups::<BYTES, 3>(columns, sink, place),
            _ => scatter_groups::<BYTES, GROUPS_MAX>(columns, sink, place),
        }
    }
    blocks * side
}

/// Where groups of columns are in records.
#[derive(Clone, Copy)]
struct Place {
    /// Within a record.
    first: usize,
    /// From one record to the next.
    stride: usize,
    /// How many blocks, one after the other.
    blocks: usize,
}

#[inline(always)]
fn scatter_groups<const BYTES: usize, const GROUPS: usize>(
    columns: &[&[u8]],
    sink: &mut impl Sink,
    place: Place,
) {
    let side = PIECE_BYTES / BYTES;
    let lanes: [[&[[u8; PIECE_BYTES]]; 4]; GROUPS] = std::array::from_fn(|group| {
        std::array::from_fn(|at| {
            let column = if at < side { columns[group * side + at] } else { &[] };
            let lane = column.as_chunks().0;
            &lane[..if at < side { place.blocks } else { 0 }]
        })
    });
    for block in 0..place.blocks {
        for (group, lanes) in lanes.iter().enumerate() {
            let line = |at: usize| if at < side { lanes[at][block] } else { [0; PIECE_BYTES] };
            let transposed = transpose::<BYTES>([line(0), line(1), line(2), line(3)]);
            let start = block * side * place.stride + place.first + group * PIECE_BYTES;
            for (at, piece) in transposed.iter().take(side).enumerate() {
                sink.put(start + at * place.stride, *piece);
            }
        }
    }
}

/// Takes elements of `BYTES` bytes out of records; how many records were read, which may be some
/// less than there are. The columns make whole blocks.
pub(crate) fn gather<const BYTES: usize>(
    memory: &[u8],
    columns: &mut [&mut [u8]],
    stride: usize,
) -> usize {
    let side = PIECE_BYTES / BYTES;
    let blocks = columns.first().map_or(0, |column| column.len() / PIECE_BYTES);
    for (group, columns) in columns.chunks_exact_mut(side).enumerate() {
        let place = Place { first: group * PIECE_BYTES, stride, blocks };
        gather_group::<BYTES>(memory, columns, place);
    }
    blocks * side
}

#[inline(always)]
fn gather_group<const BYTES: usize>(memory: &[u8], columns: &mut [&mut [u8]], place: Place) {
    let side = PIECE_BYTES / BYTES;
    let mut lanes = columns.iter_mut().map(|column| column.as_chunks_mut().0);
    let mut lane = |at: usize| -> &mut [[u8; PIECE_BYTES]] {
        let lane = lanes.next().unwrap_or_default();
        &mut lane[..if at < side { place.blocks } else { 0 }]
    };
    let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
    for block in 0..place.blocks {
        let start = block * side * place.stride + place.first;
        let line = |at: usize| {
            let from = start + at * place.stride;
            let empty = [0; PIECE_BYTES];
            if at < side { pod_read_unaligned(&memory[from..from + PIECE_BYTES]) } else { empty }
        };
        let transposed = transpose::<BYTES>([line(0), line(1), line(2), line(3)]);
        (a[block], b[block]) = (transposed[0], transposed[1]);
        if side == 4 {
            (c[block], d[block]) = (transposed[2], transposed[3]);
        }
    }
}

/// Transposes a block: four lines of four elements of 4 bytes, or two of two of 8.
#[inline(always)]
fn transpose<const BYTES: usize>(lines: [[u8; PIECE_BYTES]; 4]) -> [[u8; PIECE_BYTES]; 4] {
    if BYTES == 4 {
        return transpose_4x4(lines);
    }
    let [a, b, ..] = lines;
    let [a, b] = transpose_2x2([a, b]);
    [a, b, lines[2], lines[3]]
}
