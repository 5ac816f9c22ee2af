//! Effects that wait until the landing of their object is sealed or given up.

use std::collections::{BTreeMap, VecDeque};

use plasmon_pool::{Effect, Ticket, Told};
use plasmon_proto::ObjectId;

/// For each object whose landing is over for the node and not yet for the store, what follows.
#[derive(Debug, Default)]
pub(super) struct Backlog(BTreeMap<ObjectId, VecDeque<Effect>>);

impl Backlog {
    /// What is about this object waits from now on.
    pub(super) fn begin(&mut self, id: ObjectId) {
        self.0.entry(id).or_default();
    }

    /// Keeps an effect back, if it has to wait.
    pub(super) fn keep(&mut self, effect: Effect) -> Option<Effect> {
        if let Effect::EndServe { peer, transfer } = effect {
            // It is about a transfer, which began with an effect that may wait here. That one must
            // not come after its end: the copy would be pinned for good.
            for queue in self.0.values_mut() {
                queue.retain(|effect| {
                    !matches!(effect, Effect::Serve { peer: to, transfer: of, .. }
                        | Effect::Fetch { peer: to, transfer: of, .. }
                        | Effect::Gather { peer: to, transfer: of, .. }
                        if (*to, *of) == (peer, transfer))
                });
            }
        }
        let id = match &effect {
            // It waits for the first of its objects, then for the next.
            Effect::Gather { parts, .. } => {
                parts.iter().map(|parts| parts.id).find(|id| self.0.contains_key(id))
            }
            effect => object_of(effect),
        };
        match id.and_then(|id| self.0.get_mut(&id)) {
            Some(queue) => {
                queue.push_back(effect);
                None
            }
            None => Some(effect),
        }
    }

    /// The landing of an object is over: what waited, in order.
    pub(super) fn end(&mut self, id: &ObjectId) -> VecDeque<Effect> {
        self.0.remove(id).unwrap_or_default()
    }

    /// Forgets a landing that the node has given up before it was asked for; whether there was one.
    pub(super) fn forget(&mut self, ticket: Ticket) -> bool {
        let is_it =
            |effect: &Effect| matches!(effect, Effect::Land { ticket: of, .. } if *of == ticket);
        for queue in self.0.values_mut() {
            if let Some(at) = queue.iter().position(is_it) {
                queue.remove(at);
                return true;
            }
        }
        false
    }
}

/// The object that an effect on the store is about.
fn object_of(effect: &Effect) -> Option<ObjectId> {
    match effect {
        Effect::Land { id, .. }
        | Effect::Serve { id, .. }
        | Effect::Fetch { id, .. }
        | Effect::Describe { id, .. } => Some(*id),
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
        Effect::Send { .. }
        | Effect::Accept { .. }
        | Effect::Refuse(_)
        | Effect::Fill { .. }
        | Effect::Seal { .. }
        | Effect::Abandon(_)
        | Effect::EndServe { .. }
        | Effect::Report { .. }
        | Effect::Read { .. }
        | Effect::Gather { .. }
        | Effect::GatherLanded { .. }
        | Effect::Gathered { .. }
        | Effect::ListHere { .. }
        | Effect::Demote(_)
        | Effect::Listed { .. }
        | Effect::Subscribed { .. }
        | Effect::Notice(_)
        | Effect::NoticesLost
        | Effect::Place { .. }
        | Effect::ReportDrains(_)
        | Effect::Allocate { .. }
        | Effect::WriteRegion { .. }
        | Effect::SealRegion(_)
        | Effect::EndRegion(_)
        | Effect::Region { .. }
        | Effect::ReadCopies { .. }
        | Effect::Checksummed { .. }
        | Effect::Verified { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::Slot;
    use plasmon_pool::message::{ObjectParts, TransferNo};
    use plasmon_pool::{Birth, Content};

    use super::*;

    #[test]
    fn what_is_about_an_object_waits_in_order_and_nothing_else_does() {
        let id = |number| ObjectId::pooled([number; 12], None);
        let birth = Birth { slot: Slot(0), boot: 1, serial: 1 };
        let publish = |number| Effect::Tell(Told::Publish { id: id(number), birth });
        let content = Content::default();
        let land = Effect::Land { ticket: Ticket(5), id: id(1), birth, content };
        let mut backlog = Backlog::default();
        assert_eq!(backlog.keep(publish(1)), Some(publish(1)));
        backlog.begin(id(1));
        for effect in [publish(1), land.clone()] {
            assert_eq!(backlog.keep(effect), None);
        }
        let vouch = Effect::Tell(Told::Vouch { ms: 1 });
        for other in [publish(2), vouch, Effect::Abandon(Ticket(1))] {
            assert_eq!(backlog.keep(other.clone()), Some(other));
        }
        assert!(backlog.forget(Ticket(5)) && !backlog.forget(Ticket(5)));
        assert_eq!(backlog.end(&id(1)), [publish(1)]);
        assert_eq!(backlog.keep(land.clone()), Some(land));
    }
    /// A node that has just got a copy serves it before the store has it, and the receiver ends
    /// the transfer meanwhile.
    #[test]
    fn a_transfer_that_ended_is_not_served_later() {
        let id = ObjectId::pooled([1; 12], None);
        let birth = Birth { slot: Slot(0), boot: 1, serial: 1 };
        let serve = |peer, number| {
            let (peer, transfer, ranges) = (Slot(peer), TransferNo(number), Vec::new());
            Effect::Serve { peer, transfer, id, birth, spans: None, ranges }
        };
        let gather = |peer, number| {
            let (peer, transfer, other) = (Slot(peer), TransferNo(number), [2; 12]);
            let parts = [ObjectId::pooled(other, None), id];
            let parts = parts.map(|id| ObjectParts { id, birth, spans: Vec::new() }).into();
            Effect::Gather { peer, transfer, parts }
        };
        let mut backlog = Backlog::default();
        assert!(backlog.keep(gather(1, 1)).is_some());
        backlog.begin(id);
        assert_eq!(backlog.keep(gather(1, 1)), None);
        assert_eq!(backlog.keep(gather(3, 3)), None);
        for (peer, number) in [(1, 1), (1, 2), (2, 1)] {
            assert_eq!(backlog.keep(serve(peer, number)), None);
        }
        let end = Effect::EndServe { peer: Slot(1), transfer: TransferNo(1) };
        assert_eq!(backlog.keep(end.clone()), Some(end));
        assert_eq!(backlog.end(&id), [gather(3, 3), serve(1, 2), serve(2, 1)]);
    }
}
