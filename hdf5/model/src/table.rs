//! A dataset as a table: which columns it has and where their bytes lie.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Fields, Schema};

use crate::column::Column;

/// Where buffers may begin: so that vectors of any width load from a mapped file.
pub(crate) const ALIGNMENT_BYTES: u64 = 64;

/// The entry of the schema's metadata with the dimensions of the program's chunks.
pub(crate) const CHUNK_KEY: &str = "hdf5.chunk";

/// Where the bytes of a column lie in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From the start of the body.
    pub(crate) offset: u64,
    /// How many there is room for.
    pub(crate) bytes: u64,
}

/// A dataset as Arrow sees it.
///
/// One dimension is a column of numbers; more are rows of tensors; a compound type is a column for
/// each member, and one within another a column of structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    shape: Vec<u64>,
    columns: Vec<Column>,
    chunk: Vec<u64>,
    grows: bool,
    /// What the metadata of a new file says besides.
    entries: Vec<(String, String)>,
}

impl Table {
    /// A table of these dimensions and columns; `None` when its bytes or the parts of a row cannot
    /// be counted, or when it has no dimension or column.
    #[must_use]
    pub fn new(shape: Vec<u64>, columns: Vec<Column>) -> Option<Self> {
        let mut record = 0_usize;
        for column in &columns {
            record = record.checked_add(column.bytes())?;
        }
        let elements = shape.iter().try_fold(1_u64, |all, one| all.checked_mul(*one))?;
        let bytes = elements.checked_mul(u64::try_from(record).ok()?)?;
        // Half of what a file can have, so that sums of offsets cannot overflow either.
        let countable = bytes < (1 << 62);
        let plain = !shape.is_empty() && !columns.is_empty() && record > 0;
        if !countable || !plain {
            return None;
        }
        let rows = columns.iter().all(|column| i32::try_from(column.row_parts(&shape)).is_ok());
        rows.then_some(Self {
            shape,
            columns,
            chunk: Vec::new(),
            grows: false,
            entries: Vec::new(),
        })
    }

    /// The same table, for a dataset that the program divided into chunks of these dimensions, and
    /// whose first dimension may change.
    #[must_use]
    pub fn chunked(self, chunk: Vec<u64>, grows: bool) -> Self {
        Self { chunk, grows, ..self }
    }

    /// The same table, with more entries for the metadata of a new file.
    #[must_use]
    pub fn with_entries(self, entries: Vec<(String, String)>) -> Self {
        Self { entries, ..self }
    }

    /// What the metadata of a new file says besides.
    #[must_use]
    pub fn entries(&self) -> &[(String, String)] {
        &self.entries
    }

    /// The same table with another number of rows; `None` when its bytes cannot be counted.
    #[must_use]
    pub fn with_rows(&self, rows: u64) -> Option<Self> {
        let mut shape = self.shape.clone();
        *shape.first_mut()? = rows;
        let table = Self::new(shape, self.columns.clone())?;
        Some(table.chunked(self.chunk.clone(), self.grows))
    }

    /// The same table, whose only column has another name; one of several columns stays as it is.
    #[must_use]
    pub fn renamed(mut self, name: &str) -> Self {
        if let [column] = self.columns.as_mut_slice()
            && let [only] = column.path.as_mut_slice()
        {
            name.clone_into(only);
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

    /// The dimensions of the program's chunks; empty when it has none.
    #[must_use]
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// Whether the number of rows may change.
    #[must_use]
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// How many chunks of these dimensions lie along each dimension; `None` for those of another
    /// number of dimensions.
    #[must_use]
    pub fn grid(&self, chunk: &[u64]) -> Option<Vec<u64>> {
        let fits = chunk.len() == self.shape.len() && !chunk.contains(&0);
        let sizes = self.shape.iter().zip(chunk);
        fits.then(|| sizes.map(|(size, chunk)| size.div_ceil(*chunk)).collect())
    }

    /// How many elements there are: rows, times what a row has.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shape[0]
    }

    /// How many elements a row has.
    #[must_use]
    pub fn row_elements(&self) -> u64 {
        self.shape[1..].iter().product()
    }

    /// How many bytes a row has in all columns.
    pub(crate) fn row_bytes(&self) -> u64 {
        let record: usize = self.columns.iter().map(Column::bytes).sum();
        (record as u64).saturating_mul(self.row_elements())
    }

    /// Where each column lies in a body with room for `capacity_rows`, one after the other.
    pub(crate) fn places(&self, capacity_rows: u64) -> Vec<Place> {
        let mut offset = 0;
        let mut places = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let bytes = capacity_rows * self.row_elements() * column.bytes() as u64;
            places.push(Place { offset, bytes });
            offset += aligned(bytes);
        }
        places
    }

    /// Where each column begins in the body of a table that does not grow, in bytes.
    #[must_use]
    pub fn offsets(&self) -> Vec<u64> {
        self.places(self.rows()).iter().map(|place| place.offset).collect()
    }

    /// How long that body is, in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.room_bytes(self.rows())
    }

    /// How long a body with room for `capacity_rows` is.
    pub(crate) fn room_bytes(&self, capacity_rows: u64) -> u64 {
        self.places(capacity_rows).last().map_or(0, |last| last.offset + aligned(last.bytes))
    }

    /// The schema, with these entries of metadata.
    pub(crate) fn schema(&self, mut metadata: HashMap<String, String>) -> Schema {
        if !self.chunk.is_empty() {
            let chunk: Vec<String> = self.chunk.iter().map(u64::to_string).collect();
            metadata.insert(CHUNK_KEY.to_owned(), chunk.join(","));
        }
        let columns: Vec<&Column> = self.columns.iter().collect();
        Schema::new_with_metadata(self.fields(&columns, 0), metadata)
    }

    /// The fields of columns whose names are the same above a depth.
    fn fields(&self, columns: &[&Column], depth: usize) -> Fields {
        let same = |one: &&Column, other: &&Column| one.path.get(depth) == other.path.get(depth);
        let fields = columns.chunk_by(same).flat_map(|group| match group {
            [first, ..] if first.path.len() > depth + 1 => {
                let inside = DataType::Struct(self.fields(group, depth + 1));
                vec![Field::new(&first.path[depth], inside, false)]
            }
            leaves => leaves.iter().map(|leaf| leaf.field(&self.shape)).collect(),
        });
        fields.collect()
    }

    /// At how many structures each column begins: those that hold it and not the one before it.
    pub(crate) fn structures(&self) -> Vec<usize> {
        let mut before: &[String] = &[];
        let mut opened = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let outer = &column.path[..column.path.len().saturating_sub(1)];
            let shared = outer.iter().zip(before).take_while(|(one, other)| one == other).count();
            opened.push(outer.len() - shared);
            before = outer;
        }
        opened
    }
}

/// The next offset that a buffer may begin at.
pub(crate) fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Number;

    fn column(name: &str, number: Number) -> Column {
        Column::of_number(name, number)
    }

    #[test]
    fn columns_are_aligned_one_after_the_other() {
        let columns = vec![column("a", Number::U8), column("b", Number::F64)];
        let table = Table::new(vec![100], columns).expect("a table");
        let places = table.places(100);
        assert_eq!(places[0], Place { offset: 0, bytes: 100 });
        assert_eq!(places[1], Place { offset: 128, bytes: 800 });
        assert_eq!(table.body_bytes(), 128 + 832);
        assert_eq!(table.offsets(), [0, 128]);
    }

    #[test]
    fn what_cannot_be_a_table_is_refused() {
        let one = || vec![column("a", Number::F64)];
        assert!(Table::new(vec![], one()).is_none());
        assert!(Table::new(vec![3], vec![]).is_none());
        assert!(Table::new(vec![1 << 60], one()).is_none());
        assert!(Table::new(vec![u64::MAX, 2], one()).is_none());
        assert!(Table::new(vec![1, 1 << 32], one()).is_none(), "a row that Arrow cannot count");
        let mut wide = column("a", Number::F64);
        wide.inner = vec![u64::MAX, 3];
        assert!(Table::new(vec![1], vec![wide]).is_none());
        let grown = Table::new(vec![2], one()).expect("a table");
        assert!(grown.with_rows(1 << 60).is_none());
    }

    #[test]
    fn compounds_within_compounds_are_structures() {
        let nested = |path: &[&str]| {
            let path = path.iter().map(|part| (*part).to_owned()).collect();
            Column { path, ..column("", Number::I32) }
        };
        let columns = vec![
            nested(&["id"]),
            nested(&["p", "x"]),
            nested(&["p", "q", "y"]),
            nested(&["r", "x"]),
        ];
        let table = Table::new(vec![3], columns).expect("a table");
        assert_eq!(table.structures(), [0, 1, 1, 1]);
        let schema = table.schema(HashMap::new());
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["id", "p", "r"]);
        let DataType::Struct(inside) = schema.field(1).data_type() else { panic!("a structure") };
        assert_eq!(inside.len(), 2);
        assert!(matches!(inside[1].data_type(), DataType::Struct(_)));
    }
}
