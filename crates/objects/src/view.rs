//! An object's tables where they lie: typed slices of its bytes.
//!
//! [`View::of`] finds the buffers; nothing in them is looked at. [`crate::check::check`] does that,
//! once, and gives a [`crate::check::Checked`], whose accessors then need no outcome.

use crate::error::{Error, Result, broken};
use crate::layout::{BODY_AT, BUFFERS, END_MARKER, Form, HEAP_ALIGN, HEAP_DATA, Layout};
use crate::sizes::{self, Sizes, at};
use crate::stream::{BATCH_MESSAGE, SCHEMA_MESSAGE, arrow_buffers, read_batch_message};
use crate::write::SMALL_MAGIC;

/// Numbers of four bytes where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a>(pub &'a [[u8; 4]]);

impl<'a> Words<'a> {
    /// The number at an index, 0 past the end.
    #[inline]
    pub fn at(self, index: usize) -> i32 {
        self.0.get(index).map_or(0, |bytes| i32::from_le_bytes(*bytes))
    }

    /// The number at an index as an index; one that is negative leads nowhere.
    #[inline]
    pub fn index(self, index: usize) -> usize {
        usize::try_from(self.at(index)).unwrap_or(usize::MAX)
    }

    /// The numbers of a stretch.
    #[inline]
    pub fn range(self, start: usize, length: usize) -> &'a [[u8; 4]] {
        stretch(self.0, start, length)
    }
}

/// Numbers of eight bytes where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longs<'a>(pub &'a [[u8; 8]]);

impl<'a> Longs<'a> {
    /// The number at an index, 0 past the end.
    #[inline]
    pub fn at(self, index: usize) -> i64 {
        self.0.get(index).map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }

    /// The numbers of a stretch.
    #[inline]
    pub fn range(self, start: usize, length: usize) -> &'a [[u8; 8]] {
        stretch(self.0, start, length)
    }
}

#[inline]
fn stretch<T>(values: &[T], start: usize, length: usize) -> &[T] {
    start.checked_add(length).and_then(|end| values.get(start..end)).unwrap_or(&[])
}

/// A bitmap where it lies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bitmap<'a>(pub &'a [u8]);

impl Bitmap<'_> {
    /// The bit at an index.
    #[inline]
    pub fn at(self, index: usize) -> bool {
        self.0.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0)
    }
}

/// Byte strings where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextsView<'a> {
    /// Where each one starts and the last one ends; nothing for none.
    pub offsets: Words<'a>,
    /// The bytes of all.
    pub bytes: &'a [u8],
}

impl<'a> TextsView<'a> {
    /// The byte string with a number.
    #[inline]
    pub fn at(self, number: usize) -> &'a [u8] {
        self.range(number, 1)
    }

    /// The bytes of several.
    #[inline]
    pub fn range(self, first: usize, count: usize) -> &'a [u8] {
        let (start, end) = (self.offsets.index(first), self.offsets.index(first + count));
        self.bytes.get(start..end).unwrap_or(&[])
    }

    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.offsets.0.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The nodes where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct NodesView<'a> {
    pub kind: &'a [u8],
    pub elem: &'a [u8],
    pub elem2: &'a [u8],
    pub start: Words<'a>,
    pub length: Words<'a>,
    pub start2: Words<'a>,
}

/// The classes where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct ClassesView<'a> {
    pub source: &'a [u8],
    pub make: &'a [u8],
    pub name: TextsView<'a>,
    pub version: Words<'a>,
    pub fields: Words<'a>,
    pub field_names: TextsView<'a>,
    pub ext: Words<'a>,
}

/// The tensors where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct TensorsView<'a> {
    pub kind: &'a [u8],
    pub dtype: Words<'a>,
    pub shape_offsets: Words<'a>,
    pub shape: Longs<'a>,
    pub stride_offsets: Words<'a>,
    pub strides: Longs<'a>,
    pub heap: Words<'a>,
    pub offset: Longs<'a>,
}

/// The extensions where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct ExtsView<'a> {
    pub kind: &'a [u8],
    pub data: TextsView<'a>,
    pub heap_offsets: Words<'a>,
    pub heaps: Words<'a>,
}

/// The children of slots that are indices, from `str` to `ext`.
pub const INDEX_CHILDREN: usize = 6;

/// The slots where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct SlotsView<'a> {
    pub kind: &'a [u8],
    pub offset: Words<'a>,
    pub bool: Bitmap<'a>,
    pub int: Longs<'a>,
    pub float: Longs<'a>,
    pub indices: [Words<'a>; INDEX_CHILDREN],
}

impl SlotsView<'_> {
    /// The index in a slot whose type is one of [`crate::codes::slot`] from `STR` on.
    #[inline]
    pub fn index(&self, slot: usize, kind: u8) -> usize {
        let child = usize::from(kind).wrapping_sub(usize::from(crate::codes::slot::STR));
        let at = self.offset.index(slot);
        self.indices.get(child).map_or(usize::MAX, |values| values.index(at))
    }
}

/// All tables where they lie.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of section 2 of spec/objects.md")]
pub struct View<'a> {
    pub sizes: Sizes,
    pub layout: Layout,
    pub slots: SlotsView<'a>,
    pub nodes: NodesView<'a>,
    pub i32: Words<'a>,
    pub i64: Longs<'a>,
    pub f64: Longs<'a>,
    pub bits: Bitmap<'a>,
    pub strs: TextsView<'a>,
    pub refs: Words<'a>,
    pub bins: TextsView<'a>,
    pub classes: ClassesView<'a>,
    pub dtype_texts: TextsView<'a>,
    pub dtype_itemsizes: Words<'a>,
    pub tensors: TensorsView<'a>,
    pub exts: ExtsView<'a>,
    pub heap_offsets: Longs<'a>,
    pub heap: &'a [u8],
}

/// Gives the buffers one after the other.
struct Cursor<'a> {
    object: &'a [u8],
    layout: Layout,
    sizes: Sizes,
    next: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn bytes(&mut self) -> &'a [u8] {
        let number = self.next;
        self.next += 1;
        let length = BUFFERS[number].bytes(&self.sizes) as usize;
        stretch(self.object, self.layout.offsets[number] as usize, length)
    }

    #[inline]
    fn words(&mut self) -> Words<'a> {
        Words(self.bytes().as_chunks::<4>().0)
    }

    #[inline]
    fn longs(&mut self) -> Longs<'a> {
        Longs(self.bytes().as_chunks::<8>().0)
    }

    #[inline]
    fn texts(&mut self) -> TextsView<'a> {
        TextsView { offsets: self.words(), bytes: self.bytes() }
    }
}

/// How many bytes at the front of `bytes` are an object, without looking further into it; for
/// objects that follow one another.
pub fn object_bytes(bytes: &[u8]) -> Result<u64> {
    read_sizes(bytes).map(|(_, layout)| layout.bytes)
}

/// Whether bytes start like an object in one of its forms.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(&SMALL_MAGIC) || bytes.starts_with(SCHEMA_MESSAGE)
}

fn read_sizes(bytes: &[u8]) -> Result<(Sizes, Layout)> {
    if bytes.starts_with(&SMALL_MAGIC) {
        return read_small_sizes(bytes);
    }
    let Some(rest) = bytes.strip_prefix(SCHEMA_MESSAGE) else {
        return Err(Error::NotAnObject("start with neither the small form's magic nor its schema"));
    };
    let Some(message) = rest.get(..BATCH_MESSAGE.len()) else {
        return Err(Error::Truncated { wanted: BODY_AT, found: bytes.len() as u64 });
    };
    let (sizes, _) = read_batch_message(message)?;
    Ok((sizes, Layout::of(&sizes, Form::Stream)))
}

fn read_small_sizes(bytes: &[u8]) -> Result<(Sizes, Layout)> {
    let truncated = || Error::Truncated { wanted: 16, found: bytes.len() as u64 };
    let (fixed, rest) = bytes.split_first_chunk::<16>().ok_or_else(truncated)?;
    let words = fixed.as_chunks::<4>().0;
    let word = |at: usize| u32::from_le_bytes(words[at]);
    let mut present = u64::from(word(2)) | u64::from(word(3)) << 32;
    if present >> sizes::COUNT != 0 {
        return broken("an unknown size", present.leading_zeros());
    }
    let given = rest.as_chunks::<4>().0;
    let mut sizes = Sizes::default();
    for at in 0..present.count_ones() as usize {
        let number = present.trailing_zeros() as usize;
        present &= present - 1;
        let size = given.get(at).ok_or_else(truncated)?;
        sizes.0[number] = u64::from(u32::from_le_bytes(*size));
        if sizes.0[number] == 0 {
            return broken("a size of 0 that is said not to be", number);
        }
    }
    if let Some(number) = sizes.past_limit() {
        return broken("a size past its limit", number);
    }
    let layout = Layout::of(&sizes, Form::Small);
    if layout.bytes != u64::from(word(1)) {
        return broken("a length that does not follow from the sizes", word(1));
    }
    Ok((sizes, layout))
}

impl<'a> View<'a> {
    /// Finds the tables of the object at the front of `bytes`. What follows it is ignored.
    pub fn of(bytes: &'a [u8]) -> Result<Self> {
        let (sizes, layout) = read_sizes(bytes)?;
        let Some(object) = usize::try_from(layout.bytes).ok().and_then(|end| bytes.get(..end))
        else {
            return Err(Error::Truncated { wanted: layout.bytes, found: bytes.len() as u64 });
        };
        if layout.form == Form::Stream {
            check_stream(object, &sizes)?;
        }
        let mut cursor = Cursor { object, layout, sizes, next: 0 };
        let next = &mut cursor;
        let slots = SlotsView {
            kind: next.bytes(),
            offset: next.words(),
            bool: Bitmap(next.bytes()),
            int: next.longs(),
            float: next.longs(),
            indices: std::array::from_fn(|_| next.words()),
        };
        let nodes = NodesView {
            kind: next.bytes(),
            elem: next.bytes(),
            elem2: next.bytes(),
            start: next.words(),
            length: next.words(),
            start2: next.words(),
        };
        Ok(Self {
            sizes,
            slots,
            nodes,
            i32: next.words(),
            i64: next.longs(),
            f64: next.longs(),
            bits: Bitmap(next.bytes()),
            strs: next.texts(),
            refs: next.words(),
            bins: next.texts(),
            classes: ClassesView {
                source: next.bytes(),
                make: next.bytes(),
                name: next.texts(),
                version: next.words(),
                fields: next.words(),
                field_names: next.texts(),
                ext: next.words(),
            },
            dtype_texts: next.texts(),
            dtype_itemsizes: next.words(),
            tensors: TensorsView {
                kind: next.bytes(),
                dtype: next.words(),
                shape_offsets: next.words(),
                shape: next.longs(),
                stride_offsets: next.words(),
                strides: next.longs(),
                heap: next.words(),
                offset: next.longs(),
            },
            exts: ExtsView {
                kind: next.bytes(),
                data: next.texts(),
                heap_offsets: next.words(),
                heaps: next.words(),
            },
            heap_offsets: next.longs(),
            heap: next.bytes(),
            layout: cursor.layout,
        })
    }

    /// Where the bytes of a heap entry lie in the heap.
    pub fn heap_range(&self, entry: usize) -> std::ops::Range<usize> {
        let at = |index| usize::try_from(self.heap_offsets.at(index)).unwrap_or(usize::MAX);
        at(entry)..at(entry + 1)
    }

    /// Where the heap's data starts in the object.
    pub fn heap_at(&self) -> usize {
        self.layout.offsets[HEAP_DATA] as usize
    }

    /// The length of the object.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes
    }

    /// A size as a count in memory.
    #[inline]
    pub fn count(&self, number: usize) -> usize {
        self.sizes.get(number)
    }
}

/// The outer offsets and the end of a stream, which this reader doesn't need, must be what other
/// readers will take them for.
fn check_stream(object: &[u8], sizes: &Sizes) -> Result<()> {
    let mut end = BODY_AT as usize;
    for (bytes, outer) in arrow_buffers(sizes) {
        if let Some(size) = outer {
            let wanted = [0u32.to_le_bytes(), (size as u32).to_le_bytes()];
            if object.get(end..end + 8) != Some(wanted.as_flattened()) {
                return broken("outer offsets that are not those of one row", end);
            }
        }
        end += bytes.next_multiple_of(HEAP_ALIGN) as usize;
    }
    if object.get(end..) == Some(&END_MARKER) { Ok(()) } else { broken("no end marker", end) }
}

// Every number of entries can be an index here.
const _: () = assert!(usize::BITS == 64 && at::HEAP_BYTES < sizes::COUNT, "for 64-bit machines");
