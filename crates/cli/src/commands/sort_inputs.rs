//! The inputs of `plasmon sort`: files and objects, as one table, in memory or batch by batch.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_client::Client;
use plasmon_proto::object::tag;
use plasmon_sort::{Table, batch_bytes};
use plasmon_sort_store::Sizes;

use crate::formats::{self, FileType, TableFile};
use crate::target::Target;

/// One input.
enum Input {
    /// Its rows are read when they are wanted.
    File(PathBuf, Box<TableFile>),
    /// On the store's memory.
    Object(Vec<RecordBatch>),
}

/// All inputs, which have the same columns.
pub(super) struct Inputs {
    /// Their columns.
    pub(super) schema: SchemaRef,
    inputs: Vec<Input>,
    sizes: Sizes,
}

impl Inputs {
    /// Opens them; `connect` is called only when one is not a file.
    pub(super) fn open(connect: &dyn Fn() -> Result<Client>, names: &[String]) -> Result<Self> {
        let (mut schema, mut inputs) = (None, Vec::new());
        let mut sizes = Sizes::default();
        let files = names.iter().map(Path::new).filter(|path| path.exists());
        let files = files.map(|path| Ok((path, FileType::of_table(path, None)?)));
        let mut files = formats::open_all(&files.collect::<Result<Vec<_>>>()?, |_| Ok(()))?
            .into_iter()
            .peekable();
        for name in names {
            let found =
                if let Some((path, file)) = files.next_if(|(path, _)| *path == Path::new(name)) {
                    sizes.file_bytes += file.bytes_about;
                    sizes.rows_bytes += file.bytes_about;
                    let schema = file.schema.clone();
                    inputs.push(Input::File(path.to_owned(), Box::new(file)));
                    schema
                } else {
                    let (found, batches, bytes) =
                        object(connect, name).with_context(|| format!("reading {name}"))?;
                    sizes.rows_bytes += bytes;
                    inputs.push(Input::Object(batches));
                    found
                };
            let first: &SchemaRef = schema.get_or_insert_with(|| found.clone());
            if first.fields() != found.fields() {
                bail!("{name} has different columns from {}", names[0]);
            }
        }
        let schema = schema.context("no input")?;
        Ok(Self { schema, inputs, sizes })
    }

    /// About how many bytes all rows take.
    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// All rows in memory.
    pub(super) fn table(self) -> Result<Table> {
        let mut batches = Vec::new();
        for input in self.inputs {
            match input {
                Input::File(path, file) => {
                    let table = file.table().with_context(|| reading(&path))?;
                    batches.extend(table.batches);
                }
                Input::Object(mut own) => batches.append(&mut own),
            }
        }
        Ok(Table::new(self.schema, batches)?)
    }

    /// Gives the rows batch by batch; none is kept.
    pub(super) fn each(self, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        for input in self.inputs {
            match input {
                Input::File(path, file) => {
                    let failed = || reading(&path);
                    for batch in file.rows().with_context(failed)? {
                        take(batch.with_context(failed)?)?;
                    }
                }
                Input::Object(batches) => batches.into_iter().try_for_each(&mut *take)?,
            }
        }
        Ok(())
    }
}

fn reading(path: &Path) -> String {
    format!("reading {}", path.display())
}

fn object(
    connect: &dyn Fn() -> Result<Client>,
    name: &str,
) -> Result<(SchemaRef, Vec<RecordBatch>, u64)> {
    let store = connect().context("it is not a file, and an object needs a store")?;
    let object = Target::find(&store, name)?;
    let buffer = store.get_existing(&object.id).map_err(|error| object.failure(&store, error))?;
    if !matches!(buffer.tag(), tag::ARROW_STREAM | tag::COMPOSITE) {
        bail!("the object holds {}, not a table", tag::in_words(buffer.tag()));
    }
    let (schema, batches) = plasmon_columns::read(&buffer)?;
    // A table in parts has its bytes in other objects, and some of them may be compressed.
    let bytes = match buffer.tag() {
        tag::COMPOSITE => batches.iter().map(batch_bytes).sum(),
        _ => buffer.data().len() as u64,
    };
    Ok((schema, batches, bytes))
}
