//! Objects under construction.
//!
//! A client *announces* an object that it writes into memory leased to it, and completes it with a
//! put; or it *creates* one, and the store finds the memory and publishes it at the seal. Either
//! way the id is taken from then on, and waiters learn when its creator dies.

mod creation;
mod replacement;
mod seal;

use std::collections::BTreeMap;

use plasmon_proto::extent::Range;
use plasmon_proto::object::{ObjectMeta, Sizes, Traits};
use plasmon_proto::pool::Birth;
use plasmon_proto::{Attributes, ObjectId};

use crate::asker::PendingReply;
use crate::event::{ClientNo, Ticket};

/// Objects that one client may be creating at once.
pub(crate) const CREATING_PER_CLIENT_MAX: usize = 1 << 16;

/// One object under construction.
#[derive(Clone, Debug)]
pub(crate) struct Construction {
    pub(crate) client: ClientNo,
    /// The session of its creator.
    pub(crate) owner: u32,
    /// The connection on which its creator began it, or named it when it came back.
    pub(crate) connection: u64,
    pub(crate) serial: u64,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) strict: bool,
    pub(crate) since_ms: u64,
    pub(crate) stage: Stage,
    /// What its creator owns for it.
    pub(crate) charge: u64,
    /// For an object that grows.
    pub(crate) growing: Option<GrowthState>,
    /// For a copy that is brought here from another node.
    pub(crate) landing: Option<LandingState>,
}

/// What is special about an object whose size is not known before it is sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrowthState {
    /// How many bytes more are being looked for; its creator owns them already.
    pub(crate) coming_bytes: u64,
    /// The sizes of its parts, once its creator has said so.
    pub(crate) sealing: Option<Sizes>,
    /// Which request is answered when they are found, and the connection that it came on.
    pub(crate) asked: PendingReply,
}

/// A copy that is being brought here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LandingState {
    pub(crate) birth: Birth,
    /// How it is sealed, once the agent has said so.
    pub(crate) seal: Option<LandedSeal>,
}

/// How a copy is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LandedSeal {
    pub(crate) visible: bool,
    pub(crate) keep: bool,
}

/// How far the construction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its creator has the memory already.
    Announced,
    /// Memory is looked for.
    Placing,
    /// Its creator writes into this range.
    Writing(Range),
    /// The kernel is asked to refuse every further write; then it is published under the target's
    /// id and the request is answered.
    Hardening { range: Range, asked: PendingReply, target: ObjectId, attributes: Box<Attributes> },
    /// The daemon writes it to the log; then it is published under the target's id and the request
    /// is answered. It is given up only if the log does not take it.
    Logging {
        range: Range,
        asked: PendingReply,
        target: ObjectId,
        attributes: Box<Attributes>,
        meta: ObjectMeta,
    },
}

impl Construction {
    /// Whether it grew and has got all that it will get.
    pub(crate) fn is_settling(&self) -> bool {
        self.growing.is_some_and(|growing| growing.sealing.is_some())
    }

    /// Whether its seal was taken, so that its client has no say in it any more.
    pub(crate) fn is_logging(&self) -> bool {
        matches!(self.stage, Stage::Logging { .. })
    }

    pub(crate) fn range(&self) -> Option<Range> {
        match &self.stage {
            Stage::Announced | Stage::Placing => None,
            Stage::Writing(range)
            | Stage::Hardening { range, .. }
            | Stage::Logging { range, .. } => Some(*range),
        }
    }
}

/// What a client wants to create.
#[derive(Clone, Debug)]
pub(crate) struct CreateRequest {
    pub(crate) id: ObjectId,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) strict: bool,
    /// For a copy that is brought here from another node.
    pub(crate) landing: Option<LandingState>,
}

/// All objects under construction.
#[derive(Debug, Default)]
pub(crate) struct PendingObjects {
    by_id: BTreeMap<ObjectId, Construction>,
    by_serial: BTreeMap<u64, ObjectId>,
    /// Seals that wait for the kernel.
    pub(crate) hardening: BTreeMap<Ticket, (ObjectId, u64)>,
}

impl PendingObjects {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<&Construction> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &ObjectId) -> Option<&mut Construction> {
        self.by_id.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: ObjectId, creating: Construction) {
        self.by_serial.insert(creating.serial, id);
        self.by_id.insert(id, creating);
    }

    pub(crate) fn remove(&mut self, id: &ObjectId) -> Option<Construction> {
        let creating = self.by_id.remove(id)?;
        self.by_serial.remove(&creating.serial);
        Some(creating)
    }

    /// Those from a serial on, in the order of their serials.
    pub(crate) fn from(&self, serial: u64) -> impl Iterator<Item = (&ObjectId, &Construction)> {
        self.by_serial.range(serial..).filter_map(|(_, id)| Some((id, self.by_id.get(id)?)))
    }
}
