//! Columns of an object that is being written: what [`crate::tables`] are made of.

/// A value of four bytes, as it is written.
pub type Word = [u8; 4];
/// A value of eight bytes, as it is written.
pub type Long = [u8; 8];

/// A number as an index or a count in a table. What doesn't fit is past a limit, which
/// [`crate::Plan::of`] finds.
#[inline]
pub fn word(number: usize) -> Word {
    (number as u32).to_le_bytes()
}

/// A bitmap that grows.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    pub(crate) bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// Appends a bit.
    #[inline]
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
    }

    /// Appends zeros.
    pub fn extend_zeros(&mut self, count: usize) {
        self.len += count;
        self.bytes.resize(self.len.div_ceil(8), 0);
    }

    /// Drops the bits from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.bytes.truncate(self.len.div_ceil(8));
        if let Some(last) = self.bytes.last_mut()
            && !self.len.is_multiple_of(8)
        {
            *last &= (1 << (self.len % 8)) - 1;
        }
    }

    /// The bit at an index.
    #[inline]
    pub fn at(&self, index: usize) -> bool {
        self.bytes[index / 8] >> (index % 8) & 1 != 0
    }

    /// How many bits there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Byte strings of any length, one after the other.
#[derive(Clone, Debug, Default)]
pub struct ByteStrings {
    /// Where each one ends; the first offset, 0, is here too as soon as there is one.
    pub offsets: Vec<Word>,
    /// The bytes of all.
    pub bytes: Vec<u8>,
}

impl ByteStrings {
    /// Appends one and returns its number.
    #[inline]
    pub fn push(&mut self, text: &[u8]) -> usize {
        self.bytes.extend_from_slice(text);
        self.end()
    }

    /// Ends the one whose bytes were appended since the last, and returns its number.
    #[inline]
    pub fn end(&mut self) -> usize {
        if self.offsets.is_empty() {
            self.offsets.push([0; 4]);
        }
        self.offsets.push(word(self.bytes.len()));
        self.offsets.len() - 2
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.offsets.clear();
        self.bytes.clear();
    }
}

/// Lists of numbers, one after the other.
#[derive(Clone, Debug)]
pub struct Lists<T> {
    /// Where each one ends; the first offset, 0, is here too as soon as there is one.
    pub offsets: Vec<Word>,
    /// The numbers of all.
    pub values: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { offsets: Vec::new(), values: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// Ends the list whose numbers were appended since the last.
    #[inline]
    pub fn end(&mut self) {
        if self.offsets.is_empty() {
            self.offsets.push([0; 4]);
        }
        self.offsets.push(word(self.values.len()));
    }

    pub(crate) fn clear(&mut self) {
        self.offsets.clear();
        self.values.clear();
    }
}
