//! The logs of the machines: what is left when the power goes, and that nothing of it is lost.

use std::collections::BTreeMap;

use plasmon_pool::Birth;
use plasmon_proto::object::ObjectMeta;
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState};
use plasmon_store::event::{LogFailure, LoggedObject, Lsn, ReadBack, RecordCheck};
use plasmon_store::{Effect, Event};

use super::history::{Operation, OperationNo, Outcome, Record as Asked};
use super::memory::Token;
use super::world::World;

/// A record of a log; one without content has no token.
#[derive(Clone, Debug)]
struct Record {
    lsn: Lsn,
    meta: ObjectMeta,
    attributes: Attributes,
    token: Option<Token>,
}

/// The log of a machine.
#[derive(Debug, Default)]
pub(crate) struct Log {
    last_lsn: Lsn,
    /// The newest live record of each id.
    live: BTreeMap<ObjectId, Record>,
}

impl Log {
    fn put(
        &mut self,
        id: ObjectId,
        meta: ObjectMeta,
        attributes: Attributes,
        token: Option<Token>,
    ) -> Lsn {
        self.last_lsn += 1;
        let lsn = self.last_lsn;
        self.live.insert(id, Record { lsn, meta, attributes, token });
        lsn
    }

    fn dead(&mut self, id: &ObjectId, of: Lsn) {
        if self.live.get(id).is_some_and(|record| record.lsn <= of) {
            self.live.remove(id);
        }
    }

    /// The copies that it has.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (ObjectId, Birth)> + '_ {
        let copies = self.live.values().filter_map(|record| record.token.as_ref());
        copies.map(|token| (token.id, token.birth))
    }

    /// What a daemon that starts finds.
    pub(crate) fn found(&self) -> Vec<LoggedObject> {
        let found = |(id, record): (&ObjectId, &Record)| LoggedObject {
            id: *id,
            lsn: record.lsn,
            meta: record.meta,
            attributes: record.attributes.clone(),
        };
        self.live.iter().map(found).collect()
    }
}

impl World {
    /// Whether the machines have logs, and some of the objects are durable.
    pub(crate) fn has_logs(&self) -> bool {
        self.machines.iter().all(|machine| machine.config.durable)
    }

    /// The power of all machines goes.
    pub(crate) fn lose_power(&mut self) {
        self.note(|| "all power is lost".into());
        for at in 0..self.machines.len() {
            let ms = 100 + self.dice.below(4_000);
            if self.machines[at].store.is_some() {
                self.crash_machine(at, ms);
            }
        }
    }

    /// What was acknowledged as durable is there, and what was deleted is not.
    pub(crate) fn check_durable(&self, audit: &[OperationNo]) -> Result<(), String> {
        for no in audit {
            let asked = &self.history.records[no];
            let Operation::Get { id, .. } = asked.operation else { continue };
            let Some((end, outcome)) = &asked.end else { continue };
            let durable = |(_, birth): &(&Asked, Birth)| self.durable_puts.contains(&(id, *birth));
            for (put, birth) in self.history.puts(id).filter(durable) {
                let Some((made, Outcome::Put(Ok(())))) = &put.end else { continue };
                // That an unnamed object is accepted its creator does not wait for.
                let Some(made) = (if id.home().is_some() { put.accepted } else { Some(*made) })
                else {
                    continue;
                };
                let is_read = *outcome == Outcome::Read(birth);
                let may_be_gone = self.history.may_be_deleted(id, put.begin, *end)
                    || self.history.puts(id).any(|(other, of)| {
                        let ends_later = other.end.as_ref().is_none_or(|(end, _)| *end > made);
                        of != birth && ends_later
                    });
                // It may have no room in memory just now.
                let is_gone = matches!(
                    outcome,
                    Outcome::State(
                        ObjectState::Absent | ObjectState::Deleted | ObjectState::Unreachable
                    )
                );
                if is_gone && !may_be_gone {
                    return Err(format!("{id} {birth:?} was acknowledged and is lost: {asked:?}"));
                }
                let is_delete = |other: &&Asked| {
                    let is_one = matches!(other.operation, Operation::Delete { .. });
                    let is_over = matches!(
                        &other.end,
                        Some((over, Outcome::Deleted)) if *over < asked.begin
                    );
                    is_one && is_over && other.begin > made
                };
                // What is opened at its home may be copied elsewhere unseen: docs/plan.md has it.
                let is_seen = id.home().is_none();
                if is_read && is_seen && self.history.of_id(id).any(|other| is_delete(&other)) {
                    return Err(format!("{id} {birth:?} was deleted and is back: {asked:?}"));
                }
            }
        }
        Ok(())
    }

    /// A log does what its store asked for, in order.
    pub(crate) fn log_works(&mut self, at: usize, effect: Effect) -> Result<(), String> {
        let is_full = self.has_faults && self.dice.permille(10);
        let full = || LogFailure { code: Code::StoreFull, detail: "no room".to_owned() };
        let machine = &mut self.machines[at];
        let event = match effect {
            Effect::Log(ticket, _) | Effect::Note(ticket, _) if is_full => {
                Event::Logged(ticket, Err(full()))
            }
            Effect::Log(ticket, order) | Effect::Relog(ticket, _, order) => {
                let token = machine.memory.read(&order.range).cloned();
                let Some(token) = token.filter(|token| token.id == order.id) else {
                    return Err(format!("{at} logs nothing: {order:?}"));
                };
                let attributes = order.attributes;
                let token = Token { attributes: attributes.clone(), ..token };
                let lsn = machine.log.put(order.id, order.meta, attributes, Some(token));
                Event::Logged(ticket, Ok(lsn))
            }
            Effect::Note(ticket, order) => {
                let lsn = machine.log.put(order.id, order.meta, order.attributes, None);
                Event::Logged(ticket, Ok(lsn))
            }
            Effect::CheckLog(ticket, ..) => Event::LogChecked(ticket, RecordCheck::Failed),
            Effect::Unlog(ticket, id, lsn) => {
                machine.log.dead(&id, lsn);
                Event::Unlogged(ticket, Ok(()))
            }
            Effect::ReadLog(ticket, id, lsn, range) => {
                let record = machine.log.live.get(&id).filter(|record| record.lsn == lsn);
                let token = record.and_then(|record| record.token.clone());
                let outcome = if token.is_some() { ReadBack::Done } else { ReadBack::Failed };
                if let Some(token) = token {
                    machine.memory.write(&range, token)?;
                }
                Event::Restored(ticket, outcome)
            }
            other => return Err(format!("{at} has no such log: {other:?}")),
        };
        self.feed(at, event)
    }
}
