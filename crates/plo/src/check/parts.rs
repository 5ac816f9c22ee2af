//! The rules of single entries: offsets, tensors, extensions.

use super::{Checker, mention};
use crate::codes::{ext, limit, tensor};
use crate::error::{Result, broken};
use crate::extensions::{Fields, text};
use crate::layout::HEAP_ALIGN;
use crate::sizes::at;
use crate::view::{ByteStringsView, Longs, Words};

/// The required parts of an extension.
struct Shape {
    /// How long its data is, at least and at most.
    data: (usize, usize),
    /// Whether it has one heap entry whose length its data begins with.
    in_heap: bool,
}

const ANY: usize = usize::MAX;

const fn data(least: usize, most: usize) -> Shape {
    Shape { data: (least, most), in_heap: false }
}

const fn in_heap(least: usize, most: usize) -> Shape {
    Shape { data: (least, most), in_heap: true }
}

/// The required parts of each kind of extension; those with pickles check more themselves.
const SHAPES: [Shape; ext::COUNT as usize] = [
    data(0, ANY),                           // INT
    data(16, 16),                           // COMPLEX
    data(0, ANY),                           // SURROGATES
    in_heap(8, 8),                          // LONG_STR
    in_heap(8, 8),                          // LONG_BYTES
    data(0, ANY),                           // BYTEARRAY
    in_heap(8, 8),                          // LONG_BYTEARRAY
    data(4, 4),                             // DATE
    data(10, ANY),                          // DATETIME
    data(10, ANY),                          // TIME
    data(12, 12),                           // TIMEDELTA
    data(1, ANY),                           // TZINFO
    data(1, ANY),                           // DECIMAL
    data(16, 16),                           // UUID
    data(1, ANY),                           // PATH
    data(1, 1),                             // SINGLETON
    data(4, ANY),                           // SCALAR
    data(4, 4),                             // DTYPE
    data(1, limit::NAME_BYTES_MAX),         // TYPE
    data(1, limit::NAME_BYTES_MAX),         // GLOBAL
    data(0, ANY),                           // PICKLE
    data(0, ANY),                           // CLOUDPICKLE
    in_heap(9, 9 + limit::DTYPE_BYTES_MAX), // ARROW
];

impl Checker<'_, '_> {
    /// Offsets start at 0, never fall and end where their values do.
    pub(super) fn offsets(&self) -> Result<()> {
        let view = self.view;
        let tables = [
            (view.strs.offsets, at::STRS_BYTES),
            (view.bins.offsets, at::BINS_BYTES),
            (view.classes.name.offsets, at::CLASS_NAME_BYTES),
            (view.classes.fields, at::CLASS_FIELDS),
            (view.classes.field_names.offsets, at::CLASS_FIELD_BYTES),
            (view.dtype_strings.offsets, at::DTYPE_BYTES),
            (view.tensors.shape_offsets, at::TENSOR_SHAPE),
            (view.tensors.stride_offsets, at::TENSOR_STRIDES),
            (view.exts.data.offsets, at::EXT_BYTES),
            (view.exts.heap_offsets, at::EXT_HEAPS),
        ];
        for (offsets, size) in tables {
            rising(offsets, view.sizes.get(size))?;
        }
        heap_offsets(view.heap_offsets, view.sizes.get(at::HEAP_BYTES))
    }

    /// Names are UTF-8, and element types have a size. The values of strs are left to the code
    /// that makes strings of them, which has to look at each byte anyway.
    pub(super) fn names(&self) -> Result<()> {
        let view = self.view;
        strings(view.classes.name)?;
        strings(view.classes.field_names)?;
        strings(view.dtype_strings)?;
        let below = (0..view.count(at::DTYPES)).find(|dtype| view.dtype_itemsizes.at(*dtype) < 0);
        below.map_or(Ok(()), |dtype| broken("an element type of a negative size", dtype))
    }

    /// How many elements a tensor has.
    pub(super) fn elements(&self, index: usize) -> Option<u64> {
        let tensors = &self.view.tensors;
        let (start, end) =
            (tensors.shape_offsets.index(index), tensors.shape_offsets.index(index + 1));
        let shape = tensors.shape.range(start, end.wrapping_sub(start)).iter();
        let mut product = Some(1u64);
        for extent in shape.map(|extent| i64::from_le_bytes(*extent)) {
            match u64::try_from(extent) {
                Ok(0) => return Some(0),
                Ok(extent) => product = product.and_then(|product| product.checked_mul(extent)),
                Err(_) => return None,
            }
        }
        product
    }

    pub(super) fn tensor(&self, index: usize) -> Result<()> {
        let (view, tensors) = (self.view, &self.view.tensors);
        let range = |offsets: Words<'_>| (offsets.index(index), offsets.index(index + 1));
        let (first, last) = range(tensors.shape_offsets);
        // Offsets were found to rise, but their memory may be written to meanwhile.
        let dimensions = last.wrapping_sub(first);
        let (first_stride, last_stride) = range(tensors.stride_offsets);
        let stride_count = last_stride.wrapping_sub(first_stride);
        let dtype = tensors.dtype.index(index);
        if tensors.kind[index] > tensor::OBJECTS
            || dimensions > limit::DIMENSIONS_MAX
            || (stride_count != 0 && stride_count != dimensions)
            || dtype >= view.count(at::DTYPES)
            || view.dtype_strings.at(dtype).len() > limit::DTYPE_BYTES_MAX
        {
            return broken("a tensor of an unknown kind, or with parts that don't fit", index);
        }
        let shape = tensors.shape.range(first, dimensions);
        if shape.iter().any(|extent| i64::from_le_bytes(*extent) < 0) {
            return broken("a tensor with a negative extent", index);
        }
        let itemsize = i64::from(view.dtype_itemsizes.at(dtype));
        let strides = tensors.strides.range(first_stride, stride_count);
        let bytes = extent_in_memory(shape, strides, itemsize);
        let Some((below, above)) = bytes else {
            return broken("a tensor larger than any memory", index);
        };
        let heap = tensors.heap.at(index);
        let offset = tensors.offset.at(index);
        if heap == -1 {
            // An array of objects has no bytes of its own.
            let empty = above == below || tensors.kind[index] == tensor::OBJECTS;
            return if empty && offset == 0 {
                Ok(())
            } else {
                broken("a tensor without its bytes", index)
            };
        }
        let inside = tensors.kind[index] != tensor::OBJECTS
            && heap >= 0
            && (heap as usize) < view.count(at::HEAP)
            && offset.checked_add(below).is_some_and(|first| first >= 0)
            && offset.checked_add(above).is_some_and(|end| {
                let entry = view.heap_range(heap as usize);
                end as u64 <= entry.len() as u64
            });
        if inside { Ok(()) } else { broken("a tensor that reaches outside of the heap", index) }
    }

    /// Takes note of an extension and checks it the first time.
    pub(super) fn mention_ext(&mut self, index: usize) -> Result<()> {
        if mention(&mut self.used.exts, index, self.view.count(at::EXTS))? {
            return self.ext(index);
        }
        self.repeats.exts = true;
        Ok(())
    }

    fn ext(&mut self, index: usize) -> Result<()> {
        let exts = &self.view.exts;
        let Some(shape) = SHAPES.get(usize::from(exts.kind[index])) else {
            return broken("an extension of an unknown kind", index);
        };
        let data = exts.data.at(index);
        if data.len() < shape.data.0 || data.len() > shape.data.1 {
            return broken("an extension whose data has the wrong length", index);
        }
        let (first, end) = (exts.heap_offsets.index(index), exts.heap_offsets.index(index + 1));
        let pickled = matches!(exts.kind[index], ext::PICKLE | ext::CLOUDPICKLE);
        let lengths = end.wrapping_sub(first);
        let lengths = match (shape.in_heap, pickled) {
            (true, _) if lengths == 1 => 1,
            (false, true) if data.len() / 8 >= lengths => lengths,
            (false, false) if lengths == 0 => 0,
            _ => return broken("an extension with the wrong number of heap entries", index),
        };
        for at in 0..lengths {
            let entry = exts.heaps.at(first + at);
            if i64::from(entry) <= self.heap_before || entry as usize >= self.count(at::HEAP) {
                return broken("heap entries of extensions that do not rise", index);
            }
            self.heap_before = i64::from(entry);
            let length = Longs(data.as_chunks::<8>().0).at(at);
            let range = self.view.heap_range(entry as usize);
            let room = range.len() as u64;
            if u64::try_from(length).ok().is_none_or(|l| l.next_multiple_of(HEAP_ALIGN) != room) {
                return broken("an extension of another length than its heap entry", index);
            }
        }
        let fields = Fields { data: data.get(8 * lengths..).unwrap_or_default(), number: index };
        fields.check(exts.kind[index])?;
        if matches!(exts.kind[index], ext::SCALAR | ext::DTYPE) {
            let dtype = Words(data.as_chunks::<4>().0).index(0);
            let itemsize = self.view.dtype_itemsizes.index(dtype);
            let fits = exts.kind[index] == ext::DTYPE || data.len() - 4 == itemsize;
            if dtype >= self.count(at::DTYPES) || !fits {
                return broken("an extension with an element type that is not there", index);
            }
        }
        Ok(())
    }
}

fn rising(offsets: Words<'_>, end: u64) -> Result<()> {
    let (Some(first), Some(last)) = (offsets.0.first(), offsets.0.last()) else {
        return if end == 0 { Ok(()) } else { broken("bytes outside of every entry", end) };
    };
    if *first != [0; 4] || u64::from(u32::from_le_bytes(*last)) != end {
        return broken("offsets that don't end where their values do", end);
    }
    // Without early ends the compiler compares many at once.
    let falls = offsets.0.windows(2).fold(false, |falls, pair| {
        falls | (i32::from_le_bytes(pair[1]) < i32::from_le_bytes(pair[0]))
    });
    if falls { broken("offsets that fall", end) } else { Ok(()) }
}

fn strings(strings: ByteStringsView<'_>) -> Result<()> {
    (0..strings.len()).try_for_each(|number| text(strings.at(number), number).map(drop))
}

fn heap_offsets(offsets: Longs<'_>, end: u64) -> Result<()> {
    let (Some(first), Some(last)) = (offsets.0.first(), offsets.0.last()) else {
        return if end == 0 {
            Ok(())
        } else {
            broken("bytes of the heap outside of every entry", end)
        };
    };
    if *first != [0; 8] || u64::from_le_bytes(*last) != end {
        return broken("offsets of the heap that don't end where it does", end);
    }
    let wrong = offsets.0.windows(2).any(|pair| {
        let (start, end) = (i64::from_le_bytes(pair[0]), i64::from_le_bytes(pair[1]));
        end < start || end % HEAP_ALIGN as i64 != 0
    });
    if wrong { broken("offsets of the heap that fall or are not aligned", end) } else { Ok(()) }
}

/// Where the elements of a tensor lie, from and to, counted in bytes from the element at index 0.
/// Nothing for no elements; `None` past any memory.
fn extent_in_memory(shape: &[[u8; 8]], strides: &[[u8; 8]], itemsize: i64) -> Option<(i64, i64)> {
    let extents = shape.iter().map(|extent| i64::from_le_bytes(*extent));
    if extents.clone().any(|extent| extent == 0) {
        return Some((0, 0));
    }
    if strides.is_empty() {
        let bytes = extents.clone().try_fold(itemsize, |bytes, extent| bytes.checked_mul(extent));
        return Some((0, bytes?));
    }
    let (mut below, mut above) = (0i64, itemsize);
    for (extent, stride) in extents.zip(strides.iter().map(|stride| i64::from_le_bytes(*stride))) {
        let reach = (extent - 1).checked_mul(stride)?;
        if reach < 0 {
            below = below.checked_add(reach)?;
        } else {
            above = above.checked_add(reach)?;
        }
    }
    Some((below, above))
}
