//! The Arrow IPC file of a table, but for its bodies.
//!
//! ```text
//! 0       ARROW1 00 00
//!         the schema's message, padded to a multiple of 64
//!         the first record batch's message, padded to a multiple of 64
//! body    the columns' buffers, each at a multiple of 64; no validity buffers
//!         for each further extent its record batch's message and its body
//! foot    end of stream, footer, its length, ARROW1
//! ```
//!
//! A stream is the same without what follows `ARROW1` and `end of stream`: see [`Stream`].

use std::collections::HashMap;

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::{Block, Buffer, FieldNode, FooterBuilder, MetadataVersion};
use flatbuffers::FlatBufferBuilder;
use plasmon_arrow_ipc::{Batch, END, PREFIX_BYTES, push_framed, schema_message};

use crate::layout::{Extent, Extents, extents, is_aligned, message_bytes_of};
use crate::table::{ALIGNMENT_BYTES, Table};

pub(crate) const MAGIC: &[u8; 6] = b"ARROW1";

/// How much room the schema has, so that names and metadata can change where the file is.
const SCHEMA_BYTES: usize = 1024;

/// The entry of the schema's metadata that names the writer of the file.
pub(crate) const VERSION_KEY: &str = "plasmon.hdf5.version";

/// The bytes before, between and after the bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// From the start of the file to the first body.
    pub head: Vec<u8>,
    /// From the first body to the foot.
    pub body_bytes: u64,
    /// After the bodies.
    pub foot: Vec<u8>,
    /// The messages of further record batches, and where they are in the file.
    pub(crate) later: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// The file of a table, with more entries for the schema's metadata.
    #[must_use]
    pub fn of(table: &Table, more: &[(String, String)]) -> Self {
        let schema = schema_message(&table.schema(metadata(more)));
        let more_bytes: usize = more.iter().map(|(key, text)| key.len() + text.len()).sum();
        let least = SCHEMA_BYTES + more_bytes;
        let end = (MAGIC.len() + 2 + PREFIX_BYTES + schema.len()).max(least);
        let body_at =
            end.next_multiple_of(ALIGNMENT_BYTES as usize) as u64 + message_bytes_of(table);
        Self::framed(table, more, &schema, extents(table, body_at, 0))
    }

    /// The file of a table whose body begins where it does already, and a single column of which
    /// has room for `capacity` rows; `None` when the schema does not fit before it.
    #[must_use]
    pub fn fitting(
        table: &Table,
        more: &[(String, String)],
        body_at: u64,
        capacity: u64,
    ) -> Option<Self> {
        let schema = schema_message(&table.schema(metadata(more)));
        let room = body_at.checked_sub(message_bytes_of(table))?;
        let fits =
            is_aligned(body_at) && (MAGIC.len() + 2 + PREFIX_BYTES + schema.len()) as u64 <= room;
        fits.then(|| Self::framed(table, more, &schema, extents(table, body_at, capacity)))
    }

    fn framed(table: &Table, more: &[(String, String)], schema: &[u8], extents: Extents) -> Self {
        let mut head = Vec::new();
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&[0, 0]);
        let batch_at = usize::try_from(extents.first().message_at).unwrap_or(0);
        push_framed(&mut head, schema, batch_at);
        let mut messages = extents.iter().map(|extent| batch(table, &extent));
        head.extend(messages.next().unwrap_or_default());
        let later: Vec<(u64, Vec<u8>)> =
            extents.iter().skip(1).map(|extent| extent.message_at).zip(messages).collect();
        let blocks: Vec<Block> = extents.iter().map(|extent| block(&extent)).collect();
        let foot = foot(table, metadata(more), &blocks);
        let end = extents.last().end();
        Self { body_bytes: end - head.len() as u64, head, foot, later }
    }

    /// Where the first body begins.
    #[must_use]
    pub fn body_offset(&self) -> u64 {
        self.head.len() as u64
    }

    /// Where the foot begins.
    pub(crate) fn foot_at(&self) -> u64 {
        self.body_offset() + self.body_bytes
    }

    /// How long the file is.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.foot_at() + self.foot.len() as u64
    }
}

/// The Arrow IPC stream of a table that does not grow, but for its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Before the body, which begins at a multiple of 64.
    pub head: Vec<u8>,
    /// After the body.
    pub foot: Vec<u8>,
    /// Where the record batch's message begins in the head.
    batch_at: usize,
}

impl Stream {
    /// The stream of a table, with more entries for the schema's metadata.
    #[must_use]
    pub fn of(table: &Table, more: &[(String, String)]) -> Self {
        let mut head = Vec::new();
        push_framed(&mut head, &schema_message(&table.schema(metadata(more))), 0);
        let batch_at = head.len();
        for extent in extents(table, 0, 0).iter() {
            push_framed(&mut head, &batch_message(table, &extent), 0);
        }
        let foot = END.to_vec();
        Self { head, foot, batch_at }
    }

    /// Whether the head of another stream describes the same rows and columns, whatever these are
    /// called.
    #[must_use]
    pub fn agrees(&self, head: &[u8]) -> bool {
        head.ends_with(&self.head[self.batch_at..])
    }

    /// The name of the first column in the head of a stream.
    #[must_use]
    pub fn first_column(head: &[u8]) -> Option<String> {
        let length = u32::from_le_bytes(head.get(4..PREFIX_BYTES)?.try_into().ok()?);
        let message = head.get(PREFIX_BYTES..)?.get(..usize::try_from(length).ok()?)?;
        let message = arrow_ipc::root_as_message(message).ok()?;
        let fields = message.header_as_schema()?.fields()?;
        fields.iter().next()?.name().map(str::to_owned)
    }
}

/// The message of an extent's record batch, as long as there is room for it.
pub(crate) fn batch(table: &Table, extent: &Extent) -> Vec<u8> {
    let mut message = Vec::new();
    let room = extent.body_at - extent.message_at;
    push_framed(&mut message, &batch_message(table, extent), usize::try_from(room).unwrap_or(0));
    message
}

fn metadata(more: &[(String, String)]) -> HashMap<String, String> {
    let mut metadata: HashMap<String, String> = more.iter().cloned().collect();
    metadata.insert(VERSION_KEY.to_owned(), "1".to_owned());
    metadata
}

fn block(extent: &Extent) -> Block {
    let message_bytes = i32::try_from(extent.body_at - extent.message_at).unwrap_or(i32::MAX);
    Block::new(signed(extent.message_at), message_bytes, signed(extent.body_bytes))
}

fn signed(number: u64) -> i64 {
    // A table has at most 2^62 bytes.
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn batch_message(table: &Table, extent: &Extent) -> Vec<u8> {
    let (mut nodes, mut buffers) = (Vec::new(), Vec::new());
    let rows = extent.rows(table);
    let places = table.places(extent.capacity);
    for ((place, column), opened) in places.iter().zip(table.columns()).zip(table.structures()) {
        let none = Buffer::new(signed(place.offset), 0);
        for _ in 0..opened {
            nodes.push(FieldNode::new(signed(rows), 0));
            buffers.push(none);
        }
        nodes.push(FieldNode::new(signed(rows), 0));
        buffers.push(none);
        if column.is_list(table.shape()) {
            nodes.push(FieldNode::new(signed(rows * column.row_parts(table.shape())), 0));
            buffers.push(none);
        }
        let bytes = rows * table.row_elements() * column.bytes() as u64;
        buffers.push(Buffer::new(signed(place.offset), signed(bytes)));
    }
    let batch = Batch {
        rows: signed(rows),
        nodes: &nodes,
        buffers: &buffers,
        variadic: &[],
        body_bytes: signed(extent.body_bytes),
    };
    batch.message(None)
}

fn foot(table: &Table, metadata: HashMap<String, String>, blocks: &[Block]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let mut tracker = DictionaryTracker::new(true);
    let schema = IpcSchemaEncoder::new()
        .with_dictionary_tracker(&mut tracker)
        .schema_to_fb_offset(&mut builder, &table.schema(metadata));
    let dictionaries = builder.create_vector::<Block>(&[]);
    let batches = builder.create_vector(blocks);
    let mut footer = FooterBuilder::new(&mut builder);
    footer.add_version(MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_dictionaries(dictionaries);
    footer.add_recordBatches(batches);
    let footer = footer.finish();
    builder.finish(footer, None);
    let data = builder.finished_data();
    let mut foot = Vec::with_capacity(data.len() + 18);
    foot.extend_from_slice(&END);
    foot.extend_from_slice(data);
    foot.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
    foot.extend_from_slice(MAGIC);
    foot
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use arrow_array::types::{Float32Type, Int64Type};
    use arrow_array::{Array, cast::AsArray};
    use arrow_ipc::reader::FileReader;

    use super::*;
    use crate::column::{Base, Column, Number};

    fn read(image: &Image, body: &[u8]) -> arrow_array::RecordBatch {
        let bytes = [&image.head[..], body, &image.foot[..]].concat();
        assert_eq!(bytes.len() as u64, image.file_bytes());
        let mut reader = FileReader::try_new(Cursor::new(bytes), None).expect("an Arrow file");
        assert_eq!(reader.num_batches(), 1);
        reader.next().expect("one batch").expect("a good one")
    }

    #[test]
    fn arrow_reads_what_the_image_frames() {
        let columns =
            vec![Column::of_number("x", Number::F32), Column::of_number("id", Number::I64)];
        let table = Table::new(vec![3], columns).expect("a table");
        let image = Image::of(&table, &[("a".to_owned(), "b".to_owned())]);
        assert_eq!(image.body_offset() % 64, 0);
        let mut body = vec![0; usize::try_from(image.body_bytes).expect("small")];
        for (at, value) in [1.5_f32, 2.5, 3.5].iter().enumerate() {
            body[at * 4..][..4].copy_from_slice(&value.to_le_bytes());
        }
        body[64 + 16..][..8].copy_from_slice(&7_i64.to_le_bytes());
        let batch = read(&image, &body);
        assert_eq!(batch.column(0).as_primitive::<Float32Type>().values(), &[1.5, 2.5, 3.5]);
        assert_eq!(batch.column(1).as_primitive::<Int64Type>().values(), &[0, 0, 7]);
        assert_eq!(batch.schema().metadata()["a"], "b");
    }

    #[test]
    fn arrow_reads_the_stream_as_well() {
        let column = |name: &str| Column::of_number(name, Number::F32);
        let table = |name: &str| Table::new(vec![3], vec![column(name)]).expect("a table");
        let stream = Stream::of(&table("x"), &[("a".to_owned(), "b".to_owned())]);
        assert_eq!(stream.head.len() % 64, 0);
        let body: Vec<u8> = [1.5_f32, 2.5, 3.5].iter().flat_map(|x| x.to_le_bytes()).collect();
        let bytes = [&stream.head[..], &body, &[0; 52], &stream.foot].concat();
        let mut reader = arrow_ipc::reader::StreamReader::try_new(Cursor::new(bytes), None)
            .expect("an Arrow stream");
        let batch = reader.next().expect("one batch").expect("a good one");
        assert!(reader.next().is_none());
        assert_eq!(batch.column(0).as_primitive::<Float32Type>().values(), &[1.5, 2.5, 3.5]);
        assert_eq!(batch.schema().metadata()["a"], "b");
        assert_eq!(Stream::first_column(&stream.head).as_deref(), Some("x"));
        assert_eq!(Stream::first_column(&stream.head[..40]), None);
        assert!(Stream::of(&table("y"), &[]).agrees(&stream.head));
        let longer = Table::new(vec![4], vec![column("x")]).expect("a table");
        assert!(!Stream::of(&longer, &[]).agrees(&stream.head));
    }

    #[test]
    fn names_change_in_place_while_there_is_room() {
        let named = |name: String| {
            Table::new(vec![3], vec![Column::of_number(&name, Number::F32)]).expect("a table")
        };
        let image = Image::of(&named(String::new()), &[]);
        let renamed = Image::fitting(&named("energy".to_owned()), &[], image.body_offset(), 0);
        let renamed = renamed.expect("room for a name");
        assert_eq!(renamed.body_offset(), image.body_offset());
        let batch = |image: &Image| image.head[SCHEMA_BYTES..].to_vec();
        assert_eq!(batch(&renamed), batch(&image));
        let batch = read(&renamed, &[0; 64]);
        assert_eq!(batch.schema().field(0).name(), "energy");
        let long = named("n".repeat(4096));
        assert_eq!(Image::fitting(&long, &[], image.body_offset(), 0), None);
    }

    #[test]
    fn more_dimensions_are_rows_of_tensors() {
        let columns = vec![Column::of_number("t", Number::U8)];
        let table = Table::new(vec![2, 3, 2], columns).expect("a table");
        let image = Image::of(&table, &[]);
        let body: Vec<u8> = (0..64).collect();
        let batch = read(&image, &body);
        let rows = batch.column(0).as_fixed_size_list();
        assert_eq!((rows.len(), rows.value_length()), (2, 6));
        let second = rows.value(1);
        let values = second.as_primitive::<arrow_array::types::UInt8Type>();
        assert_eq!(values.values(), &[6, 7, 8, 9, 10, 11]);
        let field = batch.schema().field(0).clone();
        assert_eq!(field.metadata()["ARROW:extension:metadata"], "{\"shape\":[3,2]}");
    }

    #[test]
    fn every_kind_of_column_is_framed() {
        let mut nested = Column::of_base("flag", Base::Boolean);
        nested.path = vec!["p".to_owned(), "flag".to_owned()];
        let mut triple = Column::of_number("triple", Number::I16);
        (triple.path, triple.inner) = (vec!["p".to_owned(), "triple".to_owned()], vec![3]);
        let text = Column::of_base("text", Base::Bytes(5)).noted("hdf5.string", "ascii");
        let table = Table::new(vec![2], vec![nested, triple, text]).expect("a table");
        let image = Image::of(&table, &[]);
        let mut body = vec![0; usize::try_from(image.body_bytes).expect("small")];
        body[1] = 1;
        body[64 + 6..][..2].copy_from_slice(&9_i16.to_le_bytes());
        body[128..138].copy_from_slice(b"helloworld");
        let batch = read(&image, &body);
        let inside = batch.column(0).as_struct();
        let flags = inside.column(0).as_primitive::<arrow_array::types::Int8Type>();
        assert_eq!(flags.values(), &[0, 1]);
        let second = inside.column(1).as_fixed_size_list().value(1);
        assert_eq!(second.as_primitive::<arrow_array::types::Int16Type>().values(), &[9, 0, 0]);
        assert_eq!(batch.column(1).as_fixed_size_binary().value(1), b"world");
        assert_eq!(batch.schema().field(1).metadata()["hdf5.string"], "ascii");
    }

    #[test]
    fn extents_are_record_batches() {
        let columns = vec![Column::of_number("a", Number::F64), Column::of_number("b", Number::U8)];
        let table = Table::new(vec![10_000], columns).expect("a table").chunked(vec![7], true);
        let image = Image::of(&table, &[]);
        let mut bytes = image.head.clone();
        for (at, message) in &image.later {
            bytes.resize(usize::try_from(*at).expect("small"), 0);
            bytes.extend_from_slice(message);
        }
        bytes.resize(usize::try_from(image.foot_at()).expect("small"), 0);
        bytes.extend_from_slice(&image.foot);
        let mut reader = FileReader::try_new(Cursor::new(bytes), None).expect("an Arrow file");
        assert_eq!(reader.schema().metadata()["hdf5.chunk"], "7");
        let rows: Vec<usize> = reader.by_ref().map(|one| one.expect("good").num_rows()).collect();
        assert_eq!(rows, [4096, 4096, 1808]);
        for rows in [0, 1] {
            let image = Image::of(&table.with_rows(rows).expect("a table"), &[]);
            let wanted = Image::of(&table, &[]).body_offset();
            assert_eq!(image.body_offset(), wanted, "messages take the same room");
        }
    }
}
