//! Tombstones: ends of objects of the pool that the log notes, because the pool daemon asks for it.
//!
//! A tombstone is a record of the log without content. Its attributes have the id and the birth
//! that ended; its own id is made of these and has a mark. It lies in the log alone, and ends as
//! every record does.
//!
//! ```text
//!   AddTombstone --(Note)--> being written --(Logged)--> in the log: TombstoneAdded
//!   RemoveTombstone --(Unlog)--> being removed --(Unlogged)--> gone: TombstoneRemoved
//! ```

use plasmon_proto::object::{ObjectMeta, PoolAttributes};
use plasmon_proto::pool::{Birth, Call, Origin};
use plasmon_proto::{Attributes, ObjectId};

use super::{Tombstone, TombstoneState};
use crate::effect::{Effect, NoteOrder};
use crate::event::{LogFailure, Lsn, Ticket};
use crate::ports::Directory;
use crate::store::Store;

/// The last bytes of the id of a tombstone.
const MARK: [u8; 6] = *b"@dead\0";

/// The id of a tombstone, which another birth of the object does not have.
fn id_of((id, birth): &Tombstone) -> ObjectId {
    let Birth { slot, boot, serial } = *birth;
    let mut bytes = *id.as_bytes();
    let mixed = boot.rotate_left(17) ^ serial ^ u64::from(slot.0).rotate_left(48);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let other = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mask = mixed.to_le_bytes().into_iter().chain(other.to_le_bytes());
    // The home of the id tells it from others, too.
    for (byte, mask) in bytes.iter_mut().take(12).zip(mask) {
        *byte ^= mask;
    }
    let at = bytes.len() - MARK.len();
    bytes[at..].copy_from_slice(&MARK);
    ObjectId::new(bytes)
}

/// What says which incarnation ended.
fn attributes_of((id, birth): &Tombstone) -> Attributes {
    let Birth { slot, boot, serial } = *birth;
    let origin = Some(Origin { slot, boot });
    let pool = Some(PoolAttributes { origin, serial, ..PoolAttributes::ONE });
    Attributes { members: vec![*id], pool, ..Attributes::default() }
}

/// The incarnation whose end a record of the log notes; `None` for one of an object.
pub(super) fn tombstone_of(own: &ObjectId, attributes: &Attributes) -> Option<Tombstone> {
    let [id] = attributes.members[..] else { return None };
    let pool = attributes.pool?;
    let Origin { slot, boot } = pool.origin?;
    let tombstone = (id, Birth { slot, boot, serial: pool.serial });
    // A client may have given an object of its own an id with the mark.
    (*own == id_of(&tombstone)).then_some(tombstone)
}

impl<D: Directory> Store<D> {
    /// The agent has the log note an end.
    pub(crate) fn add_tombstone(&mut self, id: &ObjectId, birth: Birth) {
        let tombstone = (*id, birth);
        match self.objects.durable.tombstones.get(&tombstone) {
            Some(TombstoneState::Noted(_)) => self.call(Call::TombstoneAdded { id: *id, birth }),
            // The agent says so again.
            Some(TombstoneState::Writing | TombstoneState::Ending) => {}
            None if !self.config.durable || !self.objects.durable.is_open() => {}
            None => {
                let ticket = self.objects.durable.ticket();
                self.objects.durable.tombstones.insert(tombstone, TombstoneState::Writing);
                self.objects.durable.adding.insert(ticket, tombstone);
                let meta = ObjectMeta { created_ms: self.now_ms, ..ObjectMeta::default() };
                let attributes = attributes_of(&tombstone);
                let order = NoteOrder { id: id_of(&tombstone), meta, attributes };
                self.out.push(Effect::Note(ticket, order));
            }
        }
    }

    /// A tombstone is in the log, or is not. False: this is about another write.
    pub(super) fn tombstone_added(
        &mut self,
        ticket: Ticket,
        outcome: &Result<Lsn, LogFailure>,
    ) -> bool {
        let Some(tombstone) = self.objects.durable.adding.remove(&ticket) else { return false };
        match outcome {
            Ok(lsn) => {
                self.objects.durable.tombstones.insert(tombstone, TombstoneState::Noted(*lsn));
                self.call(Call::TombstoneAdded { id: tombstone.0, birth: tombstone.1 });
            }
            Err(failure) => {
                self.objects.durable.tombstones.remove(&tombstone);
                self.note_log_failure(failure);
            }
        }
        true
    }

    /// The agent does not need that an end is noted.
    pub(crate) fn remove_tombstone(&mut self, id: &ObjectId, birth: Birth) {
        let tombstone = (*id, birth);
        match self.objects.durable.tombstones.get(&tombstone).copied() {
            Some(TombstoneState::Noted(lsn)) if self.objects.durable.is_open() => {
                let ticket = self.objects.durable.ticket();
                self.objects.durable.tombstones.insert(tombstone, TombstoneState::Ending);
                self.objects.durable.removing.insert(ticket, (tombstone, lsn));
                self.out.push(Effect::Unlog(ticket, id_of(&tombstone), lsn));
            }
            // The agent is told of it once more at the next start, and says so again.
            Some(_) => {}
            None => self.call(Call::TombstoneRemoved { id: *id, birth }),
        }
    }

    /// A tombstone is out of the log, or is not. False: this is about another delete.
    pub(super) fn tombstone_removed(
        &mut self,
        ticket: Ticket,
        outcome: &Result<(), LogFailure>,
    ) -> bool {
        let Some((tombstone, lsn)) = self.objects.durable.removing.remove(&ticket) else {
            return false;
        };
        match outcome {
            Ok(()) => {
                self.objects.durable.tombstones.remove(&tombstone);
                self.call(Call::TombstoneRemoved { id: tombstone.0, birth: tombstone.1 });
            }
            Err(failure) => {
                self.objects.durable.tombstones.insert(tombstone, TombstoneState::Noted(lsn));
                self.note_log_failure(failure);
            }
        }
        true
    }

    /// A tombstone was found in the log.
    pub(super) fn adopt_tombstone(&mut self, tombstone: Tombstone, lsn: Lsn) {
        self.objects.durable.tombstones.insert(tombstone, TombstoneState::Noted(lsn));
        self.call(Call::TombstoneAdded { id: tombstone.0, birth: tombstone.1 });
    }

    /// Tells the agent of all tombstones: before the end of the inventory.
    pub(crate) fn call_tombstones(&mut self) {
        let Some(agent) = self.seat_agent() else { return };
        let is_noted =
            |(_, state): &(&Tombstone, &TombstoneState)| matches!(state, TombstoneState::Noted(_));
        let noted = self.objects.durable.tombstones.iter().filter(is_noted);
        let calls = noted.map(|((id, birth), _)| Call::TombstoneAdded { id: *id, birth: *birth });
        self.out.extend(calls.map(|call| Effect::Call(agent, call)));
    }
}

#[cfg(test)]
mod tests {
    use plasmon_proto::pool::Slot;

    use super::*;

    #[test]
    fn a_tombstone_says_what_ended_and_has_an_id_of_its_own() {
        let id = ObjectId::pooled([7; 12], None);
        let birth = Birth { slot: Slot(3), boot: 4, serial: 5 };
        let births = [birth, Birth { serial: 6, ..birth }, Birth { boot: 5, ..birth }];
        let births = births.into_iter().chain([Birth { slot: Slot(4), ..birth }]);
        let tombstones: Vec<Tombstone> = births.map(|birth| (id, birth)).collect();
        for tombstone in &tombstones {
            let attributes = attributes_of(tombstone);
            assert!(attributes.check().is_ok());
            let own = id_of(tombstone);
            assert_eq!(tombstone_of(&own, &attributes), Some(*tombstone));
            assert_eq!(tombstone_of(&id, &attributes), None, "it is an object");
            assert!(!own.is_pooled());
            assert_eq!(tombstones.iter().filter(|other| id_of(other) == own).count(), 1);
        }
        assert_eq!(tombstone_of(&id_of(&tombstones[0]), &Attributes::default()), None);
    }
}
