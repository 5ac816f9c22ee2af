//! Named columns that are built together and sealed as one object.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_client::{Client, ObjectId, PutOptions};
use plasmon_proto::value::table_kind;

use super::column::ColumnBuilder;
use super::finish::{self, Batch, ColumnSet};
use super::node::Node;
use super::options::BuilderOptions;
use crate::composite;
use crate::error::{Error, Result};
use crate::memory::Source;

/// A table being built in the store: whole batches, or column by column.
#[derive(Debug)]
pub struct TableBuilder {
    source: Source,
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    /// Batches that are as long as their types can count.
    full: Vec<Batch>,
}

impl TableBuilder {
    /// A builder for a table of this schema.
    pub fn new(store: &Client, schema: &SchemaRef, options: &BuilderOptions) -> Result<Self> {
        let source = options.source(store);
        let column = |field: &arrow_schema::FieldRef| {
            ColumnBuilder::of_field(source.clone(), field.as_ref().clone())
        };
        let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
        Ok(Self { source, schema: schema.clone(), columns, full: Vec::new() })
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows there are: those of the shortest column.
    pub fn rows(&self) -> usize {
        let full: usize = self.full.iter().map(|batch| batch.rows).sum();
        full + self.newest_rows()
    }

    /// The rows of the batch that is being built.
    fn newest_rows(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::len).min().unwrap_or(0)
    }

    /// One column, to be built separately; `None` when there is none of this name. At the end all
    /// columns must be equally long.
    pub fn column(&mut self, name: &str) -> Option<&mut ColumnBuilder> {
        let at = self.schema.index_of(name).ok()?;
        self.columns.get_mut(at)
    }

    /// One column by its position.
    pub fn column_at(&mut self, at: usize) -> Option<&mut ColumnBuilder> {
        self.columns.get_mut(at)
    }

    /// How many values the column at this position has in all; `None` when there is none.
    pub fn column_length(&self, at: usize) -> Option<usize> {
        let full: usize = self.full.iter().map(|batch| batch.rows).sum();
        self.columns.get(at).map(|column| full + column.len())
    }

    /// How many values the column at this position has in batches that are full, and how many of
    /// them are null.
    pub fn full_counts(&self, at: usize) -> (usize, usize) {
        let full = self.full.iter().filter_map(|batch| batch.columns.get(at));
        full.fold((0, 0), |(values, nulls), it| (values + it.length, nulls + it.null_count))
    }

    /// Appends the rows of a batch whose columns have these types, in this order: all or none.
    ///
    /// Where a column would get longer than its type can count, another record batch is begun.
    pub fn append_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        match self.append_here(batch) {
            Err(Error::Overflow { .. }) if self.newest_rows() > 0 => {
                self.begin_batch()?;
                self.append_here(batch)
            }
            outcome => outcome,
        }
    }

    /// Like [`Self::append_batch`], for a batch whose columns have these names in any order.
    pub fn append_named(&mut self, batch: &RecordBatch) -> Result<()> {
        let (wanted, found) = (self.schema.fields(), batch.schema());
        if wanted.len() != found.fields().len() {
            return self.append_batch(batch);
        }
        let order: std::result::Result<Vec<usize>, _> =
            wanted.iter().map(|field| found.index_of(field.name())).collect();
        let order = order.map_err(|error| Error::Shape(format!("the rows do not fit: {error}")))?;
        self.append_batch(&batch.project(&order)?)
    }

    /// Begins another record batch; the columns must be equally long.
    fn begin_batch(&mut self) -> Result<()> {
        let batch = self.take_newest()?;
        self.full.push(batch);
        Ok(())
    }

    fn take_newest(&mut self) -> Result<Batch> {
        let rows = self.whole_rows()?;
        let fresh = |column: &ColumnBuilder| Node::new(&self.source, column.field());
        let fresh: Vec<Node> = self.columns.iter().map(fresh).collect::<Result<_>>()?;
        let columns = self.columns.iter_mut().zip(fresh);
        let columns = columns.map(|(it, fresh)| std::mem::replace(&mut it.node, fresh)).collect();
        Ok(Batch { rows, columns })
    }

    fn append_here(&mut self, batch: &RecordBatch) -> Result<()> {
        self.source.check_ours()?;
        let (wanted, found) = (self.columns.len(), batch.num_columns());
        if wanted != found {
            let text = format!("a builder of {wanted} columns does not take a batch of {found}");
            return Err(Error::Shape(text));
        }
        let marks: Vec<_> = self.columns.iter().map(|column| column.node.mark()).collect();
        let schema = batch.schema();
        for (at, array) in batch.columns().iter().enumerate() {
            let ordered = schema.field(at).dict_is_ordered() == Some(true);
            if let Err(error) = self.columns[at].node.append(array, ordered) {
                let columns = self.columns.iter_mut().zip(&marks).take(at + 1);
                columns.for_each(|(column, mark)| column.node.rewind(mark));
                return Err(match error {
                    Error::Type { wanted, found } => {
                        let name = self.schema.field(at).name();
                        Error::Shape(format!("column \"{name}\" of {wanted} does not take {found}"))
                    }
                    other => other,
                });
            }
        }
        Ok(())
    }

    /// The rows that every column has, or which columns are of different lengths.
    fn whole_rows(&self) -> Result<usize> {
        let rows = self.newest_rows();
        let uneven = self.columns.iter().zip(self.schema.fields());
        let uneven: Vec<_> = uneven
            .filter(|(column, _)| column.len() != rows)
            .map(|(column, field)| format!("\"{}\" has {}", field.name(), column.len()))
            .collect();
        if uneven.is_empty() {
            return Ok(rows);
        }
        let text =
            format!("the columns are of different lengths: {rows} rows, but {}", uneven.join(", "));
        Err(Error::Shape(text))
    }

    /// A null in a column that has none is a promise broken.
    fn check_nulls(&self) -> Result<()> {
        for (at, (column, field)) in self.columns.iter().zip(self.schema.fields()).enumerate() {
            let before = self.full.iter().map(|batch| batch.columns[at].null_count);
            let count = column.null_count() + before.sum::<usize>();
            if !field.is_nullable() && count > 0 {
                let text = format!("column \"{}\" may have no nulls and has {count}", field.name());
                return Err(Error::Shape(text));
            }
        }
        Ok(())
    }

    /// A copy of what was appended so far, as batches of this process alone.
    pub fn snapshot(&self) -> Result<Vec<RecordBatch>> {
        let newest = (self.whole_rows()?, self.columns.iter().map(|it| &it.node).collect());
        let full = self.full.iter().map(|it| (it.rows, it.columns.iter().collect()));
        let batches: Vec<(usize, Vec<&Node>)> = full.chain([newest]).collect();
        finish::snapshot(&self.schema, &batches)
    }

    /// Seals the table as one object, of one record batch unless it is too long for that; see
    /// [`ColumnBuilder::finish`].
    pub fn finish(&mut self, options: &PutOptions) -> Result<ObjectId> {
        self.source.check_ours()?;
        self.whole_rows()?;
        self.check_nulls()?;
        composite::check_free(&self.source.store, options)?;
        let newest = self.take_newest()?;
        let mut batches = std::mem::take(&mut self.full);
        if newest.rows > 0 || batches.is_empty() {
            batches.push(newest);
        }
        let (store, schema) = (&self.source.store, &self.schema);
        ColumnSet { store, schema, kind: table_kind::TABLE }.seal(batches, options)
    }

    /// Discards what was appended.
    pub fn abort(self) {
        drop(self);
    }
}
