//! The clients, and what the store keeps for them.

use std::collections::BTreeMap;

use crate::adoption::Adoptions;
use crate::clients::Clients;
use crate::event::Ticket;
use crate::file_opening::FileOpening;
use crate::wait_table::Waits;

/// All clients of a store, with what they wait for and what they read.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) clients: Clients,
    pub(crate) adoptions: Adoptions,
    pub(crate) waits: Waits,
    /// Pins that the store counts for clients without a ledger, by serial.
    pub(crate) pins: BTreeMap<u64, u32>,
    /// Files that the daemon opens for clients.
    pub(crate) openings: BTreeMap<Ticket, FileOpening>,
}

impl Sessions {
    /// No clients yet; each owner may have this many bytes, 0 for no limit.
    pub(crate) fn new(client_quota_bytes: u64) -> Self {
        Self {
            clients: Clients::new(client_quota_bytes),
            adoptions: Adoptions::default(),
            waits: Waits::default(),
            pins: BTreeMap::new(),
            openings: BTreeMap::new(),
        }
    }
}
