//! What must hold: at every moment, when an answer is given, and when all is quiet.

use std::collections::BTreeSet;

use plasmon_cluster::Map;
use plasmon_pool::{Birth, Mono};
use plasmon_proto::object::CopyPlacement;
use plasmon_proto::pool::Fate;
use plasmon_proto::status::Status;
use plasmon_proto::{ObjectId, ObjectState};

use super::etcd::TTL_MS;
use super::history::{Operation, OperationNo, Outcome};
use super::machine::Machine;
use super::world::World;

impl World {
    /// No id that any node may make shows two births at one time.
    pub(crate) fn check_births(&self) -> Result<(), String> {
        for id in &self.free {
            let mut seen: Option<(usize, Birth)> = None;
            for machine in &self.machines {
                let Some((_, token)) = machine.visible(id)? else { continue };
                if let Some((other, before)) = seen
                    && before != token.birth
                {
                    let (birth, at) = (token.birth, machine.index);
                    return Err(format!("{id} is {before:?} on {other} and {birth:?} on {at}"));
                }
                seen = Some((machine.index, token.birth));
            }
        }
        Ok(())
    }

    /// A client was told that its object exists.
    pub(crate) fn acknowledge(&mut self, id: ObjectId, birth: Birth) -> Result<(), String> {
        let Some(put) = self.history.put_of(id, birth).cloned() else {
            return Err(format!("{id} {birth:?} was accepted, and was never put"));
        };
        let Operation::Put { copies_min, placement, .. } = put.operation else {
            return Err("accepted what was not put".into());
        };
        let is_spread = placement == CopyPlacement::Spread;
        let counts = |at: &usize| !is_spread || *at != usize::from(birth.slot.0);
        let kept = self.kept.get(&(id, birth)).into_iter().flatten().copied().filter(counts);
        let kept: BTreeSet<usize> = kept.collect();
        let is_deleted = self.history.may_be_deleted(id, put.begin, self.now);
        // An object that exists after its records or holders were lost is acknowledged with what
        // there is room for.
        let is_late = self.etcd.last_map.after_ms(1_000) > put.begin;
        if kept.len() < usize::from(copies_min) && !is_deleted && !is_late {
            return Err(format!("acknowledged {id} with {} copies of {copies_min}", kept.len()));
        }
        // One that kept it once may have a cached copy now.
        let keeps = |at: &usize| self.machines[*at].keeps(&id, birth);
        let of_machine = |at: usize| (at, self.machines[at].boot, self.machines[at].life);
        let kept = kept.into_iter().filter(keeps).map(of_machine).collect();
        self.acknowledged.insert((id, birth), kept);
        Ok(())
    }

    /// The pool has accepted an object with a home.
    pub(crate) fn accepted(&mut self, id: ObjectId, birth: Birth) -> Result<(), String> {
        let now = self.now;
        let Some(put) = self.history.put_of(id, birth) else {
            return Err(format!("{id} {birth:?} was accepted, and was never put"));
        };
        if put.accepted.is_some() {
            return Ok(());
        }
        put.accepted = Some(now);
        self.acknowledge(id, birth)
    }

    /// An object that exists for certain is not absent, unless its records were lost and no store
    /// has it.
    pub(crate) fn check_absent(&self, id: ObjectId, begin: Mono) -> Result<(), String> {
        let Some(birth) = self.history.certain(id, begin, self.now) else { return Ok(()) };
        // A primary has a map at the latest when a lease has passed since it was made.
        let maps = &self.etcd.maps;
        let old = maps.iter().rposition(|(made, _)| made.after_ms(TTL_MS) <= begin);
        let maps = &maps[old.unwrap_or_default()..];
        let has = |machine: &&Machine| {
            let is_live = |map: &Map| map.is_live(machine.slot());
            machine.has(&id, birth)
                && !self.forgotten.contains(&(machine.index, id, birth))
                && maps.iter().all(|(_, map)| is_live(map))
        };
        if !self.history.wiped.contains_key(&id) || self.machines.iter().any(|m| has(&m)) {
            return Err(format!("{id} is absent, but {birth:?} exists"));
        }
        Ok(())
    }

    /// Asks every node about every id. What waits for as long as it takes is given up.
    pub(crate) fn audit(&mut self) -> Result<Vec<OperationNo>, String> {
        let under_way = self.history.records.iter();
        let under_way = under_way.filter(|(_, record)| record.end.is_none() && !record.left);
        let under_way: Vec<_> = under_way.map(|(no, record)| (*no, record.clone())).collect();
        for (no, record) in under_way {
            if !record.operation.is_patient() {
                return Err(format!("still under way: {record:?}"));
            }
            self.give_up(record.node, no)?;
        }
        let mut asked = self.read_everything()?;
        for id in self.ids.clone() {
            for at in 0..self.machines.len() {
                asked.push(self.begin(at, Operation::Get { id, timeout_ms: Some(0) })?);
            }
        }
        Ok(asked)
    }

    /// In quiet times every question has an answer, and one that no node has is lost.
    pub(crate) fn check_answers(&self, audit: &[OperationNo]) -> Result<(), String> {
        for no in audit {
            let record = &self.history.records[no];
            let id = record.operation.id();
            match &record.end {
                // A read that was answered with what says nothing about the object.
                None if record.left => {}
                None | Some((_, Outcome::State(ObjectState::Creating) | Outcome::Failed(_))) => {
                    return Err(format!("not answered in quiet times: {record:?}"));
                }
                Some((_, Outcome::State(ObjectState::Unreachable))) => {
                    let agent = self.machines[record.node].agent.as_ref();
                    let fate = agent.and_then(|agent| agent.fates.get(&id));
                    if fate != Some(&Fate::Lost) {
                        return Err(format!("unreachable in quiet times: {fate:?}, {record:?}"));
                    }
                    if let Some(machine) = self.machines.iter().find(|m| m.has_any(&id)) {
                        return Err(format!("{id} is lost, but {} has it", machine.index));
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Nothing is under way, and what was acknowledged is where it was.
    pub(crate) fn check_rest(&self) -> Result<(), String> {
        for machine in &self.machines {
            let at = machine.index;
            let store = machine.store.as_ref().ok_or("a store is down")?;
            if let Some(left) = store.under_way() {
                return Err(format!("store {at} is not at rest: {left}"));
            }
            if machine.config.spill_bytes_max.is_none() && !machine.tier.is_empty() {
                return Err(format!("store {at} has files without a tier"));
            }
            if !machine.tasks.is_empty() || !machine.pins.is_empty() {
                return Err(format!("clients of {at} have {:?}", machine.tasks));
            }
            let agent = machine.agent.as_ref().ok_or("a pool daemon is down")?;
            let node = agent.node.as_ref().ok_or("a node has not begun")?;
            if !node.is_idle() {
                return Err(format!("node {at} is not idle: {node:?}"));
            }
            let is_done = agent.landings.is_empty()
                && agent.backlog.is_empty()
                && agent.pins.is_empty()
                && agent.openings.is_empty()
                && agent.assemblies.is_empty()
                && agent.purposes.is_empty();
            if !is_done {
                return Err(format!("pool daemon {at} is not at rest: {agent:?}"));
            }
        }
        self.check_reads()?;
        self.check_acknowledged()
    }

    /// No store has lost what was acknowledged while it kept it.
    fn check_acknowledged(&self) -> Result<(), String> {
        for ((id, birth), kept) in &self.acknowledged {
            let wiped = self.history.wiped.contains_key(id);
            let end = Mono(u64::MAX);
            if wiped || self.history.certain(*id, end, end) != Some(*birth) {
                continue;
            }
            for (at, boot, life) in kept {
                let machine = &self.machines[*at];
                // A store that starts again forgets that a copy which came as a cached one is kept.
                // Of an id with a home it is shown, and may be evicted, before its node asks again.
                let forgets =
                    id.home().is_some_and(|home| home != machine.slot().0) && machine.life != *life;
                if machine.boot == *boot && !forgets && !machine.has(id, *birth) {
                    return Err(format!("{at} dropped {id} {birth:?}, which was acknowledged"));
                }
            }
        }
        Ok(())
    }

    /// Has every object deleted, through any node.
    pub(crate) fn delete_all(&mut self) -> Result<Vec<OperationNo>, String> {
        let mut asked = Vec::new();
        for id in self.ids.clone() {
            let at = self.dice.size_below(self.machines.len());
            asked.push(self.begin(at, Operation::Delete { id })?);
        }
        Ok(asked)
    }

    /// Everything is deleted, and no store has anything left of it.
    pub(crate) fn check_empty(&self, deletes: &[OperationNo]) -> Result<(), String> {
        for no in deletes {
            let record = &self.history.records[no];
            if !matches!(record.end, Some((_, Outcome::Deleted))) {
                return Err(format!("not deleted in quiet times: {record:?}"));
            }
        }
        for machine in &self.machines {
            let at = machine.index;
            let store = machine.store.as_ref().ok_or("a store is down")?;
            let mut status = Status::default();
            store.status_into(&mut status);
            // A copy from the home of its id, of which the primary hears for the first time after
            // the object was deleted and forgotten, stays: docs/plan.md has it.
            let copies = machine.copies();
            let home = |id: &ObjectId| id.home().filter(|home| *home != machine.slot().0);
            let is_missed = !copies.is_empty() && copies.iter().all(|(id, ..)| home(id).is_some());
            let ids: BTreeSet<_> = copies.iter().map(|(id, ..)| id).collect();
            if is_missed && status.objects == ids.len() as u64 {
                continue;
            }
            let Status { used_bytes, leased_bytes, objects, spilled, lingering, .. } = status;
            let left = [used_bytes, leased_bytes, objects, spilled, lingering];
            // A tombstone may be left over until its node is asked for its copies again.
            let is_logged = machine.log.copies().next().is_some();
            if left != [0; 5] || !machine.tier.is_empty() || is_logged {
                return Err(format!("after everything was deleted, {at} has {status:?}"));
            }
        }
        Ok(())
    }
}
