//! Named columns that are built together and sealed as one object.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_client::{ObjectId, PutOptions, Store};
use plasmon_proto::value::table_kind;

use super::finish::{self, Finished};
use super::node::Node;
use super::{BuilderOptions, ColumnBuilder};
use crate::composing;
use crate::error::{Error, Result};
use crate::memory::Source;

/// A table being built in the store: whole batches, or column by column.
#[derive(Debug)]
pub struct TableBuilder {
    source: Source,
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
}

impl TableBuilder {
    /// A builder for a table of this schema.
    pub fn new(store: &Store, schema: &SchemaRef, options: &BuilderOptions) -> Result<Self> {
        let source = options.source(store);
        let column = |field: &arrow_schema::FieldRef| {
            ColumnBuilder::of_field(source.clone(), field.as_ref().clone())
        };
        let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
        Ok(Self { source, schema: schema.clone(), columns })
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows there are: those of the shortest column.
    pub fn rows(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::len).min().unwrap_or(0)
    }

    /// One column, to be built by itself; `None` when there is none of this name. At the end all
    /// columns must be equally long.
    pub fn column(&mut self, name: &str) -> Option<&mut ColumnBuilder> {
        let at = self.schema.index_of(name).ok()?;
        self.columns.get_mut(at)
    }

    /// One column by its position.
    pub fn column_at(&mut self, at: usize) -> Option<&mut ColumnBuilder> {
        self.columns.get_mut(at)
    }

    /// Appends the rows of a batch whose columns have these types, in this order: all or none.
    pub fn append_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.source.check_ours()?;
        let (wanted, found) = (self.columns.len(), batch.num_columns());
        if wanted != found {
            let text = format!("a builder of {wanted} columns takes no batch of {found}");
            return Err(Error::Shape(text));
        }
        let marks: Vec<_> = self.columns.iter().map(|column| column.node.mark()).collect();
        for (at, array) in batch.columns().iter().enumerate() {
            if let Err(error) = self.columns[at].node.append(array) {
                let columns = self.columns.iter_mut().zip(&marks).take(at + 1);
                columns.for_each(|(column, mark)| column.node.rewind(mark));
                return Err(match error {
                    Error::Type { wanted, found } => {
                        let name = self.schema.field(at).name();
                        Error::Shape(format!("column \"{name}\" of {wanted} takes no {found}"))
                    }
                    other => other,
                });
            }
        }
        Ok(())
    }

    /// The rows that every column has, or which columns are of different lengths.
    fn whole_rows(&self) -> Result<usize> {
        let rows = self.rows();
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
        for (column, field) in self.columns.iter().zip(self.schema.fields()) {
            if !field.is_nullable() && column.null_count() > 0 {
                let count = column.null_count();
                let text = format!("column \"{}\" may have no nulls and has {count}", field.name());
                return Err(Error::Shape(text));
            }
        }
        Ok(())
    }

    /// A copy of what was appended so far, as a batch of this process alone.
    pub fn snapshot(&self) -> Result<RecordBatch> {
        let rows = self.whole_rows()?;
        finish::snapshot(&self.schema, &self.nodes(), rows)
    }

    fn nodes(&self) -> Vec<&Node> {
        self.columns.iter().map(|column| &column.node).collect()
    }

    /// Seals the table as one object of one record batch; see [`ColumnBuilder::finish`].
    pub fn finish(&mut self, options: &PutOptions) -> Result<ObjectId> {
        self.source.check_ours()?;
        let rows = self.whole_rows()?;
        self.check_nulls()?;
        composing::check_free(&self.source.store, options)?;
        let mut nodes = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let fresh = Node::new(&self.source, column.data_type())?;
            nodes.push(std::mem::replace(&mut column.node, fresh));
        }
        let finished = Finished {
            store: &self.source.store,
            schema: &self.schema,
            rows,
            kind: table_kind::TABLE,
        };
        finished.seal(nodes, options)
    }

    /// Gives up what was appended.
    pub fn abort(self) {
        drop(self);
    }
}
