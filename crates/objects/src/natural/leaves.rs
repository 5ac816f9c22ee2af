//! The values that hold no others: strings, tensors, extensions, and the classes.

use std::sync::Arc;

use super::{Class, Clock, Dtype, PathKind, Pickle, Tensor, Value, Zone};
use crate::codes::ext;
use crate::error::{Result, broken};
use crate::sizes::at;
use crate::view::{Longs, TextsView, View, Words};

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;
/// The days of 0001-01-01 and of 9999-12-31.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

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

fn text(bytes: &[u8], number: usize) -> Result<&str> {
    std::str::from_utf8(bytes).or_else(|_| broken("text that is not UTF-8", number))
}

fn strs(texts: TextsView<'_>, count: usize) -> Result<Vec<&str>> {
    (0..count).map(|number| text(texts.at(number), number)).collect()
}

fn dtypes<'a>(view: &View<'a>) -> Result<Vec<Dtype<'a>>> {
    let texts = strs(view.dtype_texts, view.count(at::DTYPES))?;
    let sized = texts.into_iter().enumerate().map(|(number, text)| {
        match usize::try_from(view.dtype_itemsizes.at(number)) {
            Ok(itemsize) => Ok(Dtype { text, itemsize }),
            Err(_) => broken("an element type of a negative size", number),
        }
    });
    sized.collect()
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

/// An extension: its data behind the lengths, and what its heap entries mean.
struct Ext<'a> {
    number: usize,
    kind: u8,
    data: &'a [u8],
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
            number,
            kind: exts.kind[number],
            entries: entries.collect(),
            data: &data[8 * count..],
        }
    }

    fn broken<T>(&self, what: &'static str) -> Result<T> {
        broken(what, self.number)
    }

    /// The first heap entry, which the check has found to be there.
    fn entry(&self) -> &'a [u8] {
        self.entries.first().copied().unwrap_or_default()
    }

    /// So many bytes of the data from an offset on.
    fn take<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        match self.data.get(at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(bytes) => Ok(*bytes),
            None => self.broken("an extension that is too short"),
        }
    }

    fn int(&self, at: usize) -> Result<i32> {
        Ok(i32::from_le_bytes(self.take(at)?))
    }

    fn float(&self, at: usize) -> Result<f64> {
        Ok(f64::from_le_bytes(self.take(at)?))
    }

    fn text(&self, from: usize) -> Result<&'a str> {
        text(self.data.get(from..).unwrap_or_default(), self.number)
    }

    fn value(self, dtypes: &[Dtype<'a>]) -> Result<Value<'a>> {
        Ok(match self.kind {
            ext::INT => Value::BigInt(self.data),
            ext::COMPLEX => Value::Complex(self.float(0)?, self.float(8)?),
            ext::SURROGATES => Value::SurrogateStr(self.data),
            ext::LONG_STR => Value::Str(text(self.entry(), self.number)?),
            ext::LONG_BYTES => Value::Bytes(self.entry()),
            ext::BYTEARRAY => Value::ByteArray(self.data),
            ext::LONG_BYTEARRAY => Value::ByteArray(self.entry()),
            ext::DATE => self.date()?,
            ext::DATETIME => Value::DateTime(
                self.clock(DAYS.start() * DAY_MICROS..(DAYS.end() + 1) * DAY_MICROS)?,
            ),
            ext::TIME => Value::Time(self.clock(0..DAY_MICROS)?),
            ext::TIMEDELTA => {
                Value::TimeDelta { days: self.int(0)?, seconds: self.int(4)?, micros: self.int(8)? }
            }
            ext::TZINFO => match self.zone(0)? {
                Some(zone) => Value::Zone(zone),
                None => return self.broken("a time zone that is none"),
            },
            ext::DECIMAL => Value::Decimal(self.text(0)?),
            ext::UUID => Value::Uuid(self.take(0)?),
            ext::PATH => self.path()?,
            ext::SINGLETON => match self.data {
                [0] => Value::Ellipsis,
                [1] => Value::NotImplemented,
                _ => return self.broken("an unknown singleton"),
            },
            ext::SCALAR => Value::Scalar(dtypes[self.int(0)? as usize], &self.data[4..]),
            ext::DTYPE => Value::Dtype(dtypes[self.int(0)? as usize]),
            ext::TYPE => Value::Type(self.text(0)?),
            ext::GLOBAL => Value::Global(self.text(0)?),
            ext::PICKLE | ext::CLOUDPICKLE => {
                let cloudpickle = self.kind == ext::CLOUDPICKLE;
                let Self { data, entries: buffers, .. } = self;
                Value::Pickle(Arc::new(Pickle { cloudpickle, data, buffers }))
            }
            _ => {
                let [kind] = self.take(0)?;
                Value::Arrow { kind, text: self.text(1)?, stream: self.entry() }
            }
        })
    }

    fn date(&self) -> Result<Value<'a>> {
        let days = self.int(0)?;
        if DAYS.contains(&i64::from(days)) {
            Ok(Value::Date(days))
        } else {
            self.broken("a date outside of the years 1 to 9999")
        }
    }

    fn clock(&self, range: std::ops::Range<i64>) -> Result<Clock<'a>> {
        let micros = i64::from_le_bytes(self.take(0)?);
        let [fold] = self.take(8)?;
        if range.contains(&micros) && fold <= 1 {
            Ok(Clock { micros, fold, zone: self.zone(9)? })
        } else {
            self.broken("a time that no clock shows")
        }
    }

    fn zone(&self, from: usize) -> Result<Option<Zone<'a>>> {
        let [kind] = self.take(from)?;
        match kind {
            0 | 1 if self.data.len() == from + 1 => Ok((kind == 1).then_some(Zone::Utc)),
            2 => {
                let offset = i64::from_le_bytes(self.take(from + 1)?);
                let name = self.text(from + 9)?;
                Ok(Some(Zone::Fixed(offset, (!name.is_empty()).then_some(name))))
            }
            3 => Ok(Some(Zone::Iana(self.text(from + 1)?))),
            _ => self.broken("an unknown time zone"),
        }
    }

    fn path(&self) -> Result<Value<'a>> {
        let kind = match self.data.first() {
            Some(0) => PathKind::Platform,
            Some(1) => PathKind::Posix,
            Some(2) => PathKind::Windows,
            _ => return self.broken("an unknown path"),
        };
        Ok(Value::Path(kind, self.data.get(1..).unwrap_or_default()))
    }
}
