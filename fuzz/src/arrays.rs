//! Arrays of every type, their streams, and the way through everything that was accepted.

use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Int64Builder, LargeListBuilder, ListBuilder, MapBuilder, StringBuilder,
};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, UnionFields};
use plasmon_columns::Batches;

/// One array of each kind, of four values.
pub fn samples() -> Vec<ArrayRef> {
    let words = [Some("one"), None, Some("a longer text than views hold"), Some("")];
    let bytes = words.map(|word| word.map(str::as_bytes));
    let numbers = || Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
    let keyed: DictionaryArray<Int8Type> = words.into_iter().collect();
    let ends = Int32Array::from(vec![1, 4]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &StringArray::from(vec!["a", "b"]));
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(4)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None])),
        Arc::new(Int8Array::from(vec![1, 2, 3, 4])),
        Arc::new(numbers()),
        Arc::new(Decimal128Array::from(vec![1, 2, 3, 4])),
        Arc::new(StringArray::from(words.to_vec())),
        Arc::new(LargeStringArray::from(words.to_vec())),
        Arc::new(BinaryArray::from(bytes.to_vec())),
        Arc::new(StringViewArray::from(words.to_vec())),
        Arc::new(BinaryViewArray::from(bytes.to_vec())),
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8; 3]; 4].into_iter()).expect("made")),
        Arc::new(keyed),
        Arc::new(runs.expect("made")),
    ];
    let mut lists = ListBuilder::new(Int64Builder::new());
    let mut large = LargeListBuilder::new(StringBuilder::new());
    let mut pairs = FixedSizeListBuilder::new(Int64Builder::new(), 2);
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for n in 0..4_i64 {
        lists.values().append_value(n);
        lists.append(n != 1);
        large.values().append_value("x");
        large.append(true);
        pairs.values().append_value(n);
        pairs.values().append_null();
        pairs.append(n != 2);
        maps.keys().append_value(n.to_string());
        maps.values().append_value(n);
        maps.append(true).expect("as many keys as values");
    }
    all.extend([Arc::new(lists.finish()) as ArrayRef, Arc::new(large.finish())]);
    all.extend([Arc::new(pairs.finish()) as ArrayRef, Arc::new(maps.finish())]);
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let (offsets, sizes) = (vec![0, 2, 1, 0], vec![2, 2, 1, 0]);
    let views = ListViewArray::new(item, offsets.into(), sizes.into(), Arc::new(numbers()), None);
    all.push(Arc::new(views));
    let fields =
        vec![Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(numbers()), Arc::new(StringArray::from(words.to_vec()))];
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let structure = StructArray::new(Fields::from(fields.clone()), columns.clone(), Some(nulls));
    all.push(Arc::new(structure));
    let kinds = || UnionFields::try_new([0, 1], fields.clone()).expect("two types");
    let ids: ScalarBuffer<i8> = vec![0, 1, 1, 0].into();
    let places: ScalarBuffer<i32> = vec![0, 0, 1, 1].into();
    for places in [None, Some(places)] {
        let union = UnionArray::try_new(kinds(), ids.clone(), places, columns.clone());
        all.push(Arc::new(union.expect("made")));
    }
    all
}

/// A table of one column in two batches, as a stream.
pub fn stream(array: &ArrayRef, compression: Option<CompressionType>) -> Vec<u8> {
    let field = Field::new("x", array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("known");
    let writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options);
    let mut writer = writer.expect("a stream");
    for rows in [4, 2] {
        let column = array.slice(0, rows);
        let batch = RecordBatch::try_new(schema.clone(), vec![column]).expect("a batch");
        writer.write(&batch).expect("written");
    }
    writer.into_inner().expect("ended")
}

/// Streams of all samples, plain and compressed.
pub fn streams() -> Vec<Vec<u8>> {
    let codecs = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    let arrays = samples();
    codecs.iter().flat_map(|codec| arrays.iter().map(|array| stream(array, *codec))).collect()
}

/// Rows of more than this are not walked: nulls take no memory, and any number of them is a table.
const ROWS_WALKED_MAX: usize = 1 << 12;

/// Walks everything: it must be valid, and the same once it was written and read again.
pub fn walk((schema, batches): &Batches) {
    for batch in batches {
        assert_eq!(batch.schema_ref(), schema);
        for column in batch.columns() {
            let data = column.to_data();
            data.validate_full().expect("what was accepted is valid");
        }
    }
    if batches.iter().all(|batch| is_small(batch)) {
        again(schema, batches);
    }
}

fn is_small(batch: &RecordBatch) -> bool {
    fn small(data: &arrow_data::ArrayData) -> bool {
        data.len() <= ROWS_WALKED_MAX && data.child_data().iter().all(small)
    }
    batch.num_rows() <= ROWS_WALKED_MAX
        && batch.columns().iter().all(|column| small(&column.to_data()))
}

/// Writes and reads a table, which stays the same.
pub fn again(schema: &SchemaRef, batches: &[RecordBatch]) {
    // The usual writer knows no dictionary that is replaced, nor one in another.
    let Ok(pieces) = plasmon_columns::pieces(schema, batches) else { return };
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
    let found = plasmon_columns::read_stream(Buffer::from_vec(bytes));
    let (_, found) = found.expect("what was written can be read");
    assert_eq!(found.len(), batches.len());
    for (found, batch) in found.iter().zip(batches) {
        for (found, column) in found.columns().iter().zip(batch.columns()) {
            assert_eq!(found.len(), column.len());
        }
    }
}
