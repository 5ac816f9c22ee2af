//! How much memory the control group of this process may still use.
//!
//! All memory of a store is charged to the control group of the daemon, whichever client writes it.
//! A group that is full has a process killed; nothing ever answers that there is no memory. So the
//! limit must be known before memory is asked for: here, from the files of both versions.
//!
//! ```text
//! /proc/self/cgroup, mountinfo ──► the group's folder and those above it, up to the mount
//! each: limit (memory.max, memory.limit_in_bytes) - usage + page cache ──► the least is headroom
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A limit beyond this means no limit: version 1 says it with a number.
const LIMIT_BYTES_MAX: u64 = 1 << 60;

/// How long a look at the files is believed, less what was taken since.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What must stay free below a limit: a part of it, and this much at least. The daemon's own memory
/// grows as well, and page tables are charged, too.
const MARGIN_BYTES_MIN: u64 = 4 << 20;
const MARGIN_PART: u64 = 32;

/// The control groups that limit the memory of this process, the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    files: Files,
}

/// The names of what is read, which differ between the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Files {
    limit: &'static str,
    usage: &'static str,
    cache: [&'static str; 2],
    kills: &'static str,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
    kills: "memory.oom_control",
};

const VERSION_2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    cache: ["inactive_file", "active_file"],
    kills: "memory.events",
};

impl Groups {
    /// The groups of this process. None where there are no control groups, or none that is limited.
    pub fn of_this_process() -> Self {
        #[cfg(feature = "sim")]
        if crate::edge::simulated::is_entered() {
            return Self::default();
        }
        Self::under(Path::new("/"))
    }

    /// The same, with everything looked for under another root.
    pub fn under(root: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let (own, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let mut groups = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (kind, files) = match (number, controllers) {
                ("0", "") => ("cgroup2", VERSION_2),
                (_, list) if list.split(',').any(|it| it == "memory") => ("cgroup", VERSION_1),
                _ => continue,
            };
            let mount = mounts.lines().find_map(|mount| mount_of(mount, kind));
            let Some((mounted_root, point)) = mount else { continue };
            groups.extend(chain(root, &mounted_root, &point, path, files));
        }
        let limited = |group: &Group| group.limit_bytes().is_some();
        Self { groups: groups.into_iter().filter(limited).collect() }
    }

    /// The tightest limit, with its group's folder.
    pub fn limit(&self) -> Option<(u64, &Path)> {
        let limits = self.groups.iter().filter_map(|it| Some((it.limit_bytes()?, &*it.folder)));
        limits.min_by_key(|(bytes, _)| *bytes)
    }

    /// Bytes that can be taken without one of the groups reaching its limit; `None` without limits.
    pub fn headroom_bytes(&self) -> Option<u64> {
        self.groups.iter().filter_map(Group::headroom_bytes).min()
    }

    /// How many processes were killed in these groups for lack of memory.
    pub fn kills(&self) -> u64 {
        self.groups.iter().map(Group::kills).sum()
    }
}

/// The root and the mount point of a mount of this kind, as a line of mountinfo says them.
fn mount_of(line: &str, kind: &str) -> Option<(String, String)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (found, _, options) = (after.next()?, after.next()?, after.next()?);
    if found != kind || (kind == "cgroup" && !options.split(',').any(|it| it == "memory")) {
        return None;
    }
    let mut before = before.split(' ').skip(3);
    Some((before.next()?.to_owned(), before.next()?.to_owned()))
}

/// The folders of a group and of those above it that can be seen through a mount.
fn chain(root: &Path, mounted: &str, point: &str, path: &str, files: Files) -> Vec<Group> {
    let point = root.join(point.trim_start_matches('/'));
    // In a container without its own namespace the mount shows a part of the tree. A group
    // outside of it is this process's all the same, as far as can be seen the mount's root.
    let inner = match mounted {
        "/" => path,
        other => path.strip_prefix(other).unwrap_or(""),
    };
    let inner = inner.trim_start_matches('/');
    let folder = if inner.contains("..") { point.clone() } else { point.join(inner) };
    let above = folder.ancestors().take_while(|folder| folder.starts_with(&point));
    above.map(|folder| Group { folder: folder.to_owned(), files }).collect()
}

impl Group {
    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    fn limit_bytes(&self) -> Option<u64> {
        let limit: u64 = self.read(self.files.limit)?.trim().parse().ok()?;
        (limit < LIMIT_BYTES_MAX).then_some(limit)
    }

    fn headroom_bytes(&self) -> Option<u64> {
        let limit = self.limit_bytes()?;
        let usage: u64 = self.read(self.files.usage)?.trim().parse().ok()?;
        let stat = self.read("memory.stat").unwrap_or_default();
        let field = |key: &&str| number_of(&stat, key);
        // The kernel takes page cache back before it kills. The memory of stores is not page cache.
        let cache: u64 = self.files.cache.iter().map(field).sum();
        let margin = (limit / MARGIN_PART).max(MARGIN_BYTES_MIN);
        Some(limit.saturating_sub(usage.saturating_sub(cache)).saturating_sub(margin))
    }

    fn kills(&self) -> u64 {
        number_of(&self.read(self.files.kills).unwrap_or_default(), "oom_kill")
    }
}

/// The number after a key in a file of keys and numbers, 0 without it.
fn number_of(text: &str, key: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Admits requests for fresh memory, so that no group is driven to its limit.
#[derive(Debug, Default)]
pub struct Headroom {
    groups: Groups,
    left: u64,
    looked: Option<Instant>,
    refused_from: Option<(u64, Instant)>,
}

impl Headroom {
    /// What these groups leave. Requests of `refused_from.0` bytes and more are refused until then,
    /// because a daemon was killed over one.
    pub fn new(groups: Groups, refused_from: Option<(u64, Instant)>) -> Self {
        Self { groups, left: 0, looked: None, refused_from }
    }

    /// Takes this many bytes, if available; otherwise what is left.
    pub fn take(&mut self, bytes: u64, now: Instant) -> Result<(), u64> {
        if self.groups.groups.is_empty() {
            return Ok(());
        }
        if self.looked.is_none_or(|at| now.saturating_duration_since(at) >= LOOK_EVERY)
            || self.left < bytes
        {
            self.left = self.groups.headroom_bytes().unwrap_or(u64::MAX);
            self.looked = Some(now);
        }
        let is_deadly = self.refused_from.is_some_and(|(from, until)| bytes >= from && now < until);
        match self.left.checked_sub(bytes) {
            Some(left) if !is_deadly => {
                self.left = left;
                Ok(())
            }
            _ => Err(self.left),
        }
    }
}

#[cfg(test)]
mod tests;
