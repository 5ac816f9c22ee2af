//! What one step of a node produces: effects, and messages by receiver.

use std::collections::{BTreeMap, VecDeque};

use plasmon_cluster::Slot;

use crate::event::{Effect, Told};
use crate::message::Message;

/// Effects and messages of one step. Messages of a node to itself are handled within the step, in
/// the same way as those from others.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) effects: Vec<Effect>,
    pub(crate) remote: BTreeMap<Slot, Vec<Message>>,
    pub(crate) to_self: VecDeque<Message>,
}

impl Outbox {
    pub(crate) fn tell(&mut self, told: Told) {
        self.effects.push(Effect::Tell(told));
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}
