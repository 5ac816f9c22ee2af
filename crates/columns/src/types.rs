//! Schemas that another process wrote, checked before arrays are made of them.
//!
//! Arrow's own conversions take some things for granted and panic where they are not so.

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Message, root_as_message_with_opts};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use flatbuffers::VerifierOptions;

/// The fewest bytes of a table in a header.
const TABLE_BYTES_MIN: usize = 4;

/// How often one byte of a header may be referred to, on average: tables share their shapes and
/// may share strings, but a header whose every field has the same long name is an attack.
const SHARED_MAX: usize = 64;

/// Types in one union: a signed byte distinguishes them.
const UNION_TYPES_MAX: usize = 127;

/// The message with this header. What it takes to read it is bounded by the header's length.
pub(crate) fn message(header: &[u8]) -> Result<Message<'_>, ArrowError> {
    let options = VerifierOptions {
        max_tables: header.len() / TABLE_BYTES_MIN,
        max_apparent_size: header.len().saturating_mul(SHARED_MAX),
        ..VerifierOptions::default()
    };
    root_as_message_with_opts(&options, header)
        .map_err(|error| ArrowError::IpcError(format!("a bad message: {error}")))
}

/// The schema in a message.
pub(crate) fn schema(found: arrow_ipc::Schema<'_>) -> Result<Schema, ArrowError> {
    for field in found.fields().into_iter().flatten() {
        check_unions(field)?;
    }
    let schema = try_fb_to_schema(found)?;
    schema.fields().iter().try_for_each(|field| check(field))?;
    Ok(schema)
}

/// Looks at what the conversion of unions panics over.
fn check_unions(field: arrow_ipc::Field<'_>) -> Result<(), ArrowError> {
    let children = field.children();
    if field.type_as_union().is_some() && children.is_some_and(|all| all.len() > UNION_TYPES_MAX) {
        return Err(refused(&format!("a union of more than {UNION_TYPES_MAX} types")));
    }
    children.into_iter().flatten().try_for_each(check_unions)
}

fn check(field: &Field) -> Result<(), ArrowError> {
    check_type(field.data_type())
}

fn check_type(data_type: &DataType) -> Result<(), ArrowError> {
    match data_type {
        DataType::FixedSizeBinary(size) if *size < 0 => Err(refused("values of a negative size")),
        DataType::FixedSizeList(_, size) if *size < 0 => Err(refused("lists of a negative size")),
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner)
        | DataType::FixedSizeList(inner, _) => check(inner),
        DataType::Map(inner, _) => match inner.data_type() {
            DataType::Struct(pair) if pair.len() == 2 && !pair[0].is_nullable() => check(inner),
            other => Err(refused(&format!("a map of {other}"))),
        },
        DataType::Struct(fields) => fields.iter().try_for_each(|inner| check(inner)),
        DataType::Union(fields, _) => fields.iter().try_for_each(|(_, inner)| check(inner)),
        DataType::RunEndEncoded(ends, values) => match ends.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => check(values),
            other => Err(refused(&format!("runs that end with {other}"))),
        },
        DataType::Dictionary(_, values) => check_type(values),
        _ => Ok(()),
    }
}

fn refused(what: &str) -> ArrowError {
    ArrowError::SchemaError(format!("the stream's schema has {what}"))
}
