//! The values of single fields: numbers, dates and times.
//!
//! Inference and reading use the same functions, so what was inferred from a field is what it is
//! read as.

/// Days from the year 0 of the calendar to 1970.
const DAYS_TO_EPOCH: i64 = 719_468;
const DAY_SECONDS: i64 = 86_400;

/// More digits than any real number of 64 bits has before its point.
const REAL_DIGITS_MAX: usize = 300;

/// A field without the blanks around it.
pub(super) fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether the field is a word for a missing value.
pub(super) fn is_null_word(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 7] = [b"NA", b"N/A", b"n/a", b"NULL", b"null", b"#N/A", b"#NA"];
    WORDS.contains(&bytes)
}

/// `true` or `false`, in letters of any size.
pub(super) fn boolean(bytes: &[u8]) -> Option<bool> {
    if bytes.eq_ignore_ascii_case(b"true") {
        return Some(true);
    }
    bytes.eq_ignore_ascii_case(b"false").then_some(false)
}

/// The sign and the rest.
fn signed(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    Signed(i64),
    /// More than [`i64::MAX`].
    Unsigned(u64),
    /// No type of 64 bits holds it.
    Huge,
}

/// A whole number: digits, with a sign or without.
pub(super) fn whole(bytes: &[u8]) -> Option<Integer> {
    let (is_negative, digits) = signed(bytes);
    if digits.is_empty() {
        return None;
    }
    let (mut value, mut is_huge) = (0_u64, false);
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit)));
        value = next.unwrap_or_else(|| {
            is_huge = true;
            0
        });
    }
    Some(match (is_huge, is_negative) {
        (true, _) => Integer::Huge,
        (false, true) => 0_i64.checked_sub_unsigned(value).map_or(Integer::Huge, Integer::Signed),
        (false, false) => i64::try_from(value).map_or(Integer::Unsigned(value), Integer::Signed),
    })
}

/// A number, as near as 64 bits come to it. None for one that is too large for them.
pub(super) fn real(bytes: &[u8]) -> Option<f64> {
    match is_real_syntax(bytes) {
        Syntax::No => None,
        Syntax::Digits { .. } => {
            let value: f64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            value.is_finite().then_some(value)
        }
        Syntax::Word => std::str::from_utf8(bytes).ok()?.parse().ok(),
    }
}

/// Whether [`real`] reads it, without reading it where that is not needed.
pub(super) fn is_real(bytes: &[u8]) -> bool {
    match is_real_syntax(bytes) {
        Syntax::No => false,
        Syntax::Digits { is_small: true } | Syntax::Word => true,
        Syntax::Digits { is_small: false } => real(bytes).is_some(),
    }
}

enum Syntax {
    No,
    /// Whether it is so small that 64 bits hold it for certain.
    Digits {
        is_small: bool,
    },
    /// Infinite, or no number.
    Word,
}

/// Digits, with a point and an exponent or without, or a word for what is no finite number.
fn is_real_syntax(bytes: &[u8]) -> Syntax {
    let (_, rest) = signed(bytes);
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(rest);
    let mut after = &rest[whole..];
    let mut count = whole;
    if let [b'.', fraction @ ..] = after {
        let places = digits(fraction);
        (after, count) = (&fraction[places..], count + places);
    }
    if count == 0 {
        const WORDS: [&[u8]; 3] = [b"nan", b"inf", b"infinity"];
        let is_word = WORDS.iter().any(|word| rest.eq_ignore_ascii_case(word));
        return if is_word { Syntax::Word } else { Syntax::No };
    }
    match after {
        [] => Syntax::Digits { is_small: whole < REAL_DIGITS_MAX },
        [b'e' | b'E', exponent @ ..] => {
            let (_, power) = signed(exponent);
            if power.is_empty() || digits(power) < power.len() {
                return Syntax::No;
            }
            Syntax::Digits { is_small: false }
        }
        _ => Syntax::No,
    }
}

/// A number with a fixed number of digits.
fn number(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

/// A date such as 2024-02-29, in days since 1970.
pub(super) fn date(bytes: &[u8]) -> Option<i32> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *bytes else { return None };
    let (year, month, day) = (number(&[y0, y1, y2, y3])?, number(&[m0, m1])?, number(&[d0, d1])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the day of a leap year is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    i32::try_from(year * 365 + leaps + of_year - DAYS_TO_EPOCH).ok()
}

/// A time such as 09:30 or 09:30:15, in seconds since midnight.
pub(super) fn time(bytes: &[u8]) -> Option<i32> {
    let (seconds, rest) = clock(bytes)?;
    (rest.is_empty()).then_some(seconds).and_then(|seconds| i32::try_from(seconds).ok())
}

/// The time at the beginning, in seconds, and what follows it.
fn clock(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let [h0, h1, b':', m0, m1, rest @ ..] = bytes else { return None };
    let (hour, minute) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
    let (second, rest) = match rest {
        [b':', s0, s1, rest @ ..] => (number(&[*s0, *s1])?, rest),
        _ => (0, rest),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((hour * 3600 + minute * 60 + second, rest))
}

/// A date with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Seconds since 1970, of UTC where there is a zone.
    pub(super) seconds: i64,
    /// Billionths of a second after that.
    pub(super) nanoseconds: u32,
    /// Digits of the fraction of a second, 9 at most.
    pub(super) digits: u8,
    /// Whether it has an offset from UTC.
    pub(super) zoned: bool,
}

impl Moment {
    /// In units; the value is how many a second has.
    pub(super) fn in_units(self, per_second: i64) -> Option<i64> {
        let part = i64::from(self.nanoseconds) / (1_000_000_000 / per_second);
        // Just above the least value the seconds alone would not fit.
        let value = i128::from(self.seconds) * i128::from(per_second) + i128::from(part);
        i64::try_from(value).ok()
    }
}

/// A date and a time such as 2024-02-29T09:30:15.25+01:00.
pub(super) fn moment(bytes: &[u8]) -> Option<Moment> {
    let (day, after) = bytes.split_at_checked(10)?;
    let [b'T' | b' ', after @ ..] = after else { return None };
    let days = i64::from(date(day)?);
    let (seconds, mut rest) = clock(after)?;
    let (mut nanoseconds, mut digits) = (0, 0);
    if let [b'.', fraction @ ..] = rest {
        // Nothing has a fraction but seconds.
        if after.get(5) != Some(&b':') {
            return None;
        }
        let count = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&count) {
            return None;
        }
        let scale = 10_i64.pow(9 - u32::try_from(count).ok()?);
        nanoseconds = u32::try_from(number(&fraction[..count])? * scale).ok()?;
        (digits, rest) = (u8::try_from(count).ok()?, &fraction[count..]);
    }
    let offset = zone(rest)?;
    Some(Moment {
        seconds: days * DAY_SECONDS + seconds - offset.unwrap_or(0),
        nanoseconds,
        digits,
        zoned: offset.is_some(),
    })
}

/// How many seconds a zone is ahead of UTC; `Some(None)` where there is no zone.
fn zone(bytes: &[u8]) -> Option<Option<i64>> {
    let (sign, hour, minute) = match bytes {
        [] => return Some(None),
        [b'Z' | b'z'] => return Some(Some(0)),
        [sign @ (b'+' | b'-'), h0, h1] => (sign, [*h0, *h1], [b'0'; 2]),
        [sign @ (b'+' | b'-'), h0, h1, m0, m1] | [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            (sign, [*h0, *h1], [*m0, *m1])
        }
        _ => return None,
    };
    let (hour, minute) = (number(&hour)?, number(&minute)?);
    if hour > 23 || minute > 59 {
        return None;
    }
    let seconds = hour * 3600 + minute * 60;
    Some(Some(if *sign == b'-' { -seconds } else { seconds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_what_their_digits_say() {
        for (text, wanted) in [
            ("0", Some(Integer::Signed(0))),
            ("+007", Some(Integer::Signed(7))),
            ("-9223372036854775808", Some(Integer::Signed(i64::MIN))),
            ("-9223372036854775809", Some(Integer::Huge)),
            ("9223372036854775808", Some(Integer::Unsigned(1 << 63))),
            ("18446744073709551615", Some(Integer::Unsigned(u64::MAX))),
            ("18446744073709551616", Some(Integer::Huge)),
            ("99999999999999999999999", Some(Integer::Huge)),
            ("", None),
            ("-", None),
            ("1_000", None),
            ("1.", None),
        ] {
            assert_eq!(whole(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn reals_are_finite_or_say_that_they_are_not() {
        for (text, wanted) in [
            ("1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-1e-3", Some(-0.001)),
            ("+1E3", Some(1000.0)),
            ("1e308", Some(1e308)),
            ("1e309", None),
            ("-Inf", Some(f64::NEG_INFINITY)),
            ("infinity", Some(f64::INFINITY)),
            (".", None),
            ("e5", None),
            ("1e", None),
            ("1e+", None),
            ("0x10", None),
            ("1,5", None),
        ] {
            assert_eq!(real(text.as_bytes()), wanted, "{text}");
            assert_eq!(is_real(text.as_bytes()), wanted.is_some(), "{text}");
        }
        assert!(real(b"NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, wanted) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("1900-02-29", None),
            ("2024-02-30", None),
            ("0001-01-01", Some(-719_162)),
            ("9999-12-31", Some(2_932_896)),
            ("2024-13-01", None),
            ("2024-00-10", None),
            ("2024-1-01", None),
        ] {
            assert_eq!(date(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn moments_have_fractions_and_zones() {
        let of = |text: &str| {
            let found = moment(text.as_bytes())?;
            Some((found.seconds, found.nanoseconds, found.digits, found.zoned))
        };
        assert_eq!(of("1970-01-02T00:00"), Some((86_400, 0, 0, false)));
        assert_eq!(of("1970-01-01 01:02:03.25"), Some((3723, 250_000_000, 2, false)));
        assert_eq!(of("1970-01-01T01:00:00Z"), Some((3600, 0, 0, true)));
        assert_eq!(of("1970-01-01T01:00:00+01:30"), Some((-1800, 0, 0, true)));
        assert_eq!(of("1970-01-01T00:00:00.000000001-0200"), Some((7200, 1, 9, true)));
        for wrong in [
            "1970-01-01",
            "1970-01-01T24:00:00",
            "1970-01-01T00:00:60",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00:00.1234567890",
            "1970-01-01T00:00.5",
            "1970-01-01T00:00:00 UTC",
            "1970-01-01T00:00:00+25:00",
            "1970-02-30T00:00:00",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(time(b"23:59:59"), Some(86_399));
        assert_eq!(time(b"23:59:59.5"), None);
    }
}
