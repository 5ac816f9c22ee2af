//! Arrow IPC streams that lie in one object: read by the usual decoder, which knows all that other
//! writers may have done (compressed buffers, old versions, dictionaries in instalments).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_data::UnsafeFlag;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary_impl};
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};

const CONTINUATION: u32 = u32::MAX;

/// Decodes an IPC stream that lies in memory as a whole.
pub(crate) struct Decoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, Arc<dyn Array>>,
    batches: Vec<RecordBatch>,
    skip_validation: UnsafeFlag,
}

impl Decoder {
    pub(crate) fn new(skip_validation: UnsafeFlag) -> Self {
        let (dictionaries, batches) = (HashMap::new(), Vec::new());
        Self { schema: None, dictionaries, batches, skip_validation }
    }

    pub(crate) fn run(
        mut self,
        bytes: &Buffer,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
        let mut at = 0;
        while let Some((header, body_at)) = next_header(bytes, at)? {
            let message = root_as_message(header)
                .map_err(|error| ArrowError::IpcError(format!("a bad message: {error}")))?;
            let body_bytes = usize::try_from(message.bodyLength()).map_err(|_| cut_short())?;
            at = body_at.checked_add(body_bytes).ok_or_else(cut_short)?;
            if at > bytes.len() {
                return Err(cut_short());
            }
            self.take(message, &bytes.slice_with_length(body_at, body_bytes))?;
        }
        Ok((self.schema.ok_or_else(no_schema)?, self.batches))
    }

    fn take(&mut self, message: Message<'_>, body: &Buffer) -> Result<(), ArrowError> {
        let version = message.version();
        match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(no_schema)?;
                self.schema = Some(Arc::new(arrow_ipc::convert::try_fb_to_schema(schema)?));
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(cut_short)?;
                let schema = self.schema.as_deref().ok_or_else(no_schema)?;
                let (known, skip) = (&mut self.dictionaries, self.skip_validation.clone());
                read_dictionary_impl(body, batch, schema, known, &version, false, skip)?;
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(cut_short)?;
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let known = &self.dictionaries;
                let decoder = RecordBatchDecoder::try_new(body, batch, schema, known, &version)?
                    .with_skip_validation(self.skip_validation.clone());
                self.batches.push(decoder.read_record_batch()?);
            }
            other => {
                let text = format!("a message of a kind that streams do not have: {other:?}");
                return Err(ArrowError::IpcError(text));
            }
        }
        Ok(())
    }
}

fn cut_short() -> ArrowError {
    ArrowError::IpcError("the stream is cut short".to_owned())
}

fn no_schema() -> ArrowError {
    ArrowError::IpcError("the stream has no schema".to_owned())
}

/// The header of the message at `at` and where its body starts; `None` at the end of the stream.
fn next_header(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ArrowError> {
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    if at == bytes.len() {
        return Ok(None);
    }
    let first = word(at).ok_or_else(cut_short)?;
    // Writers before Arrow 0.15 left the continuation mark out.
    let (length, start) = match first {
        CONTINUATION => (word(at + 4).ok_or_else(cut_short)?, at + 8),
        length => (length, at + 4),
    };
    if length == 0 {
        return Ok(None);
    }
    let end = start.checked_add(length as usize).ok_or_else(cut_short)?;
    let header = bytes.get(start..end).ok_or_else(cut_short)?;
    Ok(Some((header, end)))
}
