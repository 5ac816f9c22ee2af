//! Effects that wait until the landing of their object is sealed or given up, as in
//! `crates/poold/src/core/backlog.rs`.

use std::collections::{BTreeMap, VecDeque};

use plasmon_pool::{Effect, Ticket, Told};
use plasmon_proto::ObjectId;

#[derive(Debug, Default)]
pub(crate) struct Backlog(BTreeMap<ObjectId, VecDeque<Effect>>);

impl Backlog {
    pub(crate) fn begin(&mut self, id: ObjectId) {
        self.0.entry(id).or_default();
    }

    /// Keeps an effect back, if it has to wait.
    pub(crate) fn keep(&mut self, effect: Effect) -> Option<Effect> {
        if let Effect::EndServe { peer, transfer } = effect {
            for queue in self.0.values_mut() {
                queue.retain(|effect| {
                    !matches!(effect, Effect::Serve { peer: to, transfer: of, .. }
                        | Effect::Fetch { peer: to, transfer: of, .. }
                        if (*to, *of) == (peer, transfer))
                });
            }
        }
        match object_of(&effect).and_then(|id| self.0.get_mut(&id)) {
            Some(queue) => {
                queue.push_back(effect);
                None
            }
            None => Some(effect),
        }
    }

    pub(crate) fn end(&mut self, id: &ObjectId) -> VecDeque<Effect> {
        self.0.remove(id).unwrap_or_default()
    }

    /// Forgets a landing that ended before it was asked for; whether there was one.
    pub(crate) fn forget(&mut self, ticket: Ticket) -> bool {
        let is_it =
            |effect: &Effect| matches!(effect, Effect::Land { ticket: of, .. } if *of == ticket);
        let mut found = false;
        for queue in self.0.values_mut() {
            let before = queue.len();
            queue.retain(|effect| !is_it(effect));
            found |= queue.len() < before;
        }
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn object_of(effect: &Effect) -> Option<ObjectId> {
    match effect {
        Effect::Land { id, .. } | Effect::Serve { id, .. } | Effect::Fetch { id, .. } => Some(*id),
        Effect::Tell(told) => match told {
            Told::Sought { id, .. }
            | Told::Committed { id, .. }
            | Told::Deleted { id, .. }
            | Told::DeleteUnreachable { id, .. }
            | Told::Drop { id, .. }
            | Told::Publish { id, .. }
            | Told::Keep { id, .. }
            | Told::Verified { id, .. }
            | Told::Exists { id, .. }
            | Told::Found { id, .. }
            | Told::Log { id, .. }
            | Told::Discard { id, .. }
            | Told::Relog { id, .. }
            | Told::Release { id, .. } => Some(*id),
            Told::Vouch { .. }
            | Told::Look { .. }
            | Told::AddTombstone { .. }
            | Told::RemoveTombstone { .. } => None,
        },
        _ => None,
    }
}
