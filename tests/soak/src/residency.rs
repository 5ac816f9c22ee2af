//! How much memory the objects of a store really take, whatever keeps it from being freed.
//!
//! A memfd lives until its last descriptor is closed and its last mapping is gone. So the extents
//! are looked for among the descriptors and the mappings of every process of the soak, and each is
//! counted once, by its inode: what the daemon has dropped and an idle client still maps counts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How extents are called in `/proc`.
const EXTENT: &str = "/memfd:plasmon-extent";

/// Bytes that may be resident beyond what the store counts: what happens while it is looked at.
const RESIDENT_SLACK_BYTES: u64 = 1 << 20;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The bytes of all pages in the extents that these processes hold.
pub(crate) fn resident_bytes(pids: impl IntoIterator<Item = u32>) -> u64 {
    let mut extents = BTreeMap::new();
    for pid in pids {
        for folder in ["fd", "map_files"] {
            note_extents(Path::new(&format!("/proc/{pid}/{folder}")), &mut extents);
        }
    }
    extents.values().sum()
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    // Those that a thread forked are listed with that thread; all of ours fork in the first.
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    // A process that has ended has none.
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether so much is what the store counts, and no more than it may hold.
pub(crate) fn is_within(resident: u64, counted: u64) -> bool {
    resident <= counted + RESIDENT_SLACK_BYTES
}

/// Which memfds a process has open or mapped, and how many of each. For a finding.
pub(crate) fn memfds(pid: u32) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for folder in ["fd", "map_files"] {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/{folder}")) else { continue };
        let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        for target in targets.filter(|target| target.to_string_lossy().starts_with("/memfd:")) {
            *counts.entry(format!("{folder} {}", target.display())).or_default() += 1;
        }
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} {pid}: {counts:?}", name.trim())
}

fn note_extents(folder: &Path, extents: &mut BTreeMap<u64, u64>) {
    // A process that has ended holds nothing.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let is_extent =
            fs::read_link(&path).is_ok_and(|target| target.to_string_lossy().starts_with(EXTENT));
        if is_extent && let Ok(found) = fs::metadata(&path) {
            extents.insert(found.ino(), found.blocks() * BLOCK_BYTES);
        }
    }
}
