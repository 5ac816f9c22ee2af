//! The records of a CSV file and their fields.
//!
//! ```text
//! text ─► window ─► scan: one record, its fields as places in the window ─► the next one
//!           ▲         │ the window ends in the record
//!           └─────────┘ more is read, the record is scanned again
//! ```
//!
//! Fields are separated by the delimiter and records by a line feed, a carriage return or both. A
//! field that begins with a quote ends with the next single quote and may hold all of these. Blank
//! lines are no records.

use std::io::BufRead;

use memchr::{memchr, memchr_iter};

use crate::error::{Error, Result};

/// Bytes that the window has at first; it grows to the longest record.
const WINDOW_BYTES: usize = 256 << 10;

/// The longest record. Of a quote that never ends no more than this is read.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// Where a field lies in the window.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: usize,
    end: usize,
    quoted: bool,
    /// Whether quotes are to be taken out of it.
    escaped: bool,
}

/// A field of the record that was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether it was in quotes.
    pub(super) quoted: bool,
}

/// The result of a scan of the window.
enum Scan {
    /// A record that ends before this place.
    Record(usize),
    /// Nothing but the beginning of one.
    Part,
}

/// Reads records one after the other.
pub(super) struct Records {
    text: Box<dyn BufRead + Send>,
    window: Vec<u8>,
    /// The part of the window that is not a record yet.
    start: usize,
    end: usize,
    is_over: bool,
    delimiter: u8,
    /// Which bytes end a field that is not in quotes.
    ends: [bool; 256],
    spans: Vec<Span>,
    /// The line that the record begins in, and the one that the next begins in.
    line: u64,
    next_line: u64,
    bytes_read: u64,
}

impl Records {
    pub(super) fn new(text: Box<dyn BufRead + Send>, delimiter: u8) -> Self {
        let mut ends = [false; 256];
        [b'\n', b'\r', delimiter].iter().for_each(|byte| ends[usize::from(*byte)] = true);
        Self {
            text,
            window: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            is_over: false,
            delimiter,
            ends,
            spans: Vec::new(),
            line: 0,
            next_line: 1,
            bytes_read: 0,
        }
    }

    /// The line in which the record begins, from 1 on.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// How many bytes of text all records so far took.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// How many fields the record has.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// A field of the record.
    #[inline]
    pub(super) fn field(&self, at: usize) -> Field<'_> {
        let span = &self.spans[at];
        Field { bytes: &self.window[span.start..span.end], quoted: span.quoted }
    }

    /// Reads the next record; `false` at the end of the file.
    pub(super) fn next(&mut self) -> Result<bool> {
        loop {
            match self.scan()? {
                Scan::Record(next) => {
                    let begin = std::mem::replace(&mut self.start, next);
                    if self.take(begin) {
                        return Ok(true);
                    }
                }
                Scan::Part if self.is_over && self.start == self.end => return Ok(false),
                Scan::Part => self.fill()?,
            }
        }
    }

    /// Takes the record that was scanned and begins at `begin`; `false` for a blank line.
    fn take(&mut self, begin: usize) -> bool {
        self.bytes_read += (self.start - begin) as u64;
        self.line = self.next_line;
        self.next_line += 1;
        let only = self.spans[0];
        if self.spans.len() == 1 && !only.quoted && only.start == only.end {
            return false;
        }
        for at in 0..self.spans.len() {
            let span = self.spans[at];
            if span.quoted {
                let lines = memchr_iter(b'\n', &self.window[span.start..span.end]).count();
                self.next_line += lines as u64;
            }
            if span.escaped {
                self.spans[at].end = unescape(&mut self.window, span);
            }
        }
        true
    }

    /// Finds the next record in the window.
    fn scan(&mut self) -> Result<Scan> {
        self.spans.clear();
        if self.start == self.end {
            return Ok(Scan::Part);
        }
        let bytes = &self.window[..self.end];
        let mut at = self.start;
        loop {
            let mut span = Span { start: at, ..Span::default() };
            if bytes.get(at) == Some(&b'"') {
                let Some(close) = closing_quote(bytes, at, self.is_over) else {
                    if self.is_over {
                        return Err(Error::OpenQuote { line: self.next_line });
                    }
                    return Ok(Scan::Part);
                };
                span = Span { start: at + 1, quoted: true, ..close };
                at = close.end + 1;
            }
            let rest = at;
            while at < bytes.len() && !self.ends[usize::from(bytes[at])] {
                at += 1;
            }
            if !span.quoted {
                span.end = at;
            } else if at > rest {
                // What follows the closing quote belongs to the field.
                span = Span { end: at, escaped: true, ..span };
            }
            if at == bytes.len() && !self.is_over {
                return Ok(Scan::Part);
            }
            self.spans.push(span);
            match bytes.get(at) {
                Some(byte) if *byte == self.delimiter => at += 1,
                Some(b'\r') if at + 1 == bytes.len() && !self.is_over => return Ok(Scan::Part),
                Some(b'\r') if bytes.get(at + 1) == Some(&b'\n') => {
                    return Ok(Scan::Record(at + 2));
                }
                Some(_) => return Ok(Scan::Record(at + 1)),
                None => return Ok(Scan::Record(at)),
            }
        }
    }

    /// Reads more into the window.
    fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.window.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.window.len() {
            if self.end >= RECORD_BYTES_MAX {
                let most = RECORD_BYTES_MAX as u64;
                return Err(Error::LongRecord { line: self.next_line, most });
            }
            self.window.resize(2 * self.end, 0);
        }
        let found = self.text.fill_buf()?;
        let count = found.len().min(self.window.len() - self.end);
        self.window[self.end..self.end + count].copy_from_slice(&found[..count]);
        self.text.consume(count);
        self.end += count;
        self.is_over = count == 0;
        Ok(())
    }
}

/// Where the quotes end that begin at `open`, and whether there are others within. `None` where
/// the window ends before that is known.
fn closing_quote(bytes: &[u8], open: usize, is_over: bool) -> Option<Span> {
    let (mut at, mut escaped) = (open + 1, false);
    loop {
        let end = at + memchr(b'"', &bytes[at..])?;
        match bytes.get(end + 1) {
            Some(b'"') => (at, escaped) = (end + 2, true),
            None if !is_over => return None,
            _ => return Some(Span { start: open, end, quoted: true, escaped }),
        }
    }
}

/// Takes quotes out of a field, in place: of two in a row one stays, the closing one goes. Returns
/// where the field ends then.
fn unescape(window: &mut [u8], span: Span) -> usize {
    let (mut from, mut to, mut inside) = (span.start, span.start, true);
    while from < span.end {
        let byte = window[from];
        from += 1;
        if inside && byte == b'"' {
            if from < span.end && window[from] == b'"' {
                from += 1;
            } else {
                inside = false;
                continue;
            }
        }
        window[to] = byte;
        to += 1;
    }
    to
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    /// The records of a text that is read in pieces of `piece` bytes: line, fields.
    fn records(text: &str, piece: usize) -> Result<Vec<(u64, Vec<String>)>> {
        let text = BufReader::with_capacity(piece, Cursor::new(text.as_bytes().to_vec()));
        let mut records = Records::new(Box::new(text), b',');
        records.window.truncate(4);
        let mut all = Vec::new();
        while records.next()? {
            let field = |at| {
                let Field { bytes, quoted } = records.field(at);
                let mark = if quoted { "'" } else { "" };
                format!("{mark}{}", String::from_utf8_lossy(bytes))
            };
            all.push((records.line(), (0..records.len()).map(field).collect()));
        }
        Ok(all)
    }

    #[test]
    fn records_are_found_wherever_the_window_ends() {
        for (text, wanted) in [
            ("", &[][..]),
            ("\n\r\n\r", &[]),
            ("a,b\n1,2", &[(1, &["a", "b"][..]), (2, &["1", "2"])]),
            ("a\r\nb\rc\n", &[(1, &["a"]), (2, &["b"]), (3, &["c"])]),
            ("a,\n,b\n", &[(1, &["a", ""]), (2, &["", "b"])]),
            ("\"\"\n\nx", &[(1, &["'"]), (3, &["x"])]),
            ("\"a\nb\",c\nd\n", &[(1, &["'a\nb", "c"]), (3, &["d"])]),
            ("\"a\"\"b\",\"\"\"\"\n", &[(1, &["'a\"b", "'\""])]),
            ("\"a\"b\"c,d\"e\n", &[(1, &["'ab\"c", "d\"e"])]),
            ("\"a\"", &[(1, &["'a"])]),
        ] {
            let wanted: Vec<(u64, Vec<String>)> = wanted
                .iter()
                .map(|(line, fields)| (*line, fields.iter().map(|it| (*it).to_owned()).collect()))
                .collect();
            for piece in 1..=text.len() + 1 {
                assert_eq!(records(text, piece).unwrap(), wanted, "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_quote_that_does_not_end_is_reported_with_its_line() {
        for piece in 1..10 {
            let error = records("a\n\"b\nc\n", piece).unwrap_err();
            assert!(matches!(error, Error::OpenQuote { line: 2 }), "{error}");
        }
    }
}
