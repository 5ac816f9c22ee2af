//! The columns of a dataset: what one element is, in HDF5 and in Arrow.
//!
//! The bytes are the same on both sides. What Arrow's own type does not say, such as the names of
//! an enumeration, stands in the metadata of the field.

use std::collections::HashMap;

use arrow_schema::{DataType, Field};

/// The entry of a field's metadata that names an extension type.
const EXTENSION_NAME: &str = "ARROW:extension:name";
/// The entry with its parameters.
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The number format that Arrow and HDF5 share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Signed, 1 byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// Unsigned, 1 byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Number {
    /// How many bytes one takes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::I8 => DataType::Int8,
            Self::I16 => DataType::Int16,
            Self::I32 => DataType::Int32,
            Self::I64 => DataType::Int64,
            Self::U8 => DataType::UInt8,
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::F16 => DataType::Float16,
            Self::F32 => DataType::Float32,
            Self::F64 => DataType::Float64,
        }
    }
}

/// The smallest part of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A number.
    Number(Number),
    /// A boolean in a byte of its own (`arrow.bool8`).
    Boolean,
    /// A fixed number of bytes: a string, or opaque.
    Bytes(u32),
}

impl Base {
    /// How many bytes one takes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Number(number) => number.bytes(),
            Self::Boolean => 1,
            Self::Bytes(bytes) => bytes as usize,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Number(number) => number.data_type(),
            Self::Boolean => DataType::Int8,
            Self::Bytes(bytes) => {
                // More bytes than Arrow can count are refused when the column is made.
                DataType::FixedSizeBinary(i32::try_from(bytes).unwrap_or(i32::MAX))
            }
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Number(_))
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name: the dataset's, or that of a member of a compound type. A member of a compound
    /// within a compound has the names of both, from outside inwards.
    pub path: Vec<String>,
    /// The parts of its elements.
    pub base: Base,
    /// The dimensions of an element, if it is an array of parts.
    pub inner: Vec<u64>,
    /// More about the elements, for the field's metadata.
    pub notes: Vec<(String, String)>,
}

impl Column {
    /// A column of parts that are elements by themselves.
    #[must_use]
    pub fn of_base(name: &str, base: Base) -> Self {
        Self { path: vec![name.to_owned()], base, inner: Vec::new(), notes: Vec::new() }
    }

    /// A column of numbers.
    #[must_use]
    pub fn of_number(name: &str, number: Number) -> Self {
        Self::of_base(name, Base::Number(number))
    }

    /// The same column with an entry of metadata.
    #[must_use]
    pub fn noted(mut self, key: &str, text: &str) -> Self {
        self.notes.push((key.to_owned(), text.to_owned()));
        self
    }

    /// How many parts an element has; `None` when they cannot be counted.
    fn parts(&self) -> Option<u64> {
        self.inner.iter().try_fold(1_u64, |all, one| all.checked_mul(*one))
    }

    /// How many bytes an element takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let parts = self.parts().and_then(|parts| usize::try_from(parts).ok());
        parts.and_then(|parts| parts.checked_mul(self.base.bytes())).unwrap_or(usize::MAX)
    }

    /// The innermost name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// The dimensions of a row of a dataset of this shape, followed by those of an element.
    fn row_dimensions(&self, shape: &[u64]) -> Vec<u64> {
        shape[1..].iter().chain(&self.inner).copied().collect()
    }

    /// Whether a row is a list of parts.
    pub(crate) fn is_list(&self, shape: &[u64]) -> bool {
        shape.len() > 1 || !self.inner.is_empty()
    }

    /// How many parts a row has.
    pub(crate) fn row_parts(&self, shape: &[u64]) -> u64 {
        self.row_dimensions(shape).iter().product()
    }

    /// The field under the column's innermost name.
    pub(crate) fn field(&self, shape: &[u64]) -> Field {
        let mut metadata: HashMap<String, String> = self.notes.iter().cloned().collect();
        let part = self.base.data_type();
        if !self.is_list(shape) {
            if self.base == Base::Boolean {
                metadata.insert(EXTENSION_NAME.to_owned(), "arrow.bool8".to_owned());
                metadata.insert(EXTENSION_METADATA.to_owned(), String::new());
            }
            return Field::new(self.name(), part, false).with_metadata(metadata);
        }
        // A row that Arrow cannot count is refused when the table is made.
        let width = i32::try_from(self.row_parts(shape)).unwrap_or(i32::MAX);
        let item = Field::new("item", part, false);
        if self.base.is_number() {
            let dimensions: Vec<String> =
                self.row_dimensions(shape).iter().map(u64::to_string).collect();
            let shape = format!("{{\"shape\":[{}]}}", dimensions.join(","));
            metadata.insert(EXTENSION_NAME.to_owned(), "arrow.fixed_shape_tensor".to_owned());
            metadata.insert(EXTENSION_METADATA.to_owned(), shape);
        }
        let list = DataType::FixedSizeList(item.into(), width);
        Field::new(self.name(), list, false).with_metadata(metadata)
    }
}
