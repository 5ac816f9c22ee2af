//! One column of a file or of an object.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plasmon_client::{Name, tag};
use plasmon_hdf5_model::{ViewOf, open_regular};
use plasmon_proto::value::{Order, ValueHeader};

use super::column::Column;
use super::error::Error;
use super::flat::flat;

/// How long bringing an object back from a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The bytes before the stream in a file: its magic, padded.
const FILE_START_BYTES: usize = 8;
/// How many rows of a Parquet file are decoded at once.
const ROWS: usize = 1 << 16;

/// Reads a column that is to have a number of bytes of values.
///
/// # Errors
///
/// It is not there, has changed, or HDF5 has nothing like its values.
pub fn open(of: &ViewOf, name: &str, wanted: u64) -> Result<Column, Error> {
    let text = of.to_string();
    let column = match of {
        ViewOf::File(path) => of_file(Path::new(path), name, &text)?,
        ViewOf::Object { store, namespace, name: object } => {
            of_object(Path::new(store), namespace, object, name, &text)?
        }
    };
    let found = column.bytes();
    if found != wanted {
        return Err(Error::Changed { of: text, column: name.to_owned(), wanted, found });
    }
    Ok(column)
}

fn of_file(path: &Path, name: &str, text: &str) -> Result<Column, Error> {
    let system = |error| Error::System(path.to_owned(), error);
    // The path is the word of a skeleton: a pipe there must not be waited for.
    let mut file = open_regular(path).map_err(system)?;
    let mut magic = [0; 6];
    let length = file.read(&mut magic).map_err(system)?;
    file.seek(SeekFrom::Start(0)).map_err(system)?;
    let broken = |error: ArrowError| Error::Broken(text.to_owned(), error.to_string());
    let missing = || Error::NoColumn(text.to_owned(), name.to_owned());
    let place = |schema: &Schema| schema.index_of(name).map_err(|_| missing());
    let mut arrays = Vec::new();
    if magic[..length].starts_with(b"PAR1") {
        let bad = |error: parquet::errors::ParquetError| broken(error.into());
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(bad)?;
        let at = place(builder.schema())?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), [at]);
        let reader = builder.with_projection(mask).with_batch_size(ROWS).build().map_err(bad)?;
        gather(reader, 0, &mut arrays).map_err(broken)?;
    } else {
        let mut bytes = whole_file(&mut file).map_err(system)?;
        if &magic == b"ARROW1" {
            // Between its magic and its footer a file is a stream.
            bytes = bytes.slice(FILE_START_BYTES.min(bytes.len()));
        }
        let (schema, batches) = plasmon_columns::read_stream(bytes)
            .map_err(|error| Error::Broken(text.to_owned(), error.to_string()))?;
        let at = place(&schema)?;
        arrays.extend(batches.iter().map(|batch| Arc::clone(batch.column(at))));
    }
    flattened(arrays, name, text)
}

/// The bytes of a file, as far as there is memory for them.
fn whole_file(file: &mut File) -> io::Result<Buffer> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(io::Error::other)?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(Buffer::from_vec(bytes))
}

fn gather(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    at: usize,
    arrays: &mut Vec<ArrayRef>,
) -> Result<(), ArrowError> {
    for batch in batches {
        arrays.push(batch?.column(at).clone());
    }
    Ok(())
}

fn of_object(
    socket: &Path,
    namespace: &str,
    object: &str,
    name: &str,
    text: &str,
) -> Result<Column, Error> {
    let refused = |error: String| Error::Store(text.to_owned(), error);
    let store = crate::store(socket).map_err(|error| refused(error.to_string()))?;
    let wanted = Name::new(namespace, object).map_err(|error| refused(error.to_string()))?;
    let states = store.states(&[wanted.id()]).map_err(|error| refused(error.to_string()))?;
    // Only what is there is waited for, until it is back from a file.
    let timeout =
        if states.iter().any(|state| state.is_readable()) { READ_TIMEOUT } else { Duration::ZERO };
    let found = store.get_named(&wanted, Some(timeout));
    let found = found.map_err(|error| refused(error.to_string()))?;
    if found.tag() == tag::NDARRAY {
        let header = ValueHeader::decode(found.metadata()).ok();
        let (header, _) = header.ok_or_else(|| refused("it is not an array".to_owned()))?;
        if header.order == Order::Fortran && header.shape.len() > 1 {
            let (of, column) = (text.to_owned(), name.to_owned());
            let why = "the first index of the array varies fastest".to_owned();
            return Err(Error::NotFlat { of, column, why });
        }
        return Ok(Column::new(text, name, [whole(found)]));
    }
    let (schema, batches) = plasmon_columns::read(&found)
        .map_err(|error| Error::Broken(text.to_owned(), error.to_string()))?;
    let at = schema.index_of(name);
    let at = at.map_err(|_| Error::NoColumn(text.to_owned(), name.to_owned()))?;
    let arrays = batches.iter().map(|batch| batch.column(at).clone()).collect();
    flattened(arrays, name, text)
}

/// An object's data that keeps it pinned.
fn whole(object: plasmon_client::Buffer) -> Buffer {
    Buffer::from(bytes::Bytes::from_owner(object))
}

fn flattened(arrays: Vec<ArrayRef>, name: &str, text: &str) -> Result<Column, Error> {
    let mut buffers = Vec::with_capacity(arrays.len());
    for array in arrays.iter().filter(|array| !array.is_empty()) {
        let buffer = flat(array).map_err(|why| Error::NotFlat {
            of: text.to_owned(),
            column: name.to_owned(),
            why,
        })?;
        buffers.push(buffer);
    }
    Ok(Column::new(text, name, buffers))
}
