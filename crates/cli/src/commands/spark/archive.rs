//! The entries of a jar, from its directory: enough to distinguish our jar from other files.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::DeflateDecoder;

/// The longest directory that is read; ours takes about 10 KB.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;

/// The longest entry that is read.
const ENTRY_BYTES_MAX: u64 = 64 << 10;

/// The end of a zip file: 22 bytes and a comment.
const END_BYTES: u64 = 22;
const COMMENT_BYTES_MAX: u64 = u16::MAX as u64;

const END_MARK: [u8; 4] = *b"PK\x05\x06";
const ENTRY_MARK: [u8; 4] = *b"PK\x01\x02";
const CONTENT_MARK: [u8; 4] = *b"PK\x03\x04";

#[derive(Debug)]
struct Entry {
    name: String,
    is_deflated: bool,
    bytes: u64,
    offset: u64,
}

/// An open zip file.
#[derive(Debug)]
pub(super) struct Archive {
    file: File,
    entries: Vec<Entry>,
}

impl Archive {
    /// Reads the directory of a file; an error has the reason why the file is not a zip file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).context("it cannot be read")?;
        let length = file.metadata().context("it cannot be read")?.len();
        let tail_bytes = length.min(END_BYTES + COMMENT_BYTES_MAX);
        let tail = read(&file, length - tail_bytes, tail_bytes)?;
        let at = tail.windows(END_MARK.len()).rposition(|four| four == END_MARK);
        let end = at.map(|at| &tail[at..]).filter(|end| end.len() as u64 >= END_BYTES);
        let end = end.context("it is not a jar, or is truncated")?;
        let (bytes, offset) = (number(end, 12, 4)?, number(end, 16, 4)?);
        ensure!(
            bytes <= DIRECTORY_BYTES_MAX && offset + bytes <= length,
            "it is not a jar, or is truncated"
        );
        let entries = entries(&read(&file, offset, bytes)?)?;
        Ok(Self { file, entries })
    }

    /// Whether there is an entry of this name with anything in it.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name && entry.bytes > 0)
    }

    /// A short entry as text.
    pub(super) fn text(&self, name: &str) -> Result<String> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let entry = entry.with_context(|| format!("it holds no {name}"))?;
        ensure!(entry.bytes <= ENTRY_BYTES_MAX, "{name} in it is too long");
        let head = read(&self.file, entry.offset, 30)?;
        ensure!(head.starts_with(&CONTENT_MARK), "{name} in it is damaged");
        let begin = entry.offset + 30 + number(&head, 26, 2)? + number(&head, 28, 2)?;
        let content = read(&self.file, begin, entry.bytes)?;
        let mut text = String::new();
        if entry.is_deflated {
            let mut decoder = DeflateDecoder::new(&content[..]).take(ENTRY_BYTES_MAX);
            decoder
                .read_to_string(&mut text)
                .with_context(|| format!("{name} in it is damaged"))?;
        } else {
            text = String::from_utf8(content).with_context(|| format!("{name} is not UTF-8"))?;
        }
        Ok(text)
    }
}

fn entries(mut directory: &[u8]) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    while directory.starts_with(&ENTRY_MARK) {
        let name_end = 46 + number(directory, 28, 2)?;
        let end = name_end + number(directory, 30, 2)? + number(directory, 32, 2)?;
        let name = directory
            .get(46..usize::try_from(name_end)?)
            .context("its list of entries is truncated")?;
        found.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            is_deflated: match number(directory, 10, 2)? {
                0 => false,
                8 => true,
                method => bail!("an entry in it is compressed in an unknown way ({method})"),
            },
            bytes: number(directory, 20, 4)?,
            offset: number(directory, 42, 4)?,
        });
        directory =
            directory.get(usize::try_from(end)?..).context("its list of entries is truncated")?;
    }
    Ok(found)
}

fn read(file: &File, offset: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(bytes)?];
    file.read_exact_at(&mut content, offset).context("it is truncated")?;
    Ok(content)
}

/// A number of `width` bytes, the lowest first.
fn number(bytes: &[u8], at: usize, width: usize) -> Result<u64> {
    let digits = bytes.get(at..at + width).context("it is truncated")?;
    Ok(digits.iter().rev().fold(0, |number, digit| number << 8 | u64::from(*digit)))
}
