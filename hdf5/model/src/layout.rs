//! Where in a file the rows of a table are.
//!
//! ```text
//! head    the schema's message, and the first record batch's
//! body    of the first extent
//!         for each further extent: its record batch's message, its body
//! foot
//! ```
//!
//! A table of a fixed size has one extent. So has one whose rows have no bytes, and one that grows
//! with a single column: rows are put after those that are there, and HDF5 without the plugin
//! finds them. One with several columns gets a further extent, a record batch of its own, when the
//! last one is full: nothing that was written ever moves. How many rows each has depends on the
//! table only, so the table determines all places.

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

/// The extents of a table, computed: a file may claim any number of rows, so no list is made of
/// what it claims.
#[derive(Clone, Debug)]
pub(crate) struct Extents {
    /// The first ones. Each has as many rows as all before it together, up to the largest.
    growing: Vec<Extent>,
    /// How many there are in all: those after the growing ones are as large as the last of them.
    count: u64,
    /// How many bytes lie between the body of one and that of the next.
    message_bytes: u64,
}

impl Extents {
    /// How many there are, at least one.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// The extent with this number, whether there is one or not.
    pub(crate) fn get(&self, at: u64) -> Extent {
        let known = self.growing.len() as u64 - 1;
        let last = &self.growing[at.min(known) as usize];
        let further = at.saturating_sub(known);
        let step = last.body_bytes + self.message_bytes;
        Extent {
            first: last.first + further * last.capacity,
            message_at: last.message_at + further * step,
            body_at: last.body_at + further * step,
            ..last.clone()
        }
    }

    /// The first one.
    pub(crate) fn first(&self) -> &Extent {
        &self.growing[0]
    }

    /// The last one.
    pub(crate) fn last(&self) -> Extent {
        self.get(self.count - 1)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        (0..self.count).map(|at| self.get(at))
    }

    /// The number of the one that a row is in; that of the last one for rows after it.
    pub(crate) fn holding(&self, row: u64) -> u64 {
        let last = &self.growing[self.growing.len() - 1];
        if row < last.first {
            return self.growing.partition_point(|extent| extent.first <= row) as u64 - 1;
        }
        let further = (row - last.first) / last.capacity.max(1);
        (self.growing.len() as u64 - 1 + further).min(self.count - 1)
    }
}

/// The extents of a table whose first body begins at `body_at`. A single column has room for
/// `capacity` rows, if that is more than it has.
pub(crate) fn extents(table: &Table, body_at: u64, capacity: u64) -> Extents {
    let message_bytes = message_bytes_of(table);
    let extent = |first: u64, capacity: u64, body_at: u64| Extent {
        first,
        capacity,
        // A body by itself, as a store has it, begins at 0 and has no message before it.
        message_at: body_at.saturating_sub(message_bytes),
        body_at,
        body_bytes: table.room_bytes(capacity),
    };
    // Rows without bytes, those of a dataset of which another dimension is 0, never move either.
    if !table.grows() || table.columns().len() == 1 || table.row_bytes() == 0 {
        let growing = vec![extent(0, table.rows().max(capacity), body_at)];
        return Extents { growing, count: 1, message_bytes };
    }
    let row = table.row_bytes().max(1);
    let first_rows = (FIRST_BYTES / row).clamp(1, FIRST_ROWS_MAX);
    let most = (LARGEST_BYTES / row).max(first_rows);
    let mut growing = vec![extent(0, first_rows, body_at)];
    loop {
        let last = &growing[growing.len() - 1];
        let held = last.first + last.capacity;
        if held >= table.rows() || last.capacity == most && growing.len() > 1 {
            let further = table.rows().saturating_sub(held).div_ceil(last.capacity);
            let count = growing.len() as u64 + further;
            return Extents { growing, count, message_bytes };
        }
        let next = extent(held, held.min(most), last.end() + message_bytes);
        growing.push(next);
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
        let list = |table: &Table| extents(table, 2048, 0).iter().collect::<Vec<Extent>>();
        let mut before = list(&table);
        assert_eq!(before.len(), 1, "there is room for the first rows");
        for rows in [1, 4096, 4097, 100_000, 10_000_000] {
            let now = list(&table.with_rows(rows).expect("a table"));
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
        let only = found.last();
        assert_eq!((found.len(), only.capacity, only.rows(&table)), (1, 500, 10));
        assert_eq!(extents(&table, 2048, 3).first().capacity, 10);
    }

    #[test]
    fn rows_are_in_the_extent_that_holds_them() {
        for rows in [1, 4096, 4097, 8191, 10_000_000, 50_000_000] {
            let table = Table::new(vec![rows], columns(3)).expect("a table").chunked(vec![1], true);
            let all = extents(&table, 2048, 0);
            for (at, extent) in all.iter().enumerate() {
                for row in [extent.first, (extent.first + extent.capacity).min(rows) - 1] {
                    assert_eq!(all.holding(row), at as u64, "row {row} of {rows}");
                }
            }
            assert_eq!(all.holding(u64::MAX), all.len() - 1);
            let last = all.last();
            assert!(last.first < rows && rows <= last.first + last.capacity);
        }
    }

    /// A dataset of which a dimension is 0 may have 2^62 rows: the image of its file had a message
    /// for every 64 million of them.
    #[test]
    fn rows_without_bytes_are_one_extent() {
        for rows in [0, 3, 1 << 62] {
            let table = Table::new(vec![rows, 0], columns(2)).expect("a table");
            let table = table.chunked(vec![1, 1], true);
            let all = extents(&table, 2048, 0);
            let only = all.last();
            assert_eq!((all.len(), only.rows(&table), only.body_bytes), (1, rows, 0));
            assert_eq!(all.holding(rows), 0);
        }
    }

    /// A file of two kilobytes that said it had 2^50 rows made a list of hundreds of millions of
    /// extents before its size was looked at.
    #[test]
    fn any_number_of_rows_takes_little_memory() {
        for rows in [1 << 40, 1 << 50, 1 << 57] {
            let table = Table::new(vec![rows], columns(2)).expect("a table").chunked(vec![1], true);
            let all = extents(&table, 2048, 0);
            assert!(all.growing.len() < 64, "{}", all.growing.len());
            let last = all.last();
            assert!(last.end() > rows * 16 && last.first + last.capacity >= rows);
        }
    }
}
