//! Where the memory of each landing is: with the store, here, or lent to a mover.
//!
//! ```text
//!   asked ──► here ──► lent ──► returning ──► here ──► sealed or abandoned
//!                        │          └── what comes next is done when it is here
//!                        └── refused by the node: the mover is asked for it
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
use crate::movers::{LaneId, Movers};
use crate::store::SealOptions;

/// The landings of a node.
#[derive(Default)]
pub(super) struct Landings {
    by_ticket: BTreeMap<Ticket, Landing>,
    /// Transfers that are accepted.
    transfers: BTreeMap<TransferNo, (Ticket, LaneId)>,
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

/// What is to be done once the memory is here.
enum Next {
    Nothing,
    Accept(TransferNo, LaneId),
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
    ) -> Option<Closed> {
        let landing = self.by_ticket.get_mut(&ticket)?;
        if let Next::End(ending) = landing.next {
            let id = landing.id;
            self.by_ticket.remove(&ticket);
            return Some(Closed { ticket, id, memory, ending });
        }
        match memory {
            Some(memory) => landing.place = Place::Here(memory),
            None => _ = self.by_ticket.remove(&ticket),
        }
        None
    }

    /// Segments of a transfer go into a landing from now on.
    pub(super) fn accept(
        &mut self,
        ticket: Ticket,
        transfer: TransferNo,
        lane: LaneId,
        movers: &Movers,
    ) {
        let Some(landing) = self.by_ticket.get_mut(&ticket) else { return };
        self.transfers.insert(transfer, (ticket, lane));
        match std::mem::replace(&mut landing.place, Place::Lent(transfer)) {
            Place::Here(memory) => movers.accept(lane, transfer, memory),
            other => {
                landing.place = other;
                landing.next = Next::Accept(transfer, lane);
                movers.expect(lane, transfer);
            }
        }
    }

    /// No more segments of a transfer are put anywhere.
    pub(super) fn refuse(&mut self, transfer: TransferNo, movers: &Movers) {
        let Some((ticket, lane)) = self.transfers.remove(&transfer) else { return };
        movers.refuse(lane, transfer);
        let Some(landing) = self.by_ticket.get_mut(&ticket) else { return };
        match landing.place {
            Place::Lent(lent) if lent == transfer => {
                landing.place = Place::Returning;
                self.returning.insert(transfer, ticket);
            }
            _ => landing.next = Next::Nothing,
        }
    }

    /// The transfers that are accepted on a lane.
    pub(super) fn transfers_on(&self, lane: LaneId) -> Vec<TransferNo> {
        let on_lane = self.transfers.iter().filter(|(_, (_, of))| *of == lane);
        on_lane.map(|(transfer, _)| *transfer).collect()
    }

    /// A mover gave memory back; what is over.
    pub(super) fn returned(
        &mut self,
        transfer: TransferNo,
        memory: BoxedLanding,
        movers: &Movers,
    ) -> Option<Closed> {
        let ticket = self.returning.remove(&transfer)?;
        let landing = self.by_ticket.get_mut(&ticket)?;
        match std::mem::replace(&mut landing.next, Next::Nothing) {
            Next::Nothing => landing.place = Place::Here(memory),
            Next::Accept(transfer, lane) => {
                landing.place = Place::Lent(transfer);
                movers.accept(lane, transfer, memory);
            }
            Next::End(ending) => {
                let id = landing.id;
                self.by_ticket.remove(&ticket);
                return Some(Closed { ticket, id, memory: Some(memory), ending });
            }
        }
        None
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

    use super::*;
    use crate::memory::Landing as Memory;
    use crate::movers::{Done, DoneSink};

    const ID: ObjectId = ObjectId::pooled([1; 12], None);

    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn bytes(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    fn memory(byte: u8) -> BoxedLanding {
        Box::new(Bytes(vec![byte]))
    }

    /// Memory is in one place at a time: what comes next waits for it.
    #[test]
    fn the_next_transfer_gets_the_memory_when_the_last_one_gave_it_back() {
        let (sender, done) = channel();
        let sink: DoneSink = Arc::new(move |done| _ = sender.send(done));
        let movers = Movers::start(2, &sink).unwrap();
        let returned = || match done.recv_timeout(Duration::from_secs(60)).unwrap() {
            Done::Returned(transfer, memory) => (transfer, memory),
            _ => panic!("nothing was sent"),
        };
        let mut landings = Landings::default();
        let (ticket, first, second) = (Ticket(1), TransferNo(10), TransferNo(11));
        landings.ask(ticket, ID);
        assert!(landings.landed(ticket, Some(memory(7))).is_none());
        landings.accept(ticket, first, (Slot(1), Movers::lane_of(first)), &movers);
        landings.refuse(first, &movers);
        landings.accept(ticket, second, (Slot(2), Movers::lane_of(second)), &movers);
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
        let movers = Movers::start(1, &sink).unwrap();
        let mut landings = Landings::default();
        let lane = |slot| (Slot(slot), 0);
        for (number, slot) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
            let ticket = Ticket(number);
            landings.ask(ticket, ObjectId::pooled([number as u8; 12], None));
            assert!(landings.landed(ticket, Some(memory(0))).is_none());
            landings.accept(ticket, TransferNo(number), lane(slot), &movers);
        }
        landings.refuse(TransferNo(3), &movers);
        assert_eq!(landings.transfers_on(lane(1)), [TransferNo(1), TransferNo(4)]);
        assert_eq!(landings.transfers_on(lane(2)), [TransferNo(2)]);
        assert!(landings.transfers_on(lane(3)).is_empty());
    }

    #[test]
    fn memory_that_comes_too_late_is_given_up() {
        let mut landings = Landings::default();
        landings.ask(Ticket(1), ID);
        assert!(matches!(landings.end(Ticket(1), Ending::Abandon), After::Later(ID)));
        let late = landings.landed(Ticket(1), Some(memory(1))).unwrap();
        assert!(late.memory.is_some() && late.ending == Ending::Abandon);
        landings.ask(Ticket(2), ID);
        assert!(landings.landed(Ticket(2), None).is_none());
        assert!(matches!(landings.end(Ticket(2), Ending::Abandon), After::Nothing));
        landings.ask(Ticket(3), ID);
        assert!(landings.landed(Ticket(3), Some(memory(3))).is_none());
        assert!(matches!(landings.end(Ticket(3), Ending::Abandon), After::Now(_)));
        assert!(landings.by_ticket.is_empty());
    }
}
