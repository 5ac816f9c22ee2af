//! The values of a column as bytes.

use std::fmt;
use std::io;

use arrow_buffer::Buffer;
use plasmon_hdf5_model::{Bytes, Columns};

/// The values of a column, one after the other, in the pieces that they lie in.
pub struct Column {
    /// Each with the place of its first byte, in order.
    pieces: Vec<(u64, Buffer)>,
    bytes: u64,
    of: String,
    name: String,
}

impl Column {
    pub(crate) fn new(of: &str, name: &str, buffers: impl IntoIterator<Item = Buffer>) -> Self {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        for buffer in buffers.into_iter().filter(|buffer| !buffer.is_empty()) {
            let length = buffer.len() as u64;
            pieces.push((bytes, buffer));
            bytes += length;
        }
        Self { pieces, bytes, of: of.to_owned(), name: name.to_owned() }
    }

    /// How many bytes the values have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As the only column of a dataset.
    pub fn columns(&self) -> Columns<'_> {
        Columns { bytes: self, offsets: &[0] }
    }
}

impl Bytes for Column {
    fn read_exact_at(&self, mut into: &mut [u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        let first = self.pieces.partition_point(|(start, piece)| start + piece.len() as u64 <= at);
        for (start, piece) in &self.pieces[first..] {
            if into.is_empty() {
                break;
            }
            // The piece is in memory, so what is left of it can be counted.
            let from = usize::try_from(at - start).unwrap_or(usize::MAX);
            let now = into.len().min(piece.len() - from);
            let (here, rest) = into.split_at_mut(now);
            here.copy_from_slice(&piece[from..][..now]);
            (into, at) = (rest, at + now as u64);
        }
        if into.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::ReadOnlyFilesystem,
            "a view of existing data can only be read",
        ))
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column")
            .field("of", &self.of)
            .field("name", &self.name)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cross_pieces_and_end_with_them() {
        let pieces = [vec![0_u8, 1, 2], vec![], vec![3], vec![4, 5, 6, 7]];
        let column = Column::new("here", "x", pieces.map(Buffer::from));
        for start in 0..8_usize {
            for length in 0..=8 - start {
                let mut found = vec![0; length];
                column.read_exact_at(&mut found, start as u64).expect("within");
                let expected: Vec<u8> = (start..start + length).map(|at| at as u8).collect();
                assert_eq!(found, expected);
            }
        }
        assert!(column.read_exact_at(&mut [0; 2], 7).is_err());
        assert!(column.read_exact_at(&mut [0], 8).is_err());
        assert!(column.write_all_at(&[1], 0).is_err());
    }
}
