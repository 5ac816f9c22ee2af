//! Arrow data: building it in the store, putting it, reading it in place.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Schema};
use plasmon_client::c_allocator::AllocatorTable;
use plasmon_client::{Error, Result};
use plasmon_columns::{BuilderOptions, ColumnBuilder, Pool, Table, TableBuilder};
use plasmon_proto::value::table_kind;

use crate::arguments::{
    array, bad_request, borrow, borrow_mut, check_out, clear_out, give, take_back, write_optional,
    write_out,
};
use crate::boundary::{done, value};
use crate::connection::plasmon_store;
use crate::id::plasmon_id;
use crate::reader::plasmon_buffer;
use crate::writer::{plasmon_put_options, put_options};

/// All columns of a table at once.
const ROWS: i64 = -1;

/// A column or a table being built, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_builder {
    built: Target,
    data_type: DataType,
}

#[derive(Debug)]
enum Target {
    Column(Box<ColumnBuilder>),
    Table(TableBuilder),
}

/// The result of a function of `plasmon-columns`, with an error of the client.
fn of_columns<T>(outcome: plasmon_columns::Result<T>) -> Result<T> {
    outcome.map_err(|error| match error {
        plasmon_columns::Error::Store(error) => error,
        other => {
            let detail = other.to_string();
            Error::new(other.code(), "handling Arrow data").with_detail(detail)
        }
    })
}

fn of_arrow<T>(outcome: std::result::Result<T, arrow_schema::ArrowError>) -> Result<T> {
    of_columns(outcome.map_err(plasmon_columns::Error::from))
}

impl plasmon_builder {
    fn open(
        store: &plasmon_client::Client,
        field: &Field,
        options: &BuilderOptions,
    ) -> Result<Self> {
        let data_type = field.data_type().clone();
        let built = match &data_type {
            DataType::Struct(fields) => {
                let metadata = field.metadata().clone();
                let schema = Arc::new(Schema::new_with_metadata(fields.clone(), metadata));
                Target::Table(of_columns(TableBuilder::new(store, &schema, options))?)
            }
            other => {
                Target::Column(Box::new(of_columns(ColumnBuilder::new(store, other, options))?))
            }
        };
        Ok(Self { built, data_type })
    }

    fn column(&mut self, at: i64) -> Result<&mut ColumnBuilder> {
        let found = match (&mut self.built, usize::try_from(at)) {
            (Target::Column(column), Ok(0)) => Some(&mut **column),
            (Target::Table(table), Ok(at)) => table.column_at(at),
            _ => None,
        };
        found.ok_or_else(|| bad_request(format!("there is no column {at}")))
    }

    fn append(&mut self, at: i64, array: FFI_ArrowArray) -> Result<()> {
        if at != ROWS {
            let column = self.column(at)?;
            let data_type = column.data_type().clone();
            // SAFETY: the caller promises an array of the column's type.
            let array = unsafe { imported(array, data_type) }?;
            return of_columns(column.append_array(&array));
        }
        let data_type = self.data_type.clone();
        let Target::Table(table) = &mut self.built else {
            return Err(bad_request("a builder of one column does not take rows: name column 0"));
        };
        // SAFETY: the caller promises an array of the table's type.
        let array = unsafe { imported(array, data_type) }?;
        let rows = array.as_any().downcast_ref::<StructArray>();
        let rows = rows.ok_or_else(|| bad_request("the rows are not an array of structs"))?;
        let schema = table.schema().clone();
        let batch = RecordBatch::try_new(schema, rows.columns().to_vec());
        of_columns(table.append_batch(&of_arrow(batch)?))
    }

    fn length(&self, at: i64) -> Result<usize> {
        match (&self.built, usize::try_from(at)) {
            (Target::Table(table), Err(_)) if at == ROWS => Ok(table.rows()),
            (Target::Table(table), Ok(at)) => {
                let found = table.column_length(at);
                found.ok_or_else(|| bad_request(format!("there is no column {at}")))
            }
            (Target::Column(column), _) if at == 0 || at == ROWS => Ok(column.len()),
            _ => Err(bad_request(format!("there is no column {at}"))),
        }
    }
}

/// An array from C.
///
/// # Safety
///
/// `array` is one of this type, by Arrow's C data interface.
unsafe fn imported(array: FFI_ArrowArray, data_type: DataType) -> Result<ArrayRef> {
    // SAFETY: by this function's contract.
    let array = of_arrow(unsafe { plasmon_arrow_c::import_array(array, &data_type) })?;
    // A builder makes text of it.
    of_arrow(array.to_data().validate_full())?;
    Ok(array)
}

/// Moves a structure of Arrow's C interfaces out of the caller's.
///
/// # Safety
///
/// `pointer` is null or a valid structure.
unsafe fn consume<T>(pointer: *mut T, name: &str, from_raw: unsafe fn(*mut T) -> T) -> Result<T> {
    check_out(pointer, name)?;
    // SAFETY: by this function's contract; the structure is marked as released.
    Ok(unsafe { from_raw(pointer) })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_read_arrow(
    buffer: *const plasmon_buffer,
    stream: *mut FFI_ArrowArrayStream,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a buffer, or null.
        let buffer = unsafe { borrow(buffer, "buffer") }?;
        check_out(stream, "stream")?;
        let batches = plasmon_columns::read(&buffer.0).and_then(plasmon_columns::into_reader);
        let made = FFI_ArrowArrayStream::new(of_columns(batches)?);
        // SAFETY: the caller gives room for a stream, whose content is overwritten.
        unsafe { std::ptr::write_unaligned(stream, made) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_put_arrow(
    store: *const plasmon_store,
    pool: *const AllocatorTable,
    stream: *mut FFI_ArrowArrayStream,
    options: *const plasmon_put_options,
    id: *mut plasmon_id,
    copied_bytes: *mut u64,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a stream that is consumed here, or null.
        let stream = unsafe { consume(stream, "stream", FFI_ArrowArrayStream::from_raw) }?;
        // An object whose id the caller does not receive could not be used.
        check_out(id, "id")?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives options as the header requires, or null.
        let options = unsafe { put_options(options) }?;
        // SAFETY: the caller gives a table of plasmon_pool_open, or null.
        let table = unsafe { pool.as_ref() };
        // SAFETY: the table was made for a pool, by plasmon_pool_open, and is not closed.
        let pool: Option<&Pool> = table.map(|table| unsafe { table.allocator() });
        // SAFETY: the caller gives a stream of the interface.
        let (field, arrays) = of_arrow(unsafe { plasmon_arrow_c::import_stream(stream) })?;
        let schema = of_arrow(plasmon_arrow_c::schema_of(field, false))?;
        let batch = |array| plasmon_arrow_c::batch_of(array, &schema, false);
        let batches: Vec<RecordBatch> = of_arrow(arrays.into_iter().map(batch).collect())?;
        let (kind, text) = (table_kind::TABLE, "");
        let table = Table { schema: &schema, batches: &batches, kind, text };
        let put = plasmon_columns::put(&store.0, pool.into_iter(), table, &options);
        let shared = of_columns(put)?;
        // SAFETY: the caller gives room for the number, or null.
        unsafe { write_optional(copied_bytes, shared.copied_bytes) };
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", shared.id.into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_open(
    store: *const plasmon_store,
    api: *mut AllocatorTable,
) -> i32 {
    done(|| {
        check_out(api, "api")?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        let pool = Arc::new(of_columns(Pool::new(&store.0))?);
        // SAFETY: the caller gives room for the table.
        unsafe { write_out(api, "api", AllocatorTable::of(pool)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_open(
    store: *const plasmon_store,
    schema: *mut FFI_ArrowSchema,
    bytes_hint: u64,
    timeout_ms: i64,
    builder: *mut *mut plasmon_builder,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(builder, "builder") }?;
        // SAFETY: the caller gives a schema that is consumed here, or null.
        let schema = unsafe { consume(schema, "schema", FFI_ArrowSchema::from_raw) }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        let timeout = u64::try_from(timeout_ms);
        let timeout = timeout.map_err(|_| bad_request("timeout cannot be negative"))?;
        let options = BuilderOptions { bytes_hint, timeout: Duration::from_millis(timeout) };
        let field = of_arrow(Field::try_from(&schema))?;
        let opened = plasmon_builder::open(&store.0, &field, &options)?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(builder, "builder", opened) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_append(
    builder: *mut plasmon_builder,
    column: i64,
    array: *mut FFI_ArrowArray,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an array that is consumed here, or null.
        let array = unsafe { consume(array, "array", FFI_ArrowArray::from_raw) }?;
        // SAFETY: the caller gives a builder, or null.
        unsafe { borrow_mut(builder, "builder") }?.append(column, array)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_append_values(
    builder: *mut plasmon_builder,
    column: i64,
    values: *const c_void,
    bytes: usize,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a builder, or null.
        let builder = unsafe { borrow_mut(builder, "builder") }?;
        // SAFETY: the caller gives that many bytes, or null when there are none.
        let values = unsafe { array(values.cast::<u8>(), bytes, "values") }?;
        of_columns(builder.column(column)?.append_raw(values))
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_append_nulls(
    builder: *mut plasmon_builder,
    column: i64,
    count: usize,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a builder, or null.
        let builder = unsafe { borrow_mut(builder, "builder") }?;
        of_columns(builder.column(column)?.append_nulls(count))
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_length(
    builder: *const plasmon_builder,
    column: i64,
    length: *mut u64,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a builder, or null.
        let found = unsafe { borrow(builder, "builder") }?.length(column)?;
        // SAFETY: the caller gives room for the number, or null.
        unsafe { write_out(length, "length", found as u64) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_finish(
    builder: *mut plasmon_builder,
    options: *const plasmon_put_options,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        check_out(id, "id")?;
        // SAFETY: the caller gives a builder, or null.
        let builder = unsafe { borrow_mut(builder, "builder") }?;
        // SAFETY: the caller gives options as the header requires, or null.
        let options = unsafe { put_options(options) }?;
        let finished = match &mut builder.built {
            Target::Column(column) => column.finish(&options),
            Target::Table(table) => table.finish(&options),
        };
        let finished = of_columns(finished)?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", finished.into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_builder_free(builder: *mut plasmon_builder) {
    // SAFETY: the caller gives a builder of plasmon_builder_open back, once, or null.
    value((), || drop(unsafe { take_back(builder) }));
}
