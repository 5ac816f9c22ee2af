//! The partitions of a sort in the store: all of them or none.

use plasmon_client::{Client, ObjectId, ObjectState, PutOptions, Writer, interruptible};
use plasmon_sort::{Job, Merge, Partition};

use crate::clear::delete_made;
use crate::error::{Error, Result};
use crate::guard::{Guard, GuardCommand};
use crate::names::partition_name;

/// Where the partitions go, and as what.
#[derive(Clone, Debug)]
pub struct Output {
    /// The store.
    pub store: Client,
    /// The name of the result; without one the partitions have ids of their own.
    pub name: Option<plasmon_client::Name>,
    /// How each is put, but for id and name.
    pub options: PutOptions,
    /// What guards them when there are several.
    pub guard: GuardCommand,
}

/// A partition that is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its id.
    pub id: ObjectId,
    /// How many rows it has.
    pub rows: usize,
}

impl Output {
    /// Sorts in memory. A result with a name has one partition unless the job says how many.
    pub fn sort(&self, job: &Job<'_>) -> Result<Vec<Sealed>> {
        let mut job = job.clone();
        if self.name.is_some() {
            job.partitions = job.partitions.or(Some(1));
        }
        let count = job.only.as_ref().map(ExactSizeIterator::len).or(job.partitions);
        let mut at = 0..;
        let sorted = plasmon_sort::sort(&job, &mut |bytes| {
            let options = self.options_of(at.next().unwrap_or(0), count)?;
            Ok(self.store.create(bytes, &options)?)
        })?;
        let ids: Vec<ObjectId> = sorted.iter().map(|partition| partition.memory.id()).collect();
        self.guarded(&ids, |made| {
            made.extend(&ids);
            sorted.into_iter().map(seal).collect()
        })
    }

    /// Makes the partitions of an external sort, each sealed before the next is begun, so that the
    /// store can spill it.
    pub fn write(&self, mut merge: Merge<'_>) -> Result<Vec<Sealed>> {
        let count = merge.partitions();
        let mut all = Vec::with_capacity(count);
        for at in 0..count {
            let mut options = self.options_of(at, Some(count))?;
            let id = options.name.as_ref().map_or_else(|| self.store.new_id(), ObjectId::from_name);
            options.id = Some(id);
            all.push(options);
        }
        let ids: Vec<ObjectId> = all.iter().filter_map(|options| options.id).collect();
        // A name that is taken is refused before the guard could delete what is not ours.
        self.check_free(&all)?;
        self.guarded(&ids, |made| {
            let mut sealed = Vec::with_capacity(count);
            for options in &all {
                let create = &mut |bytes| {
                    let writer = self.store.create(bytes, options)?;
                    made.push(writer.id());
                    Ok(writer)
                };
                if let Some(partition) = merge.next_partition(create)? {
                    sealed.push(seal(partition)?);
                }
            }
            Ok(sealed)
        })
    }

    /// How a partition is put.
    fn options_of(&self, at: usize, count: Option<usize>) -> Result<PutOptions> {
        let name = self.name.as_ref().map(|name| partition_name(name, at, count.unwrap_or(1)));
        Ok(PutOptions { name: name.transpose()?, ..self.options.clone() })
    }

    /// An error when the name of a partition is taken.
    fn check_free(&self, all: &[PutOptions]) -> Result<()> {
        let named = all.iter().filter_map(|options| Some((options.name.as_ref()?, options.id?)));
        let (names, ids): (Vec<_>, Vec<_>) = named.unzip();
        if ids.is_empty() {
            return Ok(());
        }
        for ((name, id), state) in names.into_iter().zip(&ids).zip(self.store.states(&ids)?) {
            if matches!(state, ObjectState::Sealed | ObjectState::Spilled | ObjectState::Creating) {
                return Err(Error::Exists { name: name.clone(), id: *id });
            }
        }
        Ok(())
    }

    /// Seals objects in a way that leaves none of them when it fails, or when this process is
    /// killed meanwhile. `work` notes the objects that it has made.
    fn guarded(
        &self,
        ids: &[ObjectId],
        work: impl FnOnce(&mut Vec<ObjectId>) -> Result<Vec<Sealed>>,
    ) -> Result<Vec<Sealed>> {
        // One object is sealed or not.
        let several = ids.len() > 1;
        let guard = several.then(|| Guard::start(&self.guard, ids)).transpose()?;
        let mut made = Vec::new();
        let outcome = work(&mut made).and_then(|sealed| {
            if several {
                self.store.flush()?;
            }
            Ok(sealed)
        });
        let dismiss = |guard: Option<Guard>| guard.map_or((), Guard::dismiss);
        let first = match outcome {
            Ok(sealed) => {
                dismiss(guard);
                return Ok(sealed);
            }
            Err(first) => first,
        };
        // The caller may have stopped the work; it waits for this in any case.
        match interruptible(|| false, || delete_made(&self.store, &made)) {
            Ok(()) => {
                dismiss(guard);
                Err(first)
            }
            Err(left) => {
                // It tries as well.
                if let Some(guard) = guard {
                    guard.leave();
                }
                Err(Error::Left { first: Box::new(first), left })
            }
        }
    }
}

fn seal(partition: Partition<Writer>) -> Result<Sealed> {
    Ok(Sealed { id: partition.memory.seal()?, rows: partition.rows })
}
