//! One thread of a worker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plasmon_client::{
    Buffer, Client, Code, Error, Filter, Notification, ObjectId, ObjectState, Policy, PutOptions,
    Result, Subscription,
};
use plasmon_testkit::Random;

use crate::content::{self, Kind, Origin};
use crate::journal::Entry;

/// The thread deletes its oldest objects beyond this.
const OWN_BYTES_MAX: usize = 2 << 20;
/// Small objects have up to this many bytes.
const SMALL_BYTES_MAX: u64 = 16 << 10;
/// A large object has its own extent.
const LARGE_BYTES: u32 = (16 << 20) + 4096;
/// Objects put in one go.
const BATCH_MAX: u64 = 24;
/// How many in a hundred single puts the kernel itself makes immutable.
const STRICT_PERCENT: u64 = 5;
/// Buffers held at once.
const HELD_MAX: usize = 24;
/// Others' objects remembered.
const OTHERS_MAX: usize = 512;
/// Notices taken in one go.
const NOTICES_MAX: usize = 64;
/// Reads between two reports of how many there were.
const REPORT_EVERY: u64 = 256;
/// For how long a get waits for an object that must be there.
const MUST_BE_THERE: Duration = Duration::from_secs(10);

/// One thread and what it knows.
pub(super) struct Hand {
    store: Client,
    random: Random,
    origin: Origin,
    counter: u64,
    own: VecDeque<ObjectId>,
    others: Vec<ObjectId>,
    held: Vec<Buffer>,
    subscription: Option<Subscription>,
    verified: u64,
}

impl Hand {
    pub(super) fn new(store: Client, origin: Origin, random: Random) -> Self {
        Self {
            store,
            random,
            origin,
            counter: 0,
            own: VecDeque::new(),
            others: Vec::new(),
            held: Vec::new(),
            subscription: None,
            verified: 0,
        }
    }

    /// Does random things until it is told to stop.
    pub(super) fn work(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.step();
            while self.own.iter().map(content::bytes).sum::<usize>() > OWN_BYTES_MAX {
                self.delete_oldest(false);
            }
        }
        while let Some(buffer) = self.held.pop() {
            self.compare(&buffer);
        }
        self.report();
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..20 => self.put(Kind::Plain),
            20..24 => self.put(Kind::Cache),
            24..32 => self.put_batch(),
            32..42 => self.create(),
            42..47 => self.abort(),
            47..69 => self.get_own(),
            69..81 => self.get_other(),
            81..85 => self.wait(),
            85..90 => self.let_go(),
            90..94 => self.delete_oldest(false),
            94..96 => self.delete_oldest(true),
            96..97 => self.look_around(),
            97..99 => self.take_notices(),
            _ => self.put_large(),
        }
    }

    fn new_id(&mut self, bytes: u32, kind: Kind) -> ObjectId {
        self.counter += 1;
        content::id(self.origin, self.counter, bytes, kind)
    }

    fn small_id(&mut self, kind: Kind) -> ObjectId {
        let bytes = self.random.below(SMALL_BYTES_MAX) as u32;
        self.new_id(bytes, kind)
    }

    fn options(id: &ObjectId) -> PutOptions {
        let policy = if content::is_cache(id) { Policy::Cache } else { Policy::Keep };
        PutOptions {
            id: Some(*id),
            metadata: content::metadata(id).to_vec(),
            policy,
            ..PutOptions::default()
        }
    }

    fn put(&mut self, kind: Kind) {
        let id = self.small_id(kind);
        let strict = self.random.percent(STRICT_PERCENT);
        Entry::Putting(id).report();
        let options = PutOptions { strict, ..Self::options(&id) };
        let outcome = self.store.put(&content::data(&id), &options);
        self.settle(id, outcome);
    }

    /// What a put, a seal or a flush said about an object of this thread.
    fn settle<T>(&mut self, id: ObjectId, outcome: Result<T>) {
        match outcome {
            Ok(_) => {
                Entry::Sealed(id).report();
                self.own.push_back(id);
            }
            // Not acknowledged: the verifier knows that it may be there. `Exists` is the answer to
            // a put that was applied just before the daemon was killed and then asked again.
            Err(error) => refused(&error, &[Code::StoreFull, Code::Exists]),
        }
    }

    /// Objects that are announced through the ring one after the other, and acknowledged together.
    fn put_batch(&mut self) {
        let count = 1 + self.random.below(BATCH_MAX);
        let ids: Vec<ObjectId> = (0..count).map(|_| self.small_id(Kind::Bare)).collect();
        for id in &ids {
            Entry::Putting(*id).report();
        }
        let data: Vec<Vec<u8>> = ids.iter().map(content::data).collect();
        let objects: Vec<(Option<ObjectId>, &[u8])> =
            ids.iter().zip(&data).map(|(id, data)| (Some(*id), data.as_slice())).collect();
        let outcome = self.store.put_many(&objects, &PutOptions::default());
        match outcome.and_then(|_| self.store.flush()) {
            Ok(()) => ids.into_iter().for_each(|id| self.settle(id, Ok(()))),
            Err(error) => refused(&error, &[Code::StoreFull, Code::Exists]),
        }
    }

    fn create(&mut self) {
        let id = self.small_id(Kind::Plain);
        Entry::Putting(id).report();
        let outcome = self.write(&id).and_then(|writer| writer.seal());
        self.settle(id, outcome);
    }

    fn write(&self, id: &ObjectId) -> Result<plasmon_client::Writer> {
        let mut writer = self.store.create(content::bytes(id) as u64, &Self::options(id))?;
        content::fill(id, &mut writer);
        Ok(writer)
    }

    /// An object that may never be seen: the verifier is not told of it.
    fn abort(&mut self) {
        let id = self.small_id(Kind::Plain);
        let by_hand = self.random.percent(50);
        let outcome = self.write(&id).and_then(|writer| {
            if by_hand {
                return writer.abort();
            }
            drop(writer);
            Ok(())
        });
        if let Err(error) = outcome {
            refused(&error, &[Code::StoreFull, Code::Absent]);
        }
    }

    fn put_large(&mut self) {
        if !self.random.percent(10) {
            return;
        }
        let id = self.new_id(LARGE_BYTES, Kind::Plain);
        Entry::Putting(id).report();
        let outcome = self.store.put(&content::data(&id), &Self::options(&id));
        self.settle(id, outcome);
    }

    fn get_own(&mut self) {
        let Some(at) = self.random.index(self.own.len()) else { return };
        let id = self.own[at];
        match self.store.get(&id, Some(MUST_BE_THERE)) {
            Ok(buffer) => self.keep_for_a_while(buffer),
            // A daemon that was killed has forgotten what it had evicted.
            Err(error)
                if content::is_cache(&id)
                    && [Code::Evicted, Code::TimedOut].contains(&error.code()) => {}
            // Its file cannot be read for now; the verifier knows whether it took the folder away.
            Err(error) if error.code() == Code::Io => refused(&error, &[Code::Io]),
            Err(error) => Entry::Violation(format!("own object: {error}")).report(),
        }
    }

    fn get_other(&mut self) {
        let Some(at) = self.random.index(self.others.len()) else { return };
        let id = self.others[at];
        let timeout = Duration::from_millis(self.random.below(3));
        match self.store.get(&id, Some(timeout)) {
            Ok(buffer) => self.keep_for_a_while(buffer),
            Err(error) => {
                self.others.swap_remove(at);
                let ends = [Code::Absent, Code::Deleted, Code::Evicted, Code::CreatorDied];
                if !ends.contains(&error.code()) {
                    refused(&error, &[Code::TimedOut, Code::NotSealed, Code::StoreFull, Code::Io]);
                }
            }
        }
    }

    /// Waits for objects that are there and one that will never be.
    fn wait(&mut self) {
        let never = content::id(self.origin, u64::MAX, 1, Kind::Plain);
        let mut ids: Vec<ObjectId> = self.own.iter().take(4).copied().collect();
        ids.push(never);
        match self.store.wait(&ids, ids.len(), Some(Duration::from_millis(1))) {
            Ok(states) if states.len() == ids.len() => {
                if states.last() != Some(&ObjectState::Absent) {
                    Entry::Violation(format!("what never was is {states:?}")).report();
                }
            }
            Ok(states) => Entry::Violation(format!("{} states", states.len())).report(),
            Err(error) => refused(&error, &[Code::TimedOut]),
        }
    }

    fn keep_for_a_while(&mut self, buffer: Buffer) {
        self.compare(&buffer);
        if self.random.percent(30) {
            self.held.push(buffer);
        }
        if self.held.len() > HELD_MAX {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        let Some(at) = self.random.index(self.held.len()) else { return };
        let buffer = self.held.swap_remove(at);
        self.compare(&buffer);
    }

    fn compare(&mut self, buffer: &Buffer) {
        let id = buffer.id();
        if !content::matches(&id, buffer.data(), buffer.metadata()) {
            let length = buffer.data().len();
            Entry::Violation(format!("object {id} has other bytes ({length} of them)")).report();
        }
        self.verified += 1;
        if self.verified >= REPORT_EVERY {
            self.report();
        }
    }

    fn report(&mut self) {
        Entry::Verified(std::mem::take(&mut self.verified)).report();
    }

    fn delete_oldest(&mut self, through_ring: bool) {
        let Some(id) = self.own.pop_front() else { return };
        Entry::Deleting(id).report();
        let outcome = if through_ring {
            self.store.delete_soon(&id).and_then(|()| self.store.flush())
        } else {
            self.store.delete(&[id]).and_then(|codes| match codes.as_slice() {
                [None] => Ok(()),
                [Some(code)] => Err(Error::new(*code, "deleting object").with_id(id)),
                _ => Err(Error::new(Code::BadRequest, "counting the answers to a delete")),
            })
        };
        // Gone already: evicted, or deleted just before the daemon was killed and then asked again.
        let gone = [Code::Absent, Code::Deleted, Code::Evicted];
        match outcome {
            Ok(()) => Entry::Deleted(id).report(),
            Err(error) if gone.contains(&error.code()) => Entry::Deleted(id).report(),
            Err(error) => refused(&error, &[]),
        }
    }

    fn look_around(&mut self) {
        match self.store.list(&Filter::default()) {
            Ok(listed) => {
                self.others = listed.into_iter().map(|info| info.id).take(OTHERS_MAX).collect();
            }
            Err(error) => refused(&error, &[]),
        }
    }

    fn take_notices(&mut self) {
        if self.subscription.is_none() {
            match self.store.subscribe(&Filter::default()) {
                Ok(subscription) => self.subscription = Some(subscription),
                Err(error) => return refused(&error, &[]),
            }
        }
        let Some(subscription) = self.subscription.as_mut() else { return };
        for _ in 0..NOTICES_MAX {
            match subscription.next(Some(Duration::ZERO)) {
                Ok(Some(Notification::Notice(notice))) => {
                    let sealed = notice.state == ObjectState::Sealed;
                    if sealed && self.others.len() < OTHERS_MAX {
                        self.others.push(notice.id);
                    }
                }
                Ok(Some(Notification::Lost(_))) => {}
                Ok(None) => return,
                Err(error) => {
                    self.subscription = None;
                    return refused(&error, &[Code::Disconnected, Code::TimedOut]);
                }
            }
        }
    }
}

/// Tells what the store refused; what it may not refuse is a violation.
fn refused(error: &Error, expected: &[Code]) {
    // The other thread deleted an object through the ring that was evicted before, and this one is
    // the first to see it.
    let was_evicted = error.id().is_some_and(|id| content::is_cache(&id))
        && [Code::Absent, Code::Evicted].contains(&error.code());
    if was_evicted || expected.contains(&error.code()) {
        Entry::Refused(format!("{}: {}", error.doing(), error.code().key())).report();
    } else {
        Entry::Violation(format!("unexpected refusal: {error}")).report();
    }
}
