//! The store: its parts, and which event goes where.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::message::{ClientInfo, ExtentId, Failure, Range, Reply, Request, Status};
use plasmon_proto::ring::{Completion, Submission};
use plasmon_proto::{Attributes, Code, ObjectId};

use crate::accounts::Owner;
use crate::adoption::Adoptions;
use crate::clients::Clients;
use crate::config::Config;
use crate::content;
use crate::creating::Creatings;
use crate::deletes::Lingering;
use crate::effect::Effect;
use crate::event::{ClientNo, Event, Ticket};
use crate::jobs::Jobs;
use crate::kept::KeptFiles;
use crate::memory::Memory;
use crate::obituaries::Obituaries;
use crate::opening::Opening;
use crate::ports::Directory;
use crate::rare::Rare;
use crate::records::{LISTED, Records};
use crate::spill::SpillTier;
use crate::unused::Doomed;
use crate::waits::Waits;
use crate::work::{PIECE, Work};

/// The object that a refusal without an object names.
const NO_OBJECT: ObjectId = ObjectId::new([0; 20]);

/// One node's object store.
#[derive(Debug)]
pub struct Store<D> {
    pub(crate) config: Config,
    pub(crate) directory: D,
    pub(crate) now_ms: u64,
    /// The effects of the step that runs.
    pub(crate) out: Vec<Effect>,
    pub(crate) memory: Memory,
    pub(crate) records: Records,
    /// By record number.
    pub(crate) rare: BTreeMap<u32, Box<Rare>>,
    pub(crate) clients: Clients,
    pub(crate) adoptions: Adoptions,
    pub(crate) creatings: Creatings,
    pub(crate) lingering: Lingering,
    pub(crate) doomed: Doomed,
    /// Objects with a time to live: when, which, which incarnation.
    pub(crate) expiries: BTreeSet<(u64, ObjectId, u64)>,
    pub(crate) obituaries: Obituaries,
    pub(crate) waits: Waits,
    pub(crate) tier: SpillTier,
    /// Files of objects that are in memory.
    pub(crate) kept: KeptFiles,
    /// Files that the daemon opens for clients.
    pub(crate) openings: BTreeMap<Ticket, Opening>,
    pub(crate) jobs: Jobs,
    /// Pins that the store counts for clients without a ledger, by serial.
    pub(crate) pins: BTreeMap<u64, u32>,
    /// Members whose composite is gone and which nobody has looked at since.
    pub(crate) unheld: Vec<ObjectId>,
    /// What is free in quarantined extents, as far as their writers hold no lease there.
    pub(crate) in_doubt: BTreeMap<ExtentId, Vec<Range>>,
    /// What goes on with the next event.
    pub(crate) work: Work,
    /// Bytes of data and metadata in memory, of sealed objects and of those being created.
    pub(crate) content_bytes: u64,
    pub(crate) totals: Totals,
    pub(crate) next_serial: u64,
    next_ticket: u64,
}

/// What is counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Visible objects now.
    pub(crate) visible: u64,
    pub(crate) sealed: u64,
    pub(crate) deleted: u64,
    pub(crate) evicted: u64,
    pub(crate) spilled: u64,
    pub(crate) restored: u64,
    /// Bytes of objects written to the tier, and read back from it.
    pub(crate) spill_written_bytes: u64,
    pub(crate) spill_read_bytes: u64,
    pub(crate) expelled: u64,
    /// Whether an earlier daemon left objects, which may be more than the capacity allows.
    pub(crate) recovered: bool,
}

impl<D: Directory> Store<D> {
    /// An empty store over an empty directory. For what an earlier daemon left, [`Self::recover`]
    /// follows.
    pub fn new(config: Config, directory: D) -> Self {
        let memory_bytes = content::memory_bytes(config.capacity_bytes, config.count_content);
        let memory = Memory::new(&config, memory_bytes);
        Self {
            config,
            directory,
            now_ms: 0,
            out: Vec::new(),
            memory,
            records: Records::default(),
            rare: BTreeMap::new(),
            clients: Clients::new(config.client_quota_bytes),
            adoptions: Adoptions::default(),
            creatings: Creatings::default(),
            lingering: Lingering::default(),
            doomed: Doomed::default(),
            expiries: BTreeSet::new(),
            obituaries: Obituaries::default(),
            waits: Waits::default(),
            tier: SpillTier::default(),
            kept: KeptFiles::default(),
            openings: BTreeMap::new(),
            jobs: Jobs::default(),
            pins: BTreeMap::new(),
            unheld: Vec::new(),
            in_doubt: BTreeMap::new(),
            work: Work::default(),
            content_bytes: 0,
            totals: Totals::default(),
            next_serial: config.first_serial.max(1),
            next_ticket: 1,
        }
    }

    /// Applies one event and appends what is to be done. `now_ms` is milliseconds since 1970 by a
    /// clock that never runs backwards.
    #[inline]
    pub fn step(&mut self, now_ms: u64, event: Event, effects: &mut Vec<Effect>) {
        self.now_ms = now_ms.max(self.now_ms);
        self.work.begin_event();
        std::mem::swap(&mut self.out, effects);
        match event {
            // The most frequent by far: told apart here, it need not be moved as an event.
            Event::Submit(client, position, submission, attributes) => {
                self.submit(client, position, submission, attributes);
            }
            event => self.apply(event),
        }
        if !self.unheld.is_empty() && !self.work.collect {
            self.collect_fresh();
        }
        std::mem::swap(&mut self.out, effects);
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit(..) => unreachable!("submissions are told apart before"),
            Event::Touched(record) => {
                if self.records.used(record).is_some_and(|found| found.is(LISTED)) {
                    self.records.touch(record);
                }
            }
            Event::Request(client, request, body) => self.request(client, request, body),
            Event::Seal(client, request, id, attributes) => {
                if self.admits(client, request, true) {
                    self.seal(client, request, id, attributes);
                }
            }
            Event::Connect(client, peer) => {
                self.disconnect(client);
                let owner = Owner::of(&peer, self.config.owner_uid);
                self.clients.connect(client, peer, owner);
            }
            Event::Resume(client, leases, creating) => self.resume(client, &leases, creating),
            Event::Part(client) => self.part(client),
            Event::Disconnect(client) => self.disconnect(client),
            Event::Reserved(ticket, done) => self.reserved(ticket, done),
            Event::Hardened(ticket, done) => self.hardened(ticket, done),
            Event::Unpunched(range) => self.memory.unpunched(range),
            Event::Retained(extent, bytes) => {
                self.memory.retain(extent, bytes);
                self.feed_starving();
            }
            Event::Released(extent) => {
                self.memory.released(extent);
                self.feed_starving();
            }
            Event::Spilled(ticket, done) => self.spilled(ticket, done),
            Event::Restored(ticket, outcome) => self.restored(ticket, outcome),
            Event::Opened(ticket, outcome) => self.opened(ticket, outcome),
            Event::Tick => self.tick(),
        }
    }

    fn tick(&mut self) {
        for _ in 0..PIECE {
            let Some(waiter) = self.waits.overdue(self.now_ms) else { break };
            self.answer_waiter(waiter);
        }
        self.go_on();
        self.expire();
        if self.doomed.is_due(self.now_ms) {
            self.bury_unused(&[]);
        }
        if self.lingering.is_due(self.now_ms) {
            self.collect_lingering();
        }
    }

    /// When the store wants a [`Event::Tick`] at the latest, on the clock of [`Self::step`].
    pub fn next_deadline(&self) -> Option<u64> {
        if self.work.is_due() {
            return Some(self.now_ms);
        }
        let expiry = self.expiries.first().map(|(at_ms, ..)| *at_ms);
        let dues = [self.lingering.due_ms(), self.doomed.due_ms()];
        [self.waits.next_deadline(), expiry].into_iter().chain(dues).flatten().min()
    }

    fn submit(
        &mut self,
        client: ClientNo,
        position: u64,
        submission: Submission,
        attributes: Option<Attributes>,
    ) {
        let Some(found) = self.clients.get(client) else { return };
        let allowed = found.may_write();
        let result = match submission {
            _ if !allowed => Err((Code::NotPermitted, submission_id(&submission))),
            Submission::Put { id, extent, offset, sizes, traits } => {
                let put = crate::puts::Put { id, extent, offset, sizes, traits };
                self.put(client, put, attributes).map_err(|code| (code, id))
            }
            Submission::Announce { id } => self.announce(client, id).map_err(|code| (code, id)),
            Submission::Abort { id } => self.abort(client, &id).map_err(|code| (code, id)),
            Submission::Delete { id } => self.delete_soon(client, &id).map_err(|code| (code, id)),
            Submission::LeaseWanted { bytes_min, bytes_wanted } => {
                let size = crate::leasing::Size { bytes_min, bytes_wanted };
                let answer = crate::leasing::Answer::Ring(position);
                self.lease(client, answer, size);
                Ok(())
            }
            Submission::LeaseReturn(range) => {
                self.return_lease(client, range).map_err(|code| (code, NO_OBJECT))
            }
        };
        if let Err((code, id)) = result {
            self.refuse(client, position, code, id);
        }
    }

    /// Whether the client is there and may do this; answers the request if not.
    fn admits(&mut self, client: ClientNo, request: u64, writes: bool) -> bool {
        match self.clients.get(client) {
            Some(found) if found.may_write() || !writes => true,
            Some(_) => {
                self.fail(client, request, Failure::of(Code::NotPermitted));
                false
            }
            None => false,
        }
    }

    fn request(&mut self, client: ClientNo, request: u64, body: Request) {
        let writes = matches!(
            body,
            Request::Lease { .. }
                | Request::Create { .. }
                | Request::Seal { .. }
                | Request::Abort { .. }
                | Request::Delete { .. }
                | Request::DeleteUnused { .. }
                | Request::Evict { .. }
                | Request::Quota { .. }
                | Request::Share { .. }
                | Request::Adopt { .. }
                | Request::CreateGrowing { .. }
                | Request::Grow { .. }
                | Request::SealGrown { .. }
        );
        if !self.admits(client, request, writes) {
            return;
        }
        self.bury_unused_of(&body);
        let reply = match body {
            Request::Lease { bytes_min, bytes_wanted } => {
                let size = crate::leasing::Size { bytes_min, bytes_wanted };
                return self.lease(client, crate::leasing::Answer::Socket(request), size);
            }
            Request::Create { id, sizes, traits, strict } => {
                let wanted = crate::creating::Wanted { id, sizes, traits, strict };
                return self.create(client, request, wanted);
            }
            Request::CreateGrowing { id, traits, bytes, open_ended } => {
                let beginning = crate::growing::Beginning { id, traits, bytes, open_ended };
                return self.create_growing(client, request, beginning);
            }
            Request::Grow { id, bytes } => return self.grow(client, request, id, bytes),
            Request::SealGrown { id, data } => return self.seal_grown(client, request, id, data),
            Request::Seal { id } => {
                let plain = self.creating(client, &id).is_none_or(|(_, it)| it.attributes == 0);
                return self.seal(client, request, id, plain.then(Attributes::default));
            }
            Request::Get { ids } => return self.get(client, request, ids),
            Request::OpenSpilled { id } => return self.open_spilled(client, request, id),
            Request::Wait { ids, count, timeout_ms, beyond_end } => {
                let until = crate::waiting::Until { count, timeout_ms, beyond_end };
                return self.wait(client, request, ids, until);
            }
            Request::Abort { id } => self
                .abort(client, &id)
                .map(|()| Reply::Done)
                .map_err(|code| Failure::of(code).with_id(id)),
            Request::Delete { ids } => self.delete(client, &ids),
            Request::DeleteUnused { ids } => self.delete_unused(&ids),
            Request::Evict { bytes } => return self.evict_on_request(client, request, bytes),
            Request::Quota { bytes } => Ok(self.set_quota(client, bytes)),
            Request::Share { bytes } => self.set_share(client, bytes),
            Request::Adopt { namespace, bytes_max } => self.adopt(client, namespace, bytes_max),
            other => self.question(client, other),
        };
        self.reply(client, request, reply.unwrap_or_else(Reply::Failed));
    }

    fn question(&mut self, client: ClientNo, body: Request) -> Result<Reply, Failure> {
        match body {
            Request::Release { serials } => self.release(client, &serials),
            Request::Cancel { request } => Ok(self.cancel(client, request)),
            Request::States { ids } => self.states(&ids),
            Request::Stat { id } => Ok(Reply::Info(self.stat(&id))),
            Request::List { filter, cursor, limit } => self.list(&filter, cursor, limit),
            Request::Touch { ids } => self.touch(&ids),
            Request::Subscribe { filter } => {
                self.clients.subscribe(client, Some(filter));
                Ok(Reply::Done)
            }
            Request::Unsubscribe => {
                self.clients.subscribe(client, None);
                Ok(Reply::Done)
            }
            Request::Status => {
                let mut status = Status::default();
                self.status_into(&mut status);
                Ok(Reply::Status(Box::new(status)))
            }
            _ => Err(Failure::of(Code::BadRequest).with_detail("not a question to the store")),
        }
    }

    fn set_quota(&mut self, client: ClientNo, bytes: u64) -> Reply {
        // A client may tighten the quota that the store's owner gave it, not loosen it.
        let most = self.config.client_quota_bytes;
        let bytes = match (bytes, most) {
            (bytes, 0) => bytes,
            (0, most) => most,
            (bytes, most) => bytes.min(most),
        };
        if let Some(found) = self.clients.get_mut(client) {
            found.quota_bytes = bytes;
        }
        Reply::Done
    }

    pub(crate) fn reply(&mut self, client: ClientNo, request: u64, reply: Reply) {
        self.out.push(Effect::Reply(client, request, reply));
    }

    pub(crate) fn fail(&mut self, client: ClientNo, request: u64, failure: Failure) {
        self.reply(client, request, Reply::Failed(failure));
    }

    pub(crate) fn refuse(&mut self, client: ClientNo, position: u64, code: Code, id: ObjectId) {
        self.out.push(Effect::Complete(client, Completion::Refused { position, code, id }));
    }

    pub(crate) fn expel(&mut self, client: ClientNo, why: &'static str) {
        self.totals.expelled += 1;
        self.out.push(Effect::Expel(client, why));
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    pub(crate) fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial - 1
    }

    /// The directory that was given to the store.
    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// The directory that was given to the store.
    pub fn directory_mut(&mut self) -> &mut D {
        &mut self.directory
    }

    /// What the client owns: its objects in memory, what it is creating, and its leases.
    pub fn owned_bytes(&self, client: ClientNo) -> u64 {
        self.clients.get(client).map_or(0, |found| found.owned_bytes)
    }

    /// Fills in what the store knows of a client; its pins are added to those already counted.
    pub fn client_into(&self, client: ClientNo, info: &mut ClientInfo) {
        let Some(found) = self.clients.get(client) else { return };
        info.owned_bytes = found.owned_bytes;
        info.quota_bytes = found.quota_bytes;
        info.subscribed = found.filter.is_some();
        info.pins = info.pins.saturating_add(found.pins_count as u32);
    }

    /// Fills in the store's figures; what only the daemon knows stays as it is.
    pub fn status_into(&self, status: &mut Status) {
        let leased = self.leased_bytes();
        status.level = self.config.level.key().to_owned();
        status.capacity_bytes = self.config.capacity_bytes;
        status.used_bytes = self.memory.charged_bytes() - leased;
        status.leased_bytes = leased;
        status.warm_bytes = self.memory.warm_bytes();
        status.retained_bytes = self.memory.retained_bytes();
        status.spilled_bytes = self.tier.bytes();
        status.spill_kept_bytes = self.kept.bytes();
        status.spill_written_bytes_total = self.totals.spill_written_bytes;
        status.spill_read_bytes_total = self.totals.spill_read_bytes;
        status.objects = self.totals.visible;
        status.creating = self.creatings.len() as u64;
        status.spilled = self.tier.len() as u64;
        status.lingering = self.lingering.len() as u64;
        status.extents = self.memory.extents_count() as u64;
        status.index_slots = self.directory.slots();
        status.clients = self.clients.len() as u64;
        status.away_bytes = self.away_bytes();
        status.waits = self.waits.len() as u64;
        status.sealed_total = self.totals.sealed;
        status.deleted_total = self.totals.deleted;
        status.evicted_total = self.totals.evicted;
        status.spilled_total = self.totals.spilled;
        status.restored_total = self.totals.restored;
        status.expelled_total = self.totals.expelled;
        status.spills = self.config.spill_bytes_max.is_some();
    }
}

fn submission_id(submission: &Submission) -> ObjectId {
    match submission {
        Submission::Announce { id }
        | Submission::Put { id, .. }
        | Submission::Abort { id }
        | Submission::Delete { id } => *id,
        Submission::LeaseWanted { .. } | Submission::LeaseReturn(_) => NO_OBJECT,
    }
}
