//! `plasmon get`: an object becomes a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use plasmon_client::{Buffer, Client, Code, Error, tag};
use serde_json::json;

use crate::arguments::{Format, Get};
use crate::formats::{self, FileType};
use crate::output::{Output, bytes};
use crate::progress;
use crate::target::{self, Target};

/// Writes the object to the file of the arguments. A file appears whole or not at all.
pub(super) fn get(store: &Client, get: &Get, output: &Output) -> Result<()> {
    let buffer = find(store, get)?;
    let kind = file_type(get, buffer.tag())?;
    let Some(path) = file(get) else {
        let out = io::stdout();
        if !kind.is_text() && out.is_terminal() {
            bail!(
                "the object's bytes are not for a terminal: give --output, a pipe, or for a \
                 table --format csv"
            );
        }
        let is_seen = out.is_terminal();
        let bar = progress::counted(&get.object, output.is_json() || is_seen);
        write(kind, &buffer, &mut bar.wrap_write(BufWriter::new(out)))?;
        bar.finish_and_clear();
        return Ok(());
    };
    let bar = progress::counted(&get.object, output.is_json());
    replace(path, |file| write(kind, &buffer, &mut bar.wrap_write(file)))?;
    bar.finish_and_clear();
    let document =
        json!({ "id": buffer.id().to_string(), "output": path, "data_bytes": buffer.data().len() });
    output.value(&document, || {
        format!(
            "{}: {} written to {}",
            get.object,
            bytes(buffer.data().len() as u64),
            path.display()
        )
    })
}

/// The object, waiting for it up to the timeout of the arguments.
fn find(store: &Client, get: &Get) -> Result<Buffer> {
    let object = Target::find(store, &get.object)?;
    let id = object.id;
    let timeout = get.timeout.map(|timeout| target::seconds("--timeout", timeout)).transpose()?;
    let found = store.get_existing(&id);
    let waits = get.wait || timeout.is_some_and(|timeout| !timeout.is_zero());
    let may_come = |error: &Error| matches!(error.code(), Code::Absent | Code::NotSealed);
    let found = match found {
        Err(error) if waits && may_come(&error) => {
            if io::stderr().is_terminal() {
                // A note that cannot be written changes nothing.
                let _ = writeln!(
                    io::stderr(),
                    "waiting for \"{}\"; press Ctrl-C to cancel",
                    get.object
                );
            }
            store.get(&id, timeout)
        }
        found => found,
    };
    found.map_err(|error| object.failure(store, error))
}

/// The file to write; a dash is the standard output, as everywhere.
fn file(get: &Get) -> Option<&Path> {
    get.output.as_deref().filter(|path| *path != Path::new("-"))
}

/// The type of file to write. With an unknown extension an object of bytes is written unchanged,
/// and any other object is refused.
fn file_type(get: &Get, tag_found: u8) -> Result<FileType> {
    let Some(path) = file(get) else {
        return Ok(FileType::plain(get.format.unwrap_or(Format::Raw)));
    };
    match FileType::of(path, get.format) {
        Err(_) if tag_found == tag::RAW => Ok(FileType::plain(Format::Raw)),
        found => found,
    }
}

fn write(kind: FileType, buffer: &Buffer, out: &mut (dyn Write + Send)) -> Result<()> {
    if buffer.tag() == tag::COMPOSITE && kind.format != Format::Raw {
        formats::save_table(kind, plasmon_columns::read(buffer)?, out)?;
    } else {
        formats::save(kind, buffer.tag(), buffer.data(), buffer.metadata(), out)?;
    }
    out.flush()?;
    Ok(())
}

/// Writes a temporary file beside the file and renames it. A path that is not a regular file, such
/// as `/dev/stdout` or a named pipe, is written directly: a rename would replace it with a file.
pub(super) fn replace(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let file = OpenOptions::new().write(true).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        fill(&mut file)?;
        return Ok(file.flush()?);
    }
    let mut scratch = path.as_os_str().to_owned();
    scratch.push(format!(".{}.part", std::process::id()));
    let scratch = Path::new(&scratch);
    let made = File::create(scratch).with_context(|| format!("cannot write {}", path.display()));
    let result = made.and_then(|file| {
        fill(&mut BufWriter::with_capacity(1 << 20, file))?;
        fs::rename(scratch, path).with_context(|| format!("cannot write {}", path.display()))
    });
    if result.is_err() {
        // The first error is reported; a leftover that cannot be removed changes nothing.
        let _ = fs::remove_file(scratch);
    }
    result
}
