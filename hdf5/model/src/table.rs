//! A dataset as a table: which columns it has and where their bytes lie.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Schema};

/// Where buffers may begin: so that vectors of any width load from a mapped file.
pub(crate) const ALIGNMENT_BYTES: u64 = 64;

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

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name: the dataset's, or that of a member of a compound type.
    pub name: String,
    /// What its elements are.
    pub number: Number,
}

/// Where the bytes of a column lie in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From the start of the body.
    pub(crate) offset: u64,
    /// How many.
    pub(crate) bytes: u64,
}

/// A dataset as Arrow sees it.
///
/// One dimension is a column of numbers; more are rows of tensors; a compound type in one
/// dimension is a column for each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    shape: Vec<u64>,
    columns: Vec<Column>,
}

impl Table {
    /// A table of these dimensions and columns; `None` when its bytes cannot be counted, when it
    /// has no dimension or column, or more than one dimension and more than one column.
    #[must_use]
    pub fn new(shape: Vec<u64>, columns: Vec<Column>) -> Option<Self> {
        let record: usize = columns.iter().map(|column| column.number.bytes()).sum();
        let elements = shape.iter().try_fold(1_u64, |all, one| all.checked_mul(*one))?;
        let bytes = elements.checked_mul(u64::try_from(record).ok()?)?;
        // Half of what a file can have, so that sums of offsets cannot overflow either.
        let countable = bytes < (1 << 62);
        let plain = !shape.is_empty() && !columns.is_empty();
        let single = shape.len() == 1 || columns.len() == 1;
        (countable && plain && single).then_some(Self { shape, columns })
    }

    /// The same table, whose only column has another name; one of several columns stays as it is.
    #[must_use]
    pub fn renamed(mut self, name: &str) -> Self {
        if let [column] = self.columns.as_mut_slice() {
            name.clone_into(&mut column.name);
        }
        self
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many elements there are: rows, times what a row has.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> u64 {
        self.shape[0]
    }

    /// Where each column lies in the body, one behind the other.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut offset = 0;
        let mut places = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let bytes = self.elements() * column.number.bytes() as u64;
            places.push(Place { offset, bytes });
            offset += aligned(bytes);
        }
        places
    }

    /// Where each column begins in the body, in bytes.
    #[must_use]
    pub fn offsets(&self) -> Vec<u64> {
        self.places().iter().map(|place| place.offset).collect()
    }

    /// How long the body is, in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.places().last().map_or(0, |last| last.offset + aligned(last.bytes))
    }

    /// The schema, with these entries of metadata.
    pub(crate) fn schema(&self, metadata: HashMap<String, String>) -> Schema {
        let fields: Vec<Field> = self.columns.iter().map(|column| self.field(column)).collect();
        Schema::new_with_metadata(fields, metadata)
    }

    fn field(&self, column: &Column) -> Field {
        let number = column.number.data_type();
        if self.shape.len() == 1 {
            return Field::new(&column.name, number, false);
        }
        let item = Field::new("item", number, false);
        // A row that Arrow cannot count is refused when the table is made into a file.
        let width = i32::try_from(self.row_elements()).unwrap_or(i32::MAX);
        let list = DataType::FixedSizeList(item.into(), width);
        let dimensions: Vec<String> = self.shape[1..].iter().map(u64::to_string).collect();
        Field::new(&column.name, list, false).with_metadata(HashMap::from([
            ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
            (
                "ARROW:extension:metadata".to_owned(),
                format!("{{\"shape\":[{}]}}", dimensions.join(",")),
            ),
        ]))
    }

    /// How many elements a row has.
    #[must_use]
    pub fn row_elements(&self) -> u64 {
        self.shape[1..].iter().product()
    }
}

/// The next offset that a buffer may begin at.
pub(crate) fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, number: Number) -> Column {
        Column { name: name.to_owned(), number }
    }

    #[test]
    fn columns_lie_aligned_one_behind_the_other() {
        let columns = vec![column("a", Number::U8), column("b", Number::F64)];
        let table = Table::new(vec![100], columns).expect("a table");
        let places = table.places();
        assert_eq!(places[0], Place { offset: 0, bytes: 100 });
        assert_eq!(places[1], Place { offset: 128, bytes: 800 });
        assert_eq!(table.body_bytes(), 128 + 832);
    }

    #[test]
    fn what_cannot_be_a_table_is_refused() {
        let one = || vec![column("a", Number::F64)];
        assert!(Table::new(vec![], one()).is_none());
        assert!(Table::new(vec![3], vec![]).is_none());
        assert!(Table::new(vec![1 << 60], one()).is_none());
        assert!(Table::new(vec![u64::MAX, 2], one()).is_none());
        let two = vec![column("a", Number::F64), column("b", Number::F64)];
        assert!(Table::new(vec![2, 2], two).is_none());
    }
}
