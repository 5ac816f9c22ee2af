//! The description of a batch in its header, taken apart from the front: which buffers each array
//! has. Every number is untrusted.

use std::collections::VecDeque;

use arrow_data::layout;
use arrow_ipc::{FieldNode, MetadataVersion, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field};

use crate::parts::cut_short;

type Result<T> = std::result::Result<T, ArrowError>;

/// What is left of a batch's description.
pub(crate) struct Cursor {
    version: MetadataVersion,
    nodes: VecDeque<FieldNode>,
    buffers: VecDeque<(i64, i64)>,
    variadic: VecDeque<i64>,
}

impl Cursor {
    /// The whole description.
    pub(crate) fn new(batch: RecordBatch<'_>, version: MetadataVersion) -> Result<Self> {
        let nodes = batch.nodes().ok_or_else(cut_short)?;
        let buffers = batch.buffers().ok_or_else(cut_short)?;
        let counts = batch.variadicBufferCounts();
        Ok(Self {
            version,
            nodes: nodes.iter().copied().collect(),
            buffers: buffers.iter().map(|buffer| (buffer.offset(), buffer.length())).collect(),
            variadic: counts.into_iter().flatten().collect(),
        })
    }

    /// The next array.
    pub(crate) fn node(&mut self) -> Result<FieldNode> {
        self.nodes.pop_front().ok_or_else(cut_short)
    }

    /// The next buffer: where in the body it is, and its length.
    pub(crate) fn buffer(&mut self) -> Result<(u64, u64)> {
        let (offset, bytes) = self.buffers.pop_front().ok_or_else(cut_short)?;
        let number = |value: i64| u64::try_from(value).map_err(|_| cut_short());
        Ok((number(offset)?, number(bytes)?))
    }

    /// How many buffers the next array of views has after its views.
    pub(crate) fn variadic(&mut self) -> Result<u64> {
        let count = self.variadic.pop_front().ok_or_else(cut_short)?;
        u64::try_from(count).map_err(|_| cut_short())
    }

    /// Whether an array of this type has a validity that means nothing: before version 5 unions
    /// had one.
    pub(crate) fn has_void_validity(&self, data_type: &DataType) -> bool {
        matches!(data_type, DataType::Union(..)) && self.version < MetadataVersion::V5
    }

    /// Goes past the next array, which is of the field's type, and tells where its buffers are.
    pub(crate) fn pass(&mut self, field: &Field, tell: &mut dyn FnMut((u64, u64))) -> Result<()> {
        let data_type = field.data_type();
        self.node()?;
        let shape = layout(data_type);
        let validity = usize::from(self.has_void_validity(data_type))
            + usize::from(shape.can_contain_null_mask);
        for _ in 0..validity + shape.buffers.len() {
            tell(self.buffer()?);
        }
        if shape.variadic {
            for _ in 0..self.variadic()? {
                tell(self.buffer()?);
            }
        }
        children_of(data_type).into_iter().try_for_each(|child| self.pass(child, tell))
    }
}

/// The children that arrays of a type have in a stream, in order. The values of a dictionary are
/// elsewhere.
pub(crate) fn children_of(data_type: &DataType) -> Vec<&Field> {
    match data_type {
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => vec![inner],
        DataType::Struct(fields) => fields.iter().map(AsRef::as_ref).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, inner)| inner.as_ref()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        _ => Vec::new(),
    }
}
