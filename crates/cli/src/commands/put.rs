//! `plasmon put`: files become objects.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, ObjectId, PutOptions};
use serde_json::json;

use crate::arguments::Put;
use crate::failure::usage;
use crate::formats::{self, FileType, InputFile};
use crate::output::{Output, bytes};
use crate::progress;
use crate::target::{self, Target};

/// Puts every file; the first failure ends the command and names its file.
pub(super) fn put(store: &Client, put: &Put, output: &Output) -> Result<()> {
    if put.name.is_some() && put.files.len() > 1 {
        bail!(usage(format!("--name names one object, but {} files were given", put.files.len())));
    }
    for file in &put.files {
        one(store, put, file, output).with_context(|| format!("putting {}", file.display()))?;
    }
    Ok(())
}

fn one(store: &Client, put: &Put, path: &Path, output: &Output) -> Result<()> {
    let start = Instant::now();
    let kind = FileType::of(path, put.format)?.with_delimiter(put.delimiter)?;
    let name = match &put.name {
        _ if put.pool => None,
        Some(name) => Some(target::new_name(name, put.kept.namespace.as_deref())?),
        None => {
            let stem = formats::stem(path)
                .context("the file's name is not UTF-8: name the object with --name")?;
            Some(target::new_name(stem, put.kept.namespace.as_deref())?)
        }
    };
    let reading = progress::counted(&format!("reading {}", path.display()), output.is_json());
    let loaded = formats::load(path, kind)?;
    reading.finish_and_clear();
    let data_bytes = loaded.data_bytes;
    let object = name.as_ref().map(|name| Target::parse(&target::display_name(name)));
    let object = object.transpose()?;
    let options = match &name {
        Some(name) => put.kept.options(name)?,
        None => put.kept.unnamed(),
    };
    let id = match &object {
        Some(object) => write(store, loaded, options, object, output)?,
        None => fill(store, loaded, &options, &path.display().to_string(), output)??,
    };
    let seconds = start.elapsed().as_secs_f64();
    let document = json!({
        "name": name.as_ref().map(|name| &name.text),
        "namespace": name.as_ref().map(|name| &name.namespace),
        "id": id.to_string(), "data_bytes": data_bytes, "seconds": seconds,
    });
    output.value(&document, || {
        let what = object.map_or_else(|| path.display().to_string(), |object| object.text);
        format!("{what}: {} in {seconds:.2} s, {id}", bytes(data_bytes))
    })
}

/// Writes what was loaded into the store.
pub(super) fn write(
    store: &Client,
    loaded: InputFile,
    options: PutOptions,
    object: &Target,
    output: &Output,
) -> Result<ObjectId> {
    let written = fill(store, loaded, &options, &object.text, output)?;
    written.map_err(|error| object.failure(store, error))
}

/// The same, of what may have no name. The inner error is about the object.
fn fill(
    store: &Client,
    loaded: InputFile,
    options: &PutOptions,
    text: &str,
    output: &Output,
) -> Result<plasmon_client::Result<ObjectId>> {
    let metadata = loaded.metadata.clone();
    let options = PutOptions { metadata, tag: loaded.tag, ..options.clone() };
    let mut writer = match store.create(loaded.data_bytes, &options) {
        Ok(writer) => writer,
        Err(error) => return Ok(Err(error)),
    };
    let bar = progress::bytes(loaded.data_bytes, text, output.is_json());
    loaded.write(&mut writer, &|done| bar.inc(done))?;
    bar.finish_and_clear();
    Ok(writer.seal())
}
