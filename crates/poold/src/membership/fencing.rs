//! Nodes that do not reach each other: what this node reports, what it fences as the leader, and
//! how it stops when it is fenced itself.
//!
//! ```text
//!   the node that leads           the fenced node
//!   fenced/NODE, under the   ──►  Event::Fenced ──► the core decides nothing any more
//!   lease of that node              │
//!   it is down in the map    ◄──  the lease is ended by the node; or it ends by itself
//!                                   │
//!   it is held while it is   ◄──  a new lease with the member and the report, once the map has
//!   reported                      the node down
//! ```
//!
//! No keep-alive is sent and no lease is told to the core after [`Event::Fenced`], so the core
//! stops at the latest when its clock says so, before etcd ends the lease: a node whose core hangs
//! is as one that is cut off.

use std::collections::BTreeSet;
use std::time::Duration;

use plasmon_cluster::{Map, Slot};
use plasmon_etcd::{Condition, Error, LeaseId, Operation};
use plasmon_membership::keys::Key;
use plasmon_membership::suspects;
use plasmon_membership::view::View;

use super::event::Event;
use super::leadership::Leadership;
use super::lease::{Held, Holder};
use super::shared::State;
use crate::clock::now_ms;

impl Leadership {
    /// Writes which peers this node does not reach. A node that reports none yet takes no part in
    /// what is decided by such reports.
    pub(super) fn report_suspects(&mut self, lease: LeaseId) -> Result<(), Error> {
        let Some(suspects) = self.shared.look(|state| state.suspects.clone()) else {
            return Ok(());
        };
        if self.suspects_reported.is(lease, &suspects) {
            return Ok(());
        }
        let key = self.keys.of(Key::Suspects(self.life));
        let put = Operation::Put(key, suspects::encode(&suspects), Some(lease));
        self.suspects_reported.write((lease, suspects), || self.etcd.transact(&[], &[put]))
    }

    /// Tells nodes that they have to stop, under their own leases. One whose lease is gone
    /// meanwhile has.
    pub(super) fn fence(
        &mut self,
        view: &View,
        (map, slots): (&Map, &BTreeSet<Slot>),
        key_revision: i64,
    ) -> Result<(), Error> {
        for slot in slots {
            let Some(life) = View::life_of(map, *slot) else { continue };
            let Some(lease) = view.lease_of(life) else { continue };
            if view.fenced_lease(life) == Some(lease) {
                continue;
            }
            let name = map.node(*slot).map_or("", |node| node.member.name.as_str());
            let trouble = format!(
                "node {name} (slot {slot}) has to stop until it and the others reach each other"
            );
            let leads = [Condition::Made(self.keys.of(Key::Leader), key_revision)];
            let key = self.keys.of(Key::Fenced(life));
            match self.etcd.transact(&leads, &[Operation::Put(key, Vec::new(), Some(lease))]) {
                Ok(transacted) => {
                    self.shared.tell(Event::Trouble(trouble));
                    self.wait_for_view(view, transacted.revision);
                }
                Err(Error::NoLease) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Holder {
    /// Whether a node has to end this lease.
    pub(super) fn is_fenced(&self, lease: LeaseId) -> bool {
        self.shared.look(|state| self.has_to_end(state, lease))
    }

    fn has_to_end(&self, state: &State, lease: LeaseId) -> bool {
        let view = state.view.as_ref();
        view.is_some_and(|view| view.fenced_lease(self.life()) == Some(lease))
    }

    /// Waits for so long, or until this lease is to be ended or the log has failed; whether to go
    /// on.
    pub(super) fn rest(&self, time: Duration, lease: LeaseId) -> bool {
        let is_log_news = |state: &State| state.has_log_failed && !self.says_that_log_failed();
        self.shared.rest_until(time, |state| self.has_to_end(state, lease) || is_log_news(state))
    }

    /// The operations with which the member joins: the report comes with it, or the node would be
    /// taken for one that reaches its peers.
    pub(super) fn report_with(&self, lease: LeaseId) -> Option<Operation> {
        let suspects = self.shared.look(|state| state.suspects.clone())?;
        let key = self.keys.of(Key::Suspects(self.life()));
        Some(Operation::Put(key, suspects::encode(&suspects), Some(lease)))
    }

    /// Stops: the core first, then the lease. It ends once the map has this node down, or would
    /// have by now.
    pub(super) fn stop(&mut self, held: &Held) {
        self.shared.change(|state| state.has_stopped = false);
        self.shared.tell(Event::Fenced);
        let until_ms = held.clock.held_until_ms().unwrap_or_default();
        let left = Duration::from_millis(until_ms.saturating_sub(now_ms()));
        self.shared.rest_until(left, |state| state.has_stopped);
        match self.etcd.revoke(held.id) {
            Ok(()) | Err(Error::NoLease) => {}
            Err(error) => {
                let trouble = format!("ending the lease: {error}; it ends by itself");
                self.shared.tell(Event::Trouble(trouble));
            }
        }
        self.shared.change(|state| state.lease = None);
        let life = self.life();
        let within = Duration::from_millis(2 * self.ttl_ms);
        self.shared.rest_until(within, |state| {
            let map = state.view.as_ref().and_then(|view| view.map.as_ref());
            map.is_some_and(|seen| {
                let slot = seen.map.slot_of(life.uuid);
                !slot.is_some_and(|slot| seen.map.is_live(slot))
            })
        });
    }
}
