//! Simulated clients: programs over the real client library.
//!
//! Each is one process with one thread, beside the library's own, that does one operation after the
//! other. Where it is suspended inside one is up to the scheduler; what it may conclude from the
//! answer is the model's.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use plasmon_client::{
    Buffer, Client as Connection, Code, ConnectOptions, Error, GrowOptions, ObjectId, ObjectState,
    Policy, PutOptions,
};
use plasmon_shm::edge;
use plasmon_testkit::{Random, mix};

use crate::model::{self, BYTES_MIN, Fact, Incarnation, Model};
use crate::world::World;

/// Ids that one client's place has.
const IDS_EACH: u64 = 6;

/// How many of them are used where all read the same.
const IDS_CROWDED: u64 = 2;

/// Buffers that a client holds at most.
const HELD_MAX: usize = 5;

/// How often a client looks at its messages while all is calm.
const CALM: Duration = Duration::from_millis(250);

/// What an object is made of that was put without waiting.
const UNASKED: u8 = 7;

/// How often a hasty client lets others look for what it put.
const PAUSES_HASTY: usize = 8;

/// How often one asks for something else before it gives up waiting for what others put so.
const QUESTIONS_HASTY: usize = 12;

/// How often a brief reader lets others run before it looks again at what it read.
const PAUSES_BRIEF: usize = 12;

/// For how long a client waits for an object.
const TIMEOUT: Duration = Duration::from_millis(50);

/// What the clients of one world share with who watches them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) model: RefCell<Model>,
    /// Clients finish what they do, let everything go and wait.
    pub(crate) is_calm: Cell<bool>,
    /// Whether any client had to connect again: its earlier session is not notified of extents that
    /// are gone.
    pub(crate) is_anew: Cell<bool>,
    /// Those that sleep look at their messages all the same.
    pub(crate) is_roused: Cell<bool>,
    /// Then they end.
    pub(crate) is_over: Cell<bool>,
    /// Clients that are in the middle of something.
    pub(crate) busy: Cell<usize>,
    pub(crate) operations: Cell<u64>,
    pub(crate) socket: PathBuf,
    pub(crate) places: usize,
    pub(crate) sizes: Sizes,
    pub(crate) habits: Habits,
    /// An object without an id of the client's choice that was put last, and where that was.
    pub(crate) latest: Cell<Option<Latest>>,
}

/// What the clients of one world do, so that some things come together in some worlds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Single objects ask for strict protection.
    pub(crate) strict: bool,
    /// Some clients have no channel.
    pub(crate) sockets: bool,
    /// When all is calm clients do nothing.
    pub(crate) sleep: bool,
    /// All of them read what the first one puts and deletes.
    pub(crate) crowd: bool,
    /// They do so without a rest, and hold nothing for long: an object that is being hidden is
    /// often one that nothing pins yet.
    pub(crate) brief: bool,
    /// Objects have their own memory, which is gone with them.
    pub(crate) exact: bool,
    /// All of them put without waiting, and look for what was put so last.
    pub(crate) hasty: bool,
}

/// An object that was put without waiting for the daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    id: ObjectId,
    bytes: usize,
    daemons_ended: u64,
}

/// How large objects are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) small_max: u64,
    pub(crate) large_max: u64,
    /// How often one is large, in a thousand.
    pub(crate) large_rate: u64,
}

/// A buffer and what it held when it was got.
struct HeldBuffer {
    buffer: Buffer,
    id: ObjectId,
    incarnation: Incarnation,
    /// How many daemons there had been.
    daemons: u64,
}

/// Counts a client as busy while it lives, also when it is killed.
struct Busy(Rc<Shared>);

impl Busy {
    fn begin(shared: &Rc<Shared>) -> Self {
        shared.busy.set(shared.busy.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

/// A client.
pub(crate) struct Client {
    world: Rc<World>,
    shared: Rc<Shared>,
    place: usize,
    random: Random,
    store: Connection,
    held: Vec<HeldBuffer>,
    /// What a child of this process still has open.
    children: Vec<OwnedFd>,
    has_channel: bool,
}

/// The id of an object.
pub(crate) fn id_of(place: usize, number: u64) -> ObjectId {
    let mut id = [0x5a; 20];
    id[..8].copy_from_slice(&mix((place as u64) << 32 | number).to_le_bytes());
    id[12] = place as u8;
    id[13] = number as u8;
    ObjectId::new(id)
}

/// The ids of a place.
pub(crate) fn ids_of(place: usize) -> impl Iterator<Item = ObjectId> {
    (0..IDS_EACH).map(move |number| id_of(place, number))
}

/// Whether objects of this number may be evicted.
fn is_cache(number: u64) -> bool {
    number % IDS_EACH == IDS_EACH - 1
}

/// How a client connects.
pub(crate) fn options(shared: &Shared, random: &mut Random) -> ConnectOptions {
    ConnectOptions {
        socket: Some(shared.socket.clone()),
        name: "simulated".to_owned(),
        channel: !(shared.habits.sockets && random.permille(200)),
        exact: random.permille(if shared.habits.exact { 900 } else { 80 }),
        connect_timeout: Duration::from_secs(60),
        reconnect_timeout: Duration::from_secs(60),
        copy_threads: Some(1),
        ..ConnectOptions::default()
    }
}

/// The whole life of a client in this place.
pub(crate) fn live(world: Rc<World>, shared: Rc<Shared>, place: usize, mut random: Random) {
    let busy = Busy::begin(&shared);
    let options = options(&shared, &mut random);
    let store = match Connection::connect(&options) {
        Ok(store) => store,
        Err(error) => return world.note(|| format!("client {place} does not connect: {error}")),
    };
    drop(busy);
    let (held, children) = (Vec::new(), Vec::new());
    let has_channel = options.channel;
    world.note(|| format!("client {place} is connected, with a channel: {has_channel}"));
    let mut client = Client { has_channel, world, shared, place, random, store, held, children };
    while !client.shared.is_over.get() {
        if client.shared.is_calm.get() {
            client.calm_down();
            edge::sleep(CALM);
            continue;
        }
        let busy = Busy::begin(&client.shared);
        client.operate();
        drop(busy);
        client.idle();
    }
    client.check_held();
    if client.random.permille(500) {
        client.store.disconnect();
    }
}

impl Client {
    fn idle(&mut self) {
        if self.shared.habits.brief {
            return edge::pause(edge::Point::Wait);
        }
        let time = match self.random.below(10) {
            0 => Duration::from_millis(self.random.below(500)),
            1..4 => Duration::from_micros(self.random.below(2000)),
            _ => return edge::pause(edge::Point::Wait),
        };
        edge::sleep(time);
    }

    /// Lets everything go, and looks at its messages as any call does.
    fn calm_down(&mut self) {
        self.check_held();
        self.held.clear();
        self.children.clear();
        if !self.shared.habits.sleep || self.shared.is_roused.get() {
            let _ = self.store.flush();
        }
        if self.store.sessions() > 1 {
            self.shared.is_anew.set(true);
        }
    }

    fn operate(&mut self) {
        self.shared.operations.set(self.shared.operations.get() + 1);
        let is_crowded = self.shared.habits.crowd;
        let number = self.random.below(if is_crowded { IDS_CROWDED } else { IDS_EACH });
        let own = id_of(self.place, number);
        let place = self.random.below(self.shared.places as u64) as usize;
        let any = id_of(if is_crowded { 0 } else { place }, number);
        let often = if self.shared.habits.brief { 900 } else { 600 };
        if is_crowded && self.random.permille(often) {
            return match self.place {
                0 => self.put(own, number),
                _ if self.shared.habits.brief => self.look_now(any),
                _ => self.get(any),
            };
        }
        if self.shared.habits.hasty && self.random.permille(600) {
            let puts = self.shared.latest.get().is_none() && self.random.permille(500);
            return if puts { self.put_unasked() } else { self.await_latest() };
        }
        match self.random.below(100) {
            0..26 => self.put(own, number),
            26..28 => self.put_unasked(),
            28..30 => self.get_latest(),
            30..36 => self.create(own, number),
            36..39 => self.grow(),
            39..60 => self.get(any),
            60..66 => self.look_now(any),
            66..69 => self.states(),
            69..72 => self.read(any),
            72..76 => self.wait(any),
            76..82 => self.delete(own),
            82..86 => self.replace(own, number),
            86..90 => self.check_held(),
            90..95 => self.release(),
            95..97 => drop(self.store.flush()),
            97 => drop(self.store.status()),
            98 => self.sever(),
            _ => self.fork(),
        }
    }

    fn sever(&mut self) {
        if !self.has_channel {
            // What the daemon has pinned for a connection is free when that ends.
            self.held.clear();
        }
        self.store.sever();
    }

    fn bytes(&mut self) -> usize {
        let sizes = self.shared.sizes;
        let max =
            if self.random.permille(sizes.large_rate) { sizes.large_max } else { sizes.small_max };
        BYTES_MIN + self.random.below(max) as usize
    }

    fn violate(&self, what: String) {
        self.world.violate(format!("client {}: {what}", self.place));
    }

    fn judge<T>(&self, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|what| self.violate(what)).ok()
    }

    fn begin(&mut self, id: ObjectId, number: u64) -> (Incarnation, Vec<u8>, PutOptions) {
        let policy = if is_cache(number) { Policy::Cache } else { Policy::Keep };
        let bytes = self.bytes();
        let incarnation = self.shared.model.borrow_mut().begin(id, bytes, is_cache(number));
        let options = PutOptions { id: Some(id), policy, ..PutOptions::default() };
        (incarnation, model::data(&id, incarnation), options)
    }

    fn put(&mut self, id: ObjectId, number: u64) {
        let before = self.shared.model.borrow().fact(&id);
        if matches!(before, Fact::Present(_)) && self.random.permille(800) {
            return self.delete(id);
        }
        let (incarnation, data, options) = self.begin(id, number);
        let outcome = self.store.put(&data, &options).map(drop);
        self.conclude(id, incarnation, before, outcome);
    }

    /// Puts another object of the same id: in one step, or without waiting for the end of the one
    /// that is there.
    fn replace(&mut self, id: ObjectId, number: u64) {
        let Fact::Present(old) = self.shared.model.borrow().fact(&id) else {
            return self.put(id, number);
        };
        if self.random.permille(700) {
            return self.replace_at_once(id, number, old);
        }
        let (incarnation, data, options) = self.begin(id, number);
        if let Err(error) = self.store.delete_soon(&id) {
            return self.conclude(id, incarnation, Fact::Unsure, Err(error));
        }
        let outcome = self.store.put(&data, &options).map(drop);
        if let Err(error) = &outcome
            && error.code() == Code::BadRequest
        {
            self.violate(format!("{id} is not put again after its end: {error}"));
        }
        self.conclude(id, incarnation, Fact::Unsure, outcome);
    }

    fn replace_at_once(&mut self, id: ObjectId, number: u64, old: Incarnation) {
        let bytes = self.bytes();
        let incarnation = self.shared.model.borrow_mut().begin_in_place_of(id, old, bytes);
        let policy = if is_cache(number) { Policy::Cache } else { Policy::Keep };
        let strict = self.random.permille(100) && self.shared.habits.strict;
        let options =
            PutOptions { id: Some(id), policy, strict, replace: true, ..PutOptions::default() };
        let outcome = self.store.put(&model::data(&id, incarnation), &options).map(drop);
        self.conclude(id, incarnation, Fact::Present(old), outcome);
    }

    fn create(&mut self, id: ObjectId, number: u64) {
        let before = self.shared.model.borrow().fact(&id);
        if matches!(before, Fact::Present(_)) {
            return self.delete(id);
        }
        let (incarnation, data, options) = self.begin(id, number);
        let half = data.len() / 2;
        let strict = self.random.permille(100) && self.shared.habits.strict;
        let options = PutOptions { strict, ..options };
        let mut writer = match self.store.create(data.len() as u64, &options) {
            Ok(writer) => writer,
            Err(error) => return self.conclude(id, incarnation, before, Err(error)),
        };
        let written = writer.copy_at(0, &data[..half]);
        edge::pause(edge::Point::Wait);
        let written = written.and_then(|()| writer.copy_at(half, &data[half..]));
        let outcome = match (written, self.random.permille(850)) {
            (Ok(()), true) => writer.seal().map(drop),
            (Ok(()), false) => {
                // Whether the daemon receives it is known only to a client that asks.
                drop(writer.abort());
                return self.shared.model.borrow_mut().set(&id, Fact::Unsure);
            }
            (Err(error), _) => Err(error),
        };
        self.conclude(id, incarnation, before, outcome);
    }

    /// What an answered put means.
    fn conclude(
        &mut self,
        id: ObjectId,
        incarnation: Incarnation,
        before: Fact,
        outcome: Result<(), Error>,
    ) {
        let fact = match &outcome {
            Ok(()) => Fact::Present(incarnation),
            Err(error) if is_refusal(error.code()) => before,
            Err(_) => Fact::Unsure,
        };
        let number = incarnation.number;
        match &outcome {
            Ok(()) => self.world.note(|| format!("client {} put {id} ({number})", self.place)),
            Err(error) => {
                let code = error.code().key();
                self.world.note(|| format!("client {} put {id} ({number}): {code}", self.place));
                self.tolerate(error);
            }
        }
        if outcome.as_ref().is_err_and(|error| !is_refusal(error.code())) {
            // What was asked of a daemon that went away may still be carried out.
            self.shared.model.borrow_mut().orphan(std::iter::once(id));
        }
        // A put whose earlier one was unsure may have found that one there.
        let fact = if before == Fact::Unsure && outcome.is_err() { Fact::Unsure } else { fact };
        self.shared.model.borrow_mut().set(&id, fact);
    }

    /// Puts without waiting for the daemon. What is in the ring is found by all who ask.
    fn put_unasked(&mut self) {
        let latest = Latest {
            id: ObjectId::new([0; 20]),
            bytes: self.bytes(),
            daemons_ended: self.world.daemons_ended(),
        };
        // What goes into the ring of a store that has ended is lost with it.
        if self.store.status().is_err() {
            return;
        }
        let data = vec![UNASKED; latest.bytes];
        let id = match self.store.put(&data, &PutOptions::default()) {
            Ok(id) => id,
            Err(error) => return self.tolerate(&error),
        };
        let latest = Latest { id, ..latest };
        self.shared.latest.set(Some(latest));
        let pauses = if self.shared.habits.hasty { PAUSES_HASTY } else { 1 };
        (0..pauses).for_each(|_| edge::pause(edge::Point::Wait));
        self.find(latest);
        if self.shared.latest.get().is_some_and(|latest| latest.id == id) {
            self.shared.latest.set(None);
        }
        if let Err(error) = self.store.delete(&[id]) {
            self.tolerate(&error);
        }
    }

    fn get_latest(&mut self) {
        if let Some(latest) = self.shared.latest.get() {
            self.find(latest);
        }
    }

    /// Asks one question after the other until something is put without waiting, then for that. The
    /// daemon knows of its questions before it receives the put.
    fn await_latest(&mut self) {
        for _ in 0..QUESTIONS_HASTY {
            if self.shared.latest.get().is_some() {
                break;
            }
            if let Err(error) = self.store.states(&[id_of(self.place, 0)]) {
                return self.tolerate(&error);
            }
        }
        self.get_latest();
    }

    /// Looks for an object that was put, and not deleted yet when the look begins.
    fn find(&mut self, latest: Latest) {
        let Latest { id, bytes, daemons_ended } = latest;
        let ended = self.world.daemons_ended();
        let found = self.store.get(&id, Some(Duration::ZERO));
        // Meanwhile it may have been deleted, and one daemon that ends takes nothing along.
        let is_there = self.shared.latest.get().is_some_and(|now| now.id == id)
            && self.world.daemons_ended() == daemons_ended;
        match found {
            // The pin of a client without a channel ended with the daemon that counted it.
            Ok(_) if !self.has_channel && self.world.daemons_ended() != ended => {}
            Ok(buffer) if buffer.data() == vec![UNASKED; bytes] => {}
            Ok(_) => self.violate(format!("wrong bytes: {id}, put without waiting")),
            Err(error) if error.code() == Code::Absent && is_there => {
                self.violate(format!("lost: {id} is absent after its put, without waiting"));
            }
            Err(error) => self.tolerate(&error),
        }
    }

    fn grow(&mut self) {
        let options = GrowOptions { policy: Policy::Cache, ..GrowOptions::default() };
        let mut growing = match self.store.grow(&options) {
            Ok(growing) => growing,
            Err(error) => return self.tolerate(&error),
        };
        let id = growing.id();
        let bytes = self.bytes();
        let incarnation = self.shared.model.borrow_mut().begin(id, bytes, true);
        let data = model::data(&id, incarnation);
        if let Err(error) = growing.ensure(data.len()) {
            return self.conclude(id, incarnation, Fact::Absent, Err(error));
        }
        growing.write(0, &data);
        edge::pause(edge::Point::Wait);
        let outcome = growing.seal(data.len()).map(drop);
        let is_sealed = outcome.is_ok();
        self.conclude(id, incarnation, Fact::Absent, outcome);
        if is_sealed {
            self.get(id);
            self.delete(id);
        }
    }

    fn get(&mut self, id: ObjectId) {
        let look = self.shared.model.borrow_mut().look(id);
        let timeout = self.random.pick(&[Duration::ZERO, TIMEOUT]);
        // What a client without a channel has pinned then is known to this one or a later one.
        let daemons = self.world.daemons();
        match self.store.get(&id, Some(timeout)) {
            // Its pin ended with the daemon that counted it.
            Ok(_) if !self.has_channel && daemons != self.world.daemons() => {}
            Ok(buffer) => {
                let found = self.shared.model.borrow_mut().found(&look, buffer.data());
                let Some(incarnation) = self.judge(found) else { return };
                if self.held.len() < HELD_MAX && self.random.permille(400) {
                    self.held.push(HeldBuffer { buffer, id, incarnation, daemons });
                    return;
                }
                edge::pause(edge::Point::Wait);
                self.check(&HeldBuffer { buffer, id, incarnation, daemons });
            }
            Err(error) if is_final(error.code()) => {
                let told = error.code().key();
                let missed = self.shared.model.borrow_mut().missed(&look, told);
                self.judge(missed);
            }
            Err(error) => self.tolerate(&error),
        }
    }

    /// Reads the object where it is, in memory or in its file.
    fn read(&mut self, id: ObjectId) {
        let look = self.shared.model.borrow_mut().look(id);
        let daemons = self.world.daemons();
        let read = self.store.open(&id).and_then(|reader| {
            edge::pause(edge::Point::Wait);
            let mut data = vec![0; reader.bytes() as usize];
            reader.read_at(0, &mut data).map(|()| data)
        });
        match read {
            // Its pin ended with the daemon that counted it.
            Ok(_) if !self.has_channel && daemons != self.world.daemons() => {}
            Ok(data) => {
                let found = self.shared.model.borrow_mut().found(&look, &data);
                self.judge(found);
            }
            Err(error) if is_final(error.code()) => {
                let told = error.code().key();
                let missed = self.shared.model.borrow_mut().missed(&look, told);
                self.judge(missed);
            }
            Err(error) => self.tolerate(&error),
        }
    }

    /// Reads in place, without a request.
    fn look_now(&mut self, id: ObjectId) {
        let look = self.shared.model.borrow_mut().look(id);
        let Some(pinned) = self.store.get_now(&id) else { return };
        let found = self.shared.model.borrow_mut().found(&look, pinned.data());
        let Some(incarnation) = self.judge(found) else { return };
        let pauses = if self.shared.habits.brief { PAUSES_BRIEF } else { 1 };
        (0..pauses).for_each(|_| edge::pause(edge::Point::Wait));
        self.judge(model::check(&id, incarnation, pinned.data()));
    }

    fn states(&mut self) {
        let place = self.random.below(self.shared.places as u64) as usize;
        let ids: Vec<ObjectId> = ids_of(place).collect();
        let looks: Vec<_> = ids.iter().map(|id| self.shared.model.borrow_mut().look(*id)).collect();
        let states = match self.store.states(&ids) {
            Ok(states) => states,
            Err(error) => return self.tolerate(&error),
        };
        for (look, state) in looks.iter().zip(states) {
            let outcome = {
                let mut model = self.shared.model.borrow_mut();
                match state {
                    state if state.is_readable() => model.seen(look),
                    state => model.missed(look, state.key()),
                }
            };
            self.judge(outcome);
        }
    }

    fn wait(&mut self, id: ObjectId) {
        let look = self.shared.model.borrow_mut().look(id);
        let before = self.world.time();
        let outcome = self.store.wait(&[id], 1, Some(TIMEOUT));
        if let Ok([state]) = outcome.as_deref() {
            let state: ObjectState = *state;
            if !state.is_readable() {
                let missed = self.shared.model.borrow_mut().missed(&look, state.key());
                self.judge(missed);
            }
        }
        let took = self.world.time().saturating_sub(before);
        if let Err(error) = outcome {
            self.tolerate(&error);
        }
        if took > Duration::from_secs(200) {
            self.world.note(|| format!("a wait of {TIMEOUT:?} took {took:?}"));
        }
    }

    fn delete(&mut self, id: ObjectId) {
        self.shared.model.borrow_mut().set(&id, Fact::Unsure);
        let outcome = self.store.delete(&[id]);
        let place = self.place;
        let fact = match outcome.as_ref().map(|codes| codes.first().copied().flatten()) {
            Ok(None | Some(Code::Absent)) => Fact::Absent,
            Ok(Some(Code::Evicted | Code::Deleted | Code::CreatorDied)) => Fact::Absent,
            _ => Fact::Unsure,
        };
        self.world.note(|| format!("client {place} deletes {id}: {outcome:?}"));
        if let Err(error) = outcome {
            self.tolerate(&error);
        }
        self.shared.model.borrow_mut().set(&id, fact);
    }

    /// A pin outlives the daemon in the ledger of a channel. What a client without one has pinned
    /// is known to its daemon alone.
    fn check(&self, held: &HeldBuffer) {
        if self.has_channel || held.daemons == self.world.daemons() {
            self.judge(model::check(&held.id, held.incarnation, held.buffer.data()));
        }
    }

    fn check_held(&mut self) {
        self.held.iter().for_each(|held| self.check(held));
        self.shared.model.borrow_mut().checks += self.held.len() as u64;
    }

    fn release(&mut self) {
        self.check_held();
        if !self.held.is_empty() {
            let at = self.random.below(self.held.len() as u64) as usize;
            self.held.swap_remove(at);
        }
    }

    /// A child has this process's connection open, for a while.
    fn fork(&mut self) {
        match self.store.duplicate_link() {
            Some(link) if self.children.is_empty() => self.children.push(link),
            _ => self.children.clear(),
        }
    }

    /// Whether an operation may fail so.
    fn tolerate(&self, error: &Error) {
        let is_expected = matches!(
            error.code(),
            Code::Disconnected
                | Code::StoreFull
                | Code::TimedOut
                | Code::Exists
                | Code::Absent
                | Code::NotSealed
                | Code::Cancelled
                | Code::CreatorDied
                | Code::Deleted
                | Code::Evicted
                | Code::TooManyPins
                | Code::TooLarge
                | Code::InUse
                | Code::LimitReached
                | Code::Io
                | Code::NotOwner
                | Code::BadRequest
        );
        if !is_expected {
            self.violate(format!("unexpected: {} ({})", error, error.code().key()));
        }
    }
}

/// Whether the object was certainly not put.
fn is_refusal(code: Code) -> bool {
    matches!(code, Code::StoreFull | Code::TooLarge)
}

/// Whether the object is certainly not there.
fn is_final(code: Code) -> bool {
    matches!(code, Code::Absent | Code::Deleted | Code::Evicted | Code::CreatorDied | Code::Corrupt)
}
