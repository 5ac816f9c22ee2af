//! The task of `plasmon sort`, and its progress bar.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use plasmon_sort::{Job, Progress, SortKey, Table};
use plasmon_sort_store::{
    NoRoom, Plan, Resources, Shortage, Spill, StoreRoom, available_bytes, plan,
};

use crate::arguments::Sort;
use crate::commands::sort_inputs::Inputs;
use crate::output::bytes;
use crate::progress;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);

/// The command's arguments.
pub(super) struct Work<'a> {
    pub(super) sort: &'a Sort,
    pub(super) order: &'a [SortKey],
    pub(super) quiet: bool,
}

impl Work<'_> {
    /// Whether the rows are sorted in memory; `store` takes the result, if one does.
    pub(super) fn plan(&self, inputs: &Inputs, store: Option<StoreRoom>) -> Result<Plan> {
        let available_bytes = available_bytes()?;
        let resources = Resources { available_bytes, memory_bytes: self.sort.memory, store };
        plan(inputs.sizes(), &resources, Spill::Auto).map_err(no_room)
    }

    /// A sort of a table in memory, for `work`, with a bar.
    pub(super) fn in_memory<T, E>(
        &self,
        table: &Table,
        work: impl FnOnce(&Job<'_>) -> Result<T, E>,
    ) -> Result<T>
    where
        anyhow::Error: From<E>,
    {
        let progress = Progress::default();
        let job = Job {
            table,
            order: self.order,
            partitions: self.sort.partitions,
            only: None,
            threads: self.threads(),
            progress: &progress,
        };
        self.drawn(&progress, || Ok(work(&job)?))
    }

    pub(super) fn threads(&self) -> Option<usize> {
        self.sort.threads.map(usize::from)
    }

    /// Does something, with a bar that another thread draws.
    pub(super) fn drawn<T>(
        &self,
        progress: &Progress,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let drawing = scope.spawn(|| {
                let bar = progress::steps("sorting", self.quiet);
                while !done.load(Ordering::Acquire) {
                    let (steps, total) = progress.steps();
                    bar.set_length(total.max(1));
                    bar.set_position(steps);
                    std::thread::park_timeout(DRAW);
                }
                bar.finish_and_clear();
            });
            let result = work();
            done.store(true, Ordering::Release);
            drawing.thread().unpark();
            result
        })
    }
}

/// The order that a text such as `a,-b` means.
pub(super) fn order(text: &str, nulls_first: bool) -> Result<Vec<SortKey>> {
    let key = |term: &str| {
        let (column, descending) = match term.strip_prefix('-') {
            Some(column) => (column, true),
            None => (term, false),
        };
        if column.is_empty() {
            bail!("--by takes columns such as \"city,-price\", found \"{text}\"");
        }
        Ok(SortKey { column: column.to_owned(), descending, nulls_first })
    };
    text.split(',').map(str::trim).map(key).collect()
}

fn no_room(error: NoRoom) -> anyhow::Error {
    let NoRoom { shortage, needed_bytes, found_bytes } = error;
    match shortage {
        Shortage::Store | Shortage::StoreWithoutSpill => anyhow!(
            "the sorted rows need about {} and the store has {}: start it with more capacity or \
             with a spill folder, or sort into a file with --out",
            bytes(needed_bytes),
            bytes(found_bytes)
        ),
        Shortage::Memory => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_columns_with_a_minus_for_downwards() {
        let found = order("city, -price", true).unwrap();
        assert_eq!(found[0], SortKey::ascending("city").nulls_first());
        assert_eq!(found[1], SortKey::descending("price").nulls_first());
        for wrong in ["", "-", "a,,b", "a,-"] {
            assert!(order(wrong, false).is_err(), "{wrong}");
        }
    }
}
