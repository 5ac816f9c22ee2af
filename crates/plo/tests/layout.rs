//! The constant parts of the stream form: `schema.bin`, `batch.bin` and `layout.json`.
//!
//! They were written by this test, with `PLASMON_WRITE_SPEC=1`. A change of the first two would be
//! a new version of the format, so if an encoder ever writes the same schema in other bytes, the
//! files stay as they are.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::convert::{IpcSchemaEncoder, try_fb_to_schema};
use arrow_ipc::{Buffer, FieldNode, MessageBuilder, MessageHeader, MetadataVersion};
use arrow_ipc::{MessageArgs, RecordBatchBuilder};
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields, UnionMode};
use flatbuffers::FlatBufferBuilder;
use plasmon_plo::messages::{BATCH_MESSAGE, BODY_LENGTH_AT, BUFFERS_AT, NODES_AT, SCHEMA_MESSAGE};
use serde_json::json;

const NODES: usize = 65;
const BUFFERS: usize = 130;

/// A number that stands nowhere else in the message.
const BODY_LENGTH: i64 = 0x0123_4567_89ab_cdef;

fn field(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, true)
}

fn structure(fields: Vec<Field>) -> DataType {
    DataType::Struct(Fields::from(fields))
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(field("item", item)))
}

fn slots() -> DataType {
    let children = [
        ("null", DataType::Null),
        ("bool", DataType::Boolean),
        ("int", DataType::Int64),
        ("float", DataType::Float64),
        ("str", DataType::Int32),
        ("bytes", DataType::Int32),
        ("node", DataType::Int32),
        ("ref", DataType::Int32),
        ("tensor", DataType::Int32),
        ("ext", DataType::Int32),
    ];
    let fields = children.into_iter().enumerate();
    let fields = fields.map(|(id, (name, kind))| (id as i8, Arc::new(field(name, kind))));
    DataType::Union(fields.collect::<UnionFields>(), UnionMode::Dense)
}

fn schema() -> Schema {
    use DataType::{Binary, Boolean, Float64, Int32, Int64, LargeBinary, UInt8, Utf8};
    let columns = vec![
        ("slots", slots()),
        (
            "nodes",
            structure(vec![
                field("kind", UInt8),
                field("elem", UInt8),
                field("elem2", UInt8),
                field("start", Int32),
                field("length", Int32),
                field("start2", Int32),
            ]),
        ),
        ("i32", Int32),
        ("i64", Int64),
        ("f64", Float64),
        ("bits", Boolean),
        ("strs", Utf8),
        ("refs", Int32),
        ("bins", Binary),
        (
            "classes",
            structure(vec![
                field("source", UInt8),
                field("make", UInt8),
                field("name", Utf8),
                field("version", Int32),
                field("fields", list(Utf8)),
                field("ext", Int32),
            ]),
        ),
        ("dtypes", structure(vec![field("text", Utf8), field("itemsize", Int32)])),
        (
            "tensors",
            structure(vec![
                field("kind", UInt8),
                field("dtype", Int32),
                field("shape", list(Int64)),
                field("strides", list(Int64)),
                field("heap", Int32),
                field("offset", Int64),
            ]),
        ),
        (
            "exts",
            structure(vec![
                field("kind", UInt8),
                field("data", Binary),
                field("heaps", list(Int32)),
            ]),
        ),
        ("heap", LargeBinary),
    ];
    let fields: Vec<Field> =
        columns.into_iter().map(|(name, kind)| field(name, list(kind))).collect();
    let metadata = HashMap::from([
        ("plasmon.format".to_owned(), "plo".to_owned()),
        ("plasmon.version".to_owned(), "1".to_owned()),
    ]);
    Schema::new_with_metadata(fields, metadata)
}

/// A flatbuffer as an encapsulated message of a multiple of 64 bytes.
fn message(flatbuffer: &[u8]) -> Vec<u8> {
    let length = (8 + flatbuffer.len()).next_multiple_of(64) - 8;
    let mut message = vec![0xff; 4];
    message.extend_from_slice(&(length as u32).to_le_bytes());
    message.extend_from_slice(flatbuffer);
    message.resize(8 + length, 0);
    message
}

fn schema_message() -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut builder, &schema());
    let args = MessageArgs {
        version: MetadataVersion::V5,
        header_type: MessageHeader::Schema,
        header: Some(schema.as_union_value()),
        ..MessageArgs::default()
    };
    let root = arrow_ipc::Message::create(&mut builder, &args);
    builder.finish(root, None);
    message(builder.finished_data())
}

fn batch_message() -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let buffers: Vec<Buffer> = (0..BUFFERS).map(|number| Buffer::new(7, number as i64)).collect();
    let nodes: Vec<FieldNode> = (0..NODES).map(|number| FieldNode::new(9, number as i64)).collect();
    let buffers = builder.create_vector(&buffers);
    let nodes = builder.create_vector(&nodes);
    let mut batch = RecordBatchBuilder::new(&mut builder);
    batch.add_length(1);
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    let batch = batch.finish();
    let mut root = MessageBuilder::new(&mut builder);
    root.add_version(MetadataVersion::V5);
    root.add_header_type(MessageHeader::RecordBatch);
    root.add_bodyLength(BODY_LENGTH);
    root.add_header(batch.as_union_value());
    let root = root.finish();
    builder.finish(root, None);
    message(builder.finished_data())
}

/// Where `count` structs of a marker and a number start; fills them with zeros.
fn clear(message: &mut [u8], marker: i64, count: usize) -> usize {
    let image: Vec<u8> = (0..count as i64)
        .flat_map(|number| [marker.to_le_bytes(), number.to_le_bytes()].concat())
        .collect();
    let at = message.windows(image.len()).position(|window| window == image);
    let at = at.expect("the vector is in the message");
    message[at..at + image.len()].fill(0);
    at
}

/// The folder of the specification.
fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/objects")
}

#[test]
fn the_schema_is_the_specified_one() {
    let message = arrow_ipc::root_as_message(&SCHEMA_MESSAGE[8..]).unwrap();
    assert_eq!(try_fb_to_schema(message.header_as_schema().unwrap()).unwrap(), schema());
    assert_eq!(SCHEMA_MESSAGE[..4], [0xff; 4]);
    assert_eq!(SCHEMA_MESSAGE[4..8], (SCHEMA_MESSAGE.len() as u32 - 8).to_le_bytes());
    assert_eq!(SCHEMA_MESSAGE.len() % 64, 0);
}

#[test]
fn the_places_of_the_numbers_are_the_documented_ones() {
    let text = std::fs::read_to_string(spec().join("layout.json")).unwrap();
    let layout: serde_json::Value = serde_json::from_str(&text).unwrap();
    let known = [
        ("schema_bytes", SCHEMA_MESSAGE.len()),
        ("batch_bytes", BATCH_MESSAGE.len()),
        ("body_length_at", BODY_LENGTH_AT),
        ("nodes_at", NODES_AT),
        ("nodes", NODES),
        ("buffers_at", BUFFERS_AT),
        ("buffers", BUFFERS),
    ];
    for (name, value) in known {
        assert_eq!(layout[name], value, "{name}");
    }
}

#[test]
fn the_constant_parts_are_written_on_request() {
    if std::env::var_os("PLASMON_WRITE_SPEC").is_none() {
        return;
    }
    let mut batch = batch_message();
    let image = BODY_LENGTH.to_le_bytes();
    let body_length = batch.windows(8).position(|window| window == image).unwrap();
    batch[body_length..body_length + 8].fill(0);
    let nodes = clear(&mut batch, 9, NODES);
    let buffers = clear(&mut batch, 7, BUFFERS);
    let schema = schema_message();
    let layout = json!({
        "schema_bytes": schema.len(),
        "batch_bytes": batch.len(),
        "body_length_at": body_length,
        "nodes_at": nodes,
        "nodes": NODES,
        "buffers_at": buffers,
        "buffers": BUFFERS,
    });
    std::fs::write(spec().join("schema.bin"), schema).unwrap();
    std::fs::write(spec().join("batch.bin"), batch).unwrap();
    std::fs::write(spec().join("layout.json"), format!("{layout:#}\n")).unwrap();
}
