//! What the daemon still has to do for the store.

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_store::Ticket;

/// What the daemon still owes the store an answer for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Reserve(Ticket, Range, Option<u64>),
    Extend(Ticket, Range, bool),
    Settle(Ticket, ExtentId, u64),
    Harden(Ticket),
    Spill(Ticket),
    Check(Ticket),
    Open(Ticket),
    Restore(Ticket, Range),
    Log(Ticket),
    Unlog(Ticket),
}

impl Work {
    /// The extent that memory is reserved in or cut off, `None` for other work.
    pub(super) fn extent(&self) -> Option<ExtentId> {
        match self {
            Self::Reserve(_, range, _) | Self::Extend(_, range, _) => Some(range.extent),
            Self::Settle(_, extent, _) => Some(*extent),
            Self::Harden(_)
            | Self::Spill(_)
            | Self::Check(_)
            | Self::Open(_)
            | Self::Restore(..)
            | Self::Log(_)
            | Self::Unlog(_) => None,
        }
    }
}
