//! Tables with columns that are not moved here (nested values, dictionaries, views): only the
//! order of the rows is found, and Arrow's own kernels collect every column in that order.
//!
//! Dictionaries are collected as codes, and come back afterwards: as a whole, as in the input,
//! unless the copies in all partitions would take more than the rows. Then a partition has the
//! values that its rows use.

use std::ops::{DerefMut, Range};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use crate::error::{Error, Result};
use crate::job::{Create, Job, Partition};
use crate::offsets::{extent, lots, rows_max};
use crate::workers::each;

/// Rows of a batch: enough for kernels. There are fewer where offsets of 32 bits ask for it.
const BATCH_ROWS: usize = 1 << 20;
/// What offsets of 32 bits address.
const OFFSETS_MAX: u64 = i32::MAX as u64;

/// A dictionary that every partition has as a whole, however many there are.
const DICTIONARY_BYTES_SMALL: u64 = 4 << 10;

/// The row numbers of a table in the order that was found, and where its partitions begin and end.
pub(crate) struct Numbers {
    pub(crate) rows: Vec<u32>,
    pub(crate) partitions: Vec<Range<usize>>,
}

/// Writes the partitions of a table in an order that was found.
pub(crate) fn partitions<M>(
    job: &Job<'_>,
    threads: usize,
    numbers: Numbers,
    create: &mut Create<'_, M>,
) -> Result<Vec<Partition<M>>>
where
    M: DerefMut<Target = [u8]>,
{
    let collector = Collector::new(job, threads);
    let mut partitions = Vec::with_capacity(numbers.partitions.len());
    for rows in numbers.partitions {
        job.progress.advance(0)?;
        let pieces = collector.encode(&numbers.rows[rows.clone()])?;
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut memory = create(bytes).map_err(|source| Error::Memory { bytes, source })?;
        let mut at = 0;
        for piece in pieces {
            memory[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
        partitions.push(Partition { memory, rows: rows.len() });
    }
    Ok(partitions)
}

/// Makes partitions of a table of which the order is known.
struct Collector<'a> {
    job: &'a Job<'a>,
    threads: usize,
    /// Column by column, batch by batch.
    columns: Vec<Vec<ArrayRef>>,
    /// Rows of a batch.
    rows_max: usize,
    /// Whether the table has more than offsets of 32 bits address.
    is_large: bool,
    /// How many partitions there are, and the bytes of the rows of all.
    part: (u64, u64),
}

impl<'a> Collector<'a> {
    fn new(job: &'a Job<'a>, threads: usize) -> Self {
        let table = job.table;
        let columns: Vec<Vec<ArrayRef>> =
            (0..table.schema().fields().len()).map(|at| table.column(at)).collect();
        let is_large = total_extent(&columns) > OFFSETS_MAX;
        let parts = job.partitions.unwrap_or(1) as u64;
        let part = table.part.unwrap_or_else(|| (parts, table.bytes()));
        let types = table.schema().fields().iter().map(|field| rows_max(field.data_type()));
        let rows_max = types.fold(BATCH_ROWS, usize::min);
        Self { job, threads, columns, rows_max, is_large, part }
    }

    fn encode(&self, rows: &[u32]) -> Result<Vec<Buffer>> {
        let table = self.job.table;
        let schema = &table.sorted_schema();
        let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?;
        let mut encoder = StreamEncoder::try_new_with_options(schema, options)?;
        let places: Vec<(usize, usize)> = rows.iter().map(|row| table.place(*row)).collect();
        let limit = if self.is_large { OFFSETS_MAX } else { u64::MAX };
        let lots = batches(&self.columns, &places, self.rows_max, limit);
        let columns = self.columns.len();
        let tasks: Vec<(usize, usize)> =
            (0..lots.len()).flat_map(|lot| (0..columns).map(move |column| (lot, column))).collect();
        let arrays: Vec<ArrayRef> = each(self.threads, tasks, |(lot, column)| {
            let parts: Vec<_> = self.columns[column].iter().map(|part| &**part).collect();
            self.job.progress.advance(0)?;
            let collected = interleave(&parts, &places[lots[lot].clone()]).map_err(|source| {
                Error::Column { column: schema.field(column).name().clone(), source }
            })?;
            // What may be moved as views elsewhere is so here as well.
            Ok(match schema.field(column).data_type() {
                wanted @ (DataType::LargeUtf8 | DataType::LargeBinary) => cast(&collected, wanted)?,
                _ => collected,
            })
        })?;
        let arrays = self.restored(arrays)?;
        let mut pieces = Vec::new();
        for (rows, columns) in lots.iter().zip(arrays.chunks(columns.max(1))) {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch =
                RecordBatch::try_new_with_options(schema.clone(), columns.to_vec(), &options)?;
            pieces.append(&mut encoder.encode(&batch)?);
        }
        pieces.append(&mut encoder.finish()?);
        Ok(pieces)
    }

    /// The arrays of a partition, batch by batch, with their dictionaries in place of codes.
    fn restored(&self, mut arrays: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let table = self.job.table;
        let Some(dictionaries) = table.restored() else { return Ok(arrays) };
        let (parts, bytes) = self.part;
        let is_long = |own: u64| own > DICTIONARY_BYTES_SMALL && parts > 1 && own * parts > bytes;
        let columns = self.columns.len();
        for at in (0..columns).filter(|at| dictionaries.has(*at)) {
            let shape = table.schema().field(at).data_type();
            let mut own: Vec<ArrayRef> = arrays.iter().skip(at).step_by(columns).cloned().collect();
            let narrowed = dictionaries.narrowed(at, shape, &mut own, is_long)?;
            for (array, codes) in arrays.iter_mut().skip(at).step_by(columns).zip(&own) {
                *array = narrowed.restore(at, codes, shape)?;
            }
        }
        Ok(arrays)
    }
}

fn total_extent(columns: &[Vec<ArrayRef>]) -> u64 {
    columns.iter().flatten().map(|array| extent(array, 0..array.len())).sum()
}

/// The batches of rows at these places: as large as offsets with this limit address.
fn batches(
    columns: &[Vec<ArrayRef>],
    places: &[(usize, usize)],
    rows_max: usize,
    limit: u64,
) -> Vec<Range<usize>> {
    lots(places.len(), rows_max, limit, |row| {
        let (batch, row) = places[row];
        let own = |column: &Vec<ArrayRef>| extent(&column[batch], row..row + 1);
        // Without a limit nothing is added up.
        if limit == u64::MAX { 0 } else { columns.iter().map(own).sum() }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{LargeListArray, ListArray, ListViewArray, StringArray, StructArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    /// Four rows with 1, 2, 3 and 0 strings of 10 bytes each, of 1 or of none.
    fn lists() -> [(ArrayRef, u64); 5] {
        let strings: ArrayRef = Arc::new(StringArray::from(vec!["0123456789"; 6]));
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let small = OffsetBuffer::new(vec![0, 1, 3, 6, 6].into());
        let large = OffsetBuffer::new(vec![0, 1, 3, 6, 6].into());
        let list = ListArray::new(field.clone(), small, strings.clone(), None);
        let whole = StructArray::from(vec![(
            Arc::new(Field::new("x", list.data_type().clone(), true)),
            Arc::new(list.clone()) as ArrayRef,
        )]);
        let (at, sizes) = (vec![5, 3, 0, 2].into(), vec![1, 2, 3, 0].into());
        let views = ListViewArray::new(field.clone(), at, sizes, strings.clone(), None);
        let long = LargeListArray::new(field, large, strings.clone(), None);
        [
            (Arc::new(list), 11),
            (Arc::new(whole), 11),
            (Arc::new(views), 11),
            (Arc::new(long), 10),
            (strings.slice(2, 4), 10),
        ]
    }

    // More than 2 GiB of text with offsets of 32 bits, beside a column that only Arrow's kernels
    // collect, failed with "Offset overflow error" and no advice: all rows were one batch.
    #[test]
    fn a_batch_has_what_offsets_of_32_bits_address() {
        for (at, (array, own)) in lists().into_iter().enumerate() {
            let counts = if at == 4 { [1; 4] } else { [1, 2, 3, 0] };
            let batch = RecordBatch::try_from_iter([("c", array)]).unwrap();
            let columns = [vec![batch.column(0).clone(), batch.column(0).clone()]];
            let places: Vec<_> = (0..2).flat_map(|b| (0..4).map(move |row| (b, row))).collect();
            let all = 2 * own * counts.iter().sum::<u64>();
            assert_eq!(total_extent(&columns), all);
            assert_eq!(batches(&columns, &places, 8, all).len(), 1);
            for limit in [all - 1, 3 * own, own, 1] {
                let found = batches(&columns, &places, 8, limit);
                let extents = found
                    .iter()
                    .map(|rows| rows.clone().map(|row| own * counts[row % 4]).sum::<u64>());
                for (extent, rows) in extents.zip(&found) {
                    assert!(extent <= limit || rows.len() == 1, "{rows:?} at {limit}");
                }
                assert_eq!(found.iter().map(Range::len).sum::<usize>(), 8);
                assert!(found.len() > 1);
            }
        }
    }
}
