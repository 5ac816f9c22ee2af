//! Says in etcd what this node has of namespaces that are limited in bytes.

use std::time::Duration;

use plasmon_etcd::{Error, LeaseId, Operation};
use plasmon_membership::keys::Key;
use plasmon_membership::usage::{self, Step, Usage};
use plasmon_membership::view::View;

use super::leadership::Leadership;
use super::shared::State;
use crate::clock::now_ms;

impl Leadership {
    /// Writes the figures of this node when they have changed, and not all the time. How long there
    /// is nothing to do.
    pub(super) fn report_usage(
        &mut self,
        view: &View,
        lease: LeaseId,
    ) -> Result<Option<Duration>, Error> {
        if self.shared.look(|state| state.adoptions.usage.is_empty()) && self.usage.is_empty() {
            return Ok(None);
        }
        let usage = self.shared.look(|state| current(state, view));
        let now = now_ms();
        match self.usage.step(now, lease, &usage) {
            Step::Rest => Ok(None),
            Step::Wait(ms) => Ok(Some(Duration::from_millis(ms))),
            Step::Write => {
                let key = self.keys.of(Key::Usage(self.life));
                let operation = if usage.is_empty() {
                    Operation::Delete(key)
                } else {
                    Operation::Put(key, usage::encode(&usage), Some(lease))
                };
                self.usage.writes();
                self.etcd.transact(&[], &[operation])?;
                self.usage.wrote(now, lease, usage);
                self.forget_unlimited(view);
                Ok(None)
            }
        }
    }

    /// Forgets figures of namespaces that are not limited any more: the store says them again when
    /// they are.
    fn forget_unlimited(&self, view: &View) {
        let is_over = |name: &String, (_, after): &(u64, i64)| {
            view.revision >= *after && !is_limited(view, name)
        };
        let has_any =
            |state: &State| state.adoptions.usage.iter().any(|(name, it)| is_over(name, it));
        if self.shared.look(has_any) {
            self.shared.change(|state| state.adoptions.usage.retain(|name, it| !is_over(name, it)));
        }
    }
}

/// What is to be said now.
fn current(state: &State, view: &View) -> Usage {
    let usage = state.adoptions.usage.iter();
    let usage = usage.filter(|(name, (bytes, _))| *bytes > 0 && is_limited(view, name));
    usage.map(|(name, (bytes, _))| (name.clone(), *bytes)).collect()
}

fn is_limited(view: &View, namespace: &str) -> bool {
    view.adoptions.get(namespace).is_some_and(|seen| seen.adoption.limit().is_some())
}
