//! Where the memory of each landing is: with the store, here, or lent to a mover.
//!
//! ```text
//!   asked ──► here ──► lent ──(last segment)──► here ──► sealed or abandoned
//!                        └──► returning ─────────┘
//!                 refused by the node: the mover is asked for it
//! ```
//!
//! The node ends a landing when it likes, and the memory may be elsewhere then. Until it is here
//! and the store has it, what the node says about the object has to wait ([`After::Later`]): a copy
//! cannot be published before it is sealed.

use std::collections::BTreeMap;

use plasmon_pool::Ticket;
use plasmon_pool::message::TransferNo;
use plasmon_proto::ObjectId;

use crate::memory::BoxedLanding;
use crate::movers::{LaneId, Movers, Receive};
use crate::store::SealOptions;

/// The landings of a node.
#[derive(Default)]
pub(super) struct Landings {
    by_ticket: BTreeMap<Ticket, Landing>,
    /// Transfers that are accepted.
    transfers: BTreeMap<TransferNo, (Ticket, Accepted)>,
    /// Transfers that were refused and have the memory.
    returning: BTreeMap<TransferNo, Ticket>,
}

struct Landing {
    id: ObjectId,
    place: Place,
    next: Next,
}

enum Place {
    Asked,
    Here(BoxedLanding),
    Lent(TransferNo),
    Returning,
}

/// A transfer that segments are received of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) transfer: TransferNo,
    pub(super) lane: LaneId,
    /// How many were asked for.
    pub(super) segments: u32,
}

impl Accepted {
    fn into(self, memory: BoxedLanding) -> Receive {
        let Self { transfer, lane, segments } = self;
        Receive { lane, transfer, segments, memory }
    }
}

/// What is to be done once the memory is here.
enum Next {
    Nothing,
    Accept(Accepted),
    End(Ending),
}

/// How a landing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Seal(SealOptions),
    Abandon,
}

/// A landing that is over for the node, with what the store is to do.
pub(super) struct Closed {
    pub(super) ticket: Ticket,
    pub(super) id: ObjectId,
    /// For the store; `None` where it had no room.
    pub(super) memory: Option<BoxedLanding>,
    pub(super) ending: Ending,
}

/// What came of ending a landing.
pub(super) enum After {
    /// The store can have it now.
    Now(Closed),
    /// The memory comes back first, and with it an [`Closed`] for this object.
    Later(ObjectId),
    /// There is no such landing.
    Nothing,
}

impl Landings {
    /// Memory is asked for.
    pub(super) fn ask(&mut self, ticket: Ticket, id: ObjectId) {
        self.by_ticket.insert(ticket, Landing { id, place: Place::Asked, next: Next::Nothing });
    }

    /// The memory came, or cannot be had. What is over, if the landing was ended meanwhile; else
    /// the node is to be told.
    pub(super) fn landed(
        &mut self,
        ticket: Ticket,
        memory: Option<BoxedLanding>,
        movers: &Movers,
    ) -> Option<Closed> {
        let landing = self.by_ticket.get(&ticket)?;
        match (memory, &landing.next) {
            (memory, Next::End(ending)) => {
                let (id, ending) = (landing.id, *ending);
                self.by_ticket.remove(&ticket);
                Some(Closed { ticket, id, memory, ending })
            }
            (Some(memory), _) => self.is_here(ticket, memory, movers),
            // The node refuses what it has asked for.
            (None, _) => {
                self.by_ticket.remove(&ticket);
                None
            }
        }
    }

    /// The memory of a landing is here: what comes next is done. What is over.
    fn is_here(&mut self, ticket: Ticket, memory: BoxedLanding, movers: &Movers) -> Option<Closed> {
        let landing = self.by_ticket.get_mut(&ticket)?;
        match std::mem::replace(&mut landing.next, Next::Nothing) {
            Next::Nothing => landing.place = Place::Here(memory),
            Next::Accept(accepted) => {
                landing.place = Place::Lent(accepted.transfer);
                movers.accept(accepted.into(memory));
            }
            Next::End(ending) => {
                let id = landing.id;
                self.by_ticket.remove(&ticket);
                return Some(Closed { ticket, id, memory: Some(memory), ending });
            }
        }
        None
    }

    /// Segments of a transfer go into a landing from now on.
    pub(super) fn accept(&mut self, ticket: Ticket, accepted: Accepted, movers: &Movers) {
        let Some(landing) = self.by_ticket.get_mut(&ticket) else { return };
        let Accepted { transfer, lane, .. } = accepted;
        self.transfers.insert(transfer, (ticket, accepted));
        match std::mem::replace(&mut landing.place, Place::Lent(transfer)) {
            Place::Here(memory) => movers.accept(accepted.into(memory)),
            other => {
                landing.place = other;
                landing.next = Next::Accept(accepted);
                movers.expect(lane, transfer);
            }
        }
    }

    /// No more segments of a transfer are put anywhere.
    pub(super) fn refuse(&mut self, transfer: TransferNo, movers: &Movers) {
        let Some((ticket, Accepted { lane, .. })) = self.transfers.remove(&transfer) else {
            return;
        };
        let Some(landing) = self.by_ticket.get_mut(&ticket) else {
            return movers.refuse(lane, transfer);
        };
        match landing.place {
            Place::Lent(lent) if lent == transfer => {
                landing.place = Place::Returning;
                self.returning.insert(transfer, ticket);
                movers.refuse(lane, transfer);
            }
            // It came back with the last segment.
            Place::Here(_) => {}
            _ => {
                landing.next = Next::Nothing;
                movers.refuse(lane, transfer);
            }
        }
    }

    /// The transfers that are accepted on a lane.
    pub(super) fn transfers_on(&self, lane: LaneId) -> Vec<TransferNo> {
        let on_lane = self.transfers.iter().filter(|(_, (_, of))| of.lane == lane);
        on_lane.map(|(transfer, _)| *transfer).collect()
    }

    /// A mover gave memory back, with the last segment or because it was asked to; what is over.
    pub(super) fn returned(
        &mut self,
        transfer: TransferNo,
        memory: BoxedLanding,
        movers: &Movers,
    ) -> Option<Closed> {
        let lent = || self.transfers.get(&transfer).map(|(ticket, _)| *ticket);
        let ticket = self.returning.remove(&transfer).or_else(lent)?;
        self.is_here(ticket, memory, movers)
    }

    /// Puts an object into a landing whose memory is here. The node has compared the lengths.
    pub(super) fn fill(&mut self, ticket: Ticket, bytes: &[u8]) {
        let landing = self.by_ticket.get_mut(&ticket);
        if let Some(Landing { place: Place::Here(memory), .. }) = landing {
            memory.bytes().copy_from_slice(bytes);
        }
    }

    /// The node ends a landing.
    pub(super) fn end(&mut self, ticket: Ticket, ending: Ending) -> After {
        let Some(landing) = self.by_ticket.get_mut(&ticket) else { return After::Nothing };
        let id = landing.id;
        match std::mem::replace(&mut landing.place, Place::Returning) {
            Place::Here(memory) => {
                self.by_ticket.remove(&ticket);
                After::Now(Closed { ticket, id, memory: Some(memory), ending })
            }
            place @ (Place::Asked | Place::Lent(_) | Place::Returning) => {
                landing.place = place;
                landing.next = Next::End(ending);
                After::Later(id)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use plasmon_cluster::Slot;

    use std::collections::BTreeSet;

    use super::*;
    use crate::memory::Landing as Memory;
    use crate::movers::{Done, DoneSink, lane_of};

    const ID: ObjectId = ObjectId::pooled([1; 12], None);

    struct Bytes(Vec<u8>, BTreeSet<u32>);

    impl Memory for Bytes {
        fn bytes(&mut self) -> &mut [u8] {
            &mut self.0
        }

        fn arrived(&mut self) -> &mut BTreeSet<u32> {
            &mut self.1
        }
    }

    fn memory(byte: u8) -> BoxedLanding {
        Box::new(Bytes(vec![byte], BTreeSet::new()))
    }

    fn accepted(transfer: TransferNo, slot: u16) -> Accepted {
        Accepted { transfer, lane: (Slot(slot), lane_of(transfer)), segments: 1 }
    }

    /// Memory is in one place at a time: what comes next waits for it.
    #[test]
    fn the_next_transfer_gets_the_memory_when_the_last_one_gave_it_back() {
        let (sender, done) = channel();
        let sink: DoneSink = Arc::new(move |done| _ = sender.send(done));
        let movers = Movers::start(2, &sink, None).unwrap();
        let returned = || match done.recv_timeout(Duration::from_secs(60)).unwrap() {
            Done::Returned(transfer, memory) => (transfer, memory),
            _ => panic!("nothing was sent"),
        };
        let mut landings = Landings::default();
        let (ticket, first, second) = (Ticket(1), TransferNo(10), TransferNo(11));
        landings.ask(ticket, ID);
        assert!(landings.landed(ticket, Some(memory(7)), &movers).is_none());
        landings.accept(ticket, accepted(first, 1), &movers);
        landings.refuse(first, &movers);
        landings.accept(ticket, accepted(second, 2), &movers);
        let (transfer, bytes) = returned();
        assert_eq!(transfer, first);
        assert!(landings.returned(transfer, bytes, &movers).is_none());
        // It is complete: the memory comes back from the second mover, and is sealed.
        landings.refuse(second, &movers);
        let seal = Ending::Seal(SealOptions { visible: true, keep: false });
        assert!(matches!(landings.end(ticket, seal), After::Later(ID)));
        let (transfer, bytes) = returned();
        let ended = landings.returned(transfer, bytes, &movers).unwrap();
        assert_eq!((ended.ticket, ended.id, ended.ending), (ticket, ID, seal));
        assert_eq!(ended.memory.unwrap().bytes(), [7]);
        assert!(landings.by_ticket.is_empty() && landings.transfers.is_empty());
        assert!(landings.returning.is_empty());
    }

    #[test]
    fn a_lane_has_the_transfers_that_were_accepted_on_it_and_not_refused() {
        let sink: DoneSink = Arc::new(|_| {});
        let movers = Movers::start(1, &sink, None).unwrap();
        let mut landings = Landings::default();
        let lane = |slot| (Slot(slot), 0);
        for (number, slot) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
            let ticket = Ticket(number);
            landings.ask(ticket, ObjectId::pooled([number as u8; 12], None));
            assert!(landings.landed(ticket, Some(memory(0)), &movers).is_none());
            let (transfer, lane) = (TransferNo(number), lane(slot));
            landings.accept(ticket, Accepted { transfer, lane, segments: 1 }, &movers);
        }
        landings.refuse(TransferNo(3), &movers);
        assert_eq!(landings.transfers_on(lane(1)), [TransferNo(1), TransferNo(4)]);
        assert_eq!(landings.transfers_on(lane(2)), [TransferNo(2)]);
        assert!(landings.transfers_on(lane(3)).is_empty());
    }

    /// A small object is asked for while its memory is made.
    #[test]
    fn a_transfer_that_is_accepted_before_its_memory_is_here_gets_it_then() {
        let (sender, done) = channel();
        let sink: DoneSink = Arc::new(move |done| _ = sender.send(done));
        let movers = Movers::start(1, &sink, None).unwrap();
        let mut landings = Landings::default();
        let (ticket, transfer) = (Ticket(1), TransferNo(10));
        landings.ask(ticket, ID);
        landings.accept(ticket, accepted(transfer, 1), &movers);
        assert!(
            landings
                .landed(ticket, Some(Box::new(Bytes(Vec::new(), BTreeSet::new()))), &movers)
                .is_none()
        );
        // Without bytes it is complete, and comes back at once.
        let arrived = done.recv_timeout(Duration::from_secs(60)).unwrap();
        let Done::Arrived { segment: 0, intact: true, memory: Some(memory), .. } = arrived else {
            panic!("it was not received");
        };
        assert!(landings.returned(transfer, memory, &movers).is_none());
        landings.refuse(transfer, &movers);
        let seal = Ending::Seal(SealOptions { visible: true, keep: false });
        assert!(matches!(landings.end(ticket, seal), After::Now(_)));
        // Where there is no room for the next one, nothing of it is received.
        landings.ask(Ticket(2), ID);
        landings.accept(Ticket(2), accepted(TransferNo(11), 1), &movers);
        assert!(landings.landed(Ticket(2), None, &movers).is_none());
        landings.refuse(TransferNo(11), &movers);
        assert!(landings.by_ticket.is_empty() && landings.transfers.is_empty());
    }

    #[test]
    fn memory_that_comes_too_late_is_given_up() {
        let sink: DoneSink = Arc::new(|_| {});
        let movers = Movers::start(1, &sink, None).unwrap();
        let mut landings = Landings::default();
        landings.ask(Ticket(1), ID);
        assert!(matches!(landings.end(Ticket(1), Ending::Abandon), After::Later(ID)));
        let late = landings.landed(Ticket(1), Some(memory(1)), &movers).unwrap();
        assert!(late.memory.is_some() && late.ending == Ending::Abandon);
        landings.ask(Ticket(2), ID);
        assert!(landings.landed(Ticket(2), None, &movers).is_none());
        assert!(matches!(landings.end(Ticket(2), Ending::Abandon), After::Nothing));
        landings.ask(Ticket(3), ID);
        assert!(landings.landed(Ticket(3), Some(memory(3)), &movers).is_none());
        assert!(matches!(landings.end(Ticket(3), Ending::Abandon), After::Now(_)));
        assert!(landings.by_ticket.is_empty());
    }
}
