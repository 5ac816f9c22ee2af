//! Where the bytes of a dataset's columns are. This is all that the data path knows of a
//! backend: a file, or memory that others see.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::layout::{Extents, extents};
use crate::table::Table;

/// Bytes that are read and written in place, counted from their first one.
pub trait Bytes: Send + Sync {
    /// Reads as many bytes as there is room for.
    ///
    /// # Errors
    ///
    /// The backend's error, or that the bytes end before.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes.
    ///
    /// # Errors
    ///
    /// The backend's error, such as that there is no room.
    fn write_all_at(&self, from: &[u8], offset: u64) -> io::Result<()>;
}

impl Bytes for File {
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, into, offset)
    }

    fn write_all_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, from, offset)
    }
}

/// The columns of a dataset, wherever they are.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The file or object that they lie in.
    pub bytes: &'a dyn Bytes,
    /// Where each one begins; of a table that grows, in its first extent.
    pub offsets: &'a [u64],
}

impl Columns<'_> {
    /// Fills the rows of a table from one on with a value for each column; one of zeros is left
    /// out, for new rows are zero.
    ///
    /// # Errors
    ///
    /// The backend's error, such as that there is no room.
    pub fn fill(&self, table: &Table, from: u64, values: &[Vec<u8>]) -> io::Result<()> {
        for (at, value) in values.iter().enumerate() {
            if value.iter().all(|byte| *byte == 0) {
                continue;
            }
            for extent in self.extents(table).iter() {
                let first = from.max(extent.first) - extent.first;
                let rows = extent.rows(table).saturating_sub(first);
                let offset = extent.columns(table)[at];
                let start = offset + first * table.row_elements() * value.len() as u64;
                self.fill_elements(start, value, rows * table.row_elements())?;
            }
        }
        Ok(())
    }

    /// Where the rows of a table are.
    pub(crate) fn extents(&self, table: &Table) -> Extents {
        extents(table, self.offsets.first().copied().unwrap_or(0), 0)
    }

    fn fill_elements(&self, mut at: u64, value: &[u8], elements: u64) -> io::Result<()> {
        let block_elements = ((1 << 18) / value.len()).max(1);
        let block = value.repeat(block_elements);
        let mut left = elements;
        while left > 0 {
            let now = left.min(block_elements as u64);
            let bytes = usize::try_from(now).unwrap_or(0) * value.len();
            self.bytes.write_all_at(&block[..bytes], at)?;
            (at, left) = (at + bytes as u64, left - now);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Columns<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Columns").field("offsets", &self.offsets).finish_non_exhaustive()
    }
}
