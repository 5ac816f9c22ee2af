//! The kinds of a column's fields, and the type that holds all of them without loss.
//!
//! ```text
//! each field ─► its kind ─► added to the kinds of its column ─► after the last field: the type
//! ```

use arrow_schema::{DataType, TimeUnit};

use super::records::Field;
use super::values::{Integer, boolean, date, is_null_word, is_real, moment, time, trimmed, whole};

/// The zone of columns whose timestamps have an offset from UTC.
pub(super) const ZONE: &str = "UTC";

/// Units of a second that timestamps are in, and how many digits of a fraction they hold.
const UNITS: [(TimeUnit, u8); 4] = [
    (TimeUnit::Second, 0),
    (TimeUnit::Millisecond, 3),
    (TimeUnit::Microsecond, 6),
    (TimeUnit::Nanosecond, 9),
];

const NANOSECONDS: i64 = 1_000_000_000;

/// The kinds of fields that a column has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u32);

impl Kinds {
    /// A word for a missing value, or nothing in quotes: nulls beside anything but text.
    const WORD: u32 = 1;
    const BOOLEAN: u32 = 1 << 1;
    /// Integer numbers: those of 64 bits with a sign, and which of them need it; those of 64 bits
    /// without one alone; those of more bits.
    const WHOLE: u32 = 1 << 2;
    const NEGATIVE: u32 = 1 << 3;
    const UNSIGNED: u32 = 1 << 4;
    const HUGE: u32 = 1 << 5;
    const REAL: u32 = 1 << 6;
    const DATE: u32 = 1 << 7;
    const TIME: u32 = 1 << 8;
    /// Dates with a time, without and with a zone.
    const NAIVE: u32 = 1 << 9;
    const ZONED: u32 = 1 << 10;
    /// The finest unit that one of them needs, the first of [`UNITS`] in the lowest bit.
    const UNIT: u32 = 1 << 11;
    /// One that 64 bits cannot hold in nanoseconds.
    const FAR: u32 = 1 << 15;
    const TEXT: u32 = 1 << 16;

    const NUMBERS: u32 = Self::WHOLE | Self::NEGATIVE | Self::UNSIGNED | Self::HUGE | Self::REAL;
    const UNIT_BITS: u32 = 0xF * Self::UNIT;
    const MOMENTS: u32 = Self::NAIVE | Self::ZONED | Self::UNIT_BITS | Self::FAR;

    /// Takes another field of the column.
    #[inline]
    pub(super) fn add(&mut self, field: Field<'_>) {
        let is_empty = field.bytes.is_empty() && !field.quoted;
        if !is_empty && !self.has(Self::TEXT) {
            self.0 |= kind(field.bytes);
        }
    }

    /// Takes the fields of the same column in another file.
    pub(super) fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn has(self, kinds: u32) -> bool {
        self.0 & kinds != 0
    }

    /// Whether there is nothing else.
    fn is_only(self, kinds: u32) -> bool {
        self.0 & !(kinds | Self::WORD) == 0
    }

    /// The type that holds all of them.
    pub(super) fn data_type(self) -> DataType {
        if self.0 == 0 {
            return DataType::Null;
        }
        if self.is_only(0) {
            return DataType::Utf8;
        }
        if self.is_only(Self::NUMBERS) {
            return self.number();
        }
        if self.is_only(Self::BOOLEAN) {
            return DataType::Boolean;
        }
        if self.is_only(Self::TIME) {
            return DataType::Time32(TimeUnit::Second);
        }
        if self.is_only(Self::DATE | Self::FAR) {
            return DataType::Date32;
        }
        if self.is_only(Self::DATE | Self::MOMENTS) {
            return self.timestamp();
        }
        DataType::Utf8
    }

    fn number(self) -> DataType {
        if self.has(Self::REAL) {
            return DataType::Float64;
        }
        let is_unsigned = self.has(Self::UNSIGNED);
        if self.has(Self::HUGE) || is_unsigned && self.has(Self::NEGATIVE) {
            // As a float it would lose digits.
            return DataType::Utf8;
        }
        if is_unsigned { DataType::UInt64 } else { DataType::Int64 }
    }

    fn timestamp(self) -> DataType {
        let finest = UNITS.iter().enumerate().rfind(|(at, _)| self.has(Self::UNIT << at));
        let unit = finest.map_or(TimeUnit::Second, |(_, (unit, _))| *unit);
        let is_mixed = self.has(Self::ZONED) && self.has(Self::NAIVE | Self::DATE);
        if is_mixed || unit == TimeUnit::Nanosecond && self.has(Self::FAR) {
            return DataType::Utf8;
        }
        DataType::Timestamp(unit, self.has(Self::ZONED).then(|| ZONE.into()))
    }
}

/// The kind of one field.
fn kind(bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return Kinds::WORD;
    }
    let bytes = trimmed(bytes);
    match bytes.first() {
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number_or_moment(bytes),
        Some(b't' | b'T' | b'f' | b'F') if boolean(bytes).is_some() => Kinds::BOOLEAN,
        Some(b'n' | b'N' | b'#') if is_null_word(bytes) => Kinds::WORD,
        Some(b'n' | b'N' | b'i' | b'I') if is_real(bytes) => Kinds::REAL,
        _ => Kinds::TEXT,
    }
}

fn number_or_moment(bytes: &[u8]) -> u32 {
    match whole(bytes) {
        Some(Integer::Signed(0..)) => return Kinds::WHOLE,
        Some(Integer::Signed(_)) => return Kinds::WHOLE | Kinds::NEGATIVE,
        Some(Integer::Unsigned(_)) => return Kinds::UNSIGNED,
        Some(Integer::Huge) => return Kinds::HUGE,
        None => {}
    }
    if is_real(bytes) {
        return Kinds::REAL;
    }
    let far = |is_far: bool| if is_far { Kinds::FAR } else { 0 };
    if let Some(days) = date(bytes) {
        let seconds = i64::from(days) * 86_400;
        return Kinds::DATE | far(seconds.checked_mul(NANOSECONDS).is_none());
    }
    if let Some(moment) = moment(bytes) {
        let at = UNITS.iter().position(|(_, digits)| moment.digits <= *digits);
        let zone = if moment.zoned { Kinds::ZONED } else { Kinds::NAIVE };
        let unit = Kinds::UNIT << at.unwrap_or(UNITS.len() - 1);
        return zone | unit | far(moment.in_units(NANOSECONDS).is_none());
    }
    if time(bytes).is_some() { Kinds::TIME } else { Kinds::TEXT }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> DataType {
        let mut kinds = Kinds::default();
        for text in fields {
            let bytes = text.strip_prefix('\'').unwrap_or(text).as_bytes();
            kinds.add(Field { bytes, quoted: text.starts_with('\'') });
        }
        kinds.data_type()
    }

    /// The table of the guide.
    #[test]
    fn the_type_holds_every_field_of_the_column() {
        let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        for (fields, wanted) in [
            (&["", ""][..], DataType::Null),
            (&["NA", "", "null"], DataType::Utf8),
            (&["'"], DataType::Utf8),
            (&["", "1", "'", "NA"], DataType::Int64),
            (&[" 1", "+2\t", "007", "-3"], DataType::Int64),
            (&["1", " "], DataType::Utf8),
            (&["1", "18446744073709551615"], DataType::UInt64),
            (&["-1", "18446744073709551615"], DataType::Utf8),
            (&["1", "18446744073709551616"], DataType::Utf8),
            (&["1.5", "18446744073709551616"], DataType::Float64),
            (&["1", "NaN", "-inf"], DataType::Float64),
            (&["1", "1e999"], DataType::Utf8),
            (&["true", "FALSE", "n/a"], DataType::Boolean),
            (&["true", "1"], DataType::Utf8),
            (&["2024-02-29", ""], DataType::Date32),
            (&["9999-12-31"], DataType::Date32),
            (&["2024-02-30"], DataType::Utf8),
            (&["12:30", "12:30:15"], DataType::Time32(TimeUnit::Second)),
            (&["2024-01-01", "2024-01-01T00:00:00"], stamp(TimeUnit::Second, None)),
            (&["2024-01-01T00:00:00.1"], stamp(TimeUnit::Millisecond, None)),
            (&["2024-01-01T00:00:00.1", "9999-12-31 00:00:00.123456"], {
                stamp(TimeUnit::Microsecond, None)
            }),
            (&["2024-01-01T00:00:00.1234567"], stamp(TimeUnit::Nanosecond, None)),
            (&["2024-01-01T00:00:00.1234567", "9999-12-31"], DataType::Utf8),
            (&["2024-01-01T00:00:00Z", "2024-01-01 01:00:00+01:00"], {
                stamp(TimeUnit::Second, Some("UTC"))
            }),
            (&["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"], DataType::Utf8),
            (&["2024-01-01T00:00:00Z", "2024-01-01"], DataType::Utf8),
            (&["2024-01-01", "1"], DataType::Utf8),
            (&["1", "x"], DataType::Utf8),
        ] {
            assert_eq!(of(fields), wanted, "{fields:?}");
        }
    }
}
