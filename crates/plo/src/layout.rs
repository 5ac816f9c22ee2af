//! Where every buffer of an object lies, computed from its sizes.
//!
//! [`BUFFERS`] has the real buffers in order; both forms have them. [`ARROW_BUFFERS`] and
//! [`ARROW_NODES`] say how the stream form's record batch counts them: with outer offsets, and with
//! validity bitmaps that are always empty.

use crate::messages::{BODY_AT, END_MARKER};
use crate::sizes::{Sizes, at};

/// How many bytes a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Values: how many, and the bytes of each.
    Words(u64, usize),
    /// A bitmap.
    Bits(usize),
    /// 32-bit offsets of a number of entries: none for none, else one more.
    Offsets32(usize),
    /// 64-bit offsets of a number of entries.
    Offsets64(usize),
}

use Extent::{Bits, Offsets32, Offsets64, Words};

/// A buffer's length as a formula without cases: `(size + add) * mul / 8`, and 0 for a size of 0.
#[derive(Clone, Copy)]
struct Formula {
    size: u8,
    add: u8,
    mul: u8,
}

const FORMULAS: [Formula; BUFFER_COUNT] = {
    let mut formulas = [Formula { size: 0, add: 0, mul: 0 }; BUFFER_COUNT];
    let mut at = 0;
    while at < BUFFER_COUNT {
        let (size, add, mul) = match BUFFERS[at] {
            Words(width, size) => (size, 0, 8 * width),
            Bits(size) => (size, 7, 1),
            Offsets32(size) => (size, 1, 32),
            Offsets64(size) => (size, 1, 64),
        };
        formulas[at] = Formula { size: size as u8, add, mul: mul as u8 };
        at += 1;
    }
    formulas
};

/// The lengths of all buffers in bytes.
#[inline]
pub fn lengths(sizes: &Sizes) -> [u64; BUFFER_COUNT] {
    FORMULAS.map(|Formula { size, add, mul }| {
        let size = sizes.get(usize::from(size));
        (size + u64::from(add)) * u64::from(mul) / 8 * u64::from(size != 0)
    })
}

impl Extent {
    /// The length in bytes.
    #[inline]
    pub fn bytes(self, sizes: &Sizes) -> u64 {
        match self {
            Words(width, number) => width * sizes.get(number),
            Bits(number) => sizes.get(number).div_ceil(8),
            Offsets32(number) if sizes.get(number) == 0 => 0,
            Offsets32(number) => 4 * (sizes.get(number) + 1),
            Offsets64(number) if sizes.get(number) == 0 => 0,
            Offsets64(number) => 8 * (sizes.get(number) + 1),
        }
    }
}

/// How many buffers an object has.
pub const BUFFER_COUNT: usize = 53;

/// The number of the heap's data among the buffers: the last.
pub const HEAP_DATA: usize = BUFFER_COUNT - 1;

/// The buffers, in order.
pub const BUFFERS: [Extent; BUFFER_COUNT] = [
    // slots
    Words(1, at::SLOTS),
    Words(4, at::SLOTS),
    Bits(at::SLOT_BOOL),
    Words(8, at::SLOT_INT),
    Words(8, at::SLOT_FLOAT),
    Words(4, at::SLOT_STR),
    Words(4, at::SLOT_BYTES),
    Words(4, at::SLOT_NODE),
    Words(4, at::SLOT_REF),
    Words(4, at::SLOT_TENSOR),
    Words(4, at::SLOT_EXT),
    // nodes
    Words(1, at::NODES),
    Words(1, at::NODES),
    Words(1, at::NODES),
    Words(4, at::NODES),
    Words(4, at::NODES),
    Words(4, at::NODES),
    // i32, i64, f64, bits
    Words(4, at::I32),
    Words(8, at::I64),
    Words(8, at::F64),
    Bits(at::BITS),
    // strs, refs, bins
    Offsets32(at::STRS),
    Words(1, at::STRS_BYTES),
    Words(4, at::REFS),
    Offsets32(at::BINS),
    Words(1, at::BINS_BYTES),
    // classes
    Words(1, at::CLASSES),
    Words(1, at::CLASSES),
    Offsets32(at::CLASSES),
    Words(1, at::CLASS_NAME_BYTES),
    Words(4, at::CLASSES),
    Offsets32(at::CLASSES),
    Offsets32(at::CLASS_FIELDS),
    Words(1, at::CLASS_FIELD_BYTES),
    Words(4, at::CLASSES),
    // dtypes
    Offsets32(at::DTYPES),
    Words(1, at::DTYPE_BYTES),
    Words(4, at::DTYPES),
    // tensors
    Words(1, at::TENSORS),
    Words(4, at::TENSORS),
    Offsets32(at::TENSORS),
    Words(8, at::TENSOR_SHAPE),
    Offsets32(at::TENSORS),
    Words(8, at::TENSOR_STRIDES),
    Words(4, at::TENSORS),
    Words(8, at::TENSORS),
    // exts
    Words(1, at::EXTS),
    Offsets32(at::EXTS),
    Words(1, at::EXT_BYTES),
    Offsets32(at::EXTS),
    Words(4, at::EXT_HEAPS),
    // heap
    Offsets64(at::HEAP),
    Words(1, at::HEAP_BYTES),
];

/// A buffer of the record batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrowBuffer {
    /// A validity bitmap: always empty.
    Validity,
    /// The outer offsets `[0, n]` of a table.
    Outer(usize),
    /// The next of [`BUFFERS`].
    Real,
}

use ArrowBuffer::{Outer, Real, Validity};

/// How many buffers the record batch has.
pub const ARROW_BUFFER_COUNT: usize = 130;

/// The buffers of the record batch, in the order of Arrow: a field's before its children's.
pub const ARROW_BUFFERS: [ArrowBuffer; ARROW_BUFFER_COUNT] = {
    let mut list = [Validity; ARROW_BUFFER_COUNT];
    let mut count = 0;
    let mut column = 0;
    while column < COLUMNS.len() {
        let (outer, shape) = COLUMNS[column];
        list[count + 1] = Outer(outer);
        count += 2;
        let mut at = 0;
        while at < shape.len() {
            if shape[at] == b'r' {
                list[count] = Real;
            }
            count += 1;
            at += 1;
        }
        column += 1;
    }
    assert!(count == ARROW_BUFFER_COUNT, "the count above is wrong");
    list
};

/// The columns: their size, and the buffers of what their lists hold, `v` for a validity bitmap and
/// `r` for a real buffer.
const COLUMNS: [(usize, &[u8]); 14] = [
    (at::SLOTS, b"rrvrvrvrvrvrvrvrvrvr"),
    (at::NODES, b"vvrvrvrvrvrvr"),
    (at::I32, b"vr"),
    (at::I64, b"vr"),
    (at::F64, b"vr"),
    (at::BITS, b"vr"),
    (at::STRS, b"vrr"),
    (at::REFS, b"vr"),
    (at::BINS, b"vrr"),
    (at::CLASSES, b"vvrvrvrrvrvrvrrvr"),
    (at::DTYPES, b"vvrrvr"),
    (at::TENSORS, b"vvrvrvrvrvrvrvrvr"),
    (at::EXTS, b"vvrvrrvrvr"),
    (at::HEAP, b"vrr"),
];

/// How many field nodes the record batch has.
pub const ARROW_NODE_COUNT: usize = 65;

/// The field of a column itself: one row.
const ROW: usize = usize::MAX;

/// The size that each field node's length is, [`ROW`] for a column's own: 1.
const ARROW_NODES: [usize; ARROW_NODE_COUNT] = [
    // slots: the list, the union, its children
    ROW,
    at::SLOTS,
    at::SLOT_NULL,
    at::SLOT_BOOL,
    at::SLOT_INT,
    at::SLOT_FLOAT,
    at::SLOT_STR,
    at::SLOT_BYTES,
    at::SLOT_NODE,
    at::SLOT_REF,
    at::SLOT_TENSOR,
    at::SLOT_EXT,
    // nodes: the list, the struct, its fields
    ROW,
    at::NODES,
    at::NODES,
    at::NODES,
    at::NODES,
    at::NODES,
    at::NODES,
    at::NODES,
    // i32, i64, f64, bits, strs, refs, bins
    ROW,
    at::I32,
    ROW,
    at::I64,
    ROW,
    at::F64,
    ROW,
    at::BITS,
    ROW,
    at::STRS,
    ROW,
    at::REFS,
    ROW,
    at::BINS,
    // classes
    ROW,
    at::CLASSES,
    at::CLASSES,
    at::CLASSES,
    at::CLASSES,
    at::CLASSES,
    at::CLASSES,
    at::CLASS_FIELDS,
    at::CLASSES,
    // dtypes
    ROW,
    at::DTYPES,
    at::DTYPES,
    at::DTYPES,
    // tensors
    ROW,
    at::TENSORS,
    at::TENSORS,
    at::TENSORS,
    at::TENSORS,
    at::TENSOR_SHAPE,
    at::TENSORS,
    at::TENSOR_STRIDES,
    at::TENSORS,
    at::TENSORS,
    // exts
    ROW,
    at::EXTS,
    at::EXTS,
    at::EXTS,
    at::EXTS,
    at::EXT_HEAPS,
    // heap
    ROW,
    at::HEAP,
];

/// The lengths of the record batch's field nodes, in order.
pub fn arrow_nodes(sizes: &Sizes) -> impl Iterator<Item = u64> {
    ARROW_NODES.iter().map(|number| if *number == ROW { 1 } else { sizes.get(*number) })
}

/// The two forms of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An Arrow IPC stream.
    Stream,
    /// The same buffers after a short header.
    Small,
}

/// How long an object is, and where its heap is. Buffers follow one another in order, each at the
/// next multiple of the form's alignment; the outer offsets of the stream form are buffers, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The form.
    pub form: Form,
    /// Where the heap's data starts.
    pub heap_at: u64,
    /// Bytes of the object.
    pub bytes: u64,
}

impl Layout {
    /// The layout of an object of these sizes. They must be within their limits.
    #[inline]
    pub fn of(sizes: &Sizes, form: Form) -> Self {
        let align = form.align();
        let lengths = lengths(sizes);
        let front: u64 =
            lengths[..HEAP_DATA].iter().map(|length| length.next_multiple_of(align)).sum();
        let heap = sizes.get(at::HEAP_BYTES);
        match form {
            Form::Stream => {
                let heap_at = BODY_AT + COLUMNS.len() as u64 * HEAP_ALIGN + front;
                Self { form, heap_at, bytes: heap_at + heap + END_MARKER.len() as u64 }
            }
            Form::Small => Self::small_ending_at(header_bytes(sizes.present()) + front, heap),
        }
    }

    /// The layout of an object in the small form whose buffers end here.
    pub(crate) fn small_ending_at(end: u64, heap: u64) -> Self {
        let heap_at = if heap == 0 { end } else { end.next_multiple_of(HEAP_ALIGN) };
        Self { form: Form::Small, heap_at, bytes: heap_at + heap }
    }
}

impl Form {
    /// The alignment of every buffer.
    #[inline]
    pub fn align(self) -> u64 {
        match self {
            Self::Stream => HEAP_ALIGN,
            Self::Small => 8,
        }
    }
}

/// Every buffer of the stream form, and the heap's entries in both, start at a multiple of this.
pub const HEAP_ALIGN: u64 = 64;

/// Bytes before the buffers of the small form, by which sizes are not 0.
pub(crate) fn header_bytes(present: u64) -> u64 {
    (16 + 4 * u64::from(present.count_ones())).next_multiple_of(8)
}

// The heap's column is the last, its data the last buffer.
const _: () = assert!(HEAP_DATA + 1 == BUFFERS.len(), "the heap is last");

/// Takes a size from the length of a field node, for [`crate::stream::read_batch_message`].
pub(crate) fn set_arrow_node(sizes: &mut Sizes, number: usize, length: u64) {
    if ARROW_NODES[number] != ROW {
        sizes.set(ARROW_NODES[number], length);
    }
}

/// The sizes that count bytes are no field's length: they are those of the record batch's buffers
/// with these numbers.
const BYTE_BUFFERS: [(usize, usize); 7] = {
    let mut found = [(0, 0); 7];
    let (mut count, mut buffer, mut real) = (0, 0, 0);
    while buffer < ARROW_BUFFER_COUNT {
        if matches!(ARROW_BUFFERS[buffer], Real) {
            if let Words(1, number) = BUFFERS[real]
                && is_bytes(number)
            {
                found[count] = (buffer, number);
                count += 1;
            }
            real += 1;
        }
        buffer += 1;
    }
    assert!(count == found.len(), "every size that counts bytes has a buffer");
    found
};

const fn is_bytes(number: usize) -> bool {
    matches!(
        number,
        at::STRS_BYTES
            | at::BINS_BYTES
            | at::CLASS_NAME_BYTES
            | at::CLASS_FIELD_BYTES
            | at::DTYPE_BYTES
            | at::EXT_BYTES
            | at::HEAP_BYTES
    )
}

/// Takes a size from the length of a buffer, for [`crate::stream::read_batch_message`].
pub(crate) fn set_arrow_buffer(sizes: &mut Sizes, number: usize, bytes: u64) {
    if let Some((_, size)) = BYTE_BUFFERS.iter().find(|(buffer, _)| *buffer == number) {
        sizes.set(*size, bytes);
    }
}
