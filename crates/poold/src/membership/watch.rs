//! The thread that watches: it lists once, then follows every change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plasmon_cluster::Slot;
use plasmon_etcd::{Change, Client, Error, Seen};

use super::event::Event;
use super::shared::Shared;
use plasmon_membership::keys::{Keys, Life};
use plasmon_membership::usage::UsageByLife;
use plasmon_membership::view::{SeenAdoption, View};

/// The wait after a call that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// What the thread works with.
pub(crate) struct Watcher {
    pub(crate) etcd: Client,
    pub(crate) keys: Keys,
    pub(crate) shared: Arc<Shared>,
    pub(crate) life: Life,
    pub(crate) cluster: [u8; 16],
    /// What was last told of this node's refusal, and of the map.
    pub(crate) told: Told,
}

#[derive(Debug, Default)]
pub(crate) struct Told {
    refusal: Option<String>,
    bad_map: Option<String>,
    is_other_cluster: bool,
    adoptions: Option<Arc<BTreeMap<String, SeenAdoption>>>,
    usage: Arc<UsageByLife>,
    waiting: BTreeSet<Slot>,
}

impl Watcher {
    /// Runs until the membership is over.
    pub(crate) fn run(mut self) {
        while !self.shared.is_over() {
            let error = match self.list() {
                Ok(view) => self.follow(view),
                Err(error) => error,
            };
            if self.shared.is_over() {
                return;
            }
            if !matches!(error, Error::Compacted { .. }) {
                self.shared.tell(Event::Trouble(format!("watching: {error}")));
                self.shared.rest(PAUSE);
            }
        }
    }

    fn list(&mut self) -> Result<View, Error> {
        let listing = self.etcd.list(self.keys.prefix())?;
        let view = View::of(&self.keys, listing);
        self.shared.change(|state| state.must_list = false);
        self.tell_adoptions(&view);
        if let Some(seen) = &view.map {
            self.shared.tell_map(&seen.map);
        }
        self.publish(&view);
        Ok(view)
    }

    /// Follows the changes until they cannot be followed.
    fn follow(&mut self, mut view: View) -> Error {
        loop {
            let over = Error::Compacted { revision: 0 };
            if self.shared.look(|state| state.is_over || state.must_list) {
                return over;
            }
            match self.follow_once(&mut view) {
                Ok(()) => {}
                Err(Error::Unavailable { tried } | Error::Encryption { tried }) => {
                    self.shared.tell(Event::Trouble(format!("watching: {tried}")));
                    self.shared.rest(PAUSE);
                }
                Err(error) => return error,
            }
        }
    }

    fn follow_once(&mut self, view: &mut View) -> Result<(), Error> {
        let mut watch = self.etcd.watch(self.keys.prefix(), view.revision + 1)?;
        while let Seen::Changes(revision, changes) = watch.next_changes()? {
            self.apply(view, &changes, revision);
            self.publish(view);
            if self.shared.look(|state| state.is_over || state.must_list) {
                break;
            }
        }
        Ok(())
    }

    fn apply(&mut self, view: &mut View, changes: &[Change], revision: i64) {
        let maps: Vec<_> =
            changes.iter().filter_map(|change| view.apply(&self.keys, change)).collect();
        view.revision = view.revision.max(revision);
        self.tell_adoptions(view);
        maps.iter().for_each(|map| self.shared.tell_map(map));
    }

    /// Tells what is known of adoptions, if that is something else than before.
    fn tell_adoptions(&mut self, view: &View) {
        let told = &mut self.told.adoptions;
        if told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &view.adoptions)) {
            *told = Some(view.adoptions.clone());
            self.shared.tell_adoptions(view);
        }
        if self.told.usage != view.usage {
            self.told.usage = view.usage.clone();
            self.shared.tell(Event::Usage(view.usage.clone()));
        }
    }

    fn publish(&mut self, view: &View) {
        let refusal = view.refusal_of(self.life).map(str::to_owned);
        if refusal != self.told.refusal {
            if let Some(reason) = &refusal {
                self.shared.tell(Event::Refused(reason.clone()));
            }
            self.told.refusal = refusal;
        }
        if view.bad_map != self.told.bad_map {
            if let Some(problem) = &view.bad_map {
                let trouble = format!("the map in etcd cannot be used: {problem}");
                self.shared.tell(Event::Trouble(trouble));
            }
            self.told.bad_map.clone_from(&view.bad_map);
        }
        let waiting = view.map.as_ref().map_or_else(BTreeSet::new, |seen| view.waiting(&seen.map));
        if waiting != self.told.waiting {
            self.shared.tell(Event::Waiting(waiting.clone()));
            self.told.waiting = waiting;
        }
        let is_other_cluster = view.id.as_deref() != Some(&self.cluster);
        if is_other_cluster && !self.told.is_other_cluster {
            let trouble = "etcd has lost the data of this cluster; restore them, or start all \
                           nodes again without their folders";
            self.shared.tell(Event::Trouble(trouble.to_owned()));
        }
        self.told.is_other_cluster = is_other_cluster;
        let view = Arc::new(view.clone());
        self.shared.change(|state| state.view = Some(view));
    }
}
