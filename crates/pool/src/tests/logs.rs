//! Durable objects in random runs: logs that are slow, full or fail, and power that goes on all
//! machines at once.

use plasmon_proto::ObjectId;
use plasmon_proto::pool::{Keeping, WantedCopies};

use crate::event::{Event, Fate};
use crate::limits::COMMIT_STUCK_MS;
use crate::record::{Birth, Content};

use super::history::{Entry, Operation, OperationNo};
use super::store::Outcome;
use super::world::World;

/// How long logs take at most.
const LOG_MS: u64 = 3_000;

impl World {
    /// Logs for the machines: in every second run for all of them, and none fails.
    pub(super) fn give_logs(&mut self) {
        self.log_ms = self.dice.pick(&[0, 10, 200, LOG_MS]);
        for at in 0..self.machines.len() {
            let is_there = self.has_all_logs() || self.dice.percent(70);
            self.machines[at].store.log.is_there = is_there;
            if !is_there {
                // What was made there is kept on other nodes.
                self.drained_ever.insert(at);
            }
        }
    }

    /// Whether every machine has a log that works, so that what was deleted is known everywhere.
    fn has_all_logs(&self) -> bool {
        self.is_impatient
    }

    /// What makes a put one of a durable object.
    pub(super) fn durable_at_random(
        &mut self,
        keeping: Keeping,
        (copies, copies_min): (u8, u8),
    ) -> Option<WantedCopies> {
        let is_durable = self.has_logs && keeping != Keeping::Cache && self.dice.percent(60);
        is_durable.then_some(WantedCopies { copies, copies_min })
    }

    /// Power goes, or a log is full or fails.
    pub(super) fn fault_of_logs(&mut self) -> Result<(), String> {
        let at = self.dice.size_below(self.machines.len());
        match self.dice.below(4) {
            0 | 1 => {
                self.note(|| "all power is lost".into());
                for at in 0..self.machines.len() {
                    let ms = 100 + self.dice.below(4_000);
                    if self.machines[at].node.is_some() {
                        self.crash(at, true, ms)?;
                    }
                }
            }
            2 => {
                let log = &mut self.machines[at].store.log;
                log.is_full = !log.is_full;
                let is_full = log.is_full;
                self.note(|| format!("the log of {at} is full: {is_full}"));
            }
            _ if self.has_all_logs() => {}
            _ => {
                self.note(|| format!("the log of {at} fails"));
                self.machines[at].store.log.has_failed = true;
                self.drained_ever.insert(at);
            }
        }
        Ok(())
    }

    /// Logs have room again, and those that failed are mended with a new start.
    pub(super) fn mend_logs(&mut self) -> Result<(), String> {
        self.log_ms = self.log_ms.min(200);
        for at in 0..self.machines.len() {
            self.machines[at].store.log.is_full = false;
            if self.machines[at].store.log.has_failed {
                self.crash(at, true, 10)?;
            }
        }
        Ok(())
    }

    /// A log has written a copy.
    pub(super) fn logged(
        &mut self,
        at: usize,
        boot: u64,
        (id, birth): (ObjectId, Birth),
    ) -> Result<(), String> {
        if self.machines[at].boot != boot {
            return Ok(());
        }
        let mut calls = Vec::new();
        self.machines[at].store.log_copy(id, birth, &mut calls);
        self.note(|| format!("the log of {at} says {calls:?}"));
        self.note_kept(at);
        calls.into_iter().try_for_each(|call| self.give(at, Event::Local(call)))
    }

    /// What is acknowledged is in as many logs as it is to be at least, or in one after a loss.
    pub(super) fn check_logged(
        &self,
        (id, birth): (ObjectId, Birth),
        content: Content,
        copies_min: u8,
    ) -> Result<(), String> {
        let is_counted =
            |at: usize| content.keeping != Keeping::Spread || at != usize::from(birth.slot.0);
        let has = |machine: &&super::machine::Machine| {
            is_counted(machine.index) && machine.store.is_in_log(&id, birth)
        };
        let logs = self.machines.iter().filter(has).count();
        match logs >= usize::from(copies_min) {
            true => Ok(()),
            false => Err(format!("{id} was acknowledged and is in {logs} logs of {copies_min}")),
        }
    }

    /// Durable puts of free ids that may have succeeded, and that no node has room for, are not
    /// withdrawn: they end when nothing has moved for as long as they may wait.
    pub(super) fn wait_for_durable_puts(&mut self) -> Result<(), String> {
        let end = self.now.after_ms(2 * COMMIT_STUCK_MS);
        let is_waiting = |entry: &Entry| {
            let is_free = entry.operation.id().home().is_none();
            entry.end.is_none() && !entry.left && is_free && entry.operation.is_durable()
        };
        while self.now < end && self.history.entries.values().any(is_waiting) {
            self.run_until(self.now.after_ms(1_000), false)?;
        }
        Ok(())
    }

    /// Puts of durable objects with a home, which no node has room for: their creators do not wait
    /// any longer.
    pub(super) fn leave_durable_puts(&mut self) {
        for entry in self.history.entries.values_mut() {
            let is_homed = entry.operation.id().home().is_some();
            if entry.end.is_none() && is_homed && entry.operation.is_durable() {
                entry.left = true;
            }
        }
    }

    /// What was acknowledged as durable is there, and what was deleted is not.
    pub(super) fn check_durable(&self, audit: &[OperationNo]) -> Result<(), String> {
        for no in audit {
            let asked = &self.history.entries[no];
            let Operation::Get { id, .. } = asked.operation else { continue };
            let Some((end, outcome)) = &asked.end else { continue };
            let puts = self.history.puts(id).filter(|(put, _)| put.operation.is_durable());
            for (put, birth) in puts {
                let Some((made, Outcome::Put(Ok(())))) = &put.end else { continue };
                let is_read = *outcome == Outcome::Read(birth);
                let may_be_gone = self.history.may_be_deleted(id, put.begin, *end)
                    || self.history.of_id(id).any(|other| may_replace(other, put));
                let has_no_room = *outcome == Outcome::Fate(Fate::NoRoom);
                if !is_read && !may_be_gone && !has_no_room {
                    return Err(format!("{id} {birth:?} was acknowledged and is lost: {asked:?}"));
                }
                let is_delete = |other: &Entry| {
                    let is_over = matches!(
                        &other.end,
                        Some((over, Outcome::Deleted)) if *over < asked.begin
                    );
                    let is_one = matches!(other.operation, Operation::Delete { .. });
                    is_one && is_over && other.begin > *made
                };
                if is_read && self.has_all_logs() && self.history.of_id(id).any(is_delete) {
                    return Err(format!("{id} {birth:?} was deleted and is back: {asked:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a put may have taken the id of an object whose nodes had been given up.
fn may_replace(other: &Entry, put: &Entry) -> bool {
    let is_later = put
        .end
        .as_ref()
        .is_some_and(|(made, _)| other.end.as_ref().is_none_or(|(end, _)| end > made));
    let is_put = matches!(other.operation, Operation::Put { .. });
    is_put && other.birth.is_some() && other.birth != put.birth && is_later
}
