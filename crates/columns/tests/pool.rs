//! A pool's buffers, as others see them once they are put.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, UInt8Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use plasmon_client::{Client, Filter, PutOptions};
use plasmon_columns::{Pool, Table, put};
use plasmon_testkit::TestStore;

/// What was in memory before it was used again.
const SECRET: u8 = 0xA5;

/// A buffer of the pool as a column of bytes.
fn column(pool: &Pool, bytes: usize, value: u8) -> ArrayRef {
    let start = NonNull::new(pool.allocate(bytes).unwrap() as *mut u8).unwrap();
    // SAFETY: a buffer of `bytes` bytes, which is not freed while this test runs.
    let buffer = unsafe {
        start.as_ptr().write_bytes(value, bytes);
        Buffer::from_custom_allocation(start, bytes, Arc::new(()))
    };
    Arc::new(UInt8Array::new(ScalarBuffer::from(buffer), None))
}

/// Every byte that the store's objects show to their readers.
fn published(store: &Client) -> Vec<u8> {
    let objects = store.list(&Filter::default()).unwrap();
    let pins = objects.iter().map(|info| store.get(&info.id, Some(Duration::ZERO)).unwrap());
    pins.flat_map(|pin| pin.data().to_vec()).collect()
}

/// Small buffers that lie one after the other become one object with what is between them. That
/// was what earlier buffers had held there, for every reader of the object.
#[test]
fn nothing_of_earlier_buffers_is_put() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let pool = Pool::new(&store).unwrap();
    let before: Vec<usize> = (0..8).map(|_| pool.allocate(1000).unwrap()).collect();
    for address in before {
        // SAFETY: a buffer of a thousand bytes, freed only afterwards.
        unsafe { (address as *mut u8).write_bytes(SECRET, 1000) };
        pool.free(address);
    }
    let columns = (0..8).map(|at| (format!("c{at}"), column(&pool, 10, 1)));
    let batch = RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).unwrap();
    let (schema, batches) = (batch.schema(), [batch]);
    let table = Table { schema: &schema, batches: &batches, kind: 0, text: "" };
    let shared = put(&store, [&pool].into_iter(), table, &PutOptions::default()).unwrap();
    assert!(shared.shared_bytes > 0);
    let seen = published(&store);
    assert!(seen.len() > 7 * 64, "the buffers lie one after the other");
    // One such byte may be in the id of an object, which is random.
    assert!(!seen.windows(8).any(|bytes| bytes == [SECRET; 8]));
}
