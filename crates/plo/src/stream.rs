//! The batch message of the stream form: its numbers are filled in, and read again.

use crate::error::{Error, Result, broken};
use crate::layout::{
    ARROW_BUFFER_COUNT, ARROW_BUFFERS, ARROW_NODE_COUNT, ArrowBuffer, BUFFERS, Form, HEAP_ALIGN,
    Layout, arrow_nodes, set_arrow_buffer, set_arrow_node,
};
use crate::messages::{BATCH_MESSAGE, BODY_AT, BODY_LENGTH_AT, BUFFERS_AT, END_MARKER, NODES_AT};
use crate::sizes::{Sizes, at};

/// The number of the field node of the child `null` of slots.
const NULL_NODE: usize = 2;

/// Bytes of one field node, and of one buffer.
const STRUCT_BYTES: usize = 16;

/// The batch message of an object of these sizes, with the layout of the stream form.
pub fn batch_message(sizes: &Sizes, layout: &Layout) -> Vec<u8> {
    let mut message = BATCH_MESSAGE.to_vec();
    let mut put = |place: usize, value: u64| {
        message[place..place + 8].copy_from_slice(&value.to_le_bytes());
    };
    put(BODY_LENGTH_AT, layout.bytes - BODY_AT - END_MARKER.len() as u64);
    for (number, length) in arrow_nodes(sizes).enumerate() {
        put(NODES_AT + STRUCT_BYTES * number, length);
    }
    // The child of type Null has nothing but nulls, and some readers need the count.
    put(NODES_AT + STRUCT_BYTES * NULL_NODE + 8, sizes.get(at::SLOT_NULL));
    let mut end = 0;
    for (number, bytes) in arrow_buffers(sizes).enumerate() {
        let at = BUFFERS_AT + STRUCT_BYTES * number;
        put(at, end);
        put(at + 8, bytes);
        end += bytes.next_multiple_of(HEAP_ALIGN);
    }
    message
}

/// The length of each buffer of the batch.
fn arrow_buffers(sizes: &Sizes) -> impl Iterator<Item = u64> {
    let mut reals = BUFFERS.iter();
    ARROW_BUFFERS.iter().map(move |buffer| match buffer {
        ArrowBuffer::Validity => 0,
        ArrowBuffer::Outer(_) => 8,
        ArrowBuffer::Real => reals.next().map_or(0, |extent| extent.bytes(sizes)),
    })
}

/// The sizes in a batch message, after every other byte of it was checked.
pub fn read_batch_message(message: &[u8]) -> Result<(Sizes, u64)> {
    let word = |at: usize| {
        let bytes = message.get(at..at + 8).and_then(|bytes| bytes.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    if message.len() != BATCH_MESSAGE.len() {
        return Err(Error::NotAnObject("end within the batch message"));
    }
    let mut sizes = Sizes::default();
    for number in 0..ARROW_NODE_COUNT {
        set_arrow_node(&mut sizes, number, word(NODES_AT + STRUCT_BYTES * number));
    }
    for number in 0..ARROW_BUFFER_COUNT {
        let length = word(BUFFERS_AT + STRUCT_BYTES * number + 8);
        set_arrow_buffer(&mut sizes, number, length);
    }
    if let Some(number) = sizes.past_limit() {
        return broken("a size past its limit", number);
    }
    let layout = Layout::of(&sizes, Form::Stream);
    let wanted = batch_message(&sizes, &layout);
    match wanted.iter().zip(message).position(|(wanted, found)| wanted != found) {
        Some(at) => broken("an unexpected byte of the batch message", at),
        None => Ok((sizes, layout.bytes)),
    }
}
