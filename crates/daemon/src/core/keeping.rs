//! Looking after the keeper, and after extents whose writer may come back.

mod supervision;

use plasmon_proto::message::ExtentId;
use plasmon_store::Ticket;

/// What waits until the keeper holds an extent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// Memory was reserved in it.
    Reserved(Ticket, ExtentId),
    /// It grew, and has its final size.
    Settled(Ticket),
}
