//! A simulated pool: machines, connections, etcd and clients in virtual time, from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use plasmon_cluster::leader::{Activation, Command, Leader, Observation};
use plasmon_cluster::{Map, Member, NodeLog, Reach, ReachReport, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::parts::Span;
use plasmon_proto::pool::Keeping;
use plasmon_proto::pool_checksum::ChecksumPage;
use plasmon_testkit::Random;

use crate::config::Mutation;
use crate::event::{Call, Effect, Event, Fate, Ticket, Told};
use crate::limits::ISOLATED_MARGIN_MS;
use crate::message::{Envelope, InlineBytes, SegmentRange, TransferNo};
use crate::record::{Birth, Place};
use crate::tally::Verified;
use crate::time::Mono;

use super::history::{History, OperationNo};
use super::listings::Listings;
use super::machine::{ISOLATED_SERVE_MS, Machine};
use super::network::{Network, Way};
use super::notices::Subscriptions;
use super::reach::TIMES;
use super::reads::Reads;
use super::region_runs::RegionRuns;
use super::store::{Answers, Carried, Outcome};

/// The time to live of a lease, and how much earlier a node stops to decide.
pub(super) const TTL_MS: u64 = 3_000;
const FENCE_MS: u64 = 500;
const KEEP_ALIVE_MS: u64 = 500;
const OUT_AFTER_MS: u64 = 2_500;

/// A segment whose memory is not there yet is looked at again after so long.
const SEGMENT_WAIT_US: u64 = 50;
const SEGMENT_WAIT_PAUSED_US: u64 = 10_000;

/// What happens at a point in time.
#[derive(Clone, Debug)]
pub(super) enum What {
    Deliver {
        way: Way,
        generation: u64,
        bytes: Vec<u8>,
    },
    Link {
        at: usize,
        peer: usize,
        up: bool,
        generation: u64,
    },
    Node {
        at: usize,
        incarnation: u64,
        event: Event,
    },
    Segment {
        at: usize,
        incarnation: u64,
        sent: Sent,
    },
    Wake {
        at: usize,
    },
    /// A log has written a copy.
    Logged {
        at: usize,
        boot: u64,
        id: ObjectId,
        birth: Birth,
    },
    KeepAlive {
        at: usize,
    },
    Stopped {
        at: usize,
        incarnation: u64,
    },
    Etcd,
    Act(Act),
}

/// A segment on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    way: Way,
    generation: u64,
    transfer: TransferNo,
    segment: u32,
    carried: Carried,
    intact: bool,
}

/// What the driver of a run does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Client(usize),
    GiveUp(usize, OperationNo),
    EndRead(u64),
    Fault,
    Start(usize),
    Resume(usize),
    Connect(Way),
    Heal(Way),
    Etcd(usize),
    Drain,
    Cut,
}

/// The pool.
pub(super) struct World {
    pub(super) now: Mono,
    pub(super) dice: Random,
    pub(super) machines: Vec<Machine>,
    pub(super) network: Network,
    pub(super) history: History,
    /// Machines that kept a copy, ever.
    pub(super) kept: BTreeMap<(ObjectId, Birth), BTreeSet<usize>>,
    /// The holders that kept a copy when it was acknowledged, with their boots.
    pub(super) acknowledged: BTreeMap<(ObjectId, Birth), Vec<(usize, u64)>>,
    pub(super) ids: Vec<ObjectId>,
    pub(super) mutation: Option<Mutation>,
    /// Whether commits end as unreachable while faults last.
    pub(super) is_impatient: bool,
    /// Whether no node is told that its store has sealed a copy.
    pub(super) seals_late: bool,
    pub(super) slow_ms: u64,
    pub(super) bulk_loss: u64,
    leader: Leader,
    /// The maps, each with the time when it was made.
    pub(super) maps: Vec<(Mono, Arc<Map>)>,
    last_map: Mono,
    activations: Vec<Activation>,
    /// What an operator wants.
    pub(super) commands: Vec<Command>,
    /// Whether the driver drains nodes, too.
    pub(super) has_drains: bool,
    /// Machines that were ever to be drained, or have no log that works: what they kept they may
    /// let go.
    pub(super) drained_ever: BTreeSet<usize>,
    /// Copies that were hidden when their pool daemon ended, in a run that drains nodes: what a
    /// draining node had shown may be left in them alone.
    pub(super) forgotten: BTreeSet<(usize, ObjectId, Birth)>,
    /// When a machine last lost its memory.
    pub(super) memory_lost: Mono,
    /// What nodes answered about where objects are.
    pub(super) places: BTreeMap<u64, Place>,
    pub(super) listings: Listings,
    pub(super) reads: Reads,
    pub(super) region_runs: RegionRuns,
    /// What nodes found when the pool was compared.
    pub(super) verified: BTreeMap<u64, Verified>,
    /// Pages of checksums that nodes have answered with.
    pub(super) checksummed: BTreeMap<u64, Option<ChecksumPage>>,
    pub(super) subscriptions: Subscriptions,
    queue: BinaryHeap<Reverse<(Mono, u64)>>,
    whats: BTreeMap<u64, What>,
    order: u64,
    trace: VecDeque<String>,
    /// How many events are remembered.
    trace_max: usize,
    /// What held a lease when the leader looked last, and when it wants to look again.
    seen_members: Vec<(usize, u64, NodeLog)>,
    leader_due: Option<u64>,
    /// What machines reported when the leader looked last, and which ones have to stop.
    seen_reports: Vec<ReachReport>,
    pub(super) fence: BTreeSet<Slot>,
    /// How often one was told to stop.
    pub(super) fenced: usize,
    /// Whether the driver puts durable objects, and power and logs fail.
    pub(super) has_logs: bool,
    /// The longest that a log takes for a copy.
    pub(super) log_ms: u64,
    /// Whether machines lose each other while they hold their leases, and report it.
    pub(super) has_cuts: bool,
    /// Whether a fenced machine ends its lease and decides on: a broken rule.
    pub(super) fenced_go_on: bool,
}

impl World {
    pub(super) fn new(seed: u64, mutation: Option<Mutation>, trace_max: usize) -> Self {
        let mut dice = Random::new(seed);
        let count = 2 + dice.size_below(4);
        let slow_ms = dice.pick(&[0, 0, 5, 40]);
        let bulk_loss = dice.pick(&[0, 0, 5, 20]);
        Self {
            now: Mono(1_000_000),
            dice,
            machines: (0..count).map(Machine::new).collect(),
            network: Network::default(),
            history: History::default(),
            kept: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            ids: Vec::new(),
            mutation,
            is_impatient: seed.is_multiple_of(2),
            seals_late: false,
            slow_ms,
            bulk_loss,
            leader: Leader::new(OUT_AFTER_MS)
                .silent_after(ISOLATED_SERVE_MS + ISOLATED_MARGIN_MS)
                .fence_times(TIMES),
            maps: vec![(Mono(0), Arc::new(Map::default()))],
            last_map: Mono(0),
            activations: Vec::new(),
            commands: Vec::new(),
            has_drains: false,
            drained_ever: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            memory_lost: Mono(0),
            places: BTreeMap::new(),
            listings: Listings::new(seed),
            reads: Reads::new(seed),
            region_runs: RegionRuns::new(seed),
            verified: BTreeMap::new(),
            checksummed: BTreeMap::new(),
            subscriptions: Subscriptions::default(),
            queue: BinaryHeap::new(),
            whats: BTreeMap::new(),
            order: 0,
            trace: VecDeque::new(),
            trace_max,
            seen_members: Vec::new(),
            leader_due: None,
            seen_reports: Vec::new(),
            fence: BTreeSet::new(),
            fenced: 0,
            has_logs: false,
            log_ms: 0,
            has_cuts: false,
            fenced_go_on: false,
        }
    }

    /// Remembers what happened, in a run whose report is wanted.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.trace_max == 0 {
            return;
        }
        if self.trace.len() == self.trace_max {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>10} {}", self.now.0, line()));
    }

    pub(super) fn trace(&self) -> String {
        self.trace.iter().cloned().collect::<Vec<_>>().join("\n")
    }

    pub(super) fn at(&mut self, at: Mono, what: What) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order)));
        self.whats.insert(self.order, what);
    }

    pub(super) fn after_ms(&mut self, ms: u64, what: What) {
        self.at(self.now.after_ms(ms), what);
    }

    /// What happens next, not after this point.
    pub(super) fn pop(&mut self, until: Mono) -> Option<What> {
        let Reverse((at, order)) = *self.queue.peek()?;
        if at > until {
            return None;
        }
        self.queue.pop();
        self.now = self.now.max(at);
        self.whats.remove(&order)
    }

    fn delay_us(&mut self) -> u64 {
        50 + self.dice.below(2_000) + self.dice.below(1 + self.slow_ms * 1000)
    }

    /// Carries out what happens, besides what the driver does.
    pub(super) fn happen(&mut self, what: What) -> Result<(), String> {
        match what {
            What::Deliver { way, generation, bytes } => {
                if self.network.link(way).generation != generation {
                    return Ok(());
                }
                if self.network.is_cut(way) {
                    self.network.hold(way, bytes);
                    return Ok(());
                }
                let envelope = Envelope::decode(&bytes).map_err(|error| error.to_string())?;
                self.give(way.to, Event::Peer(envelope))
            }
            What::Link { at, peer, up, generation } => {
                let way = Way { from: peer, to: at };
                let link = self.network.link(way);
                if link.generation != generation || link.up != up {
                    return Ok(());
                }
                self.give(at, Event::Link { peer: Slot(peer as u16), up })
            }
            What::Node { at, incarnation, event } => {
                if self.machines[at].incarnation != incarnation {
                    return Ok(());
                }
                self.give(at, event)
            }
            What::Segment { at, incarnation, sent } => self.arrive(at, incarnation, sent),
            What::Wake { at } => {
                self.machines[at].wake_at = None;
                self.give(at, Event::Time)
            }
            What::Logged { at, boot, id, birth } => self.logged(at, boot, (id, birth)),
            What::KeepAlive { at } => self.keep_alive(at),
            What::Stopped { at, incarnation } => {
                self.stopped(at, incarnation);
                Ok(())
            }
            What::Etcd => {
                self.look_around();
                self.elect();
                self.fence();
                self.after_ms(100, What::Etcd);
                Ok(())
            }
            What::Act(_) => Err("the driver acts".into()),
        }
    }

    fn arrive(&mut self, at: usize, incarnation: u64, sent: Sent) -> Result<(), String> {
        let Sent { way, generation, transfer, segment, ref carried, intact } = sent;
        let link = self.network.link(way);
        let is_lost = !link.up || link.generation != generation;
        if is_lost || self.network.is_cut(way) || self.machines[at].incarnation != incarnation {
            return Ok(());
        }
        let machine = &mut self.machines[at];
        let Some(ticket) = machine.accepts.get(&transfer) else { return Ok(()) };
        if machine.expected.contains(ticket) {
            let wait_us = if machine.paused { SEGMENT_WAIT_PAUSED_US } else { SEGMENT_WAIT_US };
            let due = Mono(self.now.0 + wait_us);
            self.at(due, What::Segment { at, incarnation, sent });
            return Ok(());
        }
        let landing = machine.store.landings.get_mut(ticket);
        let Some(landing) = landing else { return Err("a segment without memory".into()) };
        if intact {
            landing.segments.insert(segment, carried.clone());
        }
        self.give(at, Event::Arrived { transfer, segment, intact })
    }

    /// Gives an event to a node, and carries out what follows.
    pub(super) fn give(&mut self, at: usize, event: Event) -> Result<(), String> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let machine = &mut self.machines[at];
            if machine.node.is_none() {
                return Ok(());
            }
            if machine.paused {
                machine.backlog.push_back(event);
                continue;
            }
            if let Event::Landed { ticket, .. } = &event {
                machine.expected.remove(ticket);
            }
            if let Event::Fetched { peer, transfer, .. } = &event
                && machine.serves.remove(&(*peer, *transfer)).is_none()
            {
                continue;
            }
            if let Event::Assembled { peer, transfer, .. } = &event
                && machine.serves.remove(&(*peer, *transfer)).is_none()
            {
                continue;
            }
            match &event {
                Event::Time => {}
                Event::Map(map) => {
                    self.machines[at].has_map = true;
                    self.note(|| format!("{at} <- map {}", map.epoch()));
                }
                event => self.note(|| format!("{at} <- {event:?}")),
            }
            let now = self.now;
            let Some(node) = &mut self.machines[at].node else { return Ok(()) };
            let mut effects = Vec::new();
            node.step(now, event, &mut effects);
            for effect in effects {
                let mut calls = Vec::new();
                let sealed = self.machines[at].store.sealed_by(&effect);
                let sealed = sealed.filter(|_| !self.seals_late);
                self.carry_out(at, effect, &mut calls)?;
                // After a pause, what the store says now comes after what it said before.
                let calls = sealed.into_iter().chain(calls.into_iter().map(Event::Local));
                match &mut self.machines[at].backlog {
                    backlog if backlog.is_empty() => events.extend(calls),
                    backlog => backlog.extend(calls),
                }
            }
        }
        self.schedule_wake(at);
        self.check_births()
    }

    fn schedule_wake(&mut self, at: usize) {
        let machine = &self.machines[at];
        let Some(due) = machine.node.as_ref().and_then(|node| node.next_deadline()) else { return };
        if machine.wake_at.is_none_or(|wake| due < wake) && !machine.paused {
            let due = due.max(Mono(self.now.0 + 1));
            self.machines[at].wake_at = Some(due);
            self.at(due, What::Wake { at });
        }
    }

    fn carry_out(
        &mut self,
        at: usize,
        effect: Effect,
        calls: &mut Vec<Call>,
    ) -> Result<(), String> {
        let now = self.now;
        match effect {
            Effect::Send { to, envelope } => self.send(at, usize::from(to.0), &envelope)?,
            Effect::Tell(Told::Log { id, birth }) if self.log_ms > 0 => {
                let (boot, ms) = (self.machines[at].boot, self.dice.below(self.log_ms));
                self.after_ms(ms, What::Logged { at, boot, id, birth });
            }
            Effect::Tell(told) => {
                self.note(|| format!("{at} tells {told:?}"));
                let answers = self.machines[at].store.told(now, told, calls);
                self.note_made(at);
                self.answer(at, answers)?;
                self.note_kept(at);
            }
            Effect::Land { ticket, id, birth, content } => {
                let room = self.dice.percent(97);
                let store = &mut self.machines[at].store;
                let room = room && store.land(ticket, (id, birth, content), calls);
                self.land_later(at, ticket, room);
            }
            Effect::Accept { transfer, ticket, .. } => {
                self.machines[at].accepts.insert(transfer, ticket);
            }
            Effect::Refuse(transfer) => {
                self.machines[at].accepts.remove(&transfer);
            }
            Effect::Seal { ticket, visible, keep } => {
                let store = &mut self.machines[at].store;
                let answers = store.seal(now, ticket, (visible, keep), calls)?;
                self.answer(at, answers)?;
                self.note_kept(at);
            }
            Effect::Abandon(ticket) => {
                self.machines[at].store.landings.remove(&ticket);
            }
            Effect::Serve { peer, transfer, id, birth, spans, ranges } => {
                self.serve(at, (peer, transfer), (id, birth), (spans.as_deref(), &ranges));
            }
            Effect::Fetch { peer, transfer, id, birth, spans } => {
                self.fetch(at, (peer, transfer), (id, birth), spans.as_deref());
            }
            Effect::Gather { peer, transfer, parts } => {
                self.assemble(at, (peer, transfer), &parts);
            }
            Effect::Fill { ticket, bytes } => self.machines[at].store.fill(ticket, &bytes.0)?,
            Effect::EndServe { peer, transfer } => {
                let serves = &mut self.machines[at].serves;
                if serves.remove(&(peer, transfer)).is_none() {
                    return Err("ended what was not served".into());
                }
            }
            Effect::Report { group, since } if self.machines[at].reaches_etcd => {
                let primary = self.machines[at].slot();
                self.activations.push(Activation { primary, group, since });
            }
            Effect::Report { .. } => {}
            other => self.note_answer(at, other, calls)?,
        }
        Ok(())
    }

    /// What a node answers to questions, or tells without one.
    fn note_answer(
        &mut self,
        at: usize,
        effect: Effect,
        calls: &mut Vec<Call>,
    ) -> Result<(), String> {
        match effect {
            Effect::ReadCopies { peer, question, parts } => {
                self.read_copies(at, (peer, question), &parts);
            }
            Effect::Checksummed { number, page } => {
                self.checksummed.insert(number, page);
            }
            Effect::Verified { number, verified } => {
                self.verified.insert(number, verified);
            }
            Effect::Place { number, place } => {
                self.places.insert(number, place);
            }
            Effect::ListHere { peer, question, query } => {
                self.list_here(at, (peer, question), &query);
            }
            Effect::Listed { number, page, missing } => self.listed(number, page, missing)?,
            Effect::Demote(ids) => self.note(|| format!("{at} demotes {ids:?}")),
            Effect::ReportDrains(reports) => {
                self.note(|| format!("{at} reports {reports:?}"));
                self.machines[at].drains = reports;
            }
            Effect::Describe { number, id, birth } => self.describe(at, number, id, birth),
            Effect::Subscribed { number } => self.subscribed(number)?,
            Effect::Notice(notice) => self.notice(at, Some(&notice))?,
            Effect::NoticesLost => self.notice(at, None)?,
            Effect::Read { number, reply } => self.read_answered(at, number, reply)?,
            Effect::GatherLanded { number, object } => self.gather_landed(at, number, object)?,
            Effect::Gathered { number, reply } => self.gathered(at, number, &reply)?,
            other => self.region_effect(at, other, calls)?,
        }
        Ok(())
    }

    fn land_later(&mut self, at: usize, ticket: Ticket, room: bool) {
        self.machines[at].expected.insert(ticket);
        let incarnation = self.machines[at].incarnation;
        let event = Event::Landed { ticket, room };
        let delay_us = self.delay_us();
        self.at(Mono(self.now.0 + delay_us), What::Node { at, incarnation, event });
    }

    /// What puts made is remembered.
    pub(super) fn note_made(&mut self, at: usize) {
        for (no, id, birth) in self.machines[at].store.take_made() {
            if let Some(entry) = self.history.entries.get_mut(&no) {
                entry.birth = Some(birth);
            }
            self.kept.entry((id, birth)).or_default().insert(at);
        }
    }

    /// Machines that keep a copy are remembered.
    pub(super) fn note_kept(&mut self, at: usize) {
        for (id, object) in self.machines[at].store.objects.iter().filter(|(_, o)| o.keep) {
            self.kept.entry((*id, object.birth)).or_default().insert(at);
        }
    }

    fn send(&mut self, from: usize, to: usize, envelope: &Envelope) -> Result<(), String> {
        let way = Way { from, to };
        if to >= self.machines.len() || !self.network.link(way).up {
            return Ok(());
        }
        let bytes = envelope.encode().ok_or("an envelope that is too long")?;
        let at = Mono(self.now.0 + self.delay_us());
        let at = self.network.arrival(way, at);
        let generation = self.network.link(way).generation;
        self.at(at, What::Deliver { way, generation, bytes });
        Ok(())
    }

    /// Something happens to a node a little later.
    pub(super) fn later(&mut self, at: usize, event: Event) {
        let incarnation = self.machines[at].incarnation;
        let due = Mono(self.now.0 + self.delay_us());
        self.at(due, What::Node { at, incarnation, event });
    }

    /// A small copy is read, or small parts of one.
    fn fetch(
        &mut self,
        at: usize,
        (peer, transfer): (Slot, TransferNo),
        (id, birth): (ObjectId, Birth),
        spans: Option<&[Span]>,
    ) {
        let machine = &mut self.machines[at];
        *machine.serves.entry((peer, transfer)).or_default() += 1;
        let is_damaged = self.find_damage(at, (id, birth));
        let bytes = match spans {
            _ if is_damaged => None,
            None => self.machines[at].store.bytes(&id, birth),
            Some(spans) => self.fetch_parts(at, (id, birth), spans),
        };
        // Some bytes are missing now and then.
        let is_cut = self.dice.permille(10);
        let bytes = bytes.map(|mut bytes| {
            if is_cut {
                bytes.pop();
            }
            InlineBytes(bytes)
        });
        self.later(at, Event::Fetched { peer, transfer, bytes });
    }

    /// A store that reads a copy which is damaged says so. Whether it is.
    fn find_damage(&mut self, at: usize, (id, birth): (ObjectId, Birth)) -> bool {
        let store = &self.machines[at].store;
        let is_damaged = store.damaged.contains(&id) && store.has(&id, birth);
        if is_damaged {
            self.later(at, Event::Local(Call::Damaged { id, birth }));
        }
        is_damaged
    }

    fn serve(
        &mut self,
        from: usize,
        (peer, transfer): (Slot, TransferNo),
        (id, birth): (ObjectId, Birth),
        (spans, ranges): (Option<&[Span]>, &[SegmentRange]),
    ) {
        *self.machines[from].serves.entry((peer, transfer)).or_default() += 1;
        if self.find_damage(from, (id, birth)) {
            return self.later(from, Event::Fetched { peer, transfer, bytes: None });
        }
        let object = self.machines[from].store.objects.get(&id).filter(|it| it.birth == birth);
        let token = object.map(|object| object.token);
        match (token, spans) {
            (Some((id, birth)), None) => {
                let carried = |_| Carried::Copy(id, birth);
                return self.send_segments(from, (peer, transfer), ranges, carried);
            }
            (Some(_), Some(spans)) => {
                if let Some(carried) = self.segments_of(from, (id, birth), spans) {
                    return self.send_segments(from, (peer, transfer), ranges, carried);
                }
            }
            (None, _) => {}
        }
        self.later(from, Event::Fetched { peer, transfer, bytes: None });
    }

    /// Segments leave a machine, one after the other.
    pub(super) fn send_segments(
        &mut self,
        from: usize,
        (peer, transfer): (Slot, TransferNo),
        ranges: &[SegmentRange],
        carried: impl Fn(u32) -> Carried,
    ) {
        let to = usize::from(peer.0);
        let way = Way { from, to };
        let incarnation = self.machines[to].incarnation;
        let generation = self.network.link(way).generation;
        let mut at = self.now;
        for range in ranges {
            for segment in range.first..range.first + range.count {
                at = Mono(at.0 + self.delay_us());
                if self.dice.percent(self.bulk_loss) {
                    continue;
                }
                let intact = !self.dice.permille(10);
                let carried = carried(segment);
                let sent = Sent { way, generation, transfer, segment, carried, intact };
                self.at(at, What::Segment { at: to, incarnation, sent });
            }
        }
    }

    /// Clients are answered.
    pub(super) fn answer(&mut self, at: usize, answers: Answers) -> Result<(), String> {
        for (no, id, outcome) in answers {
            self.note(|| format!("{at} answers {no:?} {id}: {outcome:?}"));
            self.settle_region(at, no, &outcome);
            let now = self.now;
            let Some(entry) = self.history.entries.get_mut(&no) else { continue };
            if entry.end.is_some() || entry.left {
                continue;
            }
            entry.end = Some((now, outcome.clone()));
            let (begin, birth) = (entry.begin, entry.birth);
            match outcome {
                Outcome::Put(Ok(())) => {
                    let birth = birth.ok_or("a put without a birth")?;
                    self.acknowledge(no, id, birth)?;
                }
                Outcome::Fate(Fate::Absent) => self.check_absent(id, begin)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, no: OperationNo, id: ObjectId, birth: Birth) -> Result<(), String> {
        let entry = &self.history.entries[&no];
        let super::history::Operation::Put { copies_min, content, .. } = entry.operation else {
            return Err("a commit of what was not put".into());
        };
        let is_spread = content.keeping == Keeping::Spread;
        let counts = |at: &usize| !is_spread || *at != usize::from(birth.slot.0);
        let kept = self.kept.get(&(id, birth)).into_iter().flatten().copied().filter(counts);
        let kept: BTreeSet<usize> = kept.collect();
        let is_deleted = self.history.may_be_deleted(id, entry.begin, self.now);
        // An object that exists after its records or holders were lost is acknowledged with what
        // there is room for.
        let is_late = self.last_map.after_ms(1_000) > entry.begin;
        if content.durable.is_some() && !is_deleted {
            let least = if is_late { 1 } else { copies_min };
            self.check_logged((id, birth), content, least)?;
        }
        if kept.len() < usize::from(copies_min) && !is_deleted && !is_late {
            return Err(format!("acknowledged {id} with {} copies of {copies_min}", kept.len()));
        }
        // One that kept it once may have a cached copy now.
        let keeps = |machine: &Machine| {
            machine.store.objects.get(&id).is_some_and(|o| o.birth == birth && o.keep)
        };
        // Only holders were counted. A copy elsewhere may be of an earlier try of the commit, of
        // which the records were lost: the order to drop it may arrive after this.
        let nodes = self.machines.iter().filter_map(|machine| machine.node.as_ref());
        let newest = nodes.filter_map(|node| node.holders_of(&id, birth)).max();
        let is_holder = |at: &usize| {
            let holds = |(_, holders): &(_, Vec<Slot>)| holders.contains(&Slot(*at as u16));
            newest.as_ref().is_none_or(holds)
        };
        let kept = kept.into_iter().filter(|at| keeps(&self.machines[*at]) && is_holder(at));
        let kept = kept.map(|at| (at, self.machines[at].boot)).collect();
        self.acknowledged.insert((id, birth), kept);
        Ok(())
    }

    /// An object that exists for certain is not absent, unless its records were lost and no store
    /// has had it since the question.
    pub(super) fn check_absent(&self, id: ObjectId, begin: Mono) -> Result<(), String> {
        let Some(birth) = self.history.certain(id, begin, self.now) else { return Ok(()) };
        // A primary has a map at the latest when a lease has passed since it was made.
        let old = self.maps.iter().rposition(|(made, _)| made.after_ms(TTL_MS) <= begin);
        let maps = &self.maps[old.unwrap_or_default()..];
        let has = |machine: &&Machine| {
            let is_live = |map: &Map| map.node(machine.slot()).is_some_and(|n| n.is_live());
            let is_forgotten = self.forgotten.contains(&(machine.index, id, birth));
            let has = machine.store.has_since(&id, birth, begin) && !is_forgotten;
            has && maps.iter().all(|(_, map)| is_live(map))
        };
        if !self.history.wiped.contains_key(&id) || self.machines.iter().any(|m| has(&m)) {
            return Err(format!("{id} is absent, but {birth:?} exists"));
        }
        Ok(())
    }

    /// No id shows two births at one time.
    fn check_births(&self) -> Result<(), String> {
        for id in self.ids.iter().filter(|id| id.home().is_none()) {
            let mut seen: Option<(usize, Birth)> = None;
            for machine in &self.machines {
                let Some(birth) = machine.store.visible(self.now, id) else { continue };
                if let Some((other, before)) = seen
                    && before != birth
                {
                    return Err(format!(
                        "{id} is {before:?} on {other} and {birth:?} on {}",
                        machine.index
                    ));
                }
                seen = Some((machine.index, birth));
            }
        }
        Ok(())
    }

    /// A lease is kept alive, or granted.
    fn keep_alive(&mut self, at: usize) -> Result<(), String> {
        self.after_ms(KEEP_ALIVE_MS, What::KeepAlive { at });
        let now = self.now;
        let machine = &mut self.machines[at];
        if machine.node.is_none() || machine.paused || !machine.reaches_etcd {
            return Ok(());
        }
        let lapsed = machine.lease_expires.is_none_or(|expires| expires <= now);
        if machine.ears.is_stopping || (lapsed && !self.may_join(at)) {
            return Ok(());
        }
        let machine = &mut self.machines[at];
        if machine.lease_expires.is_some_and(|expires| expires <= now) {
            machine.ears.clear();
        }
        machine.lease_expires = Some(now.after_ms(TTL_MS));
        if lapsed {
            self.elect();
            self.etcd_tells(at, Event::LeaseLost);
        }
        self.etcd_tells(at, Event::Lease(now.after_ms(TTL_MS - FENCE_MS)));
        if lapsed {
            self.machines[at].maps_sent = self.maps.len() - 1;
            self.send_maps(at);
        }
        Ok(())
    }

    pub(super) fn etcd_tells(&mut self, at: usize, event: Event) {
        let delay_us = self.delay_us();
        let machine = &mut self.machines[at];
        machine.etcd_last = Mono((self.now.0 + delay_us).max(machine.etcd_last.0 + 1));
        let (due, incarnation) = (machine.etcd_last, machine.incarnation);
        self.at(due, What::Node { at, incarnation, event });
    }

    fn send_maps(&mut self, at: usize) {
        while self.machines[at].maps_sent < self.maps.len() {
            let (_, map) = self.maps[self.machines[at].maps_sent].clone();
            self.machines[at].maps_sent += 1;
            self.etcd_tells(at, Event::Map(map));
        }
    }

    /// The leader looks at the leases, and the nodes get the maps that follow.
    pub(super) fn elect(&mut self) {
        let now = self.now;
        let holds = |machine: &&Machine| machine.lease_expires.is_some_and(|until| until > now);
        let holders: Vec<_> = self.machines.iter().filter(holds).collect();
        let seen = |m: &&Machine| (m.index, m.incarnation, m.store.log.state());
        let seen_members: Vec<_> = holders.iter().map(seen).collect();
        let is_due = self.leader_due.is_some_and(|due| due <= now.0 / 1000);
        let is_asked = !self.activations.is_empty() || !self.commands.is_empty();
        let reports = self.reach_reports(&self.maps[self.maps.len() - 1].1);
        let is_news = seen_members != self.seen_members || reports != self.seen_reports;
        if is_news || is_due || is_asked {
            let members: Vec<_> = holders.into_iter().map(Machine::member).collect();
            self.seen_members = seen_members;
            self.seen_reports = reports;
            self.propose(&members);
        }
        for at in 0..self.machines.len() {
            let machine = &self.machines[at];
            let has_lease = machine.lease_expires.is_some_and(|until| until > now);
            if has_lease && machine.reaches_etcd && machine.node.is_some() {
                self.send_maps(at);
            }
        }
    }

    fn propose(&mut self, members: &[Member]) {
        let now = self.now;
        let (_, map) = self.maps[self.maps.len() - 1].clone();
        let reports = self.reach_reports(&map);
        let leader = reports.first().map(|report| report.slot);
        let seen = Observation {
            map: &map,
            members,
            activations: &std::mem::take(&mut self.activations),
            drained: &self.drained(&map),
            commands: &std::mem::take(&mut self.commands),
            reach: Reach { leader, reports: &reports },
        };
        let decision = self.leader.step(now.0 / 1000, &seen);
        self.leader_due = decision.deadline_ms;
        self.fence = decision.fence;
        if let Some(map) = decision.proposal {
            let states: Vec<_> = map.nodes().map(|(slot, node)| (slot.0, node.state)).collect();
            self.note(|| format!("map {} {states:?}", map.epoch()));
            for id in self.ids.clone() {
                let group = map.group(Map::group_of(&id)).clone();
                if group.in_sync == 0 {
                    self.history.wiped.insert(id, now);
                }
                if group.since == map.epoch() {
                    self.note(|| format!("{id}: {group:?}"));
                }
            }
            self.maps.push((now, Arc::new(map)));
            self.last_map = now;
            self.leader_due = Some(0);
        }
    }
}
