//! The tree of buffers of one column: the parts of an Arrow array, while it grows.

use arrow_schema::{DataType, Field};

use super::dictionary::DictionaryKeys;
use crate::error::{Error, Result};
use crate::memory::{Bits, Bytes, Source};

/// The growing form of one array: a column, or a part of a nested one.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) data_type: DataType,
    pub(crate) length: usize,
    pub(crate) null_count: usize,
    /// Made with the first null.
    validity: Option<Bits>,
    pub(crate) values: Values,
    source: Source,
}

/// The contents of a node besides its validity.
#[derive(Debug)]
pub(crate) enum Values {
    /// Nothing: all nulls.
    Null,
    /// Values of a fixed number of bytes each.
    Fixed { width: usize, values: Bytes },
    /// Bits.
    Bool(Bits),
    /// Offsets and bytes.
    Bytes { offsets: Offsets, data: Bytes },
    /// Offsets and the elements of all lists.
    List { offsets: Offsets, child: Box<Node> },
    /// A fixed number of elements for each list.
    FixedList { size: usize, child: Box<Node> },
    /// One node for each field.
    Struct(Vec<Node>),
    /// Keys and the values that they stand for.
    Dictionary { keys: Box<DictionaryKeys>, values: Box<Node> },
}

/// Where each value starts and the last one ends: one more than there are values.
#[derive(Debug)]
pub(crate) struct Offsets {
    pub(crate) bytes: Bytes,
    wide: bool,
    end: u64,
}

impl Offsets {
    fn new(source: &Source, wide: bool) -> Self {
        Self { bytes: Bytes::new(source), wide, end: 0 }
    }

    pub(crate) fn width(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// The first offset exists before the first value.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.bytes.len() == 0 { self.bytes.push(&[0; 8][..self.width()]) } else { Ok(()) }
    }

    /// Whether the counts have room for this many bytes or elements more.
    pub(crate) fn holds(&self, more: u64) -> bool {
        let most = if self.wide { i64::MAX as u64 } else { i32::MAX as u64 };
        self.end.checked_add(more).is_some_and(|end| end <= most)
    }

    /// Appends the ends of values, given from their own beginning; [`Self::holds`] was asked.
    pub(crate) fn push(&mut self, ends: impl ExactSizeIterator<Item = u64>) -> Result<()> {
        self.begin()?;
        let (start, wide, width) = (self.end, self.wide, self.width());
        let mut last = start;
        self.bytes.extend(ends.len() * width, |into| {
            for (place, end) in into.chunks_exact_mut(width).zip(ends) {
                last = start + end;
                if wide {
                    place.copy_from_slice(&last.to_le_bytes());
                } else {
                    place.copy_from_slice(&(last as u32).to_le_bytes());
                }
            }
        })?;
        self.end = last;
        Ok(())
    }

    fn truncate(&mut self, mark: u64, values: usize) {
        self.bytes.truncate((values + 1) * self.width());
        self.end = mark;
    }
}

impl Node {
    /// An empty node, or the reason why there is none of this type.
    pub(crate) fn new(source: &Source, field: &Field) -> Result<Self> {
        let data_type = field.data_type();
        let child = |field: &Field| Self::new(source, field);
        let bytes =
            |wide| Values::Bytes { offsets: Offsets::new(source, wide), data: Bytes::new(source) };
        let list = |wide, field| -> Result<Values> {
            let offsets = Offsets::new(source, wide);
            Ok(Values::List { offsets, child: Box::new(child(field)?) })
        };
        let values = match data_type {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(Bits::new(source)),
            DataType::Utf8 | DataType::Binary => bytes(false),
            DataType::LargeUtf8 | DataType::LargeBinary => bytes(true),
            DataType::List(field) | DataType::Map(field, _) => list(false, field)?,
            DataType::LargeList(field) => list(true, field)?,
            DataType::FixedSizeList(field, size) => {
                let size = usize::try_from(*size).map_err(|_| unsupported(data_type))?;
                Values::FixedList { size, child: Box::new(child(field)?) }
            }
            DataType::Struct(fields) => {
                Values::Struct(fields.iter().map(|field| child(field)).collect::<Result<_>>()?)
            }
            DataType::Dictionary(key_type, value_type) => {
                let ordered = field.dict_is_ordered() == Some(true);
                let keys = DictionaryKeys::new(source, (key_type, value_type), ordered)?;
                let values = child(&Field::new("", value_type.as_ref().clone(), true))?;
                Values::Dictionary { keys: Box::new(keys), values: Box::new(values) }
            }
            DataType::FixedSizeBinary(width) => {
                let width = usize::try_from(*width).map_err(|_| unsupported(data_type))?;
                Values::Fixed { width, values: Bytes::new(source) }
            }
            other => match other.primitive_width() {
                Some(width) => Values::Fixed { width, values: Bytes::new(source) },
                None => return Err(unsupported(other)),
            },
        };
        let (data_type, source) = (data_type.clone(), source.clone());
        Ok(Self { data_type, length: 0, null_count: 0, validity: None, values, source })
    }

    pub(crate) fn validity(&self) -> Option<&Bytes> {
        self.validity.as_ref().map(Bits::bytes)
    }

    /// Notes `count` more values, all valid or all null.
    pub(crate) fn note(&mut self, valid: bool, count: usize) -> Result<()> {
        // A column without a validity: its nulls need only the count.
        let counted = !matches!(self.values, Values::Null);
        if counted && (!valid || self.validity.is_some()) {
            self.bitmap()?.push_many(valid, count)?;
        }
        self.null_count += if valid && counted { 0 } else { count };
        self.length += count;
        Ok(())
    }

    /// Notes more values, with the validity of `nulls`.
    pub(crate) fn note_nulls(&mut self, nulls: &arrow_buffer::NullBuffer) -> Result<()> {
        let bits = nulls.inner();
        self.bitmap()?.push_bits(bits.values(), bits.offset(), bits.len())?;
        self.null_count += nulls.null_count();
        self.length += nulls.len();
        Ok(())
    }

    fn bitmap(&mut self) -> Result<&mut Bits> {
        if self.validity.is_none() {
            let mut bits = Bits::new(&self.source);
            bits.push_many(true, self.length)?;
            self.validity = Some(bits);
        }
        Ok(self.validity.as_mut().expect("it was just made"))
    }

    /// How far the tree is, to come back to after an append that failed halfway.
    pub(crate) fn mark(&self) -> Mark {
        let own = [self.length as u64, self.null_count as u64];
        let (ends, children) = match &self.values {
            Values::Null | Values::Fixed { .. } | Values::Bool(_) => (0, Vec::new()),
            Values::Bytes { offsets, .. } => (offsets.end, Vec::new()),
            Values::List { offsets, child } => (offsets.end, vec![child.mark()]),
            Values::FixedList { child, .. } => (0, vec![child.mark()]),
            Values::Struct(children) => (0, children.iter().map(Self::mark).collect()),
            Values::Dictionary { values, .. } => (0, vec![values.mark()]),
        };
        Mark { length: own[0] as usize, null_count: own[1] as usize, end: ends, children }
    }

    /// Takes back everything after the mark.
    pub(crate) fn rewind(&mut self, mark: &Mark) {
        (self.length, self.null_count) = (mark.length, mark.null_count);
        if let Some(validity) = &mut self.validity {
            validity.truncate(mark.length);
        }
        match &mut self.values {
            Values::Null => {}
            Values::Fixed { width, values } => values.truncate(mark.length * *width),
            Values::Bool(bits) => bits.truncate(mark.length),
            Values::Bytes { offsets, data } => {
                offsets.truncate(mark.end, mark.length);
                data.truncate(mark.end as usize);
            }
            Values::List { offsets, child } => {
                offsets.truncate(mark.end, mark.length);
                child.rewind(&mark.children[0]);
            }
            Values::FixedList { child, .. } => child.rewind(&mark.children[0]),
            Values::Struct(children) => {
                children.iter_mut().zip(&mark.children).for_each(|(it, mark)| it.rewind(mark));
            }
            Values::Dictionary { keys, values } => {
                values.rewind(&mark.children[0]);
                keys.rewind(mark.length, values.length);
            }
        }
    }

    /// Truncates a node of one buffer to a number of values and nulls.
    pub(crate) fn rewind_simple(&mut self, (length, null_count): (usize, usize)) {
        self.rewind(&Mark { length, null_count, end: 0, children: Vec::new() });
    }

    /// Where its buffers with memory begin, the children's last.
    pub(crate) fn addresses(&self) -> Vec<usize> {
        let bytes = |bytes: &Bytes| bytes.memory().map(|memory| memory.base() as usize);
        let mut own: Vec<usize> = self.validity().and_then(bytes).into_iter().collect();
        match &self.values {
            Values::Null => {}
            Values::Fixed { values, .. } => own.extend(bytes(values)),
            Values::Bool(bits) => own.extend(bytes(bits.bytes())),
            Values::Bytes { offsets, data } => {
                own.extend([&offsets.bytes, data].into_iter().filter_map(bytes));
            }
            Values::List { offsets, child } => {
                own.extend(bytes(&offsets.bytes));
                own.extend(child.addresses());
            }
            Values::FixedList { child, .. } => own.extend(child.addresses()),
            Values::Struct(children) => own.extend(children.iter().flat_map(Self::addresses)),
            Values::Dictionary { keys, values } => {
                own.extend(bytes(&keys.bytes));
                own.extend(values.addresses());
            }
        }
        own
    }

    /// Takes the validity's memory out.
    pub(crate) fn into_parts(self) -> (Option<Bytes>, Values) {
        // Without nulls there is no need for a bitmap, in any case.
        let validity = self.validity.filter(|_| self.null_count > 0).map(Bits::into_bytes);
        (validity, self.values)
    }
}

/// How far a tree was.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) length: usize,
    null_count: usize,
    end: u64,
    children: Vec<Mark>,
}

fn unsupported(data_type: &DataType) -> Error {
    Error::Unsupported(data_type.clone())
}
