//! The lives of a store in one soak: each has its own settings, and ends with the death of the
//! daemon and the keeper at once, which loses everything.

use std::path::Path;

use rustix::process::geteuid;

/// What a store holds; more than the objects of a round, and little enough that some are spilled.
pub(crate) const CAPACITY_BYTES: u64 = 256 << 20;

/// A second user, who is let in by some lives. Every Linux machine has it.
pub(crate) const OTHER_UID: u32 = 65534;

/// How a store is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// What the life is called in the output.
    pub(crate) name: &'static str,
    /// Flags beside those of every store.
    pub(crate) flags: &'static [&'static str],
    /// Every second worker runs as [`OTHER_UID`].
    pub(crate) two_users: bool,
    /// The spill folder goes away for moments.
    pub(crate) faulty_spill: bool,
    /// The daemon may use only so much memory, by its own control group.
    pub(crate) limit_bytes: Option<u64>,
}

const PLAIN: Life = Life {
    name: "level shared",
    flags: &[],
    two_users: false,
    faulty_spill: false,
    limit_bytes: None,
};

const LIVES: [Life; 4] = [
    PLAIN,
    Life {
        name: "level leased, two users",
        flags: &["--admit=65534:rw", "--socket-mode=0666"],
        two_users: true,
        ..PLAIN
    },
    Life { name: "level shared, a spill folder that goes away", faulty_spill: true, ..PLAIN },
    Life {
        name: "level leased, a small control group",
        flags: &["--level=leased"],
        limit_bytes: Some(CAPACITY_BYTES * 2),
        ..PLAIN
    },
];

/// The life with this number, as far as this user may set it up.
pub(crate) fn life(number: u64) -> Life {
    let mut life = LIVES[(number % LIVES.len() as u64) as usize].clone();
    if !geteuid().is_root() {
        life.two_users = false;
        life.limit_bytes = None;
    }
    life
}

/// Where the kernel keeps its limits of memory, in either version of control groups.
pub(crate) fn memory_groups() -> Option<(&'static Path, &'static str)> {
    let places =
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
    places
        .into_iter()
        .map(|(folder, file)| (Path::new(folder), file))
        .find(|(folder, _)| folder.join("cgroup.procs").exists())
}
