//! Programs that subscribed to what happens in the pool.
//!
//! The core never waits for a program: what one does not take is counted, and nothing more is put
//! into its channel until its connection has taken that count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use plasmon_proto::pool_notice::{NamesFilter, PoolNotice};

/// What waits for one program.
const QUEUED_MAX: usize = 4096;

/// The number of notices that were lost is not known.
const UNKNOWN: u64 = u64::MAX;

/// What a program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What happens from now on is told.
    Subscribed,
    /// Something happened.
    Notice(PoolNotice),
    /// Notices were lost at this point, and how many is not known.
    Gap,
}

/// The core's end.
#[derive(Debug)]
pub(super) struct Subscriber {
    number: u64,
    filter: NamesFilter,
    sender: SyncSender<Heard>,
    lost: Arc<AtomicU64>,
    /// Whether it is told what happens: before that, nothing is said for certain.
    is_told: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Subscribers(BTreeMap<u64, Subscriber>);

impl Subscriber {
    /// The core's end of a subscription, what it puts in, and how many notices were lost.
    pub(super) fn new(number: u64, filter: NamesFilter) -> (Self, Receiver<Heard>, Arc<AtomicU64>) {
        let (sender, receiver) = sync_channel(QUEUED_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        (Self { number, filter, sender, lost: lost.clone(), is_told: false }, receiver, lost)
    }

    /// Tells something that counts as so many notices if it is lost.
    fn hear(&self, heard: Heard, count: u64) {
        let has_lost = self.lost.load(Ordering::Acquire) > 0;
        if has_lost || self.sender.try_send(heard).is_err() {
            self.lose(count);
        }
    }

    fn lose(&self, count: u64) {
        let add = |lost: u64| Some(lost.saturating_add(count));
        // It cannot fail: the function gives a value.
        let _ = self.lost.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }
}

impl Subscribers {
    pub(super) fn insert(&mut self, subscriber: Subscriber) -> u64 {
        let number = subscriber.number;
        self.0.insert(number, subscriber);
        number
    }

    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.0.remove(&number).is_some()
    }

    /// A program hears of everything from now on.
    pub(super) fn subscribed(&mut self, number: u64) {
        if let Some(subscriber) = self.0.get_mut(&number) {
            subscriber.is_told = true;
            subscriber.hear(Heard::Subscribed, 0);
        }
    }

    pub(super) fn notice(&self, notice: &PoolNotice) {
        let is_told = |one: &&Subscriber| one.is_told && one.filter.matches(&notice.name);
        for subscriber in self.0.values().filter(is_told) {
            subscriber.hear(Heard::Notice(notice.clone()), 1);
        }
    }

    /// Notices were lost, and how many is not known.
    pub(super) fn lost(&self) {
        let told = self.0.values().filter(|one| one.is_told);
        told.for_each(|subscriber| subscriber.hear(Heard::Gap, UNKNOWN));
    }
}
