//! The tables of an object that is being written.
//!
//! Whoever turns a value into an object goes through it breadth-first and appends here; see
//! section 4 of `spec/objects.md` for the order. Nothing is checked on the way: numbers past the
//! limits of the format are found by [`crate::Plan::of`] before anything is laid out. The bytes of
//! the heap stay where they are until the object is written; only their lengths are here.

mod whole;

use crate::codes::slot;
use crate::layout::HEAP_ALIGN;

pub use self::whole::Tables;
pub use crate::columns::{Bits, Lists, Long, Texts, Word, word};

/// The untyped cells.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    types: Vec<u8>,
    offsets: Vec<Word>,
    nulls: usize,
    bools: Bits,
    ints: Vec<Long>,
    floats: Vec<Long>,
    /// The children that are indices, from `str` to `ext`.
    indices: [Vec<Word>; slot::COUNT - slot::STR as usize],
}

impl Slots {
    #[inline]
    fn typed(&mut self, kind: u8, offset: usize) {
        self.types.push(kind);
        self.offsets.push(word(offset));
    }

    /// Appends None.
    #[inline]
    pub fn push_null(&mut self) {
        self.typed(slot::NULL, self.nulls);
        self.nulls += 1;
    }

    /// Appends a boolean.
    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        self.typed(slot::BOOL, self.bools.len());
        self.bools.push(value);
    }

    /// Appends an integer.
    #[inline]
    pub fn push_int(&mut self, value: i64) {
        self.typed(slot::INT, self.ints.len());
        self.ints.push(value.to_le_bytes());
    }

    /// Appends a float.
    #[inline]
    pub fn push_float(&mut self, value: f64) {
        self.typed(slot::FLOAT, self.floats.len());
        self.floats.push(value.to_le_bytes());
    }

    /// Appends a reference to an entry of another table; `kind` is one of [`slot`] from `STR` on.
    #[inline]
    pub fn push_index(&mut self, kind: u8, index: usize) {
        let child = usize::from(kind - slot::STR);
        self.typed(kind, self.indices[child].len());
        self.indices[child].push(word(index));
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}

/// A run: where its values lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The table, one of [`crate::codes::elem`].
    pub elem: u8,
    /// The first entry.
    pub start: usize,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// One of [`crate::codes::kind`].
    pub kind: u8,
    /// The items, the keys, the parts.
    pub run: Run,
    /// How many items.
    pub length: usize,
    /// The values of a dict.
    pub values: Run,
    /// The number of fields, of the class or of the tensor.
    pub extra: usize,
}

/// The nodes, by column.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    kinds: Vec<u8>,
    elems: Vec<u8>,
    elems2: Vec<u8>,
    starts: Vec<Word>,
    lengths: Vec<Word>,
    starts2: Vec<Word>,
}

impl Nodes {
    /// Takes the next number for a node that is set later.
    #[inline]
    pub fn reserve(&mut self) -> usize {
        self.reserve_many(1)
    }

    /// Takes the next numbers for nodes that are set later; the first of them.
    #[inline]
    pub fn reserve_many(&mut self, count: usize) -> usize {
        let first = self.kinds.len();
        let len = first + count;
        self.kinds.resize(len, 0);
        self.elems.resize(len, 0);
        self.elems2.resize(len, 0);
        self.starts.resize(len, [0; 4]);
        self.lengths.resize(len, [0; 4]);
        self.starts2.resize(len, [0; 4]);
        first
    }

    /// Sets a node. `node.values.start` and `node.extra` share a column: one of them is 0.
    #[inline]
    pub fn set(&mut self, number: usize, node: Node) {
        self.kinds[number] = node.kind;
        self.elems[number] = node.run.elem;
        self.elems2[number] = node.values.elem;
        self.starts[number] = word(node.run.start);
        self.lengths[number] = word(node.length);
        self.starts2[number] = word(node.values.start | node.extra);
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// A class, as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class<'a> {
    /// One of [`crate::codes::source`].
    pub source: u8,
    /// One of [`crate::codes::make`].
    pub make: u8,
    /// Its name.
    pub name: &'a str,
    /// The version of a registered class.
    pub version: i32,
    /// The extension that holds a pickled one.
    pub ext: Option<usize>,
}

/// The classes, by column.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    sources: Vec<u8>,
    makes: Vec<u8>,
    names: Texts,
    versions: Vec<Word>,
    fields: Lists<()>,
    field_names: Texts,
    exts: Vec<Word>,
}

impl Classes {
    /// Appends a class with the names of its attributes, and returns its number.
    pub fn push<'a>(
        &mut self,
        class: Class<'_>,
        fields: impl IntoIterator<Item = &'a [u8]>,
    ) -> usize {
        self.sources.push(class.source);
        self.makes.push(class.make);
        self.names.push(class.name.as_bytes());
        self.versions.push(class.version.to_le_bytes());
        for field in fields {
            self.field_names.push(field);
            self.fields.values.push(());
        }
        self.fields.end();
        self.exts.push(class.ext.map_or((-1i32).to_le_bytes(), word));
        self.sources.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

/// The tensors, by column.
#[derive(Clone, Debug, Default)]
pub struct Tensors {
    kinds: Vec<u8>,
    dtypes: Vec<Word>,
    /// The extents; append those of a tensor before it is pushed.
    pub shape: Lists<Long>,
    /// The strides, none for C order; append and end those of every tensor, in order, when their
    /// places are known.
    pub strides: Lists<Long>,
    heaps: Vec<Word>,
    offsets: Vec<Long>,
}

impl Tensors {
    /// Appends a tensor without a place in the heap and returns its number.
    pub fn push(&mut self, kind: u8, dtype: usize) -> usize {
        self.kinds.push(kind);
        self.dtypes.push(word(dtype));
        self.shape.end();
        self.heaps.push((-1i32).to_le_bytes());
        self.offsets.push([0; 8]);
        self.kinds.len() - 1
    }

    /// Gives a tensor its place in the heap: the entry, and the offset of its first element.
    pub fn place(&mut self, tensor: usize, entry: usize, offset: u64) {
        self.heaps[tensor] = word(entry);
        self.offsets[tensor] = offset.to_le_bytes();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// The element types.
#[derive(Clone, Debug, Default)]
pub struct Dtypes {
    texts: Texts,
    itemsizes: Vec<Word>,
}

impl Dtypes {
    /// Appends an element type and returns its number.
    pub fn push(&mut self, text: &[u8], itemsize: usize) -> usize {
        self.texts.push(text);
        self.itemsizes.push(word(itemsize));
        self.itemsizes.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.itemsizes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.itemsizes.is_empty()
    }
}

/// The extensions, by column.
#[derive(Clone, Debug, Default)]
pub struct Exts {
    kinds: Vec<u8>,
    /// The data; append that of an extension before it is pushed.
    pub data: Texts,
    /// The heap entries; append those of an extension before it is pushed.
    pub heaps: Lists<Word>,
}

impl Exts {
    /// Appends an extension with the data and the heap entries that were appended, and returns its
    /// number.
    #[inline]
    pub fn push(&mut self, kind: u8) -> usize {
        self.kinds.push(kind);
        self.data.end();
        self.heaps.end();
        self.kinds.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// The heap's entries, without their bytes.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    offsets: Vec<Long>,
    bytes: u64,
}

impl Heap {
    /// Makes room for an entry of so many bytes and returns its number.
    pub fn push(&mut self, bytes: u64) -> usize {
        if self.offsets.is_empty() {
            self.offsets.push([0; 8]);
        }
        self.bytes += bytes.next_multiple_of(HEAP_ALIGN);
        self.offsets.push(self.bytes.to_le_bytes());
        self.offsets.len() - 2
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}
