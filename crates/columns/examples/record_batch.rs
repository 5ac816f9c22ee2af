//! A record batch of arrow-rs whose buffers lie in the store, read by another process in place.
//!
//! ```sh
//! cargo run -p plasmon-columns --example record_batch
//! ```

use std::env;
use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use plasmon_client::{Client, ConnectOptions, Name, PutOptions, StartOptions};
use plasmon_columns::{SharedAllocator, read};

const ROWS: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1) {
        Some(socket) => read_elsewhere(socket),
        None => build(),
    }
}

/// Builds a batch in the store and lets a child read it.
fn build() -> Result<(), Box<dyn Error>> {
    let store = Client::connect_or_start(&ConnectOptions::default(), &StartOptions::default())?;
    let allocator = SharedAllocator::new(&store);

    // Written where it stays: the buffer grows in shared memory and never moves.
    let mut prices = allocator.buffer(ROWS * 8)?;
    let (mut words, mut ends) = (allocator.buffer(0)?, allocator.buffer(0)?);
    ends.extend_from_slice(&0_i32.to_le_bytes())?;
    for row in 0..ROWS {
        prices.extend_from_slice(&(row as f64 / 100.0).to_le_bytes())?;
        words.extend_from_slice(format!("item {}", row % 10).as_bytes())?;
        ends.extend_from_slice(&(words.len() as i32).to_le_bytes())?;
    }
    let prices = Float64Array::new(ScalarBuffer::from(prices.into_buffer()), None);
    let ends = OffsetBuffer::new(ScalarBuffer::<i32>::from(ends.into_buffer()));
    let items = StringArray::new(ends, words.into_buffer(), None);
    let fields = vec![
        Field::new("price", DataType::Float64, false),
        Field::new("item", DataType::Utf8, false),
    ];
    let columns: Vec<ArrayRef> = vec![Arc::new(prices), Arc::new(items)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;

    let options = PutOptions { name: Some(name()?), ..PutOptions::default() };
    store.delete(&[name()?.id()])?;
    let shared = allocator.put(&batch.schema(), &[batch], &options)?;
    assert_eq!(shared.copied_bytes, 0, "every buffer is in the store already");

    let child = Command::new(env::current_exe()?).arg(store.socket()).status()?;
    assert!(child.success(), "the other process reads the same");
    store.delete(&[shared.id])?;
    Ok(())
}

/// What another process does.
fn read_elsewhere(socket: String) -> Result<(), Box<dyn Error>> {
    let options = ConnectOptions { socket: Some(socket.into()), ..ConnectOptions::default() };
    let store = Client::connect(&options)?;
    let (_, batches) = read(&store.get_named(&name()?, Some(Duration::ZERO))?)?;
    let prices = batches[0].column(0).as_primitive::<Float64Type>();
    assert_eq!((prices.len(), prices.value(250)), (ROWS, 2.5));
    Ok(())
}

fn name() -> Result<Name, Box<dyn Error>> {
    Ok(Name::new("examples", "record batch")?)
}
