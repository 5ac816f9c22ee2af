//! `plasmon sort` of what does not fit: through a scratch file without a name.

use std::path::Path;

use anyhow::{Context, Result};
use plasmon_sort::{External, Heap, Means, Merge, Progress};
use plasmon_sort_store::{Output, SealedPartition, scratch_folder};

use crate::commands::get::replace;
use crate::commands::sort_inputs::Inputs;
use crate::commands::sort_work::Work;
use crate::formats::{FileType, TableWriter, read_stream};

/// Sorts into a file; how many rows there were.
pub(super) fn into_file(
    inputs: Inputs,
    work: &Work<'_>,
    memory_bytes: u64,
    out: &Path,
) -> Result<usize> {
    let beside = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = work.sort.spill_dir.as_deref().or(beside).unwrap_or(Path::new("."));
    external(inputs, work, Scratch { folder, memory_bytes }, |mut merge| {
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

/// Sorts into the store.
pub(super) fn into_store(
    inputs: Inputs,
    work: &Work<'_>,
    memory_bytes: u64,
    partitions: &Output,
) -> Result<Vec<SealedPartition>> {
    let folder = &scratch_folder(work.sort.spill_dir.clone(), std::env::var_os("TMPDIR"));
    external(inputs, work, Scratch { folder, memory_bytes }, |merge| {
        Ok(partitions.write(merge)?.publish()?)
    })
}

/// Where the scratch file is, and how much memory is used beside it.
struct Scratch<'a> {
    folder: &'a Path,
    memory_bytes: u64,
}

/// Reads all rows into runs, and lets `make` make the partitions of them.
fn external<T>(
    inputs: Inputs,
    work: &Work<'_>,
    scratch: Scratch<'_>,
    make: impl FnOnce(Merge<'_>) -> Result<T>,
) -> Result<T> {
    let Scratch { folder, memory_bytes } = scratch;
    let progress = Progress::default();
    let (scratch_bytes_max, threads) = (work.sort.spill_max, work.threads());
    let means = Means { folder, scratch_bytes_max, memory_bytes, threads, progress: &progress };
    let mut external = External::new(&inputs.schema, work.order, means)?;
    external.expect_bytes(inputs.sizes().rows_bytes)?;
    work.drawn(&progress, || {
        inputs.each(&mut |batch| Ok(external.push(&batch)?))?;
        make(external.finish(work.sort.partitions)?).context("sorting through a scratch file")
    })
}
