//! Copies that are damaged: the pool daemon is told, and says what becomes of them.
//!
//! ```text
//!   a read or the scrub finds damage ---- Damaged ------>  another node has what is right?
//!   it stays                             <---------------- no: nothing is said
//!   its end, in the log too              <-- Discard ----- yes
//!                                        -- Ended ------>  a copy is made again
//! ```

use plasmon_proto::message::{LogCheck, Reply};
use plasmon_proto::object::Sizes;
use plasmon_proto::pool::{Birth, Call};
use plasmon_proto::{Name, ObjectId, ObjectState};

use super::copies::Place;
use super::{Reason, not_the_agent};
use crate::durable::LogChecking;
use crate::effect::Effect;
use crate::event::{ClientNo, Lsn, RecordCheck, Ticket};
use crate::ports::{Directory, Entry};
use crate::spill::Backing;
use crate::store::Store;

/// What the log has of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Logged {
    lsn: Lsn,
    away: bool,
    /// Bytes of data and metadata.
    bytes: u64,
    is_corrupt: bool,
}

impl<D: Directory> Store<D> {
    /// Tells the agent that a copy of this id cannot be read.
    pub(crate) fn call_damaged(&mut self, id: &ObjectId) {
        if !id.is_pooled() {
            return;
        }
        let pool = if let Some(entry) = self.objects.find(id) {
            self.pool_attributes(entry.record)
        } else if let Some(withheld) = self.seat.withheld(id) {
            self.pool_attributes(withheld.record)
        } else {
            let Some(spilled) = self.objects.tier.get(id) else { return };
            spilled.extras.attributes.pool
        };
        if let Some(birth) = self.birth(id, pool) {
            self.call(Call::Damaged { id: *id, birth });
        }
    }

    /// The agent wants a damaged copy ended, of which another node has what is right. It is told so
    /// in any case.
    pub(super) fn discard_copy(&mut self, id: &ObjectId, birth: Birth) {
        match self.copy(id, birth) {
            Some(Place::Withheld(_)) if self.is_committing(id) => {}
            Some(Place::Visible(entry)) => {
                // Its readers keep it; no subscriber is told, because the object is there.
                self.withhold(&[entry], Reason::Unpublished);
                self.end_withheld(id);
            }
            Some(Place::Withheld(_)) => self.end_withheld(id),
            Some(Place::Tier) => self.drop_spilled(id, ObjectState::Evicted),
            None if self.objects.durable.waits_for_end(id, birth) => {}
            None => self.call(Call::Ended { id: *id, birth }),
        }
    }

    /// The agent has found the record of a copy damaged.
    pub(super) fn relog_copy(&mut self, id: &ObjectId, birth: Birth) {
        match self.logged_copy(id, birth) {
            Some(Logged { is_corrupt: true, .. }) => self.call_damaged(id),
            Some(Logged { lsn, .. }) => self.log_damaged(id, lsn),
            None => {}
        }
    }

    fn logged_copy(&self, id: &ObjectId, birth: Birth) -> Option<Logged> {
        match self.copy(id, birth)? {
            Place::Visible(Entry { record, .. }) | Place::Withheld(record) => {
                let entry = self.objects.entry(record);
                let lsn = self.objects.durable.record_of(entry.serial)?.lsn;
                let bytes = entry.meta.sizes.data.saturating_add(entry.meta.sizes.metadata);
                Some(Logged { lsn, away: false, bytes, is_corrupt: false })
            }
            Place::Tier => {
                let spilled = self.objects.tier.get(id)?;
                let Backing::Log(lsn) = spilled.backing else { return None };
                let sizes = spilled.meta.sizes;
                let bytes = sizes.data.saturating_add(sizes.metadata);
                Some(Logged { lsn, away: true, bytes, is_corrupt: spilled.corrupt })
            }
        }
    }

    /// The serial and the sizes of a copy that is in the spill tier alone.
    fn spilled_copy(&self, id: &ObjectId, birth: Birth) -> Option<(u64, Sizes)> {
        let Place::Tier = self.copy(id, birth)? else { return None };
        let spilled = self.objects.tier.get(id).filter(|it| it.backing == Backing::File)?;
        Some((spilled.serial, spilled.meta.sizes))
    }

    /// A `CheckLogged` request.
    pub(crate) fn check_logged_copy(
        &mut self,
        client: ClientNo,
        request: u64,
        (id, birth): (ObjectId, Birth),
    ) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        if !self.seat.is_agent(client) {
            return self.fail(client, request, not_the_agent());
        }
        let check = match self.logged_copy(&id, birth) {
            None => match self.spilled_copy(&id, birth) {
                Some((serial, sizes)) => {
                    let ticket = self.objects.durable.ticket();
                    let checking = LogChecking { asker, request, id, away: true };
                    self.objects.durable.checking.insert(ticket, checking);
                    return self.out.push(Effect::CheckFile(ticket, id, serial, sizes));
                }
                None => LogCheck::Absent,
            },
            Some(Logged { away, is_corrupt: true, .. }) => LogCheck::Damaged { away },
            Some(Logged { lsn, away, bytes, .. }) => {
                let ticket = self.objects.durable.ticket();
                let checking = LogChecking { asker, request, id, away };
                self.objects.durable.checking.insert(ticket, checking);
                return self.out.push(Effect::CheckLog(ticket, id, lsn, bytes));
            }
        };
        let name = self.name_of_copy(&id);
        self.reply(client, request, Reply::LogChecked(check, name));
    }

    /// What a copy here is called.
    fn name_of_copy(&self, id: &ObjectId) -> Option<Name> {
        let extras = if let Some(entry) = self.objects.find(id) {
            self.objects.extras_of(entry.record)?
        } else if let Some(withheld) = self.seat.withheld(id) {
            self.objects.extras_of(withheld.record)?
        } else {
            &self.objects.tier.get(id)?.extras
        };
        extras.attributes.name.clone()
    }

    /// A record was read for the agent.
    pub(crate) fn log_checked(&mut self, ticket: Ticket, found: RecordCheck) {
        let Some(checking) = self.objects.durable.checking.remove(&ticket) else { return };
        let LogChecking { asker, request, id, away } = checking;
        let check = match found {
            RecordCheck::Right(crc) => LogCheck::Right { crc, away },
            RecordCheck::Damaged => LogCheck::Damaged { away },
            RecordCheck::Failed => LogCheck::Unreadable,
        };
        if self.sessions.clients.is_asking(asker) {
            let name = self.name_of_copy(&id);
            self.reply(asker.client, request, Reply::LogChecked(check, name));
        }
    }
}
