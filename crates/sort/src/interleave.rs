//! Tables with columns that are not moved here (nested values, dictionaries, views): only the
//! order of the rows is found, and Arrow's own kernels collect every column in that order.

use std::ops::{DerefMut, Range};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use crate::crew::each;
use crate::error::{Error, Result};
use crate::sorting::{Create, Job, Numbers, Partition};

/// Rows of a batch: enough for kernels, and few enough for offsets of 32 bits in most tables.
const BATCH_ROWS: usize = 1 << 20;

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
    let mut partitions = Vec::with_capacity(numbers.partitions.len());
    for rows in numbers.partitions {
        job.progress.advance(0)?;
        let pieces = encode(job, threads, &numbers.rows[rows.clone()])?;
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

fn encode(job: &Job<'_>, threads: usize, rows: &[u32]) -> Result<Vec<Buffer>> {
    let schema = &job.table.sorted_schema();
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?;
    let mut encoder = StreamEncoder::try_new_with_options(schema, options)?;
    let places: Vec<(usize, usize)> = rows.iter().map(|row| job.table.place(*row)).collect();
    let count = rows.len().div_ceil(BATCH_ROWS);
    let range =
        |at: usize| -> Range<usize> { at * BATCH_ROWS..((at + 1) * BATCH_ROWS).min(rows.len()) };
    let tasks: Vec<(usize, usize)> = (0..count)
        .flat_map(|at| (0..schema.fields().len()).map(move |column| (at, column)))
        .collect();
    let arrays: Vec<ArrayRef> = each(threads, tasks, |(at, column)| {
        let parts = job.table.column(column);
        let parts: Vec<_> = parts.iter().map(|part| &**part).collect();
        job.progress.advance(0)?;
        let collected = interleave(&parts, &places[range(at)])?;
        // What may be moved as views elsewhere is so here as well.
        Ok(match schema.field(column).data_type() {
            wanted @ (DataType::LargeUtf8 | DataType::LargeBinary) => cast(&collected, wanted)?,
            _ => collected,
        })
    })?;
    let mut pieces = Vec::new();
    for (at, columns) in arrays.chunks(schema.fields().len().max(1)).enumerate() {
        let options = RecordBatchOptions::new().with_row_count(Some(range(at).len()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns.to_vec(), &options)?;
        pieces.append(&mut encoder.encode(&batch)?);
    }
    pieces.append(&mut encoder.finish()?);
    Ok(pieces)
}
