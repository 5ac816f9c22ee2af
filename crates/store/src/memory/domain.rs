//! Which clients may be given memory of an extent.

/// Which clients may be given memory of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain {
    /// Any client; the one that takes memory of it becomes its writer. Only at level shared.
    Open,
    /// The client of this session, its one writer.
    Client(u32),
    /// The daemon, for objects that it brings back from the spill tier.
    Daemon,
    /// None: its writer left or may come back. It is dropped when it is empty.
    Closed,
}
