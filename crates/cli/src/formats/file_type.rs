//! The type of a file, by its extension or by the caller's choice.
//!
//! An ending that is not known is refused: bytes in a file whose name promises something else would
//! be noticed only by the program that reads it.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, bail};
use plasmon_files::Compression;

use crate::arguments::Format;

/// The endings of tables, as an error lists them.
const TABLES: &str = ".parquet, .arrow, .feather, .ipc, .arrows, .csv, .tsv, .json, .jsonl or \
                      .ndjson; those of text also with .gz or .zst after it";

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileType {
    /// Its format.
    pub(crate) format: Format,
    /// How it is compressed; formats of text alone are.
    pub(crate) compression: Compression,
    /// The delimiter of a CSV file.
    pub(crate) delimiter: u8,
}

impl FileType {
    /// Of this format, with defaults.
    pub(crate) fn plain(format: Format) -> Self {
        Self { format, compression: Compression::Plain, delimiter: b',' }
    }

    /// The type by the path's extension; `None` for an unknown extension.
    fn of_ending(path: &Path) -> Option<Self> {
        let (_, ending, compression) = parts(path);
        let format = match ending.as_deref() {
            None if compression == Compression::Plain => Format::Raw,
            None => return None,
            Some("parquet" | "pq") => Format::Parquet,
            Some("csv" | "tsv") => Format::Csv,
            Some("json") => Format::Json,
            Some("jsonl" | "ndjson") => Format::Jsonl,
            Some("arrow" | "feather" | "ipc") => Format::Arrow,
            Some("arrows") => Format::Arrows,
            Some("npy") => Format::Npy,
            Some("bin" | "raw" | "dat") => Format::Raw,
            Some(_) => return None,
        };
        let delimiter = if ending.as_deref() == Some("tsv") { b'\t' } else { b',' };
        let found = Self { format, compression, delimiter };
        (compression == Compression::Plain || found.is_text()).then_some(found)
    }

    /// The type of the file: `format`, else by its extension.
    pub(crate) fn of(path: &Path, format: Option<Format>) -> Result<Self> {
        let by_ending = Self::of_ending(path);
        match (format, by_ending) {
            (None, Some(found)) => Ok(found),
            (None, None) => bail!(unknown(path)),
            (Some(format), found) => {
                let (_, _, compression) = parts(path);
                let found = found.filter(|found| found.format == format);
                let mut wanted = found.unwrap_or(Self { compression, ..Self::plain(format) });
                if !wanted.is_text() {
                    wanted.compression = Compression::Plain;
                }
                Ok(wanted)
            }
        }
    }

    /// The same for a file that must hold a table.
    pub(crate) fn of_table(path: &Path, format: Option<Format>) -> Result<Self> {
        let found = Self::of(path, format)?;
        if matches!(found.format, Format::Npy | Format::Raw) {
            bail!(
                "{} cannot hold a table, judging by its ending: a table is {TABLES}",
                path.display()
            );
        }
        Ok(found)
    }

    /// The same with another delimiter, if one is given.
    pub(crate) fn with_delimiter(mut self, delimiter: Option<u8>) -> Result<Self> {
        if let Some(delimiter) = delimiter {
            if self.format != Format::Csv {
                bail!("--delimiter is for CSV files, this one is {}", self.key());
            }
            self.delimiter = delimiter;
        }
        Ok(self)
    }

    /// Whether a terminal can show it.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.format, Format::Csv | Format::Json | Format::Jsonl)
    }

    /// The format in words.
    pub(crate) fn key(self) -> &'static str {
        match self.format {
            Format::Parquet => "Parquet",
            Format::Csv => "CSV",
            Format::Json => "JSON",
            Format::Jsonl => "JSON lines",
            Format::Arrow => "Arrow",
            Format::Arrows => "Arrow stream",
            Format::Npy => "npy",
            Format::Raw => "raw",
        }
    }
}

/// The name of the object that a file becomes: the file's without its endings.
pub(crate) fn stem(path: &Path) -> Option<&str> {
    parts(path).0.to_str()
}

/// The error for a file whose ending is not known.
fn unknown(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    format!(
        "{}: the ending .{ending} is not known. A table is {TABLES}; an array is .npy; bytes are \
         .bin or have no ending. --format names the type regardless of the ending, and \
         `--format raw` takes the bytes unchanged",
        path.display()
    )
}

/// A file's name without its endings, the ending in small letters, and what the ending after that
/// says about compression.
fn parts(path: &Path) -> (&OsStr, Option<String>, Compression) {
    let name = Path::new(path.file_name().unwrap_or_default());
    let ending = |name: &Path| Some(name.extension()?.to_string_lossy().to_ascii_lowercase());
    let compression = match ending(name).as_deref() {
        Some("gz") => Compression::Gzip,
        Some("zst") => Compression::Zstd,
        _ => Compression::Plain,
    };
    let rest = match compression {
        Compression::Plain => name,
        _ => Path::new(name.file_stem().unwrap_or_default()),
    };
    (rest.file_stem().unwrap_or_default(), ending(rest), compression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_mean_what_other_programs_take_them_for() {
        for (name, format, compression) in [
            ("a.arrow", Format::Arrow, Compression::Plain),
            ("a.FEATHER", Format::Arrow, Compression::Plain),
            ("a.ipc", Format::Arrow, Compression::Plain),
            ("a.arrows", Format::Arrows, Compression::Plain),
            ("a.b.csv.gz", Format::Csv, Compression::Gzip),
            ("a.tsv.zst", Format::Csv, Compression::Zstd),
            ("a.json", Format::Json, Compression::Plain),
            ("a.ndjson", Format::Jsonl, Compression::Plain),
            ("folder.x/a", Format::Raw, Compression::Plain),
            (".hidden", Format::Raw, Compression::Plain),
        ] {
            let found = FileType::of(Path::new(name), None).unwrap();
            assert_eq!((found.format, found.compression), (format, compression), "{name}");
        }
        assert_eq!(FileType::of(Path::new("a.tsv"), None).unwrap().delimiter, b'\t');
        for name in ["a.txt", "a.xlsx", "a.gz", "a.parquet.gz", "a.2024"] {
            let error = FileType::of(Path::new(name), None).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(".jsonl"), "{error}");
            assert_eq!(
                FileType::of(Path::new(name), Some(Format::Raw)).unwrap(),
                FileType::plain(Format::Raw)
            );
        }
        let given = FileType::of(Path::new("a.txt.gz"), Some(Format::Csv)).unwrap();
        assert_eq!(given.compression, Compression::Gzip);
    }

    #[test]
    fn an_object_is_named_after_its_file() {
        for (name, object) in [
            ("x/t.csv", "t"),
            ("t.csv.gz", "t"),
            ("t.v1.parquet", "t.v1"),
            ("a.b.c.jsonl.zst", "a.b.c"),
            ("plain", "plain"),
            (".hidden", ".hidden"),
        ] {
            assert_eq!(stem(Path::new(name)), Some(object), "{name}");
        }
    }
}
