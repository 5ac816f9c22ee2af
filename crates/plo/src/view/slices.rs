//! Typed slices of an object's bytes: numbers, bits and byte strings where they lie.

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
pub(super) fn stretch<T>(values: &[T], start: usize, length: usize) -> &[T] {
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
pub struct ByteStringsView<'a> {
    /// Where each one starts and the last one ends; nothing for none.
    pub offsets: Words<'a>,
    /// The bytes of all.
    pub bytes: &'a [u8],
}

impl<'a> ByteStringsView<'a> {
    /// The byte string with a number.
    #[inline]
    pub fn at(self, number: usize) -> &'a [u8] {
        self.range(number, 1)
    }

    /// The bytes of several.
    #[inline]
    pub fn range(self, first: usize, count: usize) -> &'a [u8] {
        let (start, end) =
            (self.offsets.index(first), self.offsets.index(first.saturating_add(count)));
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
