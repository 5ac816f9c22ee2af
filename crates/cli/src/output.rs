//! The output of the command: tables for people, JSON for programs.

use std::io::{self, IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use rustix::termios::{Winsize, tcgetwinsize};
use serde::Serialize;

use crate::failure;

/// Where and how to print.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    color: bool,
}

/// How a piece of text is shown where the terminal has colours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    /// A heading, or something to highlight.
    Strong,
    /// All is well.
    Good,
    /// Worth a look.
    Note,
    /// Something is wrong.
    Bad,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Strong => "1",
            Self::Good => "32",
            Self::Note => "33",
            Self::Bad => "1;31",
        }
    }
}

/// Whether output to a terminal may have colours: any `NO_COLOR` except an empty one forbids them.
fn wants_color() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Output {
    /// Prints JSON or text.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, color: !json && io::stdout().is_terminal() && wants_color() }
    }

    /// A piece of text in a colour, where the terminal has them.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.color { colored(paint, text) } else { text.to_owned() }
    }

    /// A table whose head stands out.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
        let text = table(head, rows, right);
        match text.split_once('\n') {
            Some((head, rest)) => format!("{}\n{rest}", self.paint(Paint::Strong, head)),
            None => self.paint(Paint::Strong, &text),
        }
    }

    /// Whether the output is JSON, for a program.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// How many letters fit a line of the terminal, if that is where the output goes.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = self.size()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }

    /// How many lines the terminal has, if that is where the output goes.
    pub(crate) fn rows(&self) -> Option<usize> {
        let size = self.size()?;
        (size.ws_row > 0).then_some(usize::from(size.ws_row))
    }

    fn size(&self) -> Option<Winsize> {
        if self.is_live() { tcgetwinsize(io::stdout()).ok() } else { None }
    }

    /// Whether the output is watched on a terminal.
    pub(crate) fn is_live(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Prints a value as JSON, or else the text.
    pub(crate) fn value(
        &self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        let line = if self.json { serde_json::to_string(value)? } else { text() };
        self.line(&line)
    }

    /// Prints one line.
    pub(crate) fn line(&self, line: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()?;
        Ok(())
    }

    /// Prints a note that is not an error to the standard error.
    pub(crate) fn warn(&self, text: &str) {
        // A warning that cannot be written changes nothing.
        let _ = writeln!(io::stderr(), "plasmon: warning: {text}");
    }

    /// Says on the standard error what the command does, for a person who waits.
    pub(crate) fn progress(&self, text: &str) {
        if !self.json {
            // What cannot be told changes nothing.
            let _ = writeln!(io::stderr(), "plasmon: {text}");
        }
    }

    /// Prints an error to the standard error, with its causes and advice.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let mut err = io::stderr().lock();
        let written = if self.json {
            let facts = failure::facts(error);
            let document = serde_json::json!({
                "error": failure::text(error), "code": facts.code, "object": facts.object,
                "id": facts.id.map(|id| id.to_string()),
            });
            writeln!(err, "{document}")
        } else {
            let own = if err.is_terminal() && wants_color() {
                colored(Paint::Bad, "plasmon:")
            } else {
                "plasmon:".to_owned()
            };
            writeln!(err, "{own} {}", failure::text(error))
        };
        // The error cannot be reported when the standard error is closed.
        drop(written);
    }
}

fn colored(paint: Paint, text: &str) -> String {
    format!("\x1b[{}m{text}\x1b[0m", paint.code())
}

/// Rows as an aligned table; the columns named in `right` are aligned to the right.
fn table(head: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, &width))| {
                if right.contains(&at) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            })
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut head.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// A number of things for a person, such as `1 object`.
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A time of day in the time zone of the world, such as `21:05:09.123Z`.
pub(crate) fn clock(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000 % 86400, ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A number of bytes for a person, such as `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A number of milliseconds for a person, such as `2 h 5 min`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// A number of milliseconds in one unit, such as `2 h`.
pub(crate) fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1 << 20, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert!(bytes(u64::MAX).ends_with("PiB"));
        assert_eq!(duration(999), "999 ms");
        assert_eq!(duration(3_660_000), "1 h 1 min");
    }

    #[test]
    fn tables_align() {
        let rows =
            vec![vec!["a".to_owned(), "10".to_owned()], vec!["bcd".to_owned(), "9".to_owned()]];
        assert_eq!(table(&["name", "n"], &rows, &[1]), "name   n\na     10\nbcd    9");
    }
}
