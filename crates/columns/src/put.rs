//! Tables that exist already become objects: shared where they lie in a pool, else copied.

use std::sync::Arc;

use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use plasmon_client::{Client, PutOptions, tag};
use plasmon_proto::limits::OBJECT_ALIGN;

use crate::composite;
use crate::error::Result;
use crate::ipc_encode::StreamPieces;
use crate::pool::{Pool, ShareOutcome};
use crate::runs::without_empty_runs;

/// View buffers are compacted when a slice uses less than one part in this many of them.
const VIEW_WASTE_MAX: usize = 2;

/// Record batches with what they were, see [`plasmon_proto::value::ValueHeader`].
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The columns.
    pub schema: &'a SchemaRef,
    /// The rows.
    pub batches: &'a [RecordBatch],
    /// One of [`plasmon_proto::value::table_kind`].
    pub kind: u8,
    /// More about it, or nothing.
    pub text: &'a str,
}

/// Puts a table: without a copy when most of it lies in one of the pools and most of what it lies
/// in belongs to it, else with one.
pub fn put<'a>(
    store: &Client,
    mut pools: impl Iterator<Item = &'a Pool>,
    table: Table<'_>,
    options: &PutOptions,
) -> Result<ShareOutcome> {
    // A strict object is written by its writer alone, and one of a pool does not hold what other
    // objects hold, too: a copy.
    if !options.strict
        && !composite::is_pooled(options)
        && let Some(first) = pools.next()
        // What cannot be encoded is reported, or encoded, by the path that copies.
        && let Ok(Some(stream)) = StreamPieces::of(table.schema, table.batches)
        && let Some(pool) =
            std::iter::once(first).chain(pools).find(|pool| pool.is_worth_sharing(&stream))
    {
        return pool.share(&stream, table.kind, table.text, options);
    }
    let pieces = pieces(table.schema, table.batches)?;
    let parts: Vec<&[u8]> = pieces.iter().map(Buffer::as_slice).collect();
    let metadata = composite::described((table.kind, table.text), options)?;
    let options = PutOptions { tag: tag::ARROW_STREAM, metadata, ..options.clone() };
    let id = store.put_parts(&parts, &options)?;
    let copied_bytes = parts.iter().map(|part| part.len() as u64).sum();
    Ok(ShareOutcome { id, shared_bytes: 0, copied_bytes })
}

/// The pieces of an IPC stream of the batches. Only headers, and bytes that a slice cuts in the
/// middle, are written again; values that a slice does not refer to are left out.
pub fn pieces(
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> std::result::Result<Vec<Buffer>, ArrowError> {
    let options = IpcWriteOptions::try_new(OBJECT_ALIGN as usize, false, MetadataVersion::V5)?;
    let mut encoder = StreamEncoder::try_new_with_options(schema, options)?;
    let mut pieces = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|it| Ok(compacted(&without_empty_runs(it)?)));
        let columns = columns.collect::<std::result::Result<_, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
        pieces.append(&mut encoder.encode(&batch)?);
    }
    pieces.append(&mut encoder.finish()?);
    Ok(pieces)
}

/// Drops what a slice of a view array no longer refers to, when that is most of it.
fn compacted(array: &ArrayRef) -> ArrayRef {
    fn of<T: ByteViewType + ?Sized>(array: &ArrayRef) -> Option<ArrayRef> {
        let views = array.as_any().downcast_ref::<GenericByteViewArray<T>>()?;
        let held: usize = views.data_buffers().iter().map(Buffer::len).sum();
        let wasteful =
            held > OBJECT_ALIGN as usize && held / VIEW_WASTE_MAX > views.total_buffer_bytes_used();
        wasteful.then(|| Arc::new(views.gc()) as ArrayRef)
    }
    let found = match array.data_type() {
        DataType::Utf8View => of::<StringViewType>(array),
        DataType::BinaryView => of::<BinaryViewType>(array),
        _ => None,
    };
    found.unwrap_or_else(|| Arc::clone(array))
}
