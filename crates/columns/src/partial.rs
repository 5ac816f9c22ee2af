//! Some columns of an Arrow IPC stream that is elsewhere, without the rest of it.
//!
//! ```text
//!   headers, message by message ──► which buffers the columns have ──► one read ──► arrays
//! ```
//!
//! A stream has no table of contents: where a message begins is known when the one before it was
//! looked at. Tables are mostly made of batches of one size, so where the next ones would begin is
//! guessed from one batch, and all of these places are read at once. A wrong guess costs a few
//! bytes and one more read: what counts is the walk, from the end of one message to the next.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_schema::{ArrowError, Field, SchemaRef};
use plasmon_arrow_ipc::PREFIX_BYTES;

use crate::checks::{Batches, Checks};
use crate::cursor::{Cursor, children_of};
use crate::error::Result;
use crate::ipc_decode::{Decoder, Projection};
use crate::message::dictionary_number;
use crate::parts::{Stream, cut_short};
use crate::types;

/// The marker before the length of a header.
const CONTINUATION: u32 = u32::MAX;

/// What is read where a header is thought to begin, at the least.
const HEADER_BYTES_MIN: u64 = 4 << 10;

/// What is read at most without knowing how long a header is.
const HEADER_BYTES_GUESSED_MAX: u64 = 1 << 20;

/// Places that are guessed at once.
const GUESSES_MAX: u64 = 1024;

/// Messages of one stream.
const MESSAGES_MAX: usize = 1 << 20;

/// The bytes of a stream, wherever they are.
pub trait StreamSource {
    /// How many there are.
    fn bytes(&self) -> u64;

    /// Whether a read costs next to nothing, so that nothing is read on suspicion.
    fn is_near(&self) -> bool;

    /// These ranges of them, in the order in which they are given.
    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>>;
}

/// A table of which some columns are read.
#[derive(Debug)]
pub struct PartialTable<S> {
    source: S,
    schema: SchemaRef,
    /// Dictionaries and batches, in order, once they are all known.
    messages: Vec<Place>,
    /// Where the first message after the schema begins.
    begin: u64,
    /// Bytes of the stream that were read, by where they begin.
    windows: BTreeMap<u64, Buffer>,
    is_walked: bool,
}

/// A message.
#[derive(Debug)]
struct Place {
    header: Buffer,
    /// Where its body is, and how long.
    body: (u64, u64),
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A dictionary with this number.
    Dictionary(i64),
    /// So many rows.
    Batch(u64),
}

/// Where the next header lies: in these bytes, or not in what was read.
enum Found {
    Header(Buffer, u64),
    End,
    /// So many bytes are needed from there.
    Missing(u64),
}

impl<S: StreamSource> PartialTable<S> {
    /// Reads the schema. `first` are the first bytes of the stream, as far as they are here.
    pub fn open(source: S, first: Buffer) -> Result<Self> {
        let mut table = Self {
            source,
            schema: SchemaRef::new(arrow_schema::Schema::empty()),
            messages: Vec::new(),
            begin: 0,
            windows: BTreeMap::from([(0, first)]),
            is_walked: false,
        };
        let no_schema = || ArrowError::IpcError("the stream does not begin with a schema".into());
        let (header, body_at) = table.header(0, table.guess(0), 0)?.ok_or_else(no_schema)?;
        let message = types::message(&header)?;
        let found = message.header_as_schema().ok_or_else(no_schema)?;
        table.schema = Arc::new(types::schema(found)?);
        table.begin = table.end_of(body_at, message.bodyLength())?;
        Ok(table)
    }

    /// The schema of the whole table.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Where the bytes come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// These columns, by their places, in this order; of `rows`, or of all. The batches are those
    /// of the stream, cut where the rows begin and end.
    pub fn read(
        &mut self,
        columns: &[usize],
        rows: Option<Range<u64>>,
        checks: &mut Checks<'_>,
    ) -> Result<Batches> {
        self.walk()?;
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let projection = self.projection(&sorted)?;
        let wanted = |place: &&Place| match place.kind {
            Kind::Dictionary(number) => projection.dictionaries.contains(&number),
            Kind::Batch(_) => true,
        };
        let (mut at, mut kept) = (0_u64, Vec::new());
        for place in self.messages.iter().filter(wanted) {
            match place.kind {
                Kind::Dictionary(_) => kept.push((place, 0..0)),
                Kind::Batch(count) => {
                    let whole = at..at.saturating_add(count);
                    at = whole.end;
                    let all = 0..u64::MAX;
                    let cut = rows.as_ref().unwrap_or(&all);
                    let (from, to) = (cut.start.max(whole.start), cut.end.min(whole.end));
                    if from < to || (rows.is_none() && count == 0) {
                        kept.push((place, from - whole.start..to - whole.start));
                    }
                }
            }
        }
        let mut ranges = Vec::new();
        for (place, _) in &kept {
            ranges_of(place, &self.schema, &projection.columns, &mut ranges)?;
        }
        let ranges = merged(ranges);
        let buffers = self.source.read(&ranges)?;
        let parts = ranges.iter().map(|range| range.start).zip(buffers).collect();
        let stream = Stream::new(parts, self.source.bytes());
        let schema = Arc::clone(&projection.schema);
        let mut decoder = Decoder::of_columns(&stream, &self.schema, projection, checks);
        let mut batches = Vec::new();
        for (place, rows) in kept {
            let message = types::message(&place.header)?;
            if let Some(batch) = decoder.take(message, place.body)? {
                batches.push(cut(batch, &rows)?);
            }
        }
        in_order(&schema, batches, columns, &sorted)
    }

    fn projection(&self, sorted: &[usize]) -> Result<Arc<Projection>> {
        let mut columns = vec![false; self.schema.fields().len()];
        let mut dictionaries = HashSet::new();
        for at in sorted {
            let outside = || ArrowError::SchemaError(format!("there is no column {at}"));
            *columns.get_mut(*at).ok_or_else(outside)? = true;
            note_dictionaries(self.schema.field(*at), &mut dictionaries);
        }
        let schema = Arc::new(self.schema.project(sorted)?);
        Ok(Arc::new(Projection { columns, dictionaries, schema }))
    }

    /// Finds all messages.
    fn walk(&mut self) -> Result<()> {
        if self.is_walked {
            return Ok(());
        }
        self.messages.clear();
        let mut at = self.begin;
        let (mut guess, mut stride, mut guesses) = (self.guess(0), 0, GUESSES_MAX);
        loop {
            let before = self.windows.len();
            let left = self.source.bytes().saturating_sub(at);
            let ahead = left.checked_div(stride).unwrap_or(0).min(guesses);
            let found = self.header_ahead(at, guess, (stride, ahead))?;
            let Some((header, body_at)) = found else { break };
            if self.windows.len() > before && stride > 0 {
                // The guesses before were wrong, or these are the first: fewer next time.
                guesses = (guesses / 4).max(4);
            }
            // No other process can change it while it is looked at.
            let header = Buffer::from(header.as_slice());
            let message = types::message(&header)?;
            let end = self.end_of(body_at, message.bodyLength())?;
            let kind = match message.header_type() {
                MessageHeader::DictionaryBatch => Kind::Dictionary(
                    message.header_as_dictionary_batch().ok_or_else(cut_short)?.id(),
                ),
                MessageHeader::RecordBatch => {
                    let batch = message.header_as_record_batch().ok_or_else(cut_short)?;
                    stride = if self.source.is_near() { 0 } else { end - at };
                    guess = self.guess(body_at - at);
                    Kind::Batch(u64::try_from(batch.length()).map_err(|_| cut_short())?)
                }
                other => {
                    let text = format!("the stream has a message of the kind {other:?}");
                    return Err(ArrowError::NotYetImplemented(text).into());
                }
            };
            if self.messages.len() >= MESSAGES_MAX {
                let text = format!("the stream has more than {MESSAGES_MAX} messages");
                return Err(ArrowError::IpcError(text).into());
            }
            self.messages.push(Place { header, body: (body_at, end - body_at), kind });
            at = end;
        }
        self.windows.clear();
        self.is_walked = true;
        Ok(())
    }

    /// How much is read where a header begins, of which so many bytes are likely.
    fn guess(&self, likely: u64) -> u64 {
        match self.source.is_near() {
            true => PREFIX_BYTES as u64,
            false => likely.clamp(HEADER_BYTES_MIN, HEADER_BYTES_GUESSED_MAX),
        }
    }

    /// The end of a body.
    fn end_of(&self, body_at: u64, bytes: i64) -> Result<u64> {
        let end = u64::try_from(bytes).ok().and_then(|bytes| body_at.checked_add(bytes));
        Ok(end.filter(|end| *end <= self.source.bytes()).ok_or_else(cut_short)?)
    }

    /// As [`Self::header`]; where something has to be read, the places of headers that may follow
    /// at such distances are read, too.
    fn header_ahead(
        &mut self,
        at: u64,
        guess: u64,
        (stride, ahead): (u64, u64),
    ) -> Result<Option<(Buffer, u64)>> {
        if let Found::Missing(_) = self.find(at)? {
            let end = self.source.bytes();
            let places = (0..=ahead).map_while(|next| at.checked_add(next.checked_mul(stride)?));
            let windows = places.take_while(|at| *at < end).map(|at| at..(at + guess).min(end));
            self.read_windows(&merged(windows.collect()))?;
        }
        self.header(at, guess, 0)
    }

    /// The header of the message at `at` and where its body begins; `None` at the end.
    fn header(&mut self, at: u64, guess: u64, tries: u32) -> Result<Option<(Buffer, u64)>> {
        match self.find(at)? {
            Found::End => Ok(None),
            Found::Header(header, body_at) => Ok(Some((header, body_at))),
            // The prefix, then all of it.
            Found::Missing(bytes) if tries < 3 => {
                let end = at.saturating_add(bytes.max(guess));
                if at + bytes > self.source.bytes() {
                    return Err(cut_short().into());
                }
                let range = at..end.min(self.source.bytes());
                self.read_windows(std::slice::from_ref(&range))?;
                self.header(at, guess, tries + 1)
            }
            Found::Missing(_) => Err(cut_short().into()),
        }
    }

    fn read_windows(&mut self, ranges: &[Range<u64>]) -> Result<()> {
        let found = self.source.read(ranges)?;
        self.windows.extend(ranges.iter().map(|range| range.start).zip(found));
        Ok(())
    }

    /// What was read from a place on.
    fn window(&self, at: u64) -> &[u8] {
        let before = self.windows.range(..=at).next_back();
        let found = before.and_then(|(start, bytes)| bytes.get((at - start) as usize..));
        found.unwrap_or_default()
    }

    fn find(&self, at: u64) -> Result<Found> {
        if at >= self.source.bytes() {
            return Ok(Found::End);
        }
        let bytes = self.window(at);
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        let (length, prefix) = match word(0) {
            Some(CONTINUATION) => (word(4), 8),
            // Writers before Arrow 0.15 left the continuation mark out.
            other => (other, 4),
        };
        let Some(length) = length else {
            // A stream may end with the four bytes of a length.
            let left = self.source.bytes() - at;
            let needed = if bytes.len() < 4 { 4 } else { 8 };
            return if left < needed {
                Err(cut_short().into())
            } else {
                Ok(Found::Missing(8.min(left)))
            };
        };
        if length == 0 {
            return Ok(Found::End);
        }
        let end = prefix + u64::from(length);
        if self.source.bytes() - at < end {
            return Err(cut_short().into());
        }
        if (bytes.len() as u64) < end {
            return Ok(Found::Missing(end));
        }
        let header = Buffer::from(&bytes[prefix as usize..end as usize]);
        Ok(Found::Header(header, at + end))
    }
}

/// Where the buffers of a message are that some columns need.
fn ranges_of(
    place: &Place,
    schema: &SchemaRef,
    columns: &[bool],
    ranges: &mut Vec<Range<u64>>,
) -> Result<()> {
    let message = types::message(&place.header)?;
    let (body_at, body_bytes) = place.body;
    let mut outside = false;
    let mut note = |(offset, bytes): (u64, u64)| {
        let end = offset.checked_add(bytes).filter(|end| *end <= body_bytes);
        match end {
            Some(end) if bytes > 0 => ranges.push(body_at + offset..body_at + end),
            Some(_) => {}
            None => outside |= bytes > 0,
        }
    };
    match place.kind {
        Kind::Dictionary(_) => {
            let batch = message.header_as_dictionary_batch().ok_or_else(cut_short)?;
            let data = batch.data().ok_or_else(cut_short)?;
            // All of its buffers: it is one array.
            for buffer in data.buffers().into_iter().flatten() {
                let number = |value: i64| u64::try_from(value).map_err(|_| cut_short());
                note((number(buffer.offset())?, number(buffer.length())?));
            }
        }
        Kind::Batch(_) => {
            let batch = message.header_as_record_batch().ok_or_else(cut_short)?;
            let mut cursor = Cursor::new(batch, message.version())?;
            for (field, is_wanted) in schema.fields().iter().zip(columns) {
                if *is_wanted {
                    cursor.pass(field, &mut note)?;
                } else {
                    cursor.pass(field, &mut |_| {})?;
                }
            }
        }
    }
    if outside { Err(cut_short().into()) } else { Ok(()) }
}

/// The dictionaries that a field needs, at any depth.
fn note_dictionaries(field: &Field, into: &mut HashSet<i64>) {
    let mut data_type = field.data_type();
    if let arrow_schema::DataType::Dictionary(_, values) = data_type {
        into.extend(dictionary_number(field));
        data_type = values;
    }
    children_of(data_type).into_iter().for_each(|child| note_dictionaries(child, into));
}

/// Ranges in order, those that overlap as one.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut out: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

fn cut(batch: RecordBatch, rows: &Range<u64>) -> Result<RecordBatch> {
    let count = batch.num_rows() as u64;
    let fits = rows.start <= rows.end && rows.end <= count;
    if !fits {
        return Err(cut_short().into());
    }
    Ok(batch.slice(rows.start as usize, (rows.end - rows.start) as usize))
}

/// Columns as they were asked for, of those that were read.
fn in_order(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    columns: &[usize],
    sorted: &[usize],
) -> Result<Batches> {
    if columns == sorted {
        return Ok((Arc::clone(schema), batches));
    }
    let places: Vec<usize> =
        columns.iter().filter_map(|column| sorted.binary_search(column).ok()).collect();
    let schema = Arc::new(schema.project(&places)?);
    let project = |batch: RecordBatch| {
        let columns = places.iter().map(|at| Arc::clone(batch.column(*at))).collect();
        let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)
    };
    let batches = batches.into_iter().map(project).collect::<std::result::Result<_, _>>()?;
    Ok((schema, batches))
}

#[cfg(test)]
mod tests;
