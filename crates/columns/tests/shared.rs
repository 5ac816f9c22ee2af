//! Record batches of arrow-rs whose buffers were made in the store.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use plasmon_client::{Code, PutOptions};
use plasmon_columns::{SharedAllocator, Table, read};
use plasmon_testkit::{TestStore, until};

const NOW: Option<Duration> = Some(Duration::ZERO);

fn batch(allocator: &SharedAllocator, rows: i64) -> RecordBatch {
    let numbers: Vec<i64> = (0..rows).collect();
    let numbers = ScalarBuffer::<i64>::from(allocator.copy_of(&numbers).unwrap());
    let numbers = Int64Array::new(numbers, None);
    let mut text = allocator.buffer(0).unwrap();
    let mut ends = vec![0_i32];
    for row in 0..rows {
        text.extend_from_slice(format!("row {row}").as_bytes()).unwrap();
        ends.push(text.len() as i32);
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(allocator.copy_of(&ends).unwrap()));
    let strings = StringArray::new(ends, text.into_buffer(), None);
    let fields =
        vec![Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
    let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(strings)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn a_batch_is_put_without_a_copy_and_read_elsewhere() {
    for level in ["shared", "leased"] {
        let node = TestStore::with(256 << 20, &[("level", level)]);
        let (store, other) = (node.connect(), node.connect());
        let allocator = SharedAllocator::new(&store);
        let batches = [batch(&allocator, 100_000), batch(&allocator, 1000).slice(10, 500)];
        let schema = batches[0].schema();
        let shared = allocator.put(&schema, &batches, &PutOptions::default()).unwrap();
        assert_eq!(shared.copied_bytes, 0, "{level}: also of a slice");
        assert!(shared.shared_bytes > 100_000 * 8);
        let (found_schema, found) = read(&other.get(&shared.id, NOW).unwrap()).unwrap();
        assert_eq!((found_schema, found.as_slice()), (schema.clone(), &batches[..]));
        // Once more: the same members, held twice.
        let again = allocator.put(&schema, &batches, &PutOptions::default()).unwrap();
        assert_eq!(other.delete(&[shared.id]).unwrap(), [None]);
        drop(found);
        let (_, found) = read(&other.get(&again.id, NOW).unwrap()).unwrap();
        assert_eq!(found, batches);
        drop(found);
        assert_eq!(other.delete(&[again.id]).unwrap(), [None]);
        // Deleted, and still in use here: its memory is not reused.
        let used = other.status().unwrap().used_bytes;
        assert!(used > 100_000 * 8, "{used}");
        assert_eq!(batches[0].num_rows(), 100_000);
        drop(batches);
        until("all is free", || other.status().unwrap().objects == 0);
    }
}

/// At level `leased` a writer of another user keeps its mapping after the seal. What was checked in
/// the object's memory was read there ever after: offsets could be changed in between.
#[test]
fn what_is_checked_is_a_copy_where_its_writer_can_still_write() {
    for (level, copies) in [("shared", false), ("leased", true), ("strict", false)] {
        let node = TestStore::with(64 << 20, &[("level", level)]);
        let store = node.connect();
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(9)]));
        let strings: ArrayRef = Arc::new(StringArray::from(vec!["one", "two", "three"]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"one"[..], b"two", b"three"]));
        let columns = [("numbers", numbers), ("strings", strings), ("bytes", bytes)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let (schema, batches) = (batch.schema(), [batch]);
        let table = Table { schema: &schema, batches: &batches, kind: 0, text: "" };
        let put = plasmon_columns::put(&store, std::iter::empty(), table, &PutOptions::default());
        let object = store.get(&put.unwrap().id, NOW).unwrap();
        let memory = object.data().as_ptr_range();
        let (_, found) = read(&object).unwrap();
        assert_eq!(found, batches, "{level}");
        let place = |column: usize, buffer: usize| {
            let data = found[0].column(column).to_data();
            memory.contains(&data.buffers()[buffer].as_ptr())
        };
        assert!(place(0, 0) && place(2, 1), "{level}: numbers and bytes have no wrong values");
        assert_eq!([place(1, 0), place(1, 1), place(2, 0)], [!copies; 3], "{level}");
        let validity = found[0].column(0).nulls().unwrap().buffer().as_ptr();
        assert_eq!(memory.contains(&validity), !copies, "{level}");
    }
}

#[test]
fn buffers_from_elsewhere_are_copied() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let allocator = SharedAllocator::new(&store);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 1000]));
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![numbers]).unwrap();
    let shared =
        allocator.put(&schema, std::slice::from_ref(&batch), &PutOptions::default()).unwrap();
    assert_eq!((shared.shared_bytes, shared.copied_bytes), (0, 8000));
    let (_, found) = read(&store.get(&shared.id, NOW).unwrap()).unwrap();
    assert_eq!(found, [batch]);
}

#[test]
fn a_strict_store_says_why_not() {
    let node = TestStore::with(64 << 20, &[("level", "strict")]);
    let store = node.connect();
    let allocator = SharedAllocator::new(&store);
    let batch = batch(&allocator, 100);
    let schema = batch.schema();
    let error = allocator.put(&schema, &[batch], &PutOptions::default()).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported, "{error}");
}

#[test]
fn a_buffer_that_was_never_put_is_given_back() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let allocator = SharedAllocator::new(&store);
    let batch = batch(&allocator, 100_000);
    assert!(store.status().unwrap().used_bytes > 1 << 20);
    drop((batch, allocator));
    until("it is free", || store.status().unwrap().used_bytes == 0);
}

/// What a buffer gains when it grows was what earlier buffers had held there, and was put with it.
#[test]
fn new_bytes_are_zero_in_memory_that_was_used_before() {
    const BYTES: usize = 1 << 20;
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let allocator = SharedAllocator::new(&store);
    let mut addresses = Vec::new();
    for _ in 0..8 {
        let mut buffer = allocator.buffer(BYTES).unwrap();
        buffer.resize(BYTES).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(0xA5);
        addresses.push(buffer.as_ptr() as usize);
    }
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.len() < 8, "memory is used again");
}
