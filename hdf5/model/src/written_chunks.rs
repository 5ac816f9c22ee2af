//! Which chunks of a dataset were written.
//!
//! A chunked dataset of HDF5 has a chunk from the first write into it on; the others take no room
//! and get no error. In the Arrow file all rows are there, so the schema's metadata says which
//! chunks are: `hdf5.written`, runs of chunks such as `0-3,7`. Chunks are counted row by row,
//! from 0; as only the first dimension changes, each keeps its number. Files without the entry have
//! all of them, and `*` means that there are none and that the first write makes all.
//!
//! The entry has always the same length, so it is changed in place. Of more runs than fit into it
//! the nearest ones are merged.

use std::fmt::Write as _;
use std::ops::Range;

use crate::run::Run;
use crate::table::Table;

/// The entry of the schema's metadata.
pub(crate) const WRITTEN_KEY: &str = "hdf5.written";
/// The start of its text, by which its place is found again.
const BEGIN: &str = "chunks ";
/// The text in the place of runs when the first write makes all chunks.
const AT_ONCE: &str = "*";
/// How long the text is, filled up with spaces.
pub(crate) const WRITTEN_BYTES: usize = 256;

/// The chunks that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenChunks {
    /// In order, with gaps between them.
    runs: Vec<Range<u64>>,
    /// Whether the first write makes all chunks that there is room for.
    at_once: bool,
}

impl WrittenChunks {
    /// None, of a dataset whose chunks are made at the first write, or each at its own.
    #[must_use]
    pub fn none(at_once: bool) -> Self {
        Self { runs: Vec::new(), at_once }
    }

    /// The entry in the metadata of a file.
    #[must_use]
    pub fn entry(&self) -> (String, String) {
        (WRITTEN_KEY.to_owned(), self.to_text())
    }

    /// Reads the text.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let mut written = Self::default();
        let text = text.strip_prefix(BEGIN)?.trim_end();
        if text == AT_ONCE {
            return Some(Self::none(true));
        }
        for run in text.split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            let end = last.checked_add(1)?;
            if first > last || written.runs.last().is_some_and(|before| first <= before.end) {
                return None;
            }
            written.runs.push(first..end);
        }
        Some(written)
    }

    /// The text, of a fixed length.
    pub(crate) fn to_text(&self) -> String {
        if self.at_once {
            return format!("{:WRITTEN_BYTES$}", format!("{BEGIN}{AT_ONCE}"));
        }
        let mut runs = self.runs.clone();
        loop {
            let mut text = BEGIN.to_owned();
            for (at, run) in runs.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                let last = run.end - 1;
                // Writing to a text cannot fail.
                let _ = match last == run.start {
                    true => write!(text, "{comma}{last}"),
                    false => write!(text, "{comma}{}-{last}", run.start),
                };
            }
            if text.len() <= WRITTEN_BYTES {
                return format!("{text:WRITTEN_BYTES$}");
            }
            let gap = |at: &usize| runs[at + 1].start - runs[*at].end;
            let nearest = (0..runs.len() - 1).min_by_key(gap).unwrap_or(0);
            runs[nearest].end = runs.remove(nearest + 1).end;
        }
    }

    /// Adds chunks; whether any of them is new.
    pub fn insert(&mut self, chunks: Range<u64>) -> bool {
        if chunks.is_empty() {
            return false;
        }
        // The runs that it touches, from the first that does not end before it.
        let first = self.runs.partition_point(|run| run.end < chunks.start);
        let count = self.runs[first..].partition_point(|run| run.start <= chunks.end);
        let touched = first..first + count;
        if let [run] = &self.runs[touched.clone()]
            && run.start <= chunks.start
            && chunks.end <= run.end
        {
            return false;
        }
        let of = &self.runs[touched.clone()];
        let start = of.first().map_or(chunks.start, |run| run.start.min(chunks.start));
        let end = of.last().map_or(chunks.end, |run| run.end.max(chunks.end));
        self.runs.splice(touched, std::iter::once(start..end));
        true
    }

    /// Removes all chunks from one on; whether there were any.
    pub fn truncate(&mut self, end: u64) -> bool {
        let before = self.count();
        self.runs.retain(|run| run.start < end);
        if let Some(last) = self.runs.last_mut() {
            last.end = last.end.min(end);
        }
        self.count() < before
    }

    /// Whether a chunk was written.
    #[must_use]
    pub fn contains(&self, chunk: u64) -> bool {
        let at = self.runs.partition_point(|run| run.end <= chunk);
        self.runs.get(at).is_some_and(|run| run.contains(&chunk))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// The chunk that is there after a number of others.
    #[must_use]
    pub fn nth(&self, mut index: u64) -> Option<u64> {
        for run in &self.runs {
            let count = run.end - run.start;
            if index < count {
                return Some(run.start + index);
            }
            index -= count;
        }
        None
    }

    /// Adds the chunks that some runs of elements touch; whether any of them is new.
    pub fn insert_runs(&mut self, table: &Table, chunk: &[u64], runs: &[Run]) -> bool {
        let Some(grid) = Grid::of(table, chunk) else { return false };
        if std::mem::take(&mut self.at_once) {
            return self.insert(grid.rows(0, table.elements().max(1)));
        }
        let mut is_new = false;
        for run in runs {
            let rows_apart = run.file_step.div_ceil(grid.row_elements.max(1));
            if grid.per_row == 1 && rows_apart <= chunk[0] {
                // No chunk lies between two blocks.
                is_new |= self.insert(grid.rows(run.file, run.file_end()));
                continue;
            }
            for block in (0..run.blocks).map(|at| run.block(at)) {
                is_new |= self.insert_block(&grid, block.file, block.file_end());
            }
        }
        is_new
    }

    /// Adds the chunks of elements that follow each other.
    fn insert_block(&mut self, grid: &Grid<'_>, start: u64, end: u64) -> bool {
        if grid.per_row == 1 {
            return self.insert(grid.rows(start, end));
        }
        let mut is_new = false;
        let row = grid.row_elements;
        let (whole, whole_end) =
            (start.next_multiple_of(row).min(end), (end / row * row).max(start));
        if whole < whole_end {
            is_new |= self.insert(grid.rows(whole, whole_end));
            is_new |= self.insert_lines(grid, start, whole);
            return self.insert_lines(grid, whole_end, end) | is_new;
        }
        self.insert_lines(grid, start, end) | is_new
    }

    /// The same for elements of a row or two, line by line.
    fn insert_lines(&mut self, grid: &Grid<'_>, start: u64, end: u64) -> bool {
        let (mut at, mut is_new) = (start, false);
        while at < end {
            let line_end = (at / grid.line + 1) * grid.line;
            let last = line_end.min(end) - 1;
            is_new |= self.insert(grid.chunk_of(at)..grid.chunk_of(last) + 1);
            at = line_end;
        }
        is_new
    }
}

/// The chunks of a table.
struct Grid<'a> {
    shape: &'a [u64],
    chunk: &'a [u64],
    /// How many elements a row has.
    row_elements: u64,
    /// How many elements the last dimension has.
    line: u64,
    /// How many chunks lie beside each other in a row.
    per_row: u64,
}

impl<'a> Grid<'a> {
    fn of(table: &'a Table, chunk: &'a [u64]) -> Option<Self> {
        let shape = table.shape();
        let fits = chunk.len() == shape.len() && !chunk.contains(&0) && !shape[1..].contains(&0);
        let sizes = || shape[1..].iter().zip(chunk.get(1..).unwrap_or_default());
        fits.then(|| Self {
            shape,
            chunk,
            row_elements: table.row_elements(),
            line: *shape[1..].last().unwrap_or(&u64::MAX),
            per_row: sizes().map(|(size, chunk)| size.div_ceil(*chunk)).product(),
        })
    }

    /// The chunks of all rows that elements begin to end in.
    fn rows(&self, start: u64, end: u64) -> Range<u64> {
        let row = |element: u64| element / self.row_elements / self.chunk[0];
        row(start) * self.per_row..(row(end - 1) + 1) * self.per_row
    }

    /// The chunk that an element is in.
    fn chunk_of(&self, mut element: u64) -> u64 {
        let (mut number, mut step) = (0, 1);
        for (size, chunk) in self.shape[1..].iter().zip(&self.chunk[1..]).rev() {
            number += element % size / chunk * step;
            step *= size.div_ceil(*chunk);
            element /= size;
        }
        number + element / self.chunk[0] * step
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::column::{Column, Number};

    #[test]
    fn runs_of_chunks_are_joined() {
        let mut written = WrittenChunks::default();
        assert!(written.insert(3..5) && written.insert(8..9) && !written.insert(4..5));
        assert!(!written.insert(2..2));
        assert_eq!((written.count(), written.nth(2), written.nth(3)), (3, Some(8), None));
        assert_eq!(written.to_text().trim_end(), "chunks 3-4,8");
        assert!(written.insert(5..8));
        assert_eq!(written.to_text().trim_end(), "chunks 3-8");
        assert!(written.truncate(4) && !written.truncate(4));
        assert!(written.contains(3) && !written.contains(4) && !written.contains(2));
    }

    #[test]
    fn of_too_many_runs_the_nearest_are_one() {
        let mut written = WrittenChunks::default();
        for at in 0..200_u64 {
            written.insert(at * at * 10..at * at * 10 + 1);
        }
        let text = written.to_text();
        assert_eq!(text.len(), WRITTEN_BYTES);
        let found = WrittenChunks::of_text(&text).expect("read");
        assert!((0..200_u64).all(|at| found.contains(at * at * 10)));
        assert!(found.count() > written.count() && !found.contains(199 * 199 * 10 - 1));
    }

    #[test]
    fn other_strings_are_not_runs() {
        for wrong in
            ["", "0-3", "chunks x", "chunks 3-1", "chunks 1,1", "chunks 0-1,2", "chunks 1,"]
        {
            assert_eq!(WrittenChunks::of_text(wrong).is_none(), wrong != "chunks 1,", "{wrong}");
        }
        let last = format!("chunks {}", u64::MAX);
        assert_eq!(WrittenChunks::of_text(&last), None);
        assert_eq!(WrittenChunks::of_text("chunks "), Some(WrittenChunks::default()));
        let mut late = WrittenChunks::of_text(&WrittenChunks::none(true).to_text()).expect("read");
        assert_eq!(late, WrittenChunks::none(true));
        let table = Table::new(vec![9], vec![Column::of_number("x", Number::U8)]).expect("one");
        assert!(late.insert_runs(&table, &[2], &[Run::of(3, 0, 1)]));
        assert_eq!(late.to_text().trim_end(), "chunks 0-4");
    }

    proptest! {
        /// The same chunks as when each element is looked at.
        #[test]
        fn the_chunks_of_elements_are_those_that_they_lie_in(
            shape in prop::collection::vec(1_u64..7, 1..4),
            chunk in prop::collection::vec(1_u64..5, 3),
            runs in prop::collection::vec((0_u64..300, 1_u64..40, 1_u64..4, 0_u64..30), 0..4),
        ) {
            let columns = vec![Column::of_number("x", Number::U8)];
            let table = Table::new(shape.clone(), columns).expect("a table");
            let chunk = &chunk[..shape.len()];
            let (mut found, mut wanted) = (WrittenChunks::default(), WrittenChunks::default());
            for (file, elements, blocks, gap) in runs {
                let file_step = elements + gap;
                let run = Run { blocks, file_step, ..Run::of(file, 0, elements) };
                if run.file_end() > table.elements() {
                    continue;
                }
                found.insert_runs(&table, chunk, &[run]);
                let grid = Grid::of(&table, chunk).expect("a grid");
                for block in (0..blocks).map(|at| run.block(at)) {
                    for element in block.file..block.file_end() {
                        let at = grid.chunk_of(element);
                        wanted.insert(at..at + 1);
                    }
                }
            }
            prop_assert_eq!(&found, &wanted);
            prop_assert_eq!(WrittenChunks::of_text(&found.to_text()), Some(found));
        }
    }
}
