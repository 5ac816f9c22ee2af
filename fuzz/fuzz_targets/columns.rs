//! Arrow streams in one part or in several: any bytes are a table or an error, and a table can be
//! walked to its end.
//!
//! An input is taken as a stream; and, because hardly any bytes are one, also as changes to a good
//! one, at chosen places.

#![no_main]

use std::sync::OnceLock;

use arrow_buffer::Buffer;
use libfuzzer_sys::fuzz_target;
use plasmon_columns::{Checks, read_parts, read_stream};
use plasmon_fuzz::{Input, arrays};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = read_stream(Buffer::from_vec(bytes.to_vec())) {
        arrays::walk(&found);
    }
    changed(Input::new(bytes));
});

fn changed(mut input: Input<'_>) {
    static STREAMS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let streams = STREAMS.get_or_init(arrays::streams);
    let mut stream = streams[input.below(streams.len())].clone();
    let copy = input.byte() & 1 == 1;
    let cuts = input.below(4);
    let parts = cut(&mut input, cuts);
    while !input.is_empty() {
        let at = usize::from(input.byte()) << 8 | usize::from(input.byte());
        let width = [1, 4, 8][input.below(3)];
        let word = input.word().to_le_bytes();
        let at = at % stream.len();
        let end = (at + width).min(stream.len());
        stream[at..end].copy_from_slice(&word[..end - at]);
    }
    let (parts, bytes) = scattered(&Buffer::from_vec(stream), &parts);
    if let Ok(found) = read_parts(parts, bytes, &mut Checks { copy, ..Checks::all() }) {
        arrays::walk(&found);
    }
}

/// Where a stream is cut, and how wide the gaps are.
fn cut(input: &mut Input<'_>, cuts: usize) -> Vec<(usize, u64)> {
    (0..cuts).map(|_| (input.word() as usize, input.word() >> input.below(64))).collect()
}

fn scattered(stream: &Buffer, cuts: &[(usize, u64)]) -> (Vec<(u64, Buffer)>, u64) {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0_u64);
    for (place, gap) in cuts {
        let end = from + place % (stream.len() - from + 1);
        // A composite's parts are in order, and none is empty.
        if end > from && at + ((end - from) as u64) < u64::MAX >> 2 {
            parts.push((at, stream.slice_with_length(from, end - from)));
            at += (end - from) as u64 + (gap >> 2);
            from = end;
        }
    }
    let rest = stream.slice(from);
    let bytes = at.saturating_add(rest.len() as u64);
    if !rest.is_empty() && at < u64::MAX >> 1 {
        parts.push((at, rest));
    }
    (parts, bytes)
}
