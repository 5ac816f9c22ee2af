//! The value header: the meaning of the bytes of an array or a table, at the start of the metadata.
//!
//! The store does not look at it; the bindings, which turn objects into values, do. The byte tables
//! are in `docs/formats/values.md`. After the header lies the metadata that the caller gave,
//! untouched.

use crate::object::tag;

/// The first bytes of every value header.
pub const MAGIC: [u8; 4] = *b"PLV1";

/// Bytes before the shape.
pub const FIXED_BYTES: usize = 16;

/// Dimensions of an array.
pub const DIMENSIONS_MAX: usize = 64;

/// Bytes of the text that describes an element or a table's origin.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// What an array was before it was stored: [`ValueHeader::kind`] under [`tag::NDARRAY`].
pub mod array_kind {
    /// A NumPy array.
    pub const NUMPY: u8 = 0;
    /// A Python memoryview.
    pub const MEMORYVIEW: u8 = 1;
    /// A pyarrow Buffer.
    pub const ARROW_BUFFER: u8 = 2;
    /// A pyarrow Tensor.
    pub const ARROW_TENSOR: u8 = 3;
}

/// What an Arrow stream was before it was stored: [`ValueHeader::kind`] under
/// [`tag::ARROW_STREAM`].
pub mod table_kind {
    /// A table: any number of record batches.
    pub const TABLE: u8 = 0;
    /// One record batch.
    pub const RECORD_BATCH: u8 = 1;
    /// One array, as the only column of one batch.
    pub const ARRAY: u8 = 2;
    /// A chunked array, each chunk as the only column of a batch.
    pub const CHUNKED_ARRAY: u8 = 3;
    /// A pandas DataFrame, with pandas' own description in the schema's metadata.
    pub const PANDAS_FRAME: u8 = 4;
    /// A pandas Series, as the only data column.
    pub const PANDAS_SERIES: u8 = 5;
    /// A polars DataFrame.
    pub const POLARS_FRAME: u8 = 6;
    /// A polars Series, as the only column.
    pub const POLARS_SERIES: u8 = 7;
}

/// How the elements of an array follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Order {
    /// The last index varies fastest.
    #[default]
    C = 0,
    /// The first index varies fastest.
    Fortran = 1,
}

/// A value header, its text borrowed from the metadata that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueHeader<'a> {
    /// One of [`array_kind`] or [`table_kind`], as the object's tag says.
    pub kind: u8,
    /// The order of an array's elements.
    pub order: Order,
    /// The extents of an array, outermost first.
    pub shape: Vec<u64>,
    /// An array's element type; more about a table, or nothing.
    pub text: &'a str,
}

/// Bytes that are no value header, where one must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metadata does not start with a value header")]
pub struct NoHeader;

impl<'a> ValueHeader<'a> {
    /// The header's bytes followed by the caller's own metadata, or `None` past a limit.
    pub fn encode(&self, own_metadata: &[u8]) -> Option<Vec<u8>> {
        if self.shape.len() > DIMENSIONS_MAX || self.text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let bytes = FIXED_BYTES + 8 * self.shape.len() + self.text.len() + own_metadata.len();
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.kind, self.order as u8, self.shape.len() as u8, 0]);
        out.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for extent in &self.shape {
            out.extend_from_slice(&extent.to_le_bytes());
        }
        out.extend_from_slice(self.text.as_bytes());
        out.extend_from_slice(own_metadata);
        Some(out)
    }

    /// The header at the start of `metadata` and the caller's own metadata after it.
    pub fn decode(metadata: &'a [u8]) -> Result<(Self, &'a [u8]), NoHeader> {
        let (fixed, rest) = metadata.split_at_checked(FIXED_BYTES).ok_or(NoHeader)?;
        let &[m0, m1, m2, m3, kind, order, dimensions, 0, t0, t1, t2, t3, 0, 0, 0, 0] = fixed
        else {
            return Err(NoHeader);
        };
        let order = match order {
            0 => Order::C,
            1 => Order::Fortran,
            _ => return Err(NoHeader),
        };
        let dimensions = usize::from(dimensions);
        let text_bytes = u32::from_le_bytes([t0, t1, t2, t3]) as usize;
        if [m0, m1, m2, m3] != MAGIC || dimensions > DIMENSIONS_MAX || text_bytes > TEXT_BYTES_MAX {
            return Err(NoHeader);
        }
        let (shape, rest) = rest.split_at_checked(8 * dimensions).ok_or(NoHeader)?;
        let (text, own_metadata) = rest.split_at_checked(text_bytes).ok_or(NoHeader)?;
        let (extents, _) = shape.as_chunks::<8>();
        let shape = extents.iter().map(|extent| u64::from_le_bytes(*extent)).collect();
        let text = str::from_utf8(text).map_err(|_| NoHeader)?;
        Ok((Self { kind, order, shape, text }, own_metadata))
    }

    /// The header of an object with this tag: `None` for tags that have none, and for an Arrow
    /// stream without one, which is a plain table.
    pub fn of_object(tag: u8, metadata: &'a [u8]) -> Option<(Self, &'a [u8])> {
        match tag {
            tag::NDARRAY | tag::ARROW_STREAM | tag::COMPOSITE => Self::decode(metadata).ok(),
            _ => None,
        }
    }

    /// How many elements an array of this shape has, `None` when that is past any memory.
    pub fn elements(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ValueHeader<'static> {
        let order = Order::Fortran;
        ValueHeader { kind: array_kind::NUMPY, order, shape: vec![3, 1 << 40], text: "<f8" }
    }

    #[test]
    fn headers_come_back_with_the_callers_own_metadata() {
        for own in [&b""[..], b"own", &[0; 100]] {
            let bytes = sample().encode(own).unwrap();
            assert_eq!(ValueHeader::decode(&bytes), Ok((sample(), own)));
            assert_eq!(ValueHeader::of_object(tag::NDARRAY, &bytes), Some((sample(), own)));
            assert_eq!(ValueHeader::of_object(tag::RAW, &bytes), None);
        }
        let scalar = ValueHeader::default();
        assert_eq!(ValueHeader::decode(&scalar.encode(b"").unwrap()), Ok((scalar, &b""[..])));
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let bytes = sample().encode(b"!").unwrap();
        let mut wanted = b"PLV1\x00\x01\x02\x00\x03\x00\x00\x00\x00\x00\x00\x00".to_vec();
        wanted.extend_from_slice(b"\x03\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0<f8!");
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn hostile_bytes_are_no_header() {
        let good = sample().encode(b"").unwrap();
        for cut in 0..good.len() {
            assert_eq!(ValueHeader::decode(&good[..cut]), Err(NoHeader), "{cut}");
        }
        for (at, byte) in
            [(0, b'Q'), (5, 2), (6, 65), (6, 200), (7, 1), (11, 0x7f), (12, 1), (32, 0xff)]
        {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(ValueHeader::decode(&bad), Err(NoHeader), "{at}");
        }
    }

    #[test]
    fn limits_hold_when_writing_too() {
        let at = ValueHeader { shape: vec![1; DIMENSIONS_MAX], ..Default::default() };
        let past = ValueHeader { shape: vec![1; DIMENSIONS_MAX + 1], ..Default::default() };
        assert!(at.encode(b"").is_some());
        assert!(past.encode(b"").is_none());
        let text = "x".repeat(TEXT_BYTES_MAX + 1);
        assert!(ValueHeader { text: &text, ..Default::default() }.encode(b"").is_none());
        assert!(ValueHeader { text: &text[1..], ..Default::default() }.encode(b"").is_some());
    }

    #[test]
    fn elements_are_counted_without_overflow() {
        let count =
            |shape: &[u64]| ValueHeader { shape: shape.to_vec(), ..Default::default() }.elements();
        assert_eq!(count(&[]), Some(1));
        assert_eq!(count(&[3, 4]), Some(12));
        assert_eq!(count(&[u64::MAX, 2]), None);
        assert_eq!(count(&[u64::MAX, 2, 0]), Some(0));
    }
}
