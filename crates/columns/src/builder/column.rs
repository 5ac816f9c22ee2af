//! One column that is built in the store.

use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ToByteSlice;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use plasmon_client::{Client, ObjectId, PutOptions};
use plasmon_proto::value::table_kind;

use super::finish::{self, Batch, ColumnSet};
use super::node::{Node, Values};
use super::options::BuilderOptions;
use crate::composite;
use crate::error::{Error, Result};
use crate::memory::Source;

/// The name of a lone column in its stream, as for other arrays in the store.
const COLUMN: &str = "values";

/// One column being built in the store. Dropped unfinished, its memory is free again.
#[derive(Debug)]
pub struct ColumnBuilder {
    source: Source,
    schema: SchemaRef,
    pub(super) node: Node,
}

impl ColumnBuilder {
    /// A builder for a column of this type. Memory is taken when something is appended.
    pub fn new(store: &Client, data_type: &DataType, options: &BuilderOptions) -> Result<Self> {
        Self::of_field(options.source(store), Field::new(COLUMN, data_type.clone(), true))
    }

    /// Like [`Self::new`], for a type with a field's properties beside its data type: metadata,
    /// such as an extension type's name, and whether the values of its dictionary are ordered.
    pub fn with_field(store: &Client, field: &Field, options: &BuilderOptions) -> Result<Self> {
        let field = field.clone().with_name(COLUMN).with_nullable(true);
        Self::of_field(options.source(store), field)
    }

    pub(super) fn of_field(source: Source, field: Field) -> Result<Self> {
        let node = Node::new(&source, &field)?;
        Ok(Self { source, schema: Arc::new(Schema::new(vec![field])), node })
    }

    /// The column as a field: its type with its metadata.
    pub fn field(&self) -> &Field {
        self.schema.field(0)
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.node.data_type
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.node.length
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.node.length == 0
    }

    /// How many of the values are null.
    pub fn null_count(&self) -> usize {
        self.node.null_count
    }

    /// Where the column's buffers begin, in the order of Arrow's layout; those without memory yet
    /// are left out. A buffer keeps its address from its first byte to the seal.
    pub fn addresses(&self) -> Vec<usize> {
        self.node.addresses()
    }

    /// Appends the values of an array of the column's type.
    pub fn append_array(&mut self, array: &dyn Array) -> Result<()> {
        self.attempt(|node| node.append(array, false))
    }

    /// Appends an array with whether its field's dictionary is ordered.
    /// An ordered dictionary keeps its order here if this column has an ordered one, too.
    pub fn append_of(&mut self, field: &Field, array: &dyn Array) -> Result<()> {
        self.attempt(|node| node.append(array, field.dict_is_ordered() == Some(true)))
    }

    /// Appends numbers, dates or times as their native values, for example
    /// `append_values::<Int64Type>(&[1, 2])`. Types with the same native values are
    /// interchangeable: a column of timestamps takes `Int64Type`.
    pub fn append_values<T: ArrowPrimitiveType>(&mut self, values: &[T::Native]) -> Result<()> {
        if native(self.data_type()) != Some(native(&T::DATA_TYPE).unwrap_or(T::DATA_TYPE)) {
            return Err(Error::mismatch(self.data_type(), T::DATA_TYPE));
        }
        self.append_raw(values.to_byte_slice())
    }

    /// Appends values of fixed width as the bytes that they are in memory.
    pub fn append_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt(|node| node.append_fixed(bytes))
    }

    /// Appends a string, to a column of strings.
    pub fn append_str(&mut self, text: &str) -> Result<()> {
        if !matches!(self.data_type(), DataType::Utf8 | DataType::LargeUtf8) {
            return Err(Error::mismatch(self.data_type(), "text"));
        }
        self.attempt(|node| node.append_value(text.as_bytes()))
    }

    /// Appends bytes, to a column of bytes of any length.
    pub fn append_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if !matches!(self.data_type(), DataType::Binary | DataType::LargeBinary) {
            return Err(Error::mismatch(self.data_type(), "bytes"));
        }
        self.attempt(|node| node.append_value(bytes))
    }

    /// Appends a boolean.
    pub fn append_bool(&mut self, value: bool) -> Result<()> {
        self.attempt(|node| node.append_bool(value))
    }

    /// Appends nulls.
    pub fn append_nulls(&mut self, count: usize) -> Result<()> {
        self.attempt(|node| node.append_nulls(count))
    }

    /// Appends a null.
    pub fn append_null(&mut self) -> Result<()> {
        self.append_nulls(1)
    }

    /// Appends all or nothing.
    fn attempt(&mut self, append: impl FnOnce(&mut Node) -> Result<()>) -> Result<()> {
        self.source.check_ours()?;
        let Some(length) = self.simple_mark() else {
            let mark = self.node.mark();
            return append(&mut self.node).inspect_err(|_| self.node.rewind(&mark));
        };
        // The common case makes no list of marks.
        append(&mut self.node).inspect_err(|_| self.node.rewind_simple(length))
    }

    /// The length of a column that consists of one buffer and its validity.
    fn simple_mark(&self) -> Option<(usize, usize)> {
        let simple = matches!(self.node.values, Values::Fixed { .. } | Values::Bool(_));
        simple.then_some((self.node.length, self.node.null_count))
    }

    /// A copy of what was appended so far, as an array of this process alone. It works also when
    /// the store is full or gone.
    pub fn snapshot(&self) -> Result<ArrayRef> {
        let batches = finish::snapshot(&self.schema, &[(self.len(), vec![&self.node])])?;
        Ok(Arc::clone(batches[0].column(0)))
    }

    /// Seals the column: it is an object at once, readable by every process, and nothing was
    /// copied. The builder is empty afterwards, ready for the next column; after an error that says
    /// that the name is taken it is as before.
    ///
    /// Should the daemon have been restarted in the meantime, the column is copied instead.
    pub fn finish(&mut self, options: &PutOptions) -> Result<ObjectId> {
        self.source.check_ours()?;
        composite::check_free(&self.source.store, options)?;
        let fresh = Node::new(&self.source, self.field())?;
        let node = std::mem::replace(&mut self.node, fresh);
        let (store, schema) = (&self.source.store, &self.schema);
        let finished = ColumnSet { store, schema, kind: table_kind::ARRAY };
        finished.seal(vec![Batch { rows: node.length, columns: vec![node] }], options)
    }

    /// Discards what was appended; its memory is free again, and warm for the next builder.
    pub fn abort(self) {
        drop(self);
    }
}

/// The type of numbers that values of a type are in memory.
fn native(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match data_type {
        T::Date32 | T::Time32(_) | T::Decimal32(..) => T::Int32,
        T::Date64 | T::Time64(_) | T::Timestamp(..) | T::Duration(_) | T::Decimal64(..) => T::Int64,
        T::Interval(arrow_schema::IntervalUnit::YearMonth) => T::Int32,
        T::Decimal128(..) => T::Decimal128(0, 0),
        T::Decimal256(..) => T::Decimal256(0, 0),
        other if other.is_primitive() => other.clone(),
        _ => return None,
    })
}
