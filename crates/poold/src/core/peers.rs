//! What a node knows of the peers that it may hear or not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plasmon_cluster::suspicion::LOOK_EVERY_MS;
use plasmon_cluster::{Map, Slot, Suspect, Suspicion};

/// What is known of peers that may be reached or not.
#[derive(Debug)]
pub(super) struct Peers {
    /// `None`: this node reports no peer.
    suspicion: Option<Suspicion>,
    /// The newest map that the connections follow.
    pub(super) map: Option<Arc<Map>>,
    /// Nodes that hold a lease and are not live in the map.
    pub(super) waiting: BTreeSet<Slot>,
    /// When to look.
    due: Duration,
    reported: Option<Vec<Suspect>>,
}

impl Peers {
    /// Of a node that reports peers that it has not heard for so long, in milliseconds; 0: none.
    pub(super) fn new(suspect_ms: u64) -> Self {
        let suspicion = (suspect_ms > 0).then(|| Suspicion::new(suspect_ms));
        let (map, waiting, reported) = (None, BTreeSet::new(), None);
        Self { suspicion, map, waiting, due: Duration::ZERO, reported }
    }

    /// When to look, once there are peers.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        (self.suspicion.is_some() && self.map.is_some()).then_some(self.due)
    }

    /// The suspects of a node in this slot, if it is time to look and they are others than before.
    pub(super) fn look(
        &mut self,
        now: Duration,
        own: Slot,
        heard_at: impl Fn(Slot) -> Option<Duration>,
    ) -> Option<Vec<Suspect>> {
        let Self { suspicion, map, waiting, due, reported } = self;
        let (Some(suspicion), Some(map)) = (suspicion, map) else { return None };
        if now < *due {
            return None;
        }
        *due = now.saturating_add(Duration::from_millis(LOOK_EVERY_MS));
        let ms = |at: Duration| at.as_millis() as u64;
        let is_waiting = |slot| waiting.contains(&slot);
        let suspects =
            suspicion.look(ms(now), (map, own), is_waiting, |slot| heard_at(slot).map(ms));
        let is_news = reported.as_ref() != Some(&suspects);
        is_news.then(|| reported.insert(suspects).clone())
    }

    /// The lease is gone: what was heard before says nothing. Whether something was reported.
    pub(super) fn clear(&mut self) -> bool {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.clear();
        }
        let reported = self.reported.as_mut();
        reported.is_some_and(|reported| !std::mem::take(reported).is_empty())
    }
}
