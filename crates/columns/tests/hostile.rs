//! Streams that another process wrote to do harm: each is refused with an error, before an array
//! is made of it and before anything is allocated by its numbers.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::Buffer;
use arrow_data::ArrayDataBuilder;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use plasmon_columns::{into_reader, read_stream};

/// Batches of one column.
fn stream(arrays: &[ArrayRef], options: IpcWriteOptions) -> Vec<u8> {
    let field = Field::new("x", arrays[0].data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    for array in arrays {
        let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap();
        writer.write(&batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn plain(array: impl Array + 'static) -> Vec<u8> {
    stream(&[Arc::new(array)], IpcWriteOptions::default())
}

fn found(bytes: Vec<u8>) -> ArrayRef {
    let (_, batches) = read_stream(Buffer::from_vec(bytes)).unwrap();
    Arc::clone(batches[0].column(0))
}

fn refused(bytes: Vec<u8>) -> String {
    read_stream(Buffer::from_vec(bytes)).unwrap_err().to_string()
}

/// The stream without its end.
fn open_ended(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    bytes
}

/// Where these bytes are in the stream.
fn place(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut windows = bytes.windows(wanted.len()).enumerate();
    windows.find(|(_, window)| *window == wanted).unwrap().0
}

/// A second schema was taken in the place of the first, and the batches before it stayed: bytes
/// were handed to consumers as numbers of 8 bytes, which read seven times as far as there was data.
#[test]
fn a_stream_has_one_schema() {
    let bytes = open_ended(plain(Int8Array::from(vec![0; 1000])));
    let other = stream(&[Arc::new(Int64Array::from(vec![0; 0]))], IpcWriteOptions::default());
    assert!(refused([bytes.clone(), other].concat()).contains("two schemas"));
    // The same one is one too many as well.
    let again = plain(Int8Array::from(vec![1]));
    assert!(refused([bytes, again].concat()).contains("two schemas"));
}

#[test]
fn a_batch_of_another_schema_is_not_handed_on() {
    let batch = |array: ArrayRef| {
        let schema = Schema::new(vec![Field::new("x", array.data_type().clone(), true)]);
        RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap()
    };
    let narrow = batch(Arc::new(Int8Array::from(vec![1])));
    let wide = batch(Arc::new(Int64Array::from(vec![1])));
    assert!(into_reader((wide.schema(), vec![wide.clone(), narrow])).is_err());
    let mut reader = into_reader((wide.schema(), vec![wide.clone()])).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), wide);
}

/// The length in front of a compressed buffer was allocated as it stood: 2^60 ended the process.
#[test]
fn compressed_buffers_are_bounded_by_their_bytes() {
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let numbers = Int64Array::from(vec![7; 10_000]);
        let bytes = stream(&[Arc::new(numbers.clone())], options);
        assert_eq!(found(bytes.clone()).as_ref(), &numbers as &dyn Array);
        let at = place(&bytes, &80_000_i64.to_le_bytes());
        for claimed in [1_i64 << 60, 1 << 40, 1 << 31, 79_999, 80_001, -2] {
            let mut bytes = bytes.clone();
            bytes[at..at + 8].copy_from_slice(&claimed.to_le_bytes());
            refused(bytes);
        }
    }
}

#[test]
fn dictionaries_in_instalments_are_one() {
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let keyed = |words: Vec<&'static str>, keys: Vec<i8>| -> ArrayRef {
        let words = Arc::new(StringArray::from(words));
        Arc::new(DictionaryArray::<Int8Type>::new(keys.into(), words))
    };
    let arrays = [keyed(vec!["a"], vec![0, 0]), keyed(vec!["a", "b"], vec![1, 0])];
    let (_, batches) = read_stream(Buffer::from_vec(stream(&arrays, options))).unwrap();
    for (batch, array) in batches.iter().zip(&arrays) {
        assert_eq!(batch.column(0), array);
    }
}

#[test]
fn offsets_and_lengths_stay_in_their_buffers() {
    let strings = StringArray::from(vec!["one", "two"]);
    let bytes = plain(strings.clone());
    assert_eq!(found(bytes.clone()).as_ref(), &strings as &dyn Array);
    let offsets: Vec<u8> = [0_i32, 3, 6].iter().flat_map(|end| end.to_le_bytes()).collect();
    let at = place(&bytes, &offsets);
    for wrong in [7_i32, i32::MAX, -1, 2] {
        let mut bytes = bytes.clone();
        bytes[at + 8..at + 12].copy_from_slice(&wrong.to_le_bytes());
        refused(bytes);
    }
    let mut not_text = bytes.clone();
    let at = place(&bytes, b"onetwo");
    not_text[at] = 0xff;
    refused(not_text);
    for length in 0..bytes.len() - 8 {
        if let Ok((_, batches)) = read_stream(Buffer::from_vec(bytes[..length].to_vec())) {
            assert!(batches.is_empty(), "{length} of {} bytes", bytes.len());
        }
    }
}

/// Nulls take no bytes, so nothing but a limit keeps their number small: lists of a fixed size were
/// multiplied with it, and masks of that many bits made.
#[test]
fn values_without_bytes_are_limited() {
    let rows = |count: usize| {
        let bytes = plain(NullArray::new(12_345));
        let wanted = 12_345_i64.to_le_bytes();
        let mut out = bytes.clone();
        for at in 0..bytes.len() - 8 {
            if bytes[at..at + 8] == wanted {
                out[at..at + 8].copy_from_slice(&(count as i64).to_le_bytes());
            }
        }
        out
    };
    assert_eq!(found(rows(1 << 31)).len(), 1 << 31);
    refused(rows(1 << 62));
}

/// Arrow panicked over offsets of lists with half an offset after them.
#[test]
fn half_a_value_is_left_out() {
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let values = Arc::new(Int8Array::from(vec![1, 2, 3]));
    let lists = ListViewArray::new(item, vec![0].into(), vec![3].into(), values, None);
    let mut bytes = plain(lists.clone());
    // The lengths of the two buffers, of 4 bytes each, become 5.
    let four = 4_i64.to_le_bytes();
    for at in 0..bytes.len() - 8 {
        if bytes[at..at + 8] == four {
            bytes[at] = 5;
        }
    }
    assert_eq!(found(bytes).as_ref(), &lists as &dyn Array);
}

#[test]
fn misaligned_buffers_are_copied_and_read() {
    let numbers = Int64Array::from(vec![1, 2, 3]);
    let bytes = plain(numbers.clone());
    let shifted = Buffer::from_vec([&[0_u8], bytes.as_slice()].concat()).slice(1);
    let (_, batches) = read_stream(shifted).unwrap();
    assert_eq!(batches[0].column(0).as_ref(), &numbers as &dyn Array);
}

/// What is checked is copied where a writer could still change it; numbers stay where they are.
#[test]
fn checks_can_be_of_copies() {
    // The public way to it is an object of a store of level `leased`: see `shared.rs`.
    let checks = plasmon_columns::Checks::at(plasmon_client::Level::Leased);
    assert!(checks.copy);
    for level in [plasmon_client::Level::Shared, plasmon_client::Level::Strict] {
        assert!(!plasmon_columns::Checks::at(level).copy);
    }
    let mut build = checks.build;
    let empty = ArrayDataBuilder::new(DataType::Int8).len(1);
    assert!(build(empty).is_err(), "everything is checked");
}
