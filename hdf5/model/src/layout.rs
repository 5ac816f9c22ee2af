//! Where in a file the rows of a table are.
//!
//! ```text
//! head    the schema's message, and the first record batch's
//! body    of the first extent
//!         for each further extent: its record batch's message, its body
//! foot
//! ```
//!
//! A table of a fixed size has one extent. So has one that grows with a single column: rows are
//! put behind those that are there, and HDF5 without the plugin finds them. One with several
//! columns gets a further extent, a record batch of its own, when the last one is full: nothing
//! that was written ever moves. How many rows each has depends on the table only, so that whoever
//! knows the table knows all places.

use crate::table::{ALIGNMENT_BYTES, Table, aligned};

/// The most rows of the first extent of several.
const FIRST_ROWS_MAX: u64 = 4096;
/// How many bytes of rows the first extent of several has about.
const FIRST_BYTES: u64 = 1 << 18;
/// And the largest ones.
const LARGEST_BYTES: u64 = 1 << 26;

/// Rows that are a record batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first row.
    pub(crate) first: u64,
    /// How many rows there is room for.
    pub(crate) capacity: u64,
    /// Where the record batch's message begins in the file.
    pub(crate) message_at: u64,
    /// Where the body begins in the file.
    pub(crate) body_at: u64,
    /// How long the body is.
    pub(crate) body_bytes: u64,
}

impl Extent {
    /// How many of a table's rows are here.
    pub(crate) fn rows(&self, table: &Table) -> u64 {
        table.rows().saturating_sub(self.first).min(self.capacity)
    }

    /// Where the body ends.
    pub(crate) fn end(&self) -> u64 {
        self.body_at + self.body_bytes
    }

    /// Where each column begins in the file.
    pub(crate) fn columns(&self, table: &Table) -> Vec<u64> {
        let places = table.places(self.capacity);
        places.iter().map(|place| self.body_at + place.offset).collect()
    }
}

/// How many bytes a record batch's message takes in a file: with its prefix, padded.
pub(crate) fn message_bytes(columns: usize, lists: usize, structures: usize) -> u64 {
    // A message's fixed part, a node of 16 bytes for each field, and a buffer of 16 bytes for each
    // that it has: two for a column, one more for a list, one for a structure.
    let nodes = columns + lists + structures;
    let buffers = 2 * columns + lists + structures;
    aligned(160 + 16 * (nodes + buffers) as u64)
}

/// How many bytes the message of a table's record batches takes.
pub(crate) fn message_bytes_of(table: &Table) -> u64 {
    let columns = table.columns();
    let lists = columns.iter().filter(|column| column.is_list(table.shape())).count();
    message_bytes(columns.len(), lists, table.structures().iter().sum())
}

/// The extents of a table whose first body begins at `body_at`. A single column has room for
/// `capacity` rows, if that is more than it has.
pub(crate) fn extents(table: &Table, body_at: u64, capacity: u64) -> Vec<Extent> {
    let message_bytes = message_bytes_of(table);
    let extent = |first: u64, capacity: u64, body_at: u64| Extent {
        first,
        capacity,
        // A body by itself, as a store has it, begins at 0 and has no message before it.
        message_at: body_at.saturating_sub(message_bytes),
        body_at,
        body_bytes: table.room_bytes(capacity),
    };
    if !table.grows() || table.columns().len() == 1 {
        return vec![extent(0, table.rows().max(capacity), body_at)];
    }
    let row = table.row_bytes().max(1);
    let first_rows = (FIRST_BYTES / row).clamp(1, FIRST_ROWS_MAX);
    let most = (LARGEST_BYTES / row).max(first_rows);
    let mut all = vec![extent(0, first_rows, body_at)];
    loop {
        let last = &all[all.len() - 1];
        let first = last.first + last.capacity;
        if first >= table.rows() {
            return all;
        }
        let next = extent(first, first.min(most), last.end() + message_bytes);
        all.push(next);
    }
}

/// Whether bodies begin where buffers may.
pub(crate) fn is_aligned(offset: u64) -> bool {
    offset.is_multiple_of(ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Column, Number};

    fn columns(count: usize) -> Vec<Column> {
        (0..count).map(|at| Column::of_number(&at.to_string(), Number::F64)).collect()
    }

    #[test]
    fn places_do_not_move_when_a_table_grows() {
        let table = Table::new(vec![0], columns(3)).expect("a table").chunked(vec![1], true);
        let mut before: Vec<Extent> = extents(&table, 2048, 0);
        assert_eq!(before.len(), 1, "there is room for the first rows");
        for rows in [1, 4096, 4097, 100_000, 10_000_000] {
            let now = extents(&table.with_rows(rows).expect("a table"), 2048, 0);
            assert_eq!(now[..before.len()], before[..]);
            assert!(now.iter().all(|one| is_aligned(one.body_at)));
            let held: u64 = now.iter().map(|one| one.capacity).sum();
            assert!(rows <= held && held <= 2 * rows.max(4096));
            before = now;
        }
    }

    #[test]
    fn one_column_is_one_extent() {
        let table = Table::new(vec![10], columns(1)).expect("a table").chunked(vec![1], true);
        let found = extents(&table, 2048, 500);
        assert_eq!((found.len(), found[0].capacity, found[0].rows(&table)), (1, 500, 10));
        assert_eq!(extents(&table, 2048, 3)[0].capacity, 10);
    }
}
