//! What the threads of the membership share, and what they tell the node.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plasmon_cluster::{DrainReport, Epoch, Map, Suspect};
use plasmon_etcd::LeaseId;

use super::adoption_wishes::AdoptionWishes;
use super::event::Event;
use plasmon_membership::adoption_news::KnownAdoptions;
use plasmon_membership::encryption::Encryption;
use plasmon_membership::fabric::Fabric;
use plasmon_membership::reports::Reports;
use plasmon_membership::view::View;

/// Takes what the membership has to say. It must not wait.
pub type Sink = Arc<dyn Fn(Event) + Send + Sync>;

/// Shared by the three threads.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    outlet: Mutex<Outlet>,
}

/// What is known now.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What the watch has seen; `None` before the first listing.
    pub(crate) view: Option<Arc<View>>,
    /// The lease that this node has put its member under.
    pub(crate) lease: Option<LeaseId>,
    /// What the node wants to be reported.
    pub(crate) reports: Reports,
    /// The same, of draining nodes.
    pub(crate) drains: Vec<DrainReport>,
    /// Which peers the node does not reach; `None` before it has looked.
    pub(crate) suspects: Option<Vec<Suspect>>,
    /// Whether the log of the node's store has failed.
    pub(crate) has_log_failed: bool,
    /// What the node encrypts.
    pub(crate) encryption: Option<Encryption>,
    /// By what others write into memory of the node, if that was said.
    pub(crate) fabric: Option<Fabric>,
    /// Whether the node, which is fenced, decides nothing any more.
    pub(crate) has_stopped: bool,
    /// What the store says of namespaces.
    pub(crate) adoptions: AdoptionWishes,
    /// Whether etcd has been found to know less than the watch has seen.
    pub(crate) must_list: bool,
    /// Whether all threads shall end.
    pub(crate) is_over: bool,
    /// Changes with everything above.
    pub(crate) version: u64,
}

/// Where maps go out in order.
struct Outlet {
    sink: Sink,
    newest: Option<Epoch>,
    /// The revision of what was last told of adoptions.
    adoptions: Option<i64>,
}

impl Shared {
    pub(crate) fn new(sink: Sink) -> Self {
        let outlet = Outlet { sink, newest: None, adoptions: None };
        Self { state: Mutex::default(), changed: Condvar::new(), outlet: Mutex::new(outlet) }
    }

    /// Looks at what is known.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Changes what is known, and wakes the threads.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        state.version += 1;
        drop(state);
        self.changed.notify_all();
        result
    }

    pub(crate) fn is_over(&self) -> bool {
        self.look(|state| state.is_over)
    }

    /// Waits for so long; whether to go on.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.rest_until(time, |_| false)
    }

    /// Waits for so long, or until this is so; whether to go on.
    pub(crate) fn rest_until(&self, time: Duration, is_so: impl Fn(&State) -> bool) -> bool {
        let waits = |state: &mut State| !state.is_over && !is_so(state);
        let waited = self.changed.wait_timeout_while(self.lock(), time, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Waits until something is newer than this version, at most for so long.
    pub(crate) fn wait_for_change(&self, version: u64, time: Duration) {
        let is_same = |state: &mut State| state.version == version && !state.is_over;
        drop(self.changed.wait_timeout_while(self.lock(), time, is_same));
    }

    /// Tells the node something.
    pub(crate) fn tell(&self, event: Event) {
        let sink = self.outlet.lock().unwrap_or_else(PoisonError::into_inner).sink.clone();
        sink(event);
    }

    /// Tells the node what is known of adoptions, unless it knows as much.
    pub(crate) fn tell_adoptions(&self, view: &View) {
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        if outlet.adoptions.is_none_or(|newest| newest < view.revision) {
            outlet.adoptions = Some(view.revision);
            let known =
                KnownAdoptions { revision: view.revision, adoptions: view.adoptions.clone() };
            (outlet.sink)(Event::Adoptions(known));
        }
    }

    /// Until which revision the node was told what is known of adoptions.
    pub(crate) fn adoptions_told(&self) -> i64 {
        let outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        outlet.adoptions.unwrap_or(0)
    }

    /// Tells the node a map, unless it has it or a newer one.
    pub(crate) fn tell_map(&self, map: &Arc<Map>) {
        self.tell_map_if(map, |newest| newest < map.epoch());
    }

    /// Tells the node the map that it is to go on with after its lease was lost, also when it has
    /// it.
    pub(crate) fn tell_map_again(&self, map: &Arc<Map>) {
        self.tell_map_if(map, |newest| newest <= map.epoch());
    }

    fn tell_map_if(&self, map: &Arc<Map>, is_news: impl FnOnce(Epoch) -> bool) {
        // The order of the maps is what this lock guards, so the sink is called inside.
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        if outlet.newest.is_none_or(is_news) {
            outlet.newest = Some(map.epoch());
            (outlet.sink)(Event::Map(map.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}
