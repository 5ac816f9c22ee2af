//! Whether a sort is done in memory or through a scratch file, and with how much memory.
//!
//! Nothing here looks at the machine: what there is comes in as numbers.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use plasmon_client::Status;
use plasmon_sort::MEMORY_PER_PARTITION_BYTE;

/// Of the rows' bytes, the part that a sort in memory takes besides its input and its result.
const BESIDE_PART: u64 = 4;
/// Of the memory that is available, the part that a spilling sort takes: the rest is for its
/// neighbours, and for what it reads.
const MEMORY_PART: u64 = 2;
/// What it takes of the available memory at least, whatever the store may still take of it.
const MEMORY_PART_MIN: u64 = 8;
/// The least memory that is worth sorting with, as long as it is not more than [`MEMORY_PART`].
const MEMORY_WORTH_BYTES: u64 = 64 << 20;
/// The least memory of a spilling sort, whatever is available.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Of the store's capacity, the part that one partition of a spilling sort takes at most: it must
/// fit beside what others hold there.
const PARTITION_PART: u64 = 8;
/// Where scratch files are made unless the user says otherwise. Often `/tmp` is in memory.
const SCRATCH_FOLDER: &str = "/var/tmp";

/// Whether rows may go through a scratch file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spill {
    /// When they do not fit.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// What is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// About how many bytes all rows take.
    pub rows_bytes: u64,
    /// Those of them that are in files, and must be read into memory first.
    pub file_bytes: u64,
}

impl Sizes {
    /// What sorting in memory takes: the files, the result, and some more.
    pub fn needed_bytes(&self) -> u64 {
        let result = self.rows_bytes.saturating_add(self.rows_bytes / BESIDE_PART);
        result.saturating_add(self.file_bytes)
    }
}

/// What the store of the result says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreRoom {
    /// How many bytes it holds in memory.
    pub capacity_bytes: u64,
    /// How many of them are in use.
    pub used_bytes: u64,
    /// How many are free and already taken from the machine.
    pub warm_bytes: u64,
    /// Whether it has a spill tier.
    pub spills: bool,
}

impl From<&Status> for StoreRoom {
    fn from(status: &Status) -> Self {
        let Status { capacity_bytes, used_bytes, warm_bytes, spills, .. } = *status;
        Self { capacity_bytes, used_bytes, warm_bytes, spills }
    }
}

/// What there is to sort with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The memory that this process can have: [`crate::available_bytes`].
    pub available_bytes: u64,
    /// The memory to use, when the user says so.
    pub memory_bytes: Option<u64>,
    /// The store that takes the result; `None` when that is a file.
    pub store: Option<StoreRoom>,
}

/// How a sort is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// In memory.
    InMemory {
        /// The memory for a scratch file, where that is the way when the store turns out to be full
        /// of what others hold: partitions that are made one after the other can be spilled by it.
        or_spill_with: Option<u64>,
    },
    /// Through a scratch file.
    Spill {
        /// The memory for it.
        memory_bytes: u64,
    },
}

/// Why rows cannot be sorted: [`Shortage`] names what is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoRoom {
    /// What is too small.
    pub shortage: Shortage,
    /// How many bytes are needed.
    pub needed_bytes: u64,
    /// How many there are.
    pub found_bytes: u64,
}

/// What is too small for a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The store, which has no spill tier.
    Store,
    /// The store, which has a spill tier that this sort may not use.
    StoreWithoutSpill,
    /// The memory, and this sort may not spill.
    Memory,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, found) = (grouped(self.needed_bytes), grouped(self.found_bytes));
        let (what, place) = match self.shortage {
            Shortage::Store | Shortage::StoreWithoutSpill => {
                ("the sorted rows need", "the store has")
            }
            Shortage::Memory => ("the sort needs", "this process can use"),
        };
        write!(f, "{what} {needed} bytes and {place} {found}")
    }
}

/// A number with a comma after each third digit.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Compares what a sort needs with what there is.
pub fn plan(sizes: Sizes, resources: &Resources, spill: Spill) -> Result<Plan, NoRoom> {
    let Resources { available_bytes, memory_bytes, store } = *resources;
    let needed = sizes.needed_bytes();
    // A given number is the limit, whatever the store has: the same call does the same each time.
    let warm = store.map_or(0, |store| store.warm_bytes);
    let usable = memory_bytes.unwrap_or(available_bytes.saturating_add(warm));
    let of_store = |shortage, store: StoreRoom| NoRoom {
        shortage,
        needed_bytes: sizes.rows_bytes,
        found_bytes: store.capacity_bytes,
    };
    let too_small = store.filter(|store| sizes.rows_bytes > store.capacity_bytes);
    match (too_small, spill) {
        (Some(store), _) if !store.spills => return Err(of_store(Shortage::Store, store)),
        (Some(store), Spill::Never) => return Err(of_store(Shortage::StoreWithoutSpill, store)),
        _ => {}
    }
    let fits = too_small.is_none() && needed <= usable;
    match spill {
        Spill::Auto | Spill::Never if fits => {
            let may_spill = spill == Spill::Auto && store.is_some_and(|store| store.spills);
            let or_spill_with = may_spill.then(|| spill_memory_bytes(resources));
            Ok(Plan::InMemory { or_spill_with })
        }
        Spill::Never => {
            Err(NoRoom { shortage: Shortage::Memory, needed_bytes: needed, found_bytes: usable })
        }
        Spill::Auto | Spill::Always => {
            Ok(Plan::Spill { memory_bytes: spill_memory_bytes(resources) })
        }
    }
}

/// The memory of a spilling sort.
fn spill_memory_bytes(resources: &Resources) -> u64 {
    let Resources { available_bytes, memory_bytes, store } = *resources;
    if let Some(given) = memory_bytes {
        return given;
    }
    let Some(store) = store else { return share(available_bytes, 0) };
    // What the store has taken from the machine is not available; what it may yet take is.
    let taken = store.used_bytes.saturating_add(store.warm_bytes);
    let partition = store.capacity_bytes / PARTITION_PART;
    let most = partition.saturating_mul(MEMORY_PER_PARTITION_BYTE).max(MEMORY_BYTES_MIN);
    share(available_bytes, store.capacity_bytes.saturating_sub(taken)).min(most)
}

/// What a spilling sort takes of the available memory when others may still take so much of it.
fn share(available_bytes: u64, others_bytes: u64) -> u64 {
    let half = available_bytes / MEMORY_PART;
    let beside = available_bytes.saturating_sub(others_bytes) / MEMORY_PART;
    let least = (available_bytes / MEMORY_PART_MIN).max(MEMORY_WORTH_BYTES.min(half));
    beside.max(least).max(MEMORY_BYTES_MIN)
}

/// The folder of a scratch file: the one that was chosen, else that of `$TMPDIR`, else one on a
/// disk. An empty setting means none.
pub fn scratch_folder(chosen: Option<PathBuf>, tmpdir: Option<OsString>) -> PathBuf {
    let chosen = chosen.filter(|folder| !folder.as_os_str().is_empty());
    let usual = || tmpdir.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    chosen.or_else(usual).unwrap_or_else(|| SCRATCH_FOLDER.into())
}

#[cfg(test)]
mod tests;
