//! The thread that campaigns, leads, and reports.
//!
//! The node whose key `leader` is there, made by it under its lease, leads. It lets
//! [`Leader`] decide about every new view and at its deadlines, and writes the map in a transaction
//! with three conditions: the map is the one that was seen, no member has joined since, and the key
//! `leader` is the one that was seen. What operators ask for goes from etcd in the transaction that
//! writes the map which shows it, so nothing is done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plasmon_cluster::adoption::Progress;
use plasmon_cluster::drain::drained;
use plasmon_cluster::leader::{Command, Decision, Observation};
use plasmon_cluster::{DrainReport, Leader, Map, Reach, Refusal, Slot, Suspect};
use plasmon_etcd::{Client, Condition, Error, LeaseId, Operation};

use super::event::Event;
use super::shared::Shared;
use super::written::Written;
use crate::clock::now_ms;
use plasmon_membership::commands::{self, Entry, Order};
use plasmon_membership::drains;
use plasmon_membership::encryption::Encryption;
use plasmon_membership::fabric::Fabric;
use plasmon_membership::keys::{Key, Keys, Life};
use plasmon_membership::reports::{self, Reports};
use plasmon_membership::usage::UsageReports;
use plasmon_membership::view::{SeenMap, View};

/// The wait after a call that failed, or whose effect is not seen yet.
const PAUSE: Duration = Duration::from_millis(200);

/// Commands of operators that one map is written with. etcd carries out 128 operations at once.
const COMMANDS_AT_ONCE: usize = 32;

/// What an operator wants of the node in a slot, and when it was written.
type Asked = (i64, Slot, Order);

/// The longest wait without a deadline.
const REST: Duration = Duration::from_secs(3600);

/// The lease of this node, which leads.
fn own_lease(view: &View) -> Option<LeaseId> {
    view.leading.and_then(|leading| leading.lease)
}

/// What the thread works with.
pub(crate) struct Leadership {
    pub(crate) etcd: Client,
    pub(crate) keys: Keys,
    pub(crate) shared: Arc<Shared>,
    pub(crate) life: Life,
    pub(crate) cluster: [u8; 16],
    pub(crate) out_after_ms: u64,
    /// The rules while this node leads, and the key that it leads with.
    pub(crate) leader: Option<(i64, Leader)>,
    /// What was last written, and under which lease.
    pub(crate) reported: Written<Reports>,
    /// The same, of draining nodes.
    pub(crate) drains_reported: Written<Vec<DrainReport>>,
    pub(crate) refused: BTreeMap<Life, String>,
    /// The token of this node's store.
    pub(crate) boot: u64,
    /// The same, of namespaces that have ended.
    pub(crate) progress_reported: Written<Progress>,
    /// The same, of what the store has of namespaces that are limited.
    pub(crate) usage: UsageReports,
    /// The same, of peers that the node does not reach.
    pub(crate) suspects_reported: Written<Vec<Suspect>>,
    /// The same, of what the node encrypts.
    pub(crate) encryption_reported: Written<Encryption>,
    /// What was said of the node's providers.
    pub(crate) fabric_reported: Written<Fabric>,
}

impl Leadership {
    /// Runs until the membership is over.
    pub(crate) fn run(mut self) {
        while !self.shared.is_over() {
            let version = self.shared.look(|state| state.version);
            let time = match self.turn() {
                Ok(time) => time,
                Err(Error::NoLease) => PAUSE,
                Err(error) => {
                    self.shared.tell(Event::Trouble(format!("leading: {error}")));
                    self.shared.rest(PAUSE);
                    continue;
                }
            };
            self.shared.wait_for_change(version, time);
        }
    }

    /// Does what is to be done now; how long to wait for a change.
    fn turn(&mut self) -> Result<Duration, Error> {
        self.end_overdue_adoptions();
        let (view, lease) = self.shared.look(|state| (state.view.clone(), state.lease));
        let (Some(view), Some(lease)) = (view, lease) else { return Ok(REST) };
        // Maps of an etcd that lost its data would begin again at the first epoch.
        if view.id.as_deref() != Some(&self.cluster) {
            self.leader = None;
            return Ok(REST);
        }
        self.report(&view, lease)?;
        self.report_drains(lease)?;
        self.report_suspects(lease)?;
        self.report_encryption(lease)?;
        self.report_fabric(lease)?;
        let usage = self.report_usage(&view, lease)?;
        let adoptions = self.serve_adoptions(&view, lease)?;
        let time = match view.leading {
            None => self.campaign(&view, lease),
            Some(leading) if leading.life == self.life && leading.lease == Some(lease) => {
                self.lead(&view, leading.create_revision)
            }
            Some(_) => {
                self.leader = None;
                Ok(REST)
            }
        }?;
        Ok(usage.into_iter().chain(adoptions).fold(time, Duration::min))
    }

    fn campaign(&mut self, view: &View, lease: LeaseId) -> Result<Duration, Error> {
        self.leader = None;
        let key = self.keys.of(Key::Leader);
        let is_free = [Condition::Made(key.clone(), 0)];
        let put = [Operation::Put(key, self.life.encode(), Some(lease))];
        let revision = self.etcd.transact(&is_free, &put)?.revision;
        self.wait_for_view(view, revision);
        Ok(Duration::ZERO)
    }

    /// Waits until the watch has seen a revision, so that a call is not made again on the same
    /// view.
    pub(super) fn wait_for_view(&self, view: &View, revision: i64) {
        let deadline_ms = now_ms().saturating_add(PAUSE.as_millis() as u64);
        let mut seen = view.revision;
        while seen < revision && !self.shared.is_over() {
            let left = deadline_ms.saturating_sub(now_ms());
            if left == 0 {
                return;
            }
            let version = self.shared.look(|state| state.version);
            seen = self.shared.look(|state| state.view.as_ref().map_or(0, |view| view.revision));
            if seen < revision {
                self.shared.wait_for_change(version, Duration::from_millis(left));
            }
        }
    }

    fn lead(&mut self, view: &View, key_revision: i64) -> Result<Duration, Error> {
        // A map that cannot be read is not replaced: it is of a later version, or a person has to
        // look at it.
        if view.bad_map.is_some() {
            return Ok(REST);
        }
        if self.leader.as_ref().is_none_or(|(revision, _)| *revision != key_revision) {
            self.leader = Some((key_revision, Leader::new(self.out_after_ms)));
            self.shared.tell(Event::Leads);
        }
        let Some((_, leader)) = &mut self.leader else { return Ok(REST) };
        let first = Arc::new(Map::default());
        let (map, map_revision) = match &view.map {
            Some(SeenMap { map, revision }) => (map, *revision),
            None => (&first, 0),
        };
        let (members, activations) = (view.members(), view.activations(map));
        let asked: Vec<Asked> = view.commands().take(COMMANDS_AT_ONCE).collect();
        let commands: Vec<Command> =
            asked.iter().map(|(_, slot, order)| order.command(*slot)).collect();
        let drained = drained(map, &view.drain_reports(map));
        let reports = view.reach_reports(map);
        let seen = Observation {
            map,
            members: &members,
            activations: &activations,
            drained: &drained,
            commands: &commands,
            reach: Reach { leader: view.leader(map), reports: &reports },
        };
        let now = now_ms();
        let decision = leader.step(now, &seen);
        self.tell_alarm(view, key_revision, &decision)?;
        self.tell_refusals(view, &decision.refusals)?;
        self.fence(view, (map, &decision.fence), key_revision)?;
        if decision.proposal.is_some() || !asked.is_empty() {
            let mut conditions = vec![
                Condition::Written(self.keys.of(Key::Map), map_revision),
                Condition::Written(self.keys.of(Key::Joined), view.joined_revision),
                Condition::Made(self.keys.of(Key::Leader), key_revision),
            ];
            let mut operations = Vec::new();
            if let Some(proposal) = &decision.proposal {
                let put = Operation::Put(self.keys.of(Key::Map), proposal.encode(), None);
                operations.push(put);
            }
            self.end_commands(view, &asked, &decision, &mut conditions, &mut operations);
            let revision = self.etcd.transact(&conditions, &operations)?.revision;
            self.wait_for_view(view, revision);
            return Ok(Duration::ZERO);
        }
        if self.end_adoptions(view, map, key_revision)? {
            return Ok(Duration::ZERO);
        }
        let deadline = decision.deadline_ms.map(|at_ms| at_ms.saturating_sub(now));
        Ok(deadline.map_or(REST, Duration::from_millis))
    }

    /// Takes the commands that the leader has decided about out of etcd, or says there why they
    /// are not carried out. One that is replaced meanwhile keeps the map from being written.
    fn end_commands(
        &self,
        view: &View,
        asked: &[Asked],
        decision: &Decision,
        conditions: &mut Vec<Condition>,
        operations: &mut Vec<Operation>,
    ) {
        for (revision, slot, _) in asked {
            let key = self.keys.of(Key::Command(*slot));
            conditions.push(Condition::Written(key.clone(), *revision));
            let error = decision.command_errors.iter().find(|error| error.slot() == *slot);
            operations.push(match error {
                Some(error) => {
                    let refused = commands::encode(&Entry::Refused(error.to_string()));
                    Operation::Put(key, refused, own_lease(view))
                }
                None => Operation::Delete(key),
            });
        }
    }

    /// Tells in etcd why no node is given up, under this node's lease, and when that is over.
    fn tell_alarm(
        &mut self,
        view: &View,
        key_revision: i64,
        decision: &Decision,
    ) -> Result<(), Error> {
        let alarm = decision.alarm.as_ref().map(ToString::to_string);
        if alarm == view.alarm {
            return Ok(());
        }
        let key = self.keys.of(Key::Alarm);
        let operation = match alarm {
            Some(alarm) => {
                self.shared.tell(Event::Trouble(alarm.clone()));
                Operation::Put(key, alarm.into_bytes(), own_lease(view))
            }
            None => Operation::Delete(key),
        };
        let leads = [Condition::Made(self.keys.of(Key::Leader), key_revision)];
        let revision = self.etcd.transact(&leads, &[operation])?.revision;
        self.wait_for_view(view, revision);
        Ok(())
    }

    /// Tells members why they take no part, under their own leases.
    fn tell_refusals(&mut self, view: &View, refusals: &[Refusal]) -> Result<(), Error> {
        let mut refused = BTreeMap::new();
        for refusal in refusals {
            let life = Life { uuid: refusal.uuid, incarnation: refusal.incarnation };
            refused.insert(life, refusal.to_string());
        }
        for (life, reason) in &refused {
            if self.refused.get(life) == Some(reason) {
                continue;
            }
            let key = self.keys.of(Key::Refused(*life));
            let put = Operation::Put(key, reason.clone().into_bytes(), view.lease_of(*life));
            match self.etcd.transact(&[], &[put]) {
                // The member is gone meanwhile.
                Ok(_) | Err(Error::NoLease) => {}
                Err(error) => return Err(error),
            }
        }
        let admitted = self.refused.keys().filter(|life| !refused.contains_key(life));
        for life in admitted.copied().collect::<Vec<_>>() {
            self.etcd.transact(&[], &[Operation::Delete(self.keys.of(Key::Refused(life)))])?;
        }
        self.refused = refused;
        Ok(())
    }

    /// Writes what this node reports to the leader, as far as the map does not say it yet.
    fn report(&mut self, view: &View, lease: LeaseId) -> Result<(), Error> {
        let Some(SeenMap { map, .. }) = &view.map else { return Ok(()) };
        let reports = self.shared.look(|state| state.reports.clone());
        let is_news = |(group, since): &(_, _)| {
            let group = map.group(*group);
            group.since == *since && !group.is_settled()
        };
        let reports: Reports = reports.into_iter().filter(is_news).collect();
        let is_blank = self.reported == Written::Nothing && reports.is_empty();
        if is_blank || self.reported.is(lease, &reports) {
            return Ok(());
        }
        let key = self.keys.of(Key::Reports(self.life));
        let put = Operation::Put(key, reports::encode(&reports), Some(lease));
        self.reported.write((lease, reports), || self.etcd.transact(&[], &[put]))
    }

    /// Writes what this node reports of draining nodes.
    fn report_drains(&mut self, lease: LeaseId) -> Result<(), Error> {
        let reports = self.shared.look(|state| state.drains.clone());
        let is_blank = self.drains_reported == Written::Nothing && reports.is_empty();
        if is_blank || self.drains_reported.is(lease, &reports) {
            return Ok(());
        }
        let key = self.keys.of(Key::Drains(self.life));
        let operation = if reports.is_empty() {
            Operation::Delete(key)
        } else {
            Operation::Put(key, drains::encode(&reports), Some(lease))
        };
        self.drains_reported.write((lease, reports), || self.etcd.transact(&[], &[operation]))
    }
}
