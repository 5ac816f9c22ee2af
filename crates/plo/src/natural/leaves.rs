//! The values that hold no others: strings, tensors, extensions, and the classes.

use std::sync::Arc;

use super::tensor::{Dtype, Tensor};
use super::values::{Class, Pickle, Value};
use crate::codes::ext;
use crate::error::Result;
use crate::extensions::{Fields, text};
use crate::sizes::at;
use crate::view::{ByteStringsView, Longs, View, Words};

/// The leaves of an object.
pub(super) struct Leaves<'a> {
    pub(super) strs: Vec<&'a str>,
    pub(super) tensors: Vec<Arc<Tensor<'a>>>,
    pub(super) exts: Vec<Value<'a>>,
    pub(super) classes: Vec<Arc<Class<'a>>>,
}

impl<'a> Leaves<'a> {
    /// Makes the leaves of an object that was checked.
    pub(super) fn of(view: &View<'a>) -> Result<Self> {
        let dtypes = dtypes(view)?;
        let count = |number| 0..view.count(number);
        let exts = count(at::EXTS).map(|index| Ext::of(view, index).value(&dtypes));
        let exts: Vec<Value<'a>> = exts.collect::<Result<_>>()?;
        let fields = strs(view.classes.field_names, view.count(at::CLASS_FIELDS))?;
        let classes = count(at::CLASSES).map(|index| class(view, index, &fields, &exts));
        Ok(Self {
            strs: strs(view.strs, view.count(at::STRS))?,
            tensors: count(at::TENSORS).map(|index| tensor(view, index, &dtypes)).collect(),
            classes: classes.collect::<Result<_>>()?,
            exts,
        })
    }
}

fn strs(strings: ByteStringsView<'_>, count: usize) -> Result<Vec<&str>> {
    (0..count).map(|number| text(strings.at(number), number)).collect()
}

fn dtypes<'a>(view: &View<'a>) -> Result<Vec<Dtype<'a>>> {
    let strings = strs(view.dtype_strings, view.count(at::DTYPES))?;
    let sized = strings.into_iter().enumerate();
    Ok(sized.map(|(at, text)| Dtype { text, itemsize: view.dtype_itemsizes.index(at) }).collect())
}

fn longs(offsets: Words<'_>, values: Longs<'_>, index: usize) -> Vec<i64> {
    let (start, end) = (offsets.index(index), offsets.index(index + 1));
    (start..end).map(|at| values.at(at)).collect()
}

fn tensor<'a>(view: &View<'a>, index: usize, dtypes: &[Dtype<'a>]) -> Arc<Tensor<'a>> {
    let tensors = &view.tensors;
    let dtype = dtypes[tensors.dtype.index(index)];
    let shape = longs(tensors.shape_offsets, tensors.shape, index);
    let mut strides = longs(tensors.stride_offsets, tensors.strides, index);
    if strides.is_empty() {
        let mut stride = dtype.itemsize as i64;
        for extent in shape.iter().rev() {
            strides.push(stride);
            stride = stride.saturating_mul(*extent);
        }
        strides.reverse();
    }
    let memory = usize::try_from(tensors.heap.at(index)).ok();
    Arc::new(Tensor {
        kind: tensors.kind[index],
        dtype,
        shape,
        strides,
        memory: memory.map_or(&[], |entry| &view.heap[view.heap_range(entry)]),
        offset: tensors.offset.at(index),
    })
}

fn class<'a>(
    view: &View<'a>,
    index: usize,
    fields: &[&'a str],
    exts: &[Value<'a>],
) -> Result<Arc<Class<'a>>> {
    let classes = &view.classes;
    let pickle = match usize::try_from(classes.ext.at(index)).ok().map(|ext| &exts[ext]) {
        Some(Value::Pickle(pickle)) => Some(pickle.clone()),
        _ => None,
    };
    Ok(Arc::new(Class {
        source: classes.source[index],
        make: classes.make[index],
        name: text(classes.name.at(index), index)?,
        version: classes.version.at(index),
        fields: fields[classes.fields.index(index)..classes.fields.index(index + 1)].to_vec(),
        pickle,
    }))
}

/// An extension: its data after the lengths, and what its heap entries mean.
struct Ext<'a> {
    kind: u8,
    fields: Fields<'a>,
    entries: Vec<&'a [u8]>,
}

impl<'a> Ext<'a> {
    fn of(view: &View<'a>, number: usize) -> Self {
        let exts = &view.exts;
        let data = exts.data.at(number);
        let first = exts.heap_offsets.index(number);
        let count = exts.heap_offsets.index(number + 1) - first;
        let entries = (0..count).map(|at| {
            let start = view.heap_range(exts.heaps.index(first + at)).start;
            let length = Longs(data.as_chunks::<8>().0).at(at) as usize;
            &view.heap[start..start + length]
        });
        Self {
            kind: exts.kind[number],
            entries: entries.collect(),
            fields: Fields { data: &data[8 * count..], number },
        }
    }

    /// The first heap entry, which the check has found to be there.
    fn entry(&self) -> &'a [u8] {
        self.entries.first().copied().unwrap_or_default()
    }

    fn value(self, dtypes: &[Dtype<'a>]) -> Result<Value<'a>> {
        let fields = self.fields;
        Ok(match self.kind {
            ext::INT => Value::BigInt(fields.data),
            ext::COMPLEX => Value::Complex(fields.float(0)?, fields.float(8)?),
            ext::SURROGATES => Value::SurrogateStr(fields.surrogates()?),
            ext::LONG_STR => Value::Str(text(self.entry(), fields.number)?),
            ext::LONG_BYTES => Value::Bytes(self.entry()),
            ext::BYTEARRAY => Value::ByteArray(fields.data),
            ext::LONG_BYTEARRAY => Value::ByteArray(self.entry()),
            ext::DATE => Value::Date(fields.date()?),
            ext::DATETIME => Value::DateTime(fields.datetime()?),
            ext::TIME => Value::Time(fields.time()?),
            ext::TIMEDELTA => Value::TimeDelta {
                days: fields.int(0)?,
                seconds: fields.int(4)?,
                micros: fields.int(8)?,
            },
            ext::TZINFO => Value::Zone(fields.tzinfo()?),
            ext::DECIMAL => Value::Decimal(fields.text(0)?),
            ext::UUID => Value::Uuid(fields.take(0)?),
            ext::PATH => {
                let (kind, path) = fields.path()?;
                Value::Path(kind, path)
            }
            ext::SINGLETON if fields.is_ellipsis()? => Value::Ellipsis,
            ext::SINGLETON => Value::NotImplemented,
            ext::SCALAR => Value::Scalar(dtypes[fields.int(0)? as usize], &fields.data[4..]),
            ext::DTYPE => Value::Dtype(dtypes[fields.int(0)? as usize]),
            ext::TYPE => Value::Type(fields.text(0)?),
            ext::GLOBAL => Value::Global(fields.text(0)?),
            ext::PICKLE | ext::CLOUDPICKLE => {
                let cloudpickle = self.kind == ext::CLOUDPICKLE;
                let Self { fields, entries: buffers, .. } = self;
                Value::Pickle(Arc::new(Pickle { cloudpickle, data: fields.data, buffers }))
            }
            _ => {
                let [kind] = fields.take(0)?;
                Value::Arrow { kind, text: fields.text(1)?, stream: self.entry() }
            }
        })
    }
}
