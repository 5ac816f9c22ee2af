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
    let text = match &put.name {
        Some(name) => name,
        None => formats::stem(path)
            .context("the file's name is not UTF-8: name the object with --name")?,
    };
    let name = target::new_name(text, put.kept.namespace.as_deref())?;
    let object = Target::parse(&target::display_name(&name))?;
    let reading = progress::counted(&format!("reading {}", path.display()), output.is_json());
    let loaded = formats::load(path, kind)?;
    reading.finish_and_clear();
    let data_bytes = loaded.data_bytes;
    let options = put.kept.options(&name)?;
    let id = write(store, loaded, options, &object, output)?;
    let seconds = start.elapsed().as_secs_f64();
    let document = json!({
        "name": name.text, "namespace": name.namespace, "id": id.to_string(),
        "data_bytes": data_bytes, "seconds": seconds,
    });
    output.value(&document, || {
        format!("{}: {} in {seconds:.2} s, {id}", object.text, bytes(data_bytes))
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
    let failure = |error| object.failure(store, error);
    let options = PutOptions { metadata: loaded.metadata.clone(), tag: loaded.tag, ..options };
    let mut writer = store.create(loaded.data_bytes, &options).map_err(failure)?;
    let bar = progress::bytes(loaded.data_bytes, &object.text, output.is_json());
    loaded.write(&mut writer, &|done| bar.inc(done))?;
    bar.finish_and_clear();
    writer.seal().map_err(failure)
}
