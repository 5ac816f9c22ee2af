//! The store: its parts.

use plasmon_proto::message::{ClientInfo, Failure, Reply};
use plasmon_proto::ring::Completion;
use plasmon_proto::status::{LogFigures, Status};
use plasmon_proto::{Code, ObjectId};

use crate::config::Config;
use crate::effect::Effect;
use crate::event::{ClientNo, Ticket};
use crate::objects::Objects;
use crate::ports::Directory;
use crate::seat::Seat;
use crate::sessions::Sessions;
use crate::space::Space;
use crate::work::Work;

/// One node's object store.
#[derive(Debug)]
pub struct Store<D> {
    pub(crate) config: Config,
    pub(crate) now_ms: u64,
    pub(crate) objects: Objects<D>,
    pub(crate) space: Space,
    pub(crate) sessions: Sessions,
    pub(crate) seat: Seat,
    /// What goes on with the next event.
    pub(crate) work: Work,
    /// The effects of the step that runs.
    pub(crate) out: Vec<Effect>,
    pub(crate) totals: Totals,
    pub(crate) next_serial: u64,
    next_ticket: u64,
}

/// What is counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
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
        Self {
            config,
            now_ms: 0,
            objects: Objects::new(directory),
            space: Space::new(&config),
            sessions: Sessions::new(config.client_quota_bytes),
            seat: Seat::new(config.node.filter(|_| config.pool)),
            work: Work::default(),
            out: Vec::new(),
            totals: Totals::default(),
            next_serial: config.first_serial.max(1),
            next_ticket: 1,
        }
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
        &self.objects.directory
    }

    /// The directory that was given to the store.
    pub fn directory_mut(&mut self) -> &mut D {
        &mut self.objects.directory
    }

    /// What the client owns: its objects in memory, what it is creating, and its leases.
    pub fn owned_bytes(&self, client: ClientNo) -> u64 {
        self.sessions.clients.get(client).map_or(0, |found| found.owned_bytes)
    }

    /// Fills in what the store knows of a client; its pins are added to those already counted.
    pub fn client_into(&self, client: ClientNo, info: &mut ClientInfo) {
        let Some(found) = self.sessions.clients.get(client) else { return };
        info.owned_bytes = found.owned_bytes;
        info.quota_bytes = found.quota_bytes;
        info.subscribed = found.filter.is_some();
        info.pins = info.pins.saturating_add(found.pins_count as u32);
    }

    /// What the store knows of its log.
    fn log_figures(&self) -> LogFigures {
        let away = self.objects.tier.logged() as u64;
        let (damaged_total, repaired_total) = self.objects.durable.repairs();
        LogFigures {
            corrupt: self.objects.tier.corrupt_logged() as u64,
            damaged_total,
            repaired_total,
            objects: self.objects.durable.len() as u64 + away,
            objects_away: away,
            waiting: self.objects.durable.waiting_count() as u64,
            ..LogFigures::default()
        }
    }

    /// Fills in the store's figures; what only the daemon knows stays as it is.
    pub fn status_into(&self, status: &mut Status) {
        let leased = self.space.leased_bytes(&self.sessions.clients);
        status.level = self.config.level.key().to_owned();
        status.capacity_bytes = self.config.capacity_bytes;
        status.used_bytes = self.space.memory.charged_bytes() - leased;
        status.leased_bytes = leased;
        status.warm_bytes = self.space.memory.warm_bytes();
        status.retained_bytes = self.space.memory.retained_bytes();
        status.spilled_bytes = self.objects.tier.bytes();
        status.spill_kept_bytes = self.objects.kept.bytes();
        status.spill_written_bytes_total = self.totals.spill_written_bytes;
        status.spill_read_bytes_total = self.totals.spill_read_bytes;
        status.objects = self.objects.visible;
        status.creating = self.objects.pending_objects.len() as u64;
        status.spilled = (self.objects.tier.len() - self.objects.tier.logged()) as u64;
        status.log = self.config.durable.then(|| self.log_figures());
        status.lingering = self.objects.deferred_frees.len() as u64;
        status.extents = self.space.memory.extents_count() as u64;
        status.index_slots = self.objects.directory.slots();
        status.clients = self.sessions.clients.len() as u64;
        status.away_bytes = self.objects.away_bytes(&self.sessions.clients);
        status.waits = self.sessions.waits.len() as u64;
        status.sealed_total = self.totals.sealed;
        status.deleted_total = self.totals.deleted;
        status.evicted_total = self.totals.evicted;
        status.spilled_total = self.totals.spilled;
        status.restored_total = self.totals.restored;
        status.expelled_total = self.totals.expelled;
        status.spills = self.config.spill_bytes_max.is_some();
    }
}
