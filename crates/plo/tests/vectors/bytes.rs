//! Objects whose frame is wrong: what starts them, their sizes, their messages, their offsets.

use plasmon_plo::codes::{elem, kind, slot};
use plasmon_plo::messages::{
    BATCH_MESSAGE, BODY_AT, BODY_LENGTH_AT, BUFFERS_AT, NODES_AT, SCHEMA_MESSAGE,
};
use plasmon_plo::tables::Tables;

use crate::sample::{node, run};
use crate::{Vector, rooted, small, stream};

/// The list `[1, 2, 3]`.
fn list() -> Tables {
    rooted(|tables| {
        tables.i32.extend([1i32, 2, 3].map(i32::to_le_bytes));
        tables.nodes.set(0, node(kind::LIST, run(elem::I32, 0), 3));
    })
}

/// A list of two strings.
fn strings() -> Tables {
    rooted(|tables| {
        tables.strs.push(b"ab");
        tables.strs.push(b"cd");
        tables.nodes.set(0, node(kind::LIST, run(elem::STRS, 0), 2));
    })
}

fn changed(mut bytes: Vec<u8>, at: usize, to: &[u8]) -> Vec<u8> {
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

/// Bytes with the one place that has `from` changed.
pub(crate) fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut places = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from));
    let at = places.next().expect("the bytes are there");
    assert!(places.next().is_none(), "{from:?} is there twice");
    changed(bytes.to_vec(), at, to)
}

/// The list in the small form with another number in its header.
fn header(at: usize, to: &[u8]) -> Vec<u8> {
    changed(small(&list()), at, to)
}

/// The list in the stream form with another number in its batch message.
fn batch(at: usize, to: u64) -> Vec<u8> {
    changed(stream(&list()), SCHEMA_MESSAGE.len() + at, &to.to_le_bytes())
}

pub(crate) fn vectors() -> Vec<Vector> {
    let mut all = starts();
    all.extend(sizes());
    all.extend(messages());
    all.extend(offsets());
    all
}

fn starts() -> Vec<Vector> {
    let (short, long) = (small(&list()), stream(&list()));
    let cut = |bytes: &[u8], end: usize| bytes[..end].to_vec();
    let vector = |name, rule, says, bytes| Vector { name, section: 1, rule, says, bytes };
    let start = "an object starts with PLO1 or with the schema message";
    let all_there = "an object is all there";
    vec![
        vector("nothing", start, "not_an_object", Vec::new()),
        vector("version_2", start, "not_an_object", header(0, b"PLO2")),
        vector("another_schema", start, "not_an_object", changed(long.clone(), 100, &[0xaa])),
        vector("cut_in_the_header", all_there, "truncated", cut(&short, 12)),
        vector("cut_in_the_sizes", all_there, "truncated", cut(&short, 22)),
        vector("cut_in_the_tables", all_there, "truncated", cut(&short, short.len() - 8)),
        vector("cut_in_the_batch_message", all_there, "truncated", cut(&long, 4000)),
        vector("cut_in_the_body", all_there, "truncated", cut(&long, long.len() - 200)),
        vector("cut_before_the_end_marker", all_there, "truncated", cut(&long, long.len() - 8)),
    ]
}

fn sizes() -> Vec<Vector> {
    let vector = |name, rule, says, bytes| Vector { name, section: 1, rule, says, bytes };
    let length = u32::try_from(small(&list()).len()).unwrap();
    let longer = [header(4, &(length + 8).to_le_bytes()), vec![0; 8]].concat();
    let known = "the header names sizes 0 to 34 alone";
    let not_zero = "sizes that the header names are not 0";
    let limit = "a size is at most 2^31 - 1";
    let follows = "the length follows from the sizes";
    let zero = "a size of 0 that is marked as present, or one past its limit";
    let other = "a length that does not follow from the sizes";
    vec![
        vector("an_unknown_size", known, "an unknown size", header(12, &[8])),
        vector("a_size_of_0", not_zero, zero, header(16, &[0; 4])),
        vector("a_size_past_its_limit", limit, zero, header(16, &[0, 0, 0, 0x80])),
        vector("a_length_that_is_too_great", follows, other, longer),
        vector(
            "a_length_that_is_too_small",
            follows,
            other,
            header(4, &(length - 8).to_le_bytes()),
        ),
    ]
}

fn messages() -> Vec<Vector> {
    let vector = |name, rule, says, bytes| Vector { name, section: 1, rule, says, bytes };
    let message = "the batch message is batch.bin with the numbers that follow from the sizes";
    let byte = "an unexpected byte of the batch message";
    let marked = stream(&list());
    let end = marked.len() - 8;
    let outer = "an outer offset is 0 or the table's number of entries";
    let wrong_outer = "outer offsets that are not one row's";
    // The first table is slots: one of them, so that the outer offsets are 0 and 1.
    let body = BODY_AT as usize;
    vec![
        vector("a_batch_message_of_another_shape", message, byte, batch(8, u64::MAX)),
        vector("another_body_length", message, byte, batch(BODY_LENGTH_AT, 64)),
        vector("a_buffer_in_another_place", message, byte, batch(BUFFERS_AT + 16 * 3, 64)),
        vector("a_table_of_nulls", message, byte, batch(NODES_AT + 8, 1)),
        vector(
            "a_negative_number_of_entries",
            message,
            "a size past its limit",
            batch(NODES_AT + 16, u64::MAX),
        ),
        vector(
            "another_end_marker",
            "the stream form ends with FF FF FF FF 00 00 00 00",
            "no end marker",
            changed(marked.clone(), end, &[1]),
        ),
        vector(
            "outer_offsets_from_1",
            outer,
            wrong_outer,
            changed(marked.clone(), body, &[1, 0, 0, 0]),
        ),
        vector("outer_offsets_to_2", outer, wrong_outer, changed(marked, body + 4, &[2, 0, 0, 0])),
        vector(
            "a_batch_message_that_is_none",
            message,
            byte,
            changed(stream(&list()), SCHEMA_MESSAGE.len(), &vec![0; BATCH_MESSAGE.len()]),
        ),
    ]
}

fn offsets() -> Vec<Vector> {
    let vector = |name, rule, says, bytes| Vector { name, section: 2, rule, says, bytes };
    let with = |offsets: [u32; 3]| {
        let mut tables = strings();
        tables.strs.offsets = offsets.map(u32::to_le_bytes).to_vec();
        tables
    };
    let heap = |to: u64| {
        let mut tables = Tables::default();
        tables.heap.push(64);
        tables.heap.push(64);
        tables.slots.push_null();
        replaced(&small(&tables), &64u64.to_le_bytes(), &to.to_le_bytes())
    };
    let mut nothing = list();
    nothing.strs.bytes = b"abcdefgh".to_vec();
    let rise = "offsets start at 0, never fall, and end where the values do";
    let ends = "offsets that don't end where their values do";
    let aligned = "heap entries start at multiples of 64";
    let falls = "offsets of the heap that fall or are not aligned";
    let mut two = Tables::default();
    two.slots.push_null();
    two.slots.push_null();
    vec![
        vector("offsets_that_fall", rise, "offsets that fall", small(&with([0, 5, 4]))),
        vector("offsets_that_fall_below_0", rise, "offsets that fall", {
            small(&with([0, u32::MAX, 4]))
        }),
        vector("offsets_from_1", rise, ends, small(&with([1, 2, 4]))),
        vector("offsets_that_end_early", rise, ends, small(&with([0, 2, 3]))),
        vector("offsets_that_end_late", rise, ends, stream(&with([0, 2, 64]))),
        vector("texts_without_offsets", rise, "bytes outside of every entry", small(&nothing)),
        vector("heap_entries_out_of_line", aligned, falls, heap(32)),
        vector("heap_entries_that_fall", aligned, falls, heap(192)),
        vector(
            "no_root",
            "the root is slot 0",
            "a run that does not start where its table was used up to",
            small(&Tables::default()),
        ),
        vector(
            "two_roots",
            "the root is slot 0, and every entry is used",
            "a table with unused entries",
            small(&two),
        ),
        vector(
            "a_slot_of_an_unknown_type",
            "a slot's type is 0 to 9",
            "a slot of an unknown type",
            slot_changed(10),
        ),
        vector(
            "a_slot_of_a_child_that_is_empty",
            "the offset of a slot is the number of slots of its type before it",
            "a run that does not start where its table was used up to",
            slot_changed(slot::FLOAT),
        ),
    ]
}

/// The root None with another type, the byte after the header.
fn slot_changed(to: u8) -> Vec<u8> {
    let mut tables = Tables::default();
    tables.slots.push_null();
    let bytes = small(&tables);
    changed(bytes, 24, &[to])
}
