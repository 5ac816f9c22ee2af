//! Keys: what is compared. The first 64 bits of a row's key, its *prefix*, decide nearly always;
//! where they tie and are not the whole key, [`settle`] asks for the next 64, its *chunks*.

mod extremes;
mod field;
mod number;
mod rows;
mod string;

use std::cmp::Ordering;
use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_schema::Schema;

use self::extremes::{Extremes, Values};
pub(crate) use self::field::Fields;
pub(crate) use self::number::Kind;
pub(crate) use self::rows::RowKeys;
use self::string::StringKeys;
use crate::error::{Error, Result};
use crate::order::SortKey;
use crate::table::Table;
use crate::workers::{Progress, each};

/// Rows that are looked at to learn what all keys begin with.
const COMMON_SAMPLE_ROWS: usize = 256;
/// Chunks after which whole keys are compared.
const DEPTH_MAX: usize = 4;

/// A key column of fixed width.
#[derive(Debug)]
pub(crate) struct KeyColumn {
    /// Which column of the table.
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    batches: Vec<Values>,
}

/// The keys of all rows of a table.
#[derive(Debug)]
pub(crate) enum Keys {
    /// Every key column has a fixed width.
    Fields { fields: Fields, columns: Vec<KeyColumn> },
    /// Keys of any length.
    Strings(StringKeys),
}

impl Keys {
    /// The keys of a table, which is read once for them.
    pub(crate) fn new(
        table: &Table,
        order: &[SortKey],
        threads: usize,
        progress: &Progress,
    ) -> Result<Self> {
        let columns = resolve(table.schema(), order)?;
        let schema = table.schema();
        let data_type = |at: usize| schema.field(at).data_type();
        let kinds: Option<Vec<Kind>> = columns.iter().map(|at| Kind::of(data_type(*at))).collect();
        if let Some(kinds) = kinds {
            return fields(table, order, (&columns, &kinds), threads, progress);
        }
        progress.advance(table.rows() as u64)?;
        let lone = columns.len() == 1 && StringKeys::takes(data_type(columns[0]));
        let mut strings =
            if lone { StringKeys::of_column(table, columns[0], &order[0]) } else { None };
        if strings.is_none() {
            let keys: Vec<_> =
                order.iter().zip(&columns).map(|(key, at)| (key, data_type(*at))).collect();
            let batches = table.values(&columns)?;
            strings = Some(StringKeys::of_rows(&keys, &batches)?);
        }
        let mut strings = strings.expect("rows are made for other columns");
        strings.skip_common(&spread(table, COMMON_SAMPLE_ROWS));
        Ok(Self::Strings(strings))
    }

    /// The prefixes of some rows of a batch.
    pub(crate) fn prefixes(&self, batch: usize, rows: Range<usize>, out: &mut [u64]) {
        match self {
            Self::Fields { fields, columns } => {
                fields.encode(0, |key| columns[key].slice(batch, &rows), out);
            }
            Self::Strings(strings) => {
                for (out, row) in out.iter_mut().zip(rows) {
                    *out = strings.chunk(batch, row, 0);
                }
            }
        }
    }

    /// Whether rows with the same prefix, this one, have the same key.
    pub(crate) fn is_whole(&self, prefix: u64) -> bool {
        match self {
            Self::Fields { fields, .. } => fields.chunks() == 1,
            Self::Strings(strings) => strings.is_last(prefix),
        }
    }

    /// The layout and the columns, when the values alone make the keys: no value is missing.
    pub(crate) fn in_place(&self) -> Option<(&Fields, &[KeyColumn])> {
        match self {
            Self::Fields { fields, columns } if !fields.nullable() => Some((fields, columns)),
            _ => None,
        }
    }

    /// The keys and their column, when they are the strings of one, none of which is missing.
    pub(crate) fn as_strings(&self) -> Option<(&StringKeys, usize)> {
        match self {
            Self::Strings(strings) => strings.column().map(|column| (strings, column)),
            Self::Fields { .. } => None,
        }
    }

    /// Rows to be settled by their numbers.
    pub(crate) fn by_row<'a>(&'a self, table: &'a Table) -> ByRow<'a> {
        ByRow { keys: self, table }
    }
}

impl KeyColumn {
    fn slice(&self, batch: usize, rows: &Range<usize>) -> (&[u8], Option<NullBuffer>) {
        let (values, width) = (&self.batches[batch], self.kind.bytes());
        let nulls = values.nulls.as_ref().map(|nulls| nulls.slice(rows.start, rows.len()));
        (&values.bytes.as_slice()[rows.start * width..rows.end * width], nulls)
    }
}

/// The columns that an order names.
pub(crate) fn resolve(schema: &Schema, order: &[SortKey]) -> Result<Vec<usize>> {
    if order.is_empty() {
        return Err(Error::NoKeys);
    }
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let find = |key: &SortKey| {
        let mut found = names.iter().enumerate().filter(|(_, name)| **name == key.column);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => Err(Error::Ambiguous(key.column.clone())),
            (None, _) => {
                let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                Err(Error::NoColumn { wanted: key.column.clone(), found: quoted.join(", ") })
            }
        }
    };
    order.iter().map(find).collect()
}

fn fields(
    table: &Table,
    order: &[SortKey],
    (at, kinds): (&[usize], &[Kind]),
    threads: usize,
    progress: &Progress,
) -> Result<Keys> {
    let column = |(at, kind): (&usize, &Kind)| {
        let arrays = table.column(*at);
        let batches = arrays.iter().map(|array| Values::of(array, kind.bytes())).collect();
        KeyColumn { at: *at, kind: *kind, batches }
    };
    let columns: Vec<KeyColumn> = at.iter().zip(kinds).map(column).collect();
    let none: Vec<Extremes> = kinds.iter().map(|kind| Extremes::none(*kind)).collect();
    let found = each(threads, table.pieces(4 * threads), |piece| {
        let mut found = none.clone();
        for run in &piece.runs {
            for (found, column) in found.iter_mut().zip(&columns) {
                let values = &column.batches[run.batch];
                *found = found.clone().and(&Extremes::of(column.kind, values, run.rows.clone()));
            }
        }
        progress.advance(piece.rows as u64)?;
        Ok(found)
    })?;
    let whole = found.iter().fold(none.clone(), |whole, part| {
        whole.into_iter().zip(part).map(|(whole, part)| whole.and(part)).collect()
    });
    let keys: Vec<_> = kinds.iter().zip(order).zip(whole).map(|((k, o), e)| (*k, o, e)).collect();
    Ok(Keys::Fields { fields: Fields::new(&keys), columns })
}

/// Rows spread over the whole table, at places that look random and are always the same: data
/// that repeats with any period is seen as a whole.
pub(crate) fn spread(table: &Table, count: usize) -> Vec<(usize, usize)> {
    let rows = table.rows() as u64;
    if rows == 0 {
        return Vec::new();
    }
    let place = |at: u64| {
        // Splitmix64: each part of the rows gets one row of the sample, anywhere in it.
        let mut mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let (from, to) = (rows * at / count as u64, rows * (at + 1) / count as u64);
        table.place((from + mixed % (to - from).max(1)).min(rows - 1) as u32)
    };
    (0..count as u64).map(place).collect()
}

/// Rows whose keys can be asked for, chunk by chunk.
pub(crate) trait Chunks {
    /// One chunk of a row's key.
    fn chunk(&mut self, row: u32, depth: usize) -> u64;
    /// Whether rows with the same chunk, this one, at this depth have the same key.
    fn is_last(&self, chunk: u64, depth: usize) -> bool;
    /// Whether rows with this chunk are better compared as a whole from here on.
    fn is_outside(&self, chunk: u64, depth: usize) -> bool;
    /// The order of two rows.
    fn compare(&self, one: u32, other: u32) -> Ordering;
}

/// Sorts rows that have the same chunks up to `depth`, the last one being `chunk`.
pub(crate) fn settle(chunks: &mut impl Chunks, rows: &mut [u32], chunk: u64, depth: usize) {
    if rows.len() < 2 || chunks.is_last(chunk, depth) {
        return;
    }
    if chunks.is_outside(chunk, depth) {
        rows.sort_by(|one, other| chunks.compare(*one, *other));
        return;
    }
    // The place in the run keeps equal rows in their order.
    let mut found: Vec<(u64, u32, u32)> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        found.push((chunks.chunk(*row, depth + 1), at as u32, *row));
    }
    found.sort_unstable();
    rows.iter_mut().zip(&found).for_each(|(row, (_, _, sorted))| *row = *sorted);
    let mut from = 0;
    for run in found.chunk_by(|one, other| one.0 == other.0) {
        settle(chunks, &mut rows[from..from + run.len()], run[0].0, depth + 1);
        from += run.len();
    }
}

/// Rows of a table by their numbers.
pub(crate) struct ByRow<'a> {
    keys: &'a Keys,
    table: &'a Table,
}

impl Chunks for ByRow<'_> {
    fn chunk(&mut self, row: u32, depth: usize) -> u64 {
        let (batch, row) = self.table.place(row);
        match self.keys {
            Keys::Strings(strings) => strings.chunk(batch, row, depth),
            Keys::Fields { fields, columns } => {
                let mut chunk = [0];
                fields.encode(depth, |key| columns[key].slice(batch, &(row..row + 1)), &mut chunk);
                chunk[0]
            }
        }
    }

    fn is_last(&self, chunk: u64, depth: usize) -> bool {
        match self.keys {
            Keys::Strings(strings) => strings.is_last(chunk),
            Keys::Fields { fields, .. } => depth + 1 >= fields.chunks(),
        }
    }

    fn is_outside(&self, chunk: u64, depth: usize) -> bool {
        match self.keys {
            Keys::Strings(strings) => depth >= DEPTH_MAX || strings.is_outside(chunk),
            Keys::Fields { .. } => false,
        }
    }

    fn compare(&self, one: u32, other: u32) -> Ordering {
        match self.keys {
            Keys::Strings(strings) => {
                strings.compare(self.table.place(one), self.table.place(other))
            }
            Keys::Fields { .. } => Ordering::Equal,
        }
    }
}
