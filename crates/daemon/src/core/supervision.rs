//! Looking after the keeper, and after extents whose writer may come back.

mod keeper_watch;

use plasmon_proto::extent::ExtentId;
use plasmon_store::Ticket;

use crate::poll::Interest;

/// What the core knows for its keeper's sake.
#[derive(Debug)]
pub(super) struct KeeperState {
    /// The settings of the store as flags, for a keeper that is started.
    flags: Vec<String>,
    /// What the keeper knows this store by.
    pub(super) store_token: u64,
    /// What is watched of the keeper's channel.
    interest: Interest,
    /// What waits until the keeper was told of it.
    waiting: Vec<AfterKeeper>,
}

impl KeeperState {
    /// The keeper of that store reads everything at once so far.
    pub(super) fn new(flags: Vec<String>, store_token: u64) -> Self {
        let interest = Interest { readable: true, writable: false };
        Self { flags, store_token, interest, waiting: Vec::new() }
    }
}

/// What waits until the keeper holds an extent.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterKeeper {
    /// Memory was reserved in it.
    Reserved(Ticket, ExtentId),
    /// It grew, and has its final size.
    Settled(Ticket),
}
