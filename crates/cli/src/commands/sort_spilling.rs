//! `plasmon sort` of what does not fit: through a scratch file without a name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plasmon_client::{Name, ObjectId, PutOptions, Store};
use plasmon_proto::object::{ObjectState, tag};
use plasmon_sort::{External, Heap, Means, Merge, Progress};

use crate::commands::get::replace;
use crate::commands::sort::{Work, names};
use crate::commands::sort_guard::Guard;
use crate::commands::sort_inputs::Inputs;
use crate::formats::{FileType, TableWriter, read_stream};
use crate::output::bytes;
use crate::target;

/// Sorts into a file; how many rows there were.
pub(super) fn into_file(inputs: Inputs, work: &Work<'_>, out: &Path) -> Result<usize> {
    let beside = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = work.sort.spill_dir.as_deref().or(beside).unwrap_or(Path::new("."));
    let memory_bytes = inputs.memory_bytes(work.sort.memory)?;
    external(inputs, work, (folder, memory_bytes), |mut merge| {
        let mut rows = 0;
        replace(out, |file| {
            let mut writer =
                TableWriter::new(FileType::of_table(out, None)?, &merge.schema(), file)?;
            while let Some(made) = merge.next_partition(&mut |bytes| Ok(Heap::new(bytes)))? {
                rows += made.rows;
                for batch in &read_stream(&made.memory)?.1 {
                    writer.write(batch)?;
                }
            }
            writer.finish()
        })?;
        Ok(rows)
    })
}

/// Sorts into the store; the names of the partitions, and how many rows there were.
pub(super) fn into_store(
    store: &Store,
    inputs: Inputs,
    work: &Work<'_>,
    name: &str,
) -> Result<(Vec<String>, usize)> {
    let status = store.status()?;
    if inputs.rows_bytes() > status.capacity_bytes && !status.spills {
        bail!(
            "the sorted rows need about {} and the store has {}: start it with more capacity or \
             with a spill folder, or sort into a file with --out",
            bytes(inputs.rows_bytes()),
            bytes(status.capacity_bytes)
        );
    }
    let usual = || std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    let folder = work.sort.spill_dir.clone().unwrap_or_else(usual);
    // The partitions take memory too, in the store.
    let memory_bytes =
        work.sort.memory.map_or_else(|| inputs.memory_bytes(None).map(|b| b / 2), Ok)?;
    external(inputs, work, (&folder, memory_bytes), |merge| {
        let names = names(name, merge.partitions());
        let named = names.iter().map(|name| target::new_name(name, None));
        let named = named.collect::<Result<Vec<_>>>()?;
        let ids: Vec<ObjectId> = named.iter().map(ObjectId::from_name).collect();
        // Names that are taken are refused before anybody could delete what is not ours.
        for (name, state) in names.iter().zip(store.states(&ids)?) {
            if matches!(state, ObjectState::Sealed | ObjectState::Spilled | ObjectState::Creating) {
                bail!("object {name} exists already: choose another --name, or delete it");
            }
        }
        let guard = Guard::start(store, &ids)?;
        // An error drops the guard, and the guard deletes what is there.
        let rows = seal_all(store, merge, named)?;
        guard.dismiss()?;
        Ok((names, rows))
    })
}

/// Makes partition after partition, sealed before the next is begun; how many rows they have.
fn seal_all(store: &Store, mut merge: Merge<'_>, names: Vec<Name>) -> Result<usize> {
    let (mut rows, mut names) = (0, names.into_iter());
    while let Some(made) = merge.next_partition(&mut |bytes| {
        let name = Some(names.next().ok_or("more partitions than were planned")?);
        let options = PutOptions { name, tag: tag::ARROW_STREAM, ..PutOptions::default() };
        Ok(store.create(bytes, &options)?)
    })? {
        rows += made.rows;
        made.memory.seal()?;
    }
    store.flush()?;
    Ok(rows)
}

/// Reads all rows into runs, and lets `make` make the partitions of them.
fn external<T>(
    inputs: Inputs,
    work: &Work<'_>,
    (folder, memory_bytes): (&Path, u64),
    make: impl FnOnce(Merge<'_>) -> Result<T>,
) -> Result<T> {
    let progress = Progress::default();
    let (scratch_bytes_max, threads) = (work.sort.spill_max, work.threads());
    let means = Means { folder, scratch_bytes_max, memory_bytes, threads, progress: &progress };
    let mut external = External::new(&inputs.schema, work.order, means)?;
    external.expect_bytes(inputs.rows_bytes())?;
    work.drawn(&progress, || {
        inputs.each(&mut |batch| Ok(external.push(&batch)?))?;
        make(external.finish(work.sort.partitions)?).context("sorting through a scratch file")
    })
}
