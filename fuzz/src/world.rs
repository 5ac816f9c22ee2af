//! A store with a few clients, driven by fuzzed bytes: what they do, and what is true afterwards.

mod client;
mod durable_puts;
mod growing;
mod log;
mod shape;
mod work;

use std::collections::BTreeMap;

use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::limits::LARGE_OBJECT_BYTES;
use plasmon_proto::message::{Access, Reply, Request};
use plasmon_proto::object::ObjectState;
use plasmon_proto::ring::{Completion, Put, Submission};
use plasmon_proto::status::Status;
use plasmon_proto::{Attributes, ObjectId};
use plasmon_store::event::{OpenedFile, Peer, ReadBack, SealTarget};
use plasmon_store::ports::Directory as _;
use plasmon_store::{ClientNo, Effect, Event, Store};
use plasmon_testkit::directory::{TestDirectory, overlap};

use crate::Input;
use crate::requests::{self, IDS, id, parts, traits};

use self::client::Client;
use self::log::Log;
use self::work::Work;

const CLIENTS: u32 = 4;
const CAPACITY_BYTES: u64 = 48 << 20;
const PAGE_BYTES: u64 = 4096;
/// Far more pieces of work than so few clients and objects leave.
const PIECES_MAX: usize = 10_000;
/// Longer than the store waits before it looks again for pins that it found.
const LOOK_MS: u64 = 1_000;

/// The store and everything around it.
#[derive(Debug)]
pub struct World {
    store: Store<TestDirectory>,
    clients: BTreeMap<u32, Client>,
    extents: BTreeMap<ExtentId, u64>,
    work: Vec<Work>,
    log: Log,
    now_ms: u64,
    number: u64,
    effects: Vec<Effect>,
    /// Whether to print what happens: with FUZZ_TRACE in the environment.
    traced: bool,
}

impl World {
    /// A fresh store.
    pub fn new(input: &mut Input<'_>) -> Self {
        let store = shape::store(input, CAPACITY_BYTES);
        Self {
            store,
            clients: BTreeMap::new(),
            extents: BTreeMap::new(),
            work: Vec::new(),
            log: Log::default(),
            now_ms: 1,
            number: 0,
            effects: Vec::new(),
            traced: std::env::var_os("FUZZ_TRACE").is_some(),
        }
    }

    /// Does the next thing that the bytes ask for, and checks what is true always.
    pub fn step(&mut self, input: &mut Input<'_>) {
        let client = input.below(CLIENTS as usize) as u32;
        match input.below(16) {
            0 => self.connect(client, input),
            1 => self.disconnect(client),
            2 | 3 => self.put(client, input),
            4 => self.submit(client, input),
            5..=7 => self.ask(client, input),
            8 if input.below(2) == 0 => self.create(client, input),
            8 => self.grow(client, input),
            9 | 10 => self.work(input),
            11 => self.pin(client, input),
            12 => self.unpin(client, input),
            13 => self.tick(input.word() % 100_000),
            14 => self.apply(Event::Touched(input.byte().into())),
            _ if input.below(2) == 0 => self.put_durable(client, input),
            _ => self.seal(client, input),
        }
        self.check();
    }

    /// All clients disconnect, everything is deleted: nothing may be left.
    pub fn end(mut self) {
        for client in 0..CLIENTS {
            self.disconnect(client);
        }
        self.finish_pieces();
        // Ledgers do not announce the end of a pin: a deleted composite that was pinned is freed,
        // and lets its members go, when the store looks for its pins again. Until then they are in
        // use and could not be deleted.
        self.tick(LOOK_MS);
        self.finish_pieces();
        assert_eq!(self.status().lingering, 0, "what is deleted and not pinned is freed");
        self.apply(Event::Connect(ClientNo(CLIENTS), peer(CLIENTS, Access::ReadWrite, true)));
        self.clients.insert(CLIENTS, Client::default());
        // A member can be deleted after its holder, which may be a member itself.
        for _ in 0..IDS {
            self.request(CLIENTS, Request::Delete { ids: (0..IDS).map(id).collect() });
            self.finish_pieces();
        }
        // Members that lost their holder, objects whose last pin went, times to live.
        for _ in 0..4 {
            self.tick(1 << 40);
            self.finish_pieces();
        }
        let status = self.status();
        assert_eq!((status.objects, status.creating, status.lingering), (0, 0, 0), "{status:?}");
        assert_eq!((status.used_bytes, status.leased_bytes, status.waits), (0, 0, 0), "{status:?}");
        assert_eq!(self.store.directory().entries().count(), 0);
        assert!(self.clients[&CLIENTS].requests.is_empty(), "every request is answered");
    }

    fn connect(&mut self, client: u32, input: &mut Input<'_>) {
        if !self.clients.contains_key(&client) {
            let access = if input.below(8) == 0 { Access::ReadOnly } else { Access::ReadWrite };
            let peer = peer(client, access, input.below(4) != 0);
            self.apply(Event::Connect(ClientNo(client), peer));
            self.clients.insert(client, Client::default());
        }
    }

    fn disconnect(&mut self, client: u32) {
        if let Some(going) = self.clients.get_mut(&client) {
            // Its requests stay: a wait for its own object may be answered as it goes.
            let pins = std::mem::take(&mut going.pins);
            going.leases.clear();
            going.creations.clear();
            for serial in pins {
                self.store.directory_mut().unpin(serial);
                self.trace(format_args!("End of a pin of {serial}"));
            }
            self.apply(Event::Disconnect(ClientNo(client)));
            self.clients.remove(&client);
        }
    }

    /// A put into memory of the client's own, sometimes beside it.
    fn put(&mut self, client: u32, input: &mut Input<'_>) {
        let Some(from) = self.clients.get(&client) else { return };
        let own = match from.leases.len() {
            0 => Range { extent: ExtentId(input.byte().into()), offset: input.word(), bytes: 0 },
            count => from.leases[input.below(count.min(256))],
        };
        let shift = [0, 0, 0, 64, 1, 1 << 20][input.below(6)];
        let (sizes, attributes) = parts(input, own.bytes);
        let placement = Placement { extent: own.extent, offset: own.offset.wrapping_add(shift) };
        let id = id(input.below(IDS));
        let put = Submission::Put(Put { id, placement, sizes, traits: traits(input) });
        // What does not survive the ring never reaches the store.
        let Ok(put) = Submission::decode(&put.encode()) else { return };
        self.send(client, put, attributes);
        if let Submission::Put(put) = put {
            // Refused or not, the client gave this memory away with the put.
            let range = put.range().expect("what was decoded has sizes");
            self.carve(client, &range);
            let own = self.clients.get(&client).and_then(|client| client.creations.get(&id));
            // It may have completed what the client was creating there.
            if own == Some(&range) && !self.is_creating(client, id) {
                self.end_creation(client, &id);
            }
        }
    }

    /// Whether the store has an object that is being created.
    fn is_creating(&mut self, client: u32, id: ObjectId) -> bool {
        let (ask, mut effects) = (Request::States { ids: vec![id] }, Vec::new());
        let event = Event::Request(ClientNo(client), u64::MAX, ask);
        self.store.step(self.now_ms, event, &mut effects);
        let creating = Reply::States(vec![ObjectState::Creating]);
        effects.iter().any(|found| matches!(found, Effect::Reply(.., reply) if *reply == creating))
    }

    fn submit(&mut self, client: u32, input: &mut Input<'_>) {
        let Some(from) = self.clients.get(&client) else { return };
        let object = id(input.below(IDS));
        let submission = match input.below(6) {
            0 => Submission::Announce { id: object },
            1 => Submission::Abort { id: object },
            2 | 3 => Submission::Delete { id: object },
            4 => Submission::LeaseWanted { bytes_min: input.word(), bytes_wanted: input.word() },
            _ => {
                let own = from.leases.get(input.below(4)).copied();
                let any = Range {
                    extent: ExtentId(input.byte().into()),
                    offset: input.word(),
                    bytes: input.word(),
                };
                Submission::LeaseReturn(own.unwrap_or(any))
            }
        };
        if !self.send(client, submission, None) {
            return;
        }
        match submission {
            Submission::LeaseReturn(range) => self.carve(client, &range),
            // A creator that deletes what it has not sealed yet aborts it.
            Submission::Abort { id } | Submission::Delete { id } => self.end_creation(client, &id),
            _ => {}
        }
    }

    /// Sends a record; whether it was not refused at once.
    fn send(&mut self, client: u32, record: Submission, attributes: Option<Attributes>) -> bool {
        let Some(from) = self.clients.get_mut(&client) else { return false };
        from.position += 1;
        let position = from.position;
        self.run(Event::Submit(ClientNo(client), position, record, attributes));
        let refused = self.effects.iter().any(|effect| {
            let Effect::Complete(to, Completion::Refused { position: at, .. }) = effect else {
                return false;
            };
            (to.0, *at) == (client, position)
        });
        self.apply_effect();
        !refused
    }

    fn ask(&mut self, client: u32, input: &mut Input<'_>) {
        let serials = self.clients.get(&client).map(|it| it.serials.clone()).unwrap_or_default();
        let request = requests::any(input, &serials);
        if matches!(
            request,
            Request::Index
                | Request::Slot { .. }
                | Request::Extents { .. }
                | Request::Clients { .. }
                | Request::Sync
                | Request::Agent { .. }
                | Request::PutDurable { .. }
        ) {
            // The daemon answers these by itself, or reads attributes first.
            return;
        }
        if let Some(client) = self.clients.get_mut(&client) {
            match &request {
                Request::Release { .. } => client.serials.clear(),
                Request::Delete { ids } => client.creations.retain(|id, _| !ids.contains(id)),
                _ => {}
            }
        }
        self.request(client, request);
    }

    fn create(&mut self, client: u32, input: &mut Input<'_>) {
        let id = id(input.below(IDS));
        let (sizes, _) = parts(input, LARGE_OBJECT_BYTES + 2 * PAGE_BYTES);
        let strict = input.below(4) == 0;
        self.request(client, Request::Create { id, sizes, traits: traits(input), strict });
    }

    fn seal(&mut self, client: u32, input: &mut Input<'_>) {
        let id = id(input.below(IDS));
        let target = if input.below(3) == 0 { crate::requests::id(input.below(IDS)) } else { id };
        let (_, attributes) = parts(input, 0);
        if self.clients.contains_key(&client) {
            self.number += 1;
            let number = self.number;
            self.outstanding(client, number, Some(id));
            self.apply(Event::Seal(
                ClientNo(client),
                number,
                SealTarget { id, target },
                attributes,
            ));
        }
    }

    fn request(&mut self, client: u32, request: Request) {
        if self.clients.contains_key(&client) {
            self.number += 1;
            let number = self.number;
            let about = match &request {
                Request::Create { id, .. }
                | Request::Seal { id }
                | Request::Replace { id, .. }
                | Request::Abort { id }
                | Request::CreateGrowing { id, .. }
                | Request::Grow { id, .. }
                | Request::SealGrown { id, .. } => Some(*id),
                _ => None,
            };
            self.outstanding(client, number, about);
            if let (Request::Grow { bytes, .. }, Some(client)) =
                (&request, self.clients.get_mut(&client))
            {
                client.growths.insert(number, *bytes);
            }
            self.apply(Event::Request(ClientNo(client), number, request));
        }
    }

    fn outstanding(&mut self, client: u32, number: u64, about: Option<ObjectId>) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.requests.insert(number, about);
        }
    }

    fn end_creation(&mut self, client: u32, id: &ObjectId) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.creations.remove(id);
        }
    }

    fn pin(&mut self, client: u32, input: &mut Input<'_>) {
        let id = id(input.below(IDS));
        let is_visible = self.store.directory().find(&id).is_some();
        if let (true, Some(client)) = (is_visible, self.clients.get_mut(&client)) {
            let serial = self.store.directory_mut().pin(&id);
            client.pins.push(serial);
            self.trace(format_args!("Pin of {serial}, {id:?}"));
        }
    }

    fn unpin(&mut self, client: u32, input: &mut Input<'_>) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        if !client.pins.is_empty() {
            let at = input.below(client.pins.len().min(256));
            let serial = client.pins.swap_remove(at);
            self.store.directory_mut().unpin(serial);
            self.trace(format_args!("End of a pin of {serial}"));
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.apply(Event::Tick);
    }

    /// The daemon did, or could not do, one of the things that it was asked for.
    fn work(&mut self, input: &mut Input<'_>) {
        if !self.work.is_empty() {
            let chosen = input.below(self.work.len().min(256));
            // Work on one extent is done in the order in which it was asked for.
            let first =
                self.work.iter().position(|work| work.extent() == self.work[chosen].extent());
            let work = self.work.remove(first.unwrap_or(chosen));
            self.done(work, input.below(8) != 0);
        }
    }

    fn finish_work(&mut self) {
        while !self.work.is_empty() {
            let work = self.work.remove(0);
            self.done(work, true);
        }
    }

    /// The store works in pieces, each of which is due at once.
    fn finish_pieces(&mut self) {
        for _ in 0..PIECES_MAX {
            self.finish_work();
            if self.store.next_deadline().is_none_or(|due_ms| due_ms > self.now_ms) {
                return;
            }
            self.apply(Event::Tick);
        }
        panic!("the store has work after {PIECES_MAX} pieces of it");
    }

    fn done(&mut self, work: Work, done: bool) {
        let event = match work {
            Work::Reserve(ticket, range, new_extent_bytes) => {
                if let (Some(bytes), true) = (new_extent_bytes, done) {
                    assert!(range.offset.saturating_add(range.bytes) <= bytes);
                    let before = self.extents.insert(range.extent, bytes);
                    assert_eq!(before, None, "a new extent has a new number");
                }
                // An extent that could not be made has no memory to reserve either.
                Event::Reserved(ticket, done && self.extents.contains_key(&range.extent))
            }
            Work::Extend(ticket, range, new_extent) => {
                Event::Reserved(ticket, done && self.extended(&range, new_extent))
            }
            Work::Settle(ticket, extent, bytes) => {
                Event::Hardened(ticket, done && self.settled(extent, bytes))
            }
            Work::Harden(ticket) => Event::Hardened(ticket, done),
            Work::Spill(ticket) => Event::Spilled(ticket, done),
            Work::Log(ticket) => self.log.put(ticket, done),
            Work::Unlog(ticket) => self.log.dead(ticket, done),
            Work::Check(ticket) => self.log.checked(ticket, done),
            Work::Open(ticket) => {
                Event::Opened(ticket, if done { OpenedFile::At(0) } else { OpenedFile::Failed })
            }
            Work::Restore(ticket, range) => {
                self.store.directory().assert_free(&range);
                Event::Restored(ticket, if done { ReadBack::Done } else { ReadBack::Failed })
            }
        };
        self.apply(event);
    }

    fn apply(&mut self, event: Event) {
        self.run(event);
        self.apply_effect();
    }

    fn run(&mut self, event: Event) {
        self.trace(format_args!("{event:?}"));
        self.store.step(self.now_ms, event, &mut self.effects);
        if self.traced {
            self.effects.iter().for_each(|effect| eprintln!("    {effect:?}"));
        }
    }

    fn trace(&self, what: std::fmt::Arguments<'_>) {
        if self.traced {
            eprintln!("{what}");
        }
    }

    fn apply_effect(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Reply(client, request, reply) => {
                    let wanted = self.growth(client, request);
                    let about = self.answered(client, request, &reply);
                    match (about, &reply) {
                        // An abort or a seal.
                        (Some(id), Reply::Done) => self.end_creation(client.0, &id),
                        (Some(id), Reply::Failed(_)) => self.forget_failed(client, &id),
                        (Some(id), Reply::Grown { bytes }) => {
                            self.has_grown(client, &id, (wanted, *bytes));
                        }
                        _ => {}
                    }
                }
                Effect::Lease(client, request, granted) => {
                    self.answered(client, request, &Reply::Done);
                    self.grant(client, None, granted.range);
                }
                Effect::Created(client, request, granted) => {
                    let about = self.answered(client, request, &Reply::Done);
                    assert!(about.is_some(), "only a create is answered so");
                    self.grant(client, about, granted.range);
                }
                Effect::Complete(client, Completion::Lease { range, .. }) => {
                    self.grant(client, None, range);
                }
                Effect::Reserve { ticket, new_extent_bytes, range, .. } => {
                    assert!(range.bytes > 0 && range.bytes.is_multiple_of(PAGE_BYTES));
                    self.work.push(Work::Reserve(ticket, range, new_extent_bytes));
                }
                Effect::Harden(ticket, _) => self.work.push(Work::Harden(ticket)),
                Effect::Spill(ticket, _) => self.work.push(Work::Spill(ticket)),
                Effect::Open(ticket, ..) => self.work.push(Work::Open(ticket)),
                Effect::Opened(client, request, _, file) => {
                    self.answered(client, request, &Reply::SpillFile(file));
                }
                Effect::CheckLog(ticket, ..) => self.work.push(Work::Check(ticket)),
                Effect::CheckFile(ticket, ..) => self.work.push(Work::Check(ticket)),
                Effect::Log(ticket, _) | Effect::Note(ticket, _) | Effect::Relog(ticket, ..) => {
                    self.work.push(Work::Log(ticket));
                }
                Effect::Unlog(ticket, ..) => self.work.push(Work::Unlog(ticket)),
                Effect::Restore(ticket, _, _, range) | Effect::ReadLog(ticket, _, _, range) => {
                    self.work.push(Work::Restore(ticket, range));
                }
                Effect::Punch(range) => self.store.directory().assert_free(&range),
                Effect::Drop(extent) => self.dropped(extent),
                Effect::Expel(client, _) => self.disconnect(client.0),
                Effect::Extend { ticket, new_extent, range } => {
                    assert!(range.bytes > 0 && range.bytes.is_multiple_of(PAGE_BYTES));
                    self.work.push(Work::Extend(ticket, range, new_extent));
                }
                Effect::Settle { ticket, extent, bytes, .. } => {
                    self.work.push(Work::Settle(ticket, extent, bytes));
                }
                Effect::Complete(..)
                | Effect::Notify(..)
                | Effect::Trim { .. }
                | Effect::Lent(_)
                | Effect::Resumed(..)
                | Effect::Writer(..)
                | Effect::Protect(_)
                | Effect::Call(..)
                | Effect::CallAdoption(..)
                | Effect::Unspill(..) => {}
            }
        }
    }

    /// The object that the request was about.
    fn answered(&mut self, client: ClientNo, request: u64, reply: &Reply) -> Option<ObjectId> {
        let client = self.clients.get_mut(&client.0).expect("only who is there is answered");
        let about = client.requests.remove(&request);
        let about = about.unwrap_or_else(|| panic!("{request} is answered twice: {reply:?}"));
        if let Reply::Located(locations) = reply {
            client.serials.extend(locations.iter().flatten().map(|location| location.serial));
        }
        about
    }

    /// A client may write there from now on: no other client does, and no object lies there.
    fn grant(&mut self, client: ClientNo, object: Option<ObjectId>, range: Range) {
        self.store.directory().assert_free(&range);
        for other in self.clients.values() {
            let mut taken = other.leases.iter().chain(other.creations.values());
            assert!(taken.all(|taken| !overlap(taken, &range)), "{range:?} is written to");
        }
        let bytes = self.extents.get(&range.extent).expect("memory lies in an extent");
        assert!(range.offset + range.bytes <= *bytes);
        let client = self.clients.get_mut(&client.0).expect("only who is there is granted memory");
        match object {
            Some(id) => assert_eq!(client.creations.insert(id, range), None),
            None => client.leases.push(range),
        }
    }

    /// The client gave this part of its memory away.
    fn carve(&mut self, client: u32, range: &Range) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        let (begin, end) = (range.offset, range.offset.saturating_add(range.bytes));
        let mut left = Vec::new();
        for own in client.leases.drain(..) {
            if !overlap(&own, range) {
                left.push(own);
                continue;
            }
            let own_end = own.offset + own.bytes;
            if own.offset < begin {
                left.push(Range { bytes: begin - own.offset, ..own });
            }
            if end < own_end {
                left.push(Range { offset: end, bytes: own_end - end, ..own });
            }
        }
        client.leases = left;
    }

    fn dropped(&mut self, extent: ExtentId) {
        if let Some(bytes) = self.extents.remove(&extent) {
            self.store.directory().assert_free(&Range { extent, offset: 0, bytes });
        }
    }

    fn status(&self) -> Status {
        let mut status = Status::default();
        self.store.status_into(&mut status);
        status
    }

    fn check(&self) {
        let status = self.status();
        assert!(status.used_bytes + status.leased_bytes <= CAPACITY_BYTES, "{status:?}");
        assert_eq!(status.clients, self.clients.len() as u64);
        let visible = self.store.directory().entries().filter(|(_, _, visible)| *visible).count();
        assert!(visible as u64 <= status.objects + status.spilled, "{visible}: {status:?}");
    }
}

fn peer(client: u32, access: Access, channel: bool) -> Peer {
    let session = u64::from(client) + 1;
    Peer { pid: client + 1, uid: 0, name: String::new(), access, channel, session }
}
