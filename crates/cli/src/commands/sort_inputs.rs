//! What `plasmon sort` reads: files and objects, as one table, in memory or batch by batch.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use plasmon_client::Store;
use plasmon_proto::object::tag;
use plasmon_sort::Table;

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
    /// About how many bytes the rows of the files take.
    file_bytes: u64,
    /// The same for the objects.
    object_bytes: u64,
}

impl Inputs {
    /// Opens them; `connect` is called only when one is no file.
    pub(super) fn open(connect: &dyn Fn() -> Result<Store>, names: &[String]) -> Result<Self> {
        let (mut schema, mut inputs) = (None, Vec::new());
        let (mut file_bytes, mut object_bytes) = (0, 0);
        let files = names.iter().map(Path::new).filter(|path| path.exists());
        let files = files.map(|path| Ok((path, FileType::of_table(path, None)?)));
        let mut files = formats::open_all(&files.collect::<Result<Vec<_>>>()?, |_| Ok(()))?
            .into_iter()
            .peekable();
        for name in names {
            let found =
                if let Some((path, file)) = files.next_if(|(path, _)| *path == Path::new(name)) {
                    file_bytes += file.bytes_about;
                    let schema = file.schema.clone();
                    inputs.push(Input::File(path.to_owned(), Box::new(file)));
                    schema
                } else {
                    let (found, batches, bytes) =
                        object(connect, name).with_context(|| format!("reading {name}"))?;
                    object_bytes += bytes;
                    inputs.push(Input::Object(batches));
                    found
                };
            let first: &SchemaRef = schema.get_or_insert_with(|| found.clone());
            if first.fields() != found.fields() {
                bail!("{name} has other columns than {}", names[0]);
            }
        }
        let schema = schema.context("no input")?;
        Ok(Self { schema, inputs, file_bytes, object_bytes })
    }

    /// What sorting them in memory takes: the files, the result, and a quarter more.
    fn needed_bytes(&self) -> u64 {
        self.file_bytes + self.rows_bytes() / 4 * 5
    }

    /// The memory to use.
    pub(super) fn memory_bytes(&self, given: Option<u64>) -> Result<u64> {
        given.map_or_else(available_bytes, Ok)
    }

    /// About how many bytes all rows take.
    pub(super) fn rows_bytes(&self) -> u64 {
        self.file_bytes + self.object_bytes
    }

    /// Whether they need more memory than there is.
    pub(super) fn spills(&self, given: Option<u64>) -> Result<bool> {
        Ok(self.needed_bytes() > self.memory_bytes(given)?)
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
    connect: &dyn Fn() -> Result<Store>,
    name: &str,
) -> Result<(SchemaRef, Vec<RecordBatch>, u64)> {
    let store = connect().context("it is no file, and for an object there must be a store")?;
    let object = Target::find(&store, name)?;
    let buffer = store.get_existing(&object.id).map_err(|error| object.told(&store, error))?;
    if !matches!(buffer.tag(), tag::ARROW_STREAM | tag::COMPOSITE) {
        bail!("the object holds {}, not a table", formats::kind(buffer.tag()));
    }
    let (schema, batches) = plasmon_columns::read(&buffer)?;
    let bytes = batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum();
    Ok((schema, batches, bytes))
}

/// The memory that programs can have.
fn available_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).map(str::trim);
    let kib: u64 = kib.and_then(|kib| kib.parse().ok()).context("/proc/meminfo is not known")?;
    Ok(kib << 10)
}
