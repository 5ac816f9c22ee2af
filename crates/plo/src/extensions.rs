//! The data of extensions: dates, moments, zones, paths, strings.
//!
//! The check reads each extension once, so that a reader of a checked object meets none that is
//! invalid; plain values of Rust are read with the same functions.

use std::ops::RangeInclusive;

use crate::codes::ext;
use crate::error::{Result, broken};

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;
/// The days of 0001-01-01 and of 9999-12-31.
const DAYS: RangeInclusive<i64> = -719_162..=2_932_896;
/// How far a zone may be from UTC: less than a day.
const OFFSET_MICROS: RangeInclusive<i64> = 1 - DAY_MICROS..=DAY_MICROS - 1;

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock<'a> {
    /// Microseconds.
    pub micros: i64,
    /// 1 for the second time that a clock which was set back shows this.
    pub fold: u8,
    /// The time zone.
    pub zone: Option<Zone<'a>>,
}

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone<'a> {
    /// UTC.
    Utc,
    /// A fixed offset from it, in microseconds, with its own name if it has one.
    Fixed(i64, Option<&'a str>),
    /// A zone by its IANA key.
    Iana(&'a str),
}

/// Whose path a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Of the platform that wrote it.
    Platform,
    /// Of POSIX.
    Posix,
    /// Of Windows.
    Windows,
}

/// The text of an entry with a number.
pub(crate) fn text(bytes: &[u8], number: usize) -> Result<&str> {
    std::str::from_utf8(bytes).or_else(|_| broken("a string that is not UTF-8", number))
}

/// The data of an extension after the lengths of its heap entries, and the extension's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) number: usize,
}

impl<'a> Fields<'a> {
    /// Checks that the data is valid for an extension of this kind.
    pub(crate) fn check(self, kind: u8) -> Result<()> {
        match kind {
            ext::SURROGATES => self.surrogates().map(drop),
            ext::DATE => self.date().map(drop),
            ext::DATETIME => self.datetime().map(drop),
            ext::TIME => self.time().map(drop),
            ext::TZINFO => self.tzinfo().map(drop),
            ext::PATH => self.path().map(drop),
            ext::SINGLETON => self.is_ellipsis().map(drop),
            ext::DECIMAL | ext::TYPE | ext::GLOBAL => self.text(0).map(drop),
            ext::ARROW => self.text(1).map(drop),
            _ => Ok(()),
        }
    }

    fn broken<T>(self, what: &'static str) -> Result<T> {
        broken(what, self.number)
    }

    /// A number of bytes of the data from an offset on.
    pub(crate) fn take<const N: usize>(self, at: usize) -> Result<[u8; N]> {
        match self.data.get(at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(bytes) => Ok(*bytes),
            None => self.broken("an extension that is too short"),
        }
    }

    pub(crate) fn int(self, at: usize) -> Result<i32> {
        Ok(i32::from_le_bytes(self.take(at)?))
    }

    pub(crate) fn float(self, at: usize) -> Result<f64> {
        Ok(f64::from_le_bytes(self.take(at)?))
    }

    pub(crate) fn text(self, from: usize) -> Result<&'a str> {
        text(self.data.get(from..).unwrap_or_default(), self.number)
    }

    /// UTF-8 that also encodes surrogates, each in three bytes.
    pub(crate) fn surrogates(self) -> Result<&'a [u8]> {
        let mut rest = self.data;
        while let Err(error) = std::str::from_utf8(rest) {
            rest = match &rest[error.valid_up_to()..] {
                [0xed, 0xa0..=0xbf, 0x80..=0xbf, rest @ ..] => rest,
                _ => return self.broken("a string that is not UTF-8, even with surrogates"),
            };
        }
        Ok(self.data)
    }

    /// Days since 1970-01-01.
    pub(crate) fn date(self) -> Result<i32> {
        let days = self.int(0)?;
        if DAYS.contains(&i64::from(days)) {
            Ok(days)
        } else {
            self.broken("a date outside of the years 1 to 9999")
        }
    }

    pub(crate) fn datetime(self) -> Result<Clock<'a>> {
        self.clock(DAYS.start() * DAY_MICROS..(DAYS.end() + 1) * DAY_MICROS)
    }

    pub(crate) fn time(self) -> Result<Clock<'a>> {
        self.clock(0..DAY_MICROS)
    }

    fn clock(self, range: std::ops::Range<i64>) -> Result<Clock<'a>> {
        let micros = i64::from_le_bytes(self.take(0)?);
        let [fold] = self.take(8)?;
        if range.contains(&micros) && fold <= 1 {
            Ok(Clock { micros, fold, zone: self.zone(9)? })
        } else {
            self.broken("a time out of range")
        }
    }

    pub(crate) fn tzinfo(self) -> Result<Zone<'a>> {
        match self.zone(0)? {
            Some(zone) => Ok(zone),
            None => self.broken("an invalid time zone"),
        }
    }

    fn zone(self, from: usize) -> Result<Option<Zone<'a>>> {
        let [kind] = self.take(from)?;
        match kind {
            0 | 1 if self.data.len() == from + 1 => Ok((kind == 1).then_some(Zone::Utc)),
            2 => {
                let offset = i64::from_le_bytes(self.take(from + 1)?);
                let name = self.text(from + 9)?;
                if !OFFSET_MICROS.contains(&offset) {
                    return self.broken("a time zone a day or more from UTC");
                }
                Ok(Some(Zone::Fixed(offset, (!name.is_empty()).then_some(name))))
            }
            3 => Ok(Some(Zone::Iana(self.text(from + 1)?))),
            _ => self.broken("an unknown time zone"),
        }
    }

    pub(crate) fn path(self) -> Result<(PathKind, &'a [u8])> {
        let kind = match self.data.first() {
            Some(0) => PathKind::Platform,
            Some(1) => PathKind::Posix,
            Some(2) => PathKind::Windows,
            _ => return self.broken("an unknown path"),
        };
        Ok((kind, self.data.get(1..).unwrap_or_default()))
    }

    /// Ellipsis, or else NotImplemented.
    pub(crate) fn is_ellipsis(self) -> Result<bool> {
        match self.data {
            [0] => Ok(true),
            [1] => Ok(false),
            _ => self.broken("an unknown singleton"),
        }
    }
}
