//! A program's end of a subscription to what happens in the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use plasmon_proto::pool_notice::NamesFilter;

use super::inbox::{Inbox, Incoming};
use super::subscribers::{Heard, Subscriber};

/// Programs that subscribe at one time; the others of the connections are for questions.
pub(super) const SUBSCRIPTIONS_MAX: usize = 24;

/// How many programs have subscribed, and the number of the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    open: Arc<AtomicUsize>,
    next: Arc<AtomicU64>,
}

/// A program's end of a subscription, which ends with it.
#[derive(Debug)]
pub struct PoolSubscription {
    number: u64,
    inbox: Inbox,
    receiver: Receiver<Heard>,
    lost: Arc<AtomicU64>,
    open: Arc<AtomicUsize>,
}

impl PoolSubscription {
    /// Asks the core, which ends the channel if it cannot. `None` when there are too many.
    pub(super) fn begin(numbers: &Numbers, inbox: Inbox, filter: NamesFilter) -> Option<Self> {
        let one_more = |open: usize| (open < SUBSCRIPTIONS_MAX).then_some(open + 1);
        let Numbers { open, next } = numbers.clone();
        open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (subscriber, receiver, lost) = Subscriber::new(number, filter);
        inbox.put(Incoming::Subscribe(subscriber));
        Some(Self { number, inbox, receiver, lost, open })
    }

    /// What is told next, within a time; `Err` when nothing comes any more.
    pub fn next(&self, time: Duration) -> Result<Option<Heard>, Ended> {
        match self.receiver.recv_timeout(time) {
            Ok(heard) => Ok(Some(heard)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    /// What is there already. `Err` says that nothing is, and how many notices were lost after the
    /// last that was.
    pub fn next_queued(&self) -> Result<Heard, u64> {
        match self.receiver.try_recv() {
            Ok(heard) => Ok(heard),
            // Pairs with the AcqRel in `Subscriber::lose`: what was put in before is taken first.
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                let lost = self.lost.load(Ordering::Acquire);
                match self.receiver.try_recv() {
                    Ok(heard) => Ok(heard),
                    Err(_) if lost == 0 => Err(0),
                    Err(_) => Err(self.lost.swap(0, Ordering::AcqRel)),
                }
            }
        }
    }
}

impl Drop for PoolSubscription {
    fn drop(&mut self) {
        self.inbox.put(Incoming::Unsubscribe(self.number));
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The node has ended, or does not take part in the pool yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;
