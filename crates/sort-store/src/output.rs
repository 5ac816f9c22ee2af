//! The partitions of a sort in the store: all of them or none.

use plasmon_client::{Client, ObjectId, ObjectState, PutOptions, Scope, Writer};
use plasmon_sort::{Job, Merge, Partition};

use crate::error::{Error, Result};
use crate::names::partition_name;

/// Where the partitions go, and as what.
#[derive(Clone, Debug)]
pub struct Output {
    /// The store.
    pub store: Client,
    /// The name of the result; without one the partitions have their own ids.
    pub name: Option<plasmon_client::Name>,
    /// How each is put, except for id and name.
    pub options: PutOptions,
}

/// A partition that is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedPartition {
    /// Its id.
    pub id: ObjectId,
    /// How many rows it has.
    pub rows: usize,
}

/// Partitions that are sealed and stay only when they are published: dropped before, or with this
/// process, they are deleted.
#[derive(Debug)]
#[must_use = "what is not published is deleted"]
pub struct UnpublishedPartitions {
    store: Client,
    scope: Scope,
    partitions: Vec<SealedPartition>,
}

impl UnpublishedPartitions {
    /// What there is.
    pub fn partitions(&self) -> &[SealedPartition] {
        &self.partitions
    }

    /// Makes the partitions stay, all of them at once.
    pub fn publish(self) -> Result<Vec<SealedPartition>> {
        // What the store refuses after a seal has returned is said here.
        self.store.flush()?;
        self.scope.publish()?;
        Ok(self.partitions)
    }
}

impl Output {
    /// Sorts in memory. A result with a name has one partition unless the job says how many.
    pub fn sort(&self, job: &Job<'_>) -> Result<UnpublishedPartitions> {
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
        // Until it is sealed an object is deleted with its creator anyway.
        let ids: Vec<ObjectId> = sorted.iter().map(|partition| partition.memory.id()).collect();
        let scope = self.store.scope(&ids)?;
        let partitions = sorted.into_iter().map(seal).collect::<Result<_>>()?;
        Ok(UnpublishedPartitions { store: self.store.clone(), scope, partitions })
    }

    /// Makes the partitions of an external sort, each sealed before the next is begun, so that the
    /// store can spill it.
    pub fn write(&self, mut merge: Merge<'_>) -> Result<UnpublishedPartitions> {
        let count = merge.partitions();
        let mut all = Vec::with_capacity(count);
        for at in 0..count {
            let mut options = self.options_of(at, Some(count))?;
            let id = options.name.as_ref().map_or_else(|| self.store.new_id(), ObjectId::from_name);
            options.id = Some(id);
            all.push(options);
        }
        // A name that is taken is better refused before the work than after it.
        self.check_free(&all)?;
        let ids: Vec<ObjectId> = all.iter().filter_map(|options| options.id).collect();
        let scope = self.store.scope(&ids)?;
        let mut partitions = Vec::with_capacity(count);
        for options in &all {
            let create = &mut |bytes| Ok(self.store.create(bytes, options)?);
            if let Some(partition) = merge.next_partition(create)? {
                partitions.push(seal(partition)?);
            }
        }
        Ok(UnpublishedPartitions { store: self.store.clone(), scope, partitions })
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
}

fn seal(partition: Partition<Writer>) -> Result<SealedPartition> {
    Ok(SealedPartition { id: partition.memory.seal()?, rows: partition.rows })
}
