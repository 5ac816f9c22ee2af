//! A store in a few maps: a double of `plasmond` for nodes that run in one process, with clients
//! that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use plasmon_cluster::Slot;
use plasmon_pool::event::{Class, Description};
use plasmon_pool::{Birth, Call, Content, Fate, Refusal, Ticket, Told};
use plasmon_poold::core::Inbox;
use plasmon_poold::memory::{BoxedLanding, Landing, SharedSource, Source};
use plasmon_poold::store::{AllocationRequest, LandingRequest, SealOptions, Store, StoreEvent};
use plasmon_proto::pool_listing::{ListQuery, ListedObject, ListedPage};
use plasmon_proto::{Code, Name, ObjectId};
use plasmon_testkit::TEST_TIMEOUT;

/// Objects in a page of a listing.
const PAGE: usize = 5;

/// A copy.
#[derive(Clone, Debug)]
struct Object {
    birth: Birth,
    bytes: Arc<Vec<u8>>,
    visible: bool,
    keep: bool,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectId, Object>,
    landings: BTreeMap<Ticket, LandingRequest>,
    committed: BTreeMap<(ObjectId, u64), Result<(), Refusal>>,
    sought: BTreeMap<ObjectId, (u64, Fate)>,
    deleted: BTreeMap<ObjectId, u64>,
    undeleted: BTreeSet<u64>,
    regions: BTreeMap<ObjectId, AllocationRequest>,
    /// Memory that a region may have.
    region_bytes_max: Option<u64>,
    /// Sealed regions whose acceptance is waited for.
    settling: BTreeSet<ObjectId>,
    /// Copies that are the first to go.
    demoted: BTreeSet<ObjectId>,
    /// Whether the store cannot say what it has.
    is_silent: bool,
    next: u64,
}

/// The store of one node, as its clients have it.
#[derive(Clone)]
pub(crate) struct Double {
    state: Arc<(Mutex<State>, Condvar)>,
    inbox: Inbox,
    boot: u64,
}

struct SourceBytes(Arc<Vec<u8>>);

impl Source for SourceBytes {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        &self.0[offset as usize..][..bytes]
    }
}

/// Bytes that are in a file, as it were.
struct Spilled(Arc<Vec<u8>>);

impl Source for Spilled {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn part(&self, _: u64, _: usize) -> &[u8] {
        &[]
    }

    fn gather(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) -> bool {
        into.clear();
        let piece = self.0.get(offset as usize..).and_then(|from| from.get(..bytes));
        into.extend_from_slice(piece.unwrap_or_default());
        into.len() == bytes
    }

    fn is_in_memory(&self) -> bool {
        false
    }
}

struct LandingBytes(Vec<u8>, BTreeSet<u32>);

impl Landing for LandingBytes {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn arrived(&mut self) -> &mut BTreeSet<u32> {
        &mut self.1
    }
}

impl Double {
    pub(crate) fn new(inbox: Inbox, boot: u64) -> Self {
        Self { state: Arc::default(), inbox, boot }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }

    fn call(&self, call: Call) {
        self.inbox.say(StoreEvent::Call(call));
    }

    fn number(&self) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        state.next
    }

    /// Waits until the state gives an answer.
    fn wait<T>(&self, what: &str, mut answer: impl FnMut(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut state = self.lock();
        loop {
            if let Some(answer) = answer(&state) {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited too long for {what}: {state:?}");
            state = self.state.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// A client puts an object into the pool, and waits for it to be there.
    pub(crate) fn put(
        &self,
        (id, slot): (ObjectId, Slot),
        bytes: Vec<u8>,
        copies: u8,
    ) -> Result<(), Refusal> {
        let serial = self.number();
        let birth = Birth { slot, boot: self.boot, serial };
        let content = Content { data_bytes: bytes.len() as u64, ..Content::default() };
        let object = Object { birth, bytes: Arc::new(bytes), visible: false, keep: true };
        {
            let mut state = self.lock();
            assert!(!state.objects.contains_key(&id), "a test puts an object that is here");
            state.objects.insert(id, object);
        }
        self.call(Call::Commit { id, serial, content, copies, copies_min: 1 });
        self.wait("a commit", |state| state.committed.get(&(id, serial)).copied())
    }

    /// A client gets an object, wherever it is.
    pub(crate) fn get(&self, id: ObjectId) -> Result<Arc<Vec<u8>>, Fate> {
        if let Some(object) = self.lock().objects.get(&id).filter(|object| object.visible) {
            return Ok(object.bytes.clone());
        }
        let number = self.number();
        self.call(Call::Seek { id, number, class: Class::Get });
        let found = self.wait("a get", |state| {
            let object = state.objects.get(&id).filter(|object| object.visible);
            let fate = state.sought.get(&id).filter(|(answered, _)| *answered >= number);
            let object = object.map(|object| Ok(object.bytes.clone()));
            object.or(fate.map(|(_, fate)| Err(*fate)))
        });
        self.call(Call::Unseek(id));
        found
    }

    /// A client deletes an object.
    pub(crate) fn delete(&self, id: ObjectId) -> bool {
        let number = self.number();
        self.call(Call::Delete { id, number });
        self.wait("a delete", |state| {
            let is_deleted = state.deleted.get(&id).is_some_and(|answered| *answered >= number);
            let is_not = state.undeleted.contains(&number);
            (is_deleted || is_not).then_some(is_deleted)
        })
    }

    /// Whether the store cannot say what it has.
    pub(crate) fn set_silent(&self, is_silent: bool) {
        self.lock().is_silent = is_silent;
    }

    /// Regions are refused that are larger.
    #[allow(dead_code, reason = "a fuzz target has it")]
    pub(crate) fn limit_regions(&self, bytes: u64) {
        self.lock().region_bytes_max = Some(bytes);
    }

    /// How many regions are under construction here.
    #[allow(dead_code, reason = "a fuzz target has it")]
    pub(crate) fn regions(&self) -> usize {
        self.lock().regions.len()
    }

    /// Whether there is a copy that is never evicted.
    pub(crate) fn keeps(&self, id: ObjectId) -> bool {
        self.lock().objects.get(&id).is_some_and(|object| object.keep && object.visible)
    }

    /// Whether the node was told that this is not needed.
    pub(crate) fn is_demoted(&self, id: ObjectId) -> bool {
        self.lock().demoted.contains(&id)
    }

    /// Whether there is a copy that clients see.
    pub(crate) fn has(&self, id: ObjectId) -> bool {
        self.lock().objects.get(&id).is_some_and(|object| object.visible)
    }

    /// Waits until there is a copy that is never evicted.
    pub(crate) fn wait_until_kept(&self, id: ObjectId) {
        let keeps = |object: &&Object| object.keep && object.visible;
        self.wait("a copy to be kept", |state| state.objects.get(&id).filter(keeps).map(drop));
    }

    /// The bytes of a local object with parts, which is taken.
    pub(crate) fn take_parts(&self, id: ObjectId) -> Arc<Vec<u8>> {
        assert!(!id.is_pooled());
        self.lock().objects.remove(&id).unwrap().bytes
    }

    /// How many local objects with parts there are.
    pub(crate) fn parts(&self) -> usize {
        self.lock().objects.keys().filter(|id| !id.is_pooled()).count()
    }

    /// Waits until there is no copy of it.
    pub(crate) fn wait_until_gone(&self, id: ObjectId) {
        self.wait("a copy to be gone", |state| (!state.objects.contains_key(&id)).then_some(()));
    }
}

impl Store for Double {
    fn begin(&mut self, _: Slot) {
        self.inbox.say(StoreEvent::Ready);
    }

    fn flush(&mut self) {}

    fn tell(&mut self, told: Told) {
        let mut calls = Vec::new();
        let mut state = self.lock();
        match told {
            Told::Sought { id, number, fate } => _ = state.sought.insert(id, (number, fate)),
            Told::Committed { id, serial, result } => {
                let object = state.objects.get_mut(&id);
                if let Some(object) = object.filter(|object| object.birth.serial == serial) {
                    object.visible = true;
                    let birth = object.birth;
                    if result.is_err() {
                        state.objects.remove(&id);
                        calls.push(Call::Ended { id, birth });
                    }
                }
                state.committed.insert((id, serial), result);
                if state.settling.remove(&id) {
                    let result = result.map_err(|_| Code::NotEnoughNodes);
                    let is_sealed = result.is_ok();
                    self.inbox.say(StoreEvent::RegionSealed { id, is_sealed, result });
                }
            }
            Told::Deleted { id, number } => _ = state.deleted.insert(id, number),
            Told::DeleteUnreachable { number, .. } => _ = state.undeleted.insert(number),
            Told::Drop { id, birth } => {
                if state.objects.get(&id).is_some_and(|object| object.birth == birth) {
                    state.objects.remove(&id);
                }
                calls.push(Call::Ended { id, birth });
            }
            Told::Publish { id, birth } => {
                let object = state.objects.get_mut(&id);
                if let Some(object) = object.filter(|object| object.birth == birth) {
                    object.visible = true;
                }
            }
            Told::Keep { id, birth } => {
                let object = state.objects.get_mut(&id);
                if let Some(object) = object.filter(|object| object.birth == birth) {
                    object.keep = true;
                    calls.push(Call::Kept { id, birth });
                }
            }
            Told::Release { id, birth } => {
                let object = state.objects.get_mut(&id);
                if let Some(object) = object.filter(|object| object.birth == birth) {
                    object.keep = false;
                }
            }
            Told::Look { id, number } => calls.push(Call::Looked { id, number }),
            // This store has no log.
            Told::Log { id, birth } => calls.push(Call::NotLogged { id, birth, is_full: false }),
            Told::Vouch { .. }
            | Told::Verified { .. }
            | Told::Exists { .. }
            | Told::Found { .. }
            | Told::AddTombstone { .. }
            | Told::Discard { .. }
            | Told::Relog { .. }
            | Told::RemoveTombstone { .. } => {}
        }
        drop(state);
        self.state.1.notify_all();
        calls.into_iter().for_each(|call| self.call(call));
    }

    fn land(&mut self, request: LandingRequest) {
        let mut state = self.lock();
        let has_room = !state.objects.contains_key(&request.id);
        if has_room {
            state.landings.insert(request.ticket, request);
        }
        drop(state);
        let memory = vec![0; request.content.bytes() as usize];
        let memory =
            has_room.then(|| Box::new(LandingBytes(memory, BTreeSet::new())) as BoxedLanding);
        self.inbox.say(StoreEvent::Landed(request.ticket, memory));
    }

    fn seal(&mut self, ticket: Ticket, mut landing: BoxedLanding, options: SealOptions) {
        let bytes = Arc::new(landing.bytes().to_vec());
        let mut state = self.lock();
        let landing = state.landings.remove(&ticket);
        if let Some(LandingRequest { id, birth, .. }) = landing {
            let SealOptions { visible, keep } = options;
            state.objects.insert(id, Object { birth, bytes, visible, keep });
        }
        drop(state);
        if let Some(LandingRequest { id, birth, .. }) = landing {
            self.inbox.say(match id.is_pooled() {
                true => StoreEvent::CopySealed(id, birth),
                false => StoreEvent::Sealed(id, true),
            });
        }
        self.state.1.notify_all();
    }

    fn abandon(&mut self, ticket: Ticket, _: BoxedLanding) {
        self.lock().landings.remove(&ticket);
    }

    fn delete(&mut self, ids: Vec<ObjectId>) {
        let mut state = self.lock();
        ids.iter().for_each(|id| _ = state.objects.remove(id));
        drop(state);
        self.state.1.notify_all();
    }

    fn demote(&mut self, ids: Vec<ObjectId>) {
        self.lock().demoted.extend(ids);
        self.state.1.notify_all();
    }

    fn allocate(&mut self, request: AllocationRequest) {
        let AllocationRequest { id, bytes, .. } = request;
        let mut state = self.lock();
        if state.region_bytes_max.is_some_and(|max| bytes > max) {
            return self.inbox.say(StoreEvent::Allocated(id, Err(Code::StoreFull)));
        }
        state.regions.insert(id, request);
        drop(state);
        let memory = vec![0; bytes as usize];
        let memory: BoxedLanding = Box::new(LandingBytes(memory, BTreeSet::new()));
        self.inbox.say(StoreEvent::Allocated(id, Ok(memory)));
    }

    fn seal_region(&mut self, id: ObjectId, mut memory: BoxedLanding, settles: bool) {
        let bytes = Arc::new(memory.bytes().to_vec());
        let content = Content { data_bytes: bytes.len() as u64, ..Content::default() };
        let slot = Slot(id.home().unwrap());
        let birth = Birth { slot, boot: self.boot, serial: 0 };
        let mut state = self.lock();
        let AllocationRequest { copies, copies_min, .. } = state.regions.remove(&id).unwrap();
        state.objects.insert(id, Object { birth, bytes, visible: true, keep: true });
        if settles {
            state.settling.insert(id);
        }
        drop(state);
        self.state.1.notify_all();
        self.call(Call::CommitKept { id, serial: 0, content, copies, copies_min });
        if !settles {
            let sealed = StoreEvent::RegionSealed { id, is_sealed: true, result: Ok(()) };
            self.inbox.say(sealed);
        }
    }

    fn end_region(&mut self, id: ObjectId, _: BoxedLanding) {
        self.lock().regions.remove(&id).unwrap();
    }

    fn open(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        let state = self.lock();
        let object = state.objects.get(id).filter(|object| object.birth == birth);
        let source =
            object.map(|object| Arc::new(SourceBytes(object.bytes.clone())) as SharedSource);
        drop(state);
        self.inbox.say(StoreEvent::Opened(number, source));
    }

    /// Those with odd numbers are spilled.
    fn open_in_place(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        if id.as_bytes()[0].is_multiple_of(2) {
            return self.open(number, id, birth);
        }
        let state = self.lock();
        let object = state.objects.get(id).filter(|object| object.birth == birth);
        let source = object.map(|object| Arc::new(Spilled(object.bytes.clone())) as SharedSource);
        drop(state);
        self.inbox.say(StoreEvent::Opened(number, source));
    }

    fn describe(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        let state = self.lock();
        let object = state.objects.get(id).filter(|object| object.birth == birth);
        let found = object.map(|object| Description {
            name: Name { namespace: "all".to_owned(), text: id.to_string() },
            data_bytes: object.bytes.len() as u64,
            metadata_bytes: 0,
        });
        drop(state);
        self.inbox.say(StoreEvent::Described(number, found));
    }

    fn list(&mut self, number: u64, query: ListQuery) {
        let state = self.lock();
        let after = |id: &&ObjectId| Some(**id) > query.after;
        let listed = |(id, object): (&ObjectId, &Object)| ListedObject {
            id: *id,
            text: id.to_string(),
            data_bytes: object.bytes.len() as u64,
            metadata_bytes: 0,
            tag: 0,
            created_ms: 0,
            copies: object.keep.into(),
        };
        let found = state.objects.iter().filter(|(id, object)| after(id) && object.visible);
        let found = found.map(listed);
        let mut objects: Vec<_> = found.take(PAGE + 1).collect();
        let is_last = objects.len() <= PAGE;
        objects.truncate(PAGE);
        let next = objects.last().map(|object| object.id).filter(|_| !is_last);
        let page = (!state.is_silent).then_some(ListedPage { objects, next });
        drop(state);
        self.inbox.say(StoreEvent::Listed(number, page));
    }
}

/// Waits a little for something that other threads do.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let (lock, never) = (Mutex::new(()), Condvar::new());
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        drop(never.wait_timeout(lock.lock().unwrap(), Duration::from_millis(5)).unwrap());
    }
}
