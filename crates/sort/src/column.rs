//! The columns of the table, by how they move.
//!
//! * **Fixed**: values of some bytes each. They are scattered into their bucket and, there, put in
//!   order.
//! * **Bits**: booleans, and for every column the validity of its values. Eight rows share a byte,
//!   so they are collected row by row once the order is known.
//! * **Text**: strings and bytes, collected like bits. Views become strings with 64-bit offsets:
//!   the result has its bytes in order, and none that it does not need.
//! * Everything else (nested values, dictionaries that the result has) is not moved here: see
//!   [`crate::interleave`].

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::key::Kind;
use crate::table::Table;

/// How the values of a column lie in memory, and so how they are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnLayout {
    /// Values of this many bytes each.
    Fixed(usize),
    Bits,
    /// Strings or bytes of any length, with offsets of 32 bits, or of 64.
    Varlen {
        large: bool,
    },
}

impl ColumnLayout {
    /// The layout of a column of this type; `None` when it is moved as Arrow arrays.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        if let Some(kind) = Kind::of(data_type) {
            return Some(Self::Fixed(kind.bytes()));
        }
        match data_type {
            DataType::Boolean => Some(Self::Bits),
            DataType::Utf8 | DataType::Binary => Some(Self::Varlen { large: false }),
            DataType::LargeUtf8
            | DataType::LargeBinary
            | DataType::Utf8View
            | DataType::BinaryView => Some(Self::Varlen { large: true }),
            DataType::FixedSizeBinary(bytes) if *bytes > 0 => Some(Self::Fixed(*bytes as usize)),
            DataType::Interval(_) => data_type.primitive_width().map(Self::Fixed),
            _ => None,
        }
    }
}

/// Where the strings of one batch begin and end.
#[derive(Clone, Debug)]
enum Offsets {
    Small(ScalarBuffer<i32>),
    Large(ScalarBuffer<i64>),
}

/// A column's values in one batch.
#[derive(Clone, Debug)]
enum Part {
    Fixed(Buffer),
    Bits(BooleanBuffer),
    Text(Offsets, Buffer),
    Views(BinaryViewArray),
}

/// One column of the table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) layout: ColumnLayout,
    /// Whether any value is missing.
    pub(crate) nullable: bool,
    parts: Vec<(Part, Option<NullBuffer>)>,
}

impl Column {
    /// A column of the table, if it moves here.
    pub(crate) fn of(table: &Table, at: usize) -> Option<Self> {
        let layout = ColumnLayout::of(table.moved_type(at)?)?;
        let part = |array: &ArrayRef| {
            let nulls = array.nulls().filter(|nulls| nulls.null_count() != 0).cloned();
            (Part::of(layout, array), nulls)
        };
        let parts: Vec<_> = table.column(at).iter().map(part).collect();
        let nullable = parts.iter().any(|(_, nulls)| nulls.is_some());
        Some(Self { layout, nullable, parts })
    }

    /// The bytes of a batch's values, all of them, of a fixed column.
    pub(crate) fn fixed(&self, batch: usize) -> &[u8] {
        match &self.parts[batch].0 {
            Part::Fixed(bytes) => bytes,
            Part::Bits(_) | Part::Text(..) | Part::Views(_) => &[],
        }
    }

    /// The text of a row.
    #[inline]
    pub(crate) fn text(&self, (batch, row): (usize, usize)) -> &[u8] {
        match &self.parts[batch].0 {
            Part::Text(Offsets::Small(offsets), bytes) => {
                &bytes[offsets[row] as usize..offsets[row + 1] as usize]
            }
            Part::Text(Offsets::Large(offsets), bytes) => {
                &bytes[offsets[row] as usize..offsets[row + 1] as usize]
            }
            Part::Views(views) => views.value(row),
            Part::Fixed(_) | Part::Bits(_) => &[],
        }
    }

    /// How many bytes the strings of consecutive rows have, one by one.
    pub(crate) fn lengths(&self, batch: usize, rows: std::ops::Range<usize>, out: &mut Vec<u64>) {
        out.clear();
        match &self.parts[batch].0 {
            Part::Text(Offsets::Small(offsets), _) => {
                let ends = offsets[rows.start..=rows.end].windows(2);
                out.extend(ends.map(|ends| (ends[1] - ends[0]) as u64));
            }
            Part::Text(Offsets::Large(offsets), _) => {
                let ends = offsets[rows.start..=rows.end].windows(2);
                out.extend(ends.map(|ends| (ends[1] - ends[0]) as u64));
            }
            // The length is the lower half of a view.
            Part::Views(views) => {
                out.extend(views.views()[rows].iter().map(|view| u64::from(*view as u32)));
            }
            Part::Fixed(_) | Part::Bits(_) => {}
        }
    }

    /// The bit of a row.
    #[inline]
    pub(crate) fn bit(&self, (batch, row): (usize, usize)) -> bool {
        match &self.parts[batch].0 {
            Part::Bits(bits) => bits.value(row),
            Part::Fixed(_) | Part::Text(..) | Part::Views(_) => false,
        }
    }

    /// Whether the row has a value.
    #[inline]
    pub(crate) fn is_valid(&self, (batch, row): (usize, usize)) -> bool {
        self.parts[batch].1.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}

/// How many bytes each of an array's strings has; 0 for missing ones of a view.
pub(crate) fn text_lengths(array: &ArrayRef) -> Vec<u64> {
    let mut lengths = Vec::new();
    if let Some(layout @ ColumnLayout::Varlen { .. }) = ColumnLayout::of(array.data_type()) {
        let parts = vec![(Part::of(layout, array), None)];
        Column { layout, nullable: false, parts }.lengths(0, 0..array.len(), &mut lengths);
    }
    lengths
}

impl Part {
    fn of(layout: ColumnLayout, array: &ArrayRef) -> Self {
        match layout {
            ColumnLayout::Fixed(width) => {
                let data = array.to_data();
                let (from, bytes) = (data.offset() * width, data.len() * width);
                Self::Fixed(data.buffers()[0].slice_with_length(from, bytes))
            }
            ColumnLayout::Bits => Self::Bits(array.as_boolean().values().clone()),
            ColumnLayout::Varlen { .. } => match array.data_type() {
                DataType::Utf8View => Self::Views(array.as_string_view().clone().to_binary_view()),
                DataType::BinaryView => Self::Views(array.as_binary_view().clone()),
                DataType::Utf8 => {
                    let array = array.as_string::<i32>();
                    let offsets = array.offsets().inner().clone();
                    Self::Text(Offsets::Small(offsets), array.values().clone())
                }
                DataType::LargeUtf8 => {
                    let array = array.as_string::<i64>();
                    let offsets = array.offsets().inner().clone();
                    Self::Text(Offsets::Large(offsets), array.values().clone())
                }
                DataType::LargeBinary => {
                    let array = array.as_binary::<i64>();
                    let offsets = array.offsets().inner().clone();
                    Self::Text(Offsets::Large(offsets), array.values().clone())
                }
                _ => {
                    let array = array.as_binary::<i32>();
                    let offsets = array.offsets().inner().clone();
                    Self::Text(Offsets::Small(offsets), array.values().clone())
                }
            },
        }
    }
}
