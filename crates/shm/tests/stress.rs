//! Several processes against one owner that evicts, poisons and publishes again as fast as it can.
//!
//! The owner plays the daemon. Writers lease cells of 256 bytes in their own extents, fill them
//! with a pattern that depends on the object's id, and announce them through their rings. The owner
//! publishes them, evicts others, poisons the memory of those without pins and gives the cells
//! back to their writers; now and then it moves to another index table. Readers pin random objects,
//! some for long, and check every word for as long as they hold the pin. One wrong word is a
//! violation.
//!
//! The processes are this test binary again, started with a role in their environment. It runs for
//! a few seconds; `PLASMON_STRESS_SECONDS` makes it longer and `PLASMON_STRESS_SEED` repeats a
//! run's random choices (not its timing). `PLASMON_STRESS_RUNNER` is a program that runs this
//! binary, such as an emulator of its processor.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a broken step of a test is a failed test")]

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::object::{ObjectMeta, Policy, Sizes, Traits};
use plasmon_proto::ring::{Completion, Put, Submission};
use plasmon_shm::scan::PinCounts;
use plasmon_shm::{
    ChannelClient, ChannelDaemon, Connection, ControlDaemon, ControlReader, HashKey, IndexReader,
    IndexWriter, Listener, Memfd, Populate, ReadMap, ReadOutcome, Reader, SlotImage, Span, View,
    WriteExtent, WriteMap,
};
use plasmon_testkit::{Random, mix};

/// What a run must have seen.
const EVICTED_MIN: u64 = 1000;
const TABLES_MIN: u64 = 3;

const READERS: usize = 2;
const THREADS: usize = 2;
const WRITERS: usize = 2;
const IDS: u64 = 160;
const CELLS: usize = 64;
const CELL_BYTES: usize = 256;
const EXTENT_BYTES: u64 = (CELLS * CELL_BYTES) as u64;
const PINS_HELD: usize = 8;
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

/// The content of an object: a nonce, then words that depend on the id, the nonce and their place.
fn fill(cell: &mut [u8], number: u64, nonce: u64) {
    for (at, word) in cell.chunks_exact_mut(8).enumerate() {
        let value = if at == 0 { nonce } else { mix(number << 32 ^ nonce ^ (at as u64) << 56) };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

fn is_intact(content: &[u8], number: u64) -> bool {
    let mut expected = [0; CELL_BYTES];
    let Some(nonce) = content.first_chunk() else { return false };
    fill(&mut expected, number, u64::from_le_bytes(*nonce));
    content == expected
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word(message: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(message[index * 8..][..8].try_into().unwrap())
}

const HELLO_READER: u64 = 1;
const HELLO_WRITER: u64 = 2;
const WANT_TABLE: u64 = 3;
const WELCOME: u64 = 4;
const TABLE: u64 = 5;
const STOP: u64 = 6;
const DONE: u64 = 7;

// The owner

struct Client {
    connection: Connection,
    channel: ChannelDaemon,
    /// Cells on their way back to this client, kept while its completion ring is full.
    returns: Vec<Range>,
    done: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Tally {
    published: u64,
    refused: u64,
    evicted: u64,
    pinned: u64,
    tables: u64,
}

struct Owner {
    control: ControlDaemon,
    index: IndexWriter,
    extents: Vec<(ExtentId, Memfd, WriteMap)>,
    clients: Vec<Client>,
    serial: u64,
    random: Random,
    tally: Tally,
}

impl Owner {
    fn new(seed: u64) -> Self {
        let control = ControlDaemon::create().unwrap();
        let index = IndexWriter::create(1, 64, HashKey::EXAMPLE).unwrap();
        control.set_table(1);
        let extents = (0..WRITERS as u32)
            .map(|index| {
                let memfd = Memfd::create("stress-extent", EXTENT_BYTES).unwrap();
                let map = WriteMap::new(&memfd, EXTENT_BYTES, Populate::Yes).unwrap();
                (ExtentId::new(index, 1), memfd, map)
            })
            .collect();
        let serial = control.take_serials(1 << 40);
        let random = Random::new(seed);
        Self { control, index, extents, clients: vec![], serial, random, tally: Tally::default() }
    }

    /// Welcomes a child and gives it what a client of its role gets.
    fn welcome(&mut self, connection: Connection) {
        let mut message = Vec::new();
        connection.recv(&mut message, true).unwrap();
        let channel = ChannelDaemon::create().unwrap();
        let mut fds = vec![
            self.control.memfd().read_only().unwrap(),
            self.index.memfd().read_only().unwrap(),
            channel.memfd().duplicate().unwrap(),
        ];
        let mut returns = Vec::new();
        if word(&message, 0) == HELLO_READER {
            fds.extend(self.extents.iter().map(|extent| extent.1.read_only().unwrap()));
        } else {
            let writer = word(&message, 1) as usize;
            let (extent, memfd, _) = &self.extents[writer];
            fds.push(memfd.duplicate().unwrap());
            let cell = |cell| Range {
                extent: *extent,
                offset: (cell * CELL_BYTES) as u64,
                bytes: CELL_BYTES as u64,
            };
            returns.extend((0..CELLS).map(cell));
        }
        let reply = words(&[WELCOME, self.index.number(), self.index.slots() as u64]);
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        connection.send(&reply, &borrowed).unwrap();
        self.clients.push(Client { connection, channel, returns, done: None });
    }

    fn answer(&mut self) {
        for client in &mut self.clients {
            let mut message = Vec::new();
            while client.done.is_none() && client.connection.recv(&mut message, false).is_ok() {
                assert!(!message.is_empty(), "a child died");
                if word(&message, 0) == DONE {
                    client.done = Some(message.clone());
                } else {
                    let fd = self.index.memfd().read_only().unwrap();
                    let reply = words(&[TABLE, self.index.number(), self.index.slots() as u64]);
                    client.connection.send(&reply, &[fd.as_fd()]).unwrap();
                }
            }
        }
    }

    fn grow(&mut self) {
        let number = self.index.number() + 1;
        let grown = self.index.grow(number, |_, _| {}).unwrap();
        self.control.set_table(number);
        self.index = grown;
        self.tally.tables += 1;
    }

    /// Applies everything in every ring.
    fn apply(&mut self) {
        let mut drained = Vec::new();
        for at in 0..self.clients.len() {
            drained.clear();
            self.clients[at].channel.drain(usize::MAX, &mut drained).unwrap();
            for (_, record) in &drained {
                let submission = Submission::decode(record).unwrap();
                let Submission::Put(put) = submission else {
                    panic!("writers only put: {submission:?}")
                };
                let Put { id, placement: Placement { extent, offset }, sizes, .. } = put;
                if self.index.find(&id).is_some() {
                    self.tally.refused += 1;
                    let range = Range { extent, offset, bytes: CELL_BYTES as u64 };
                    self.clients[at].returns.push(range);
                    continue;
                }
                if self.index.wants_growth() {
                    self.grow();
                }
                self.serial += 1;
                self.tally.published += 1;
                self.index.insert(&image(self.serial, id, extent, offset, sizes));
            }
            self.clients[at].channel.advance();
            self.clients[at].channel.wake().unwrap();
            self.give_back(at);
        }
    }

    fn give_back(&mut self, at: usize) {
        let client = &mut self.clients[at];
        while let Some(range) = client.returns.pop() {
            if !client.channel.complete(&Completion::Lease { position: 0, range }) {
                client.returns.push(range);
                break;
            }
        }
    }

    /// Evicts a few random objects: those without pins are poisoned and their cells given back.
    fn evict(&mut self) {
        // Now, because slots must keep their numbers until the end of the batch.
        if self.index.wants_growth() {
            self.grow();
        }
        let mut victims: Vec<_> = (0..8)
            .filter_map(|_| self.index.find(&id(self.random.below(IDS))))
            .map(|slot| (self.index.image(slot).serial, slot))
            .collect();
        victims.sort_unstable();
        victims.dedup();
        let slots: Vec<_> = victims.iter().map(|victim| victim.1).collect();
        let serials: Vec<_> = victims.iter().map(|victim| victim.0).collect();
        self.index.hide(&slots);
        let mut counts = PinCounts::new(&serials);
        for client in &self.clients {
            client.channel.scan_pins(&mut counts);
        }
        for (slot, count) in slots.into_iter().zip(counts.of(&serials)) {
            if count > 0 {
                self.index.show(slot);
                self.tally.pinned += 1;
                continue;
            }
            let image = self.index.image(slot);
            let writer = image.placement.extent.index();
            let base = self.extents[writer].2.base().wrapping_add(image.placement.offset as usize);
            // SAFETY: a cell within the extent's mapping, hidden from readers and pinned by none.
            unsafe { base.write_bytes(0xdb, CELL_BYTES) };
            self.index.remove(slot);
            self.tally.evicted += 1;
            if self.publish_again(&image, base) {
                continue;
            }
            let bytes = CELL_BYTES as u64;
            self.clients[READERS + writer].returns.push(Range {
                extent: image.placement.extent,
                offset: image.placement.offset,
                bytes,
            });
        }
    }

    /// Mostly the owner itself puts another object into the cell at once, which keeps the time
    /// between the look at the ledgers and the overwriting as short as it can be.
    fn publish_again(&mut self, old: &SlotImage, base: *mut u8) -> bool {
        let number = self.random.below(IDS);
        if self.random.below(8) == 0 || self.index.find(&id(number)).is_some() {
            return false;
        }
        // SAFETY: the cell that was just evicted; nothing refers to it until it is published.
        let cell = unsafe { std::slice::from_raw_parts_mut(base, CELL_BYTES) };
        fill(cell, number, self.serial);
        self.serial += 1;
        self.index.insert(&SlotImage { serial: self.serial, id: id(number), ..*old });
        self.tally.published += 1;
        true
    }
}

fn image(serial: u64, id: ObjectId, extent: ExtentId, offset: u64, sizes: Sizes) -> SlotImage {
    SlotImage {
        serial,
        id,
        placement: Placement { extent, offset },
        meta: ObjectMeta {
            sizes,
            traits: Traits { policy: Policy::Cache, ..Traits::default() },
            ..ObjectMeta::default()
        },
        record: serial as u32,
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Starts a child and waits for its connection, so that clients are in a known order.
fn start(listener: &Listener, socket: &PathBuf, role: &str, seed: u64) -> (Child, Connection) {
    let program = std::env::current_exe().unwrap();
    let mut command = match std::env::var_os("PLASMON_STRESS_RUNNER") {
        Some(runner) => Command::new(runner),
        None => Command::new(&program),
    };
    if command.get_program() != program {
        command.arg(&program);
    }
    let child = command
        .args(["--exact", "a_child_of_the_stress_test", "--nocapture"])
        .env("PLASMON_STRESS_ROLE", role)
        .env("PLASMON_STRESS_SOCKET", socket)
        .env("PLASMON_STRESS_SEED", seed.to_string())
        .spawn()
        .unwrap();
    (child, listener.accept().unwrap())
}

#[test]
fn no_reader_ever_sees_memory_that_is_not_its_object() {
    if std::env::var_os("PLASMON_STRESS_ROLE").is_some() {
        return;
    }
    let seconds = number_from("PLASMON_STRESS_SECONDS", 5);
    let seed = number_from("PLASMON_STRESS_SEED", u64::from(std::process::id()));
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("stress");
    let listener = Listener::bind(&socket, 0o600).unwrap();
    let mut owner = Owner::new(seed);
    let mut children = Vec::new();
    let readers = (0..READERS).map(|_| "reader".to_owned());
    let writers = (0..WRITERS).map(|writer| writer.to_string());
    for (role, seed) in readers.chain(writers).zip(seed + 1..) {
        let (child, connection) = start(&listener, &socket, &role, seed);
        owner.welcome(connection);
        children.push(child);
    }

    let started = Instant::now();
    let mut round = 0u64;
    let least = Duration::from_secs(seconds);
    // An emulated processor needs longer for as much.
    let is_short = |tally: &Tally| tally.evicted <= EVICTED_MIN || tally.tables < TABLES_MIN;
    while started.elapsed() < least
        || is_short(&owner.tally) && started.elapsed() < least + TEST_TIMEOUT
    {
        // System calls would leave little time for what this is about.
        if round.is_multiple_of(64) {
            owner.answer();
            owner.apply();
        }
        owner.evict();
        round += 1;
        if round.is_multiple_of(1 << 14) {
            owner.grow();
        }
    }
    let stopped = Instant::now();
    for client in &owner.clients {
        client.connection.send(&words(&[STOP]), &[]).unwrap();
    }
    while owner.clients.iter().any(|client| client.done.is_none()) {
        assert!(stopped.elapsed() < TEST_TIMEOUT, "children hang");
        owner.answer();
        owner.apply();
        std::thread::yield_now();
    }
    let told = |index| {
        owner
            .clients
            .iter()
            .filter_map(|client| client.done.as_ref())
            .map(|done| word(done, index))
            .sum::<u64>()
    };
    let (reads, misses, violations, switches) = (told(1), told(2), told(3), told(4));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let tally = &owner.tally;
    println!(
        "seed {seed}: {reads} reads, {misses} misses, {switches} table switches, {tally:?}; \
         {violations} violations"
    );
    assert_eq!(violations, 0, "seed {seed}");
    assert!(
        reads > 1000 && tally.evicted > EVICTED_MIN && tally.pinned > 0,
        "seed {seed}: {tally:?}"
    );
    assert!(tally.tables >= TABLES_MIN && switches >= 3, "the index grew under load: {tally:?}");
    for client in &owner.clients {
        assert_eq!(client.channel.pins_count(), 0, "every pin was released");
    }
}

// The children

/// Not a separate test: what the processes started by the stress test run.
#[test]
fn a_child_of_the_stress_test() {
    let Ok(role) = std::env::var("PLASMON_STRESS_ROLE") else { return };
    let socket = PathBuf::from(std::env::var_os("PLASMON_STRESS_SOCKET").unwrap());
    let connection = Connection::connect(&socket).unwrap();
    let seed = number_from("PLASMON_STRESS_SEED", 0);
    match role.parse::<u64>() {
        Ok(writer) => write(&connection, writer, seed),
        Err(_) => read(connection, seed),
    }
}

/// The descriptors and numbers that come with a welcome.
fn greet(connection: &Connection, hello: &[u64]) -> (Vec<OwnedFd>, u64, u64) {
    connection.send(&words(hello), &[]).unwrap();
    let mut message = Vec::new();
    let received = connection.recv(&mut message, true).unwrap();
    assert!(!received.truncated && word(&message, 0) == WELCOME);
    (received.fds, word(&message, 1), word(&message, 2))
}

struct ReaderProcess {
    reader: Reader,
    connection: Mutex<Connection>,
    stop: AtomicBool,
    violations: AtomicU64,
    reads: AtomicU64,
    misses: AtomicU64,
    switches: AtomicU64,
}

fn read(connection: Connection, seed: u64) {
    let (fds, number, slots) = greet(&connection, &[HELLO_READER]);
    let mut fds = fds.into_iter();
    let mut next = || fds.next().unwrap();
    let control = ControlReader::new(next()).unwrap();
    let index = IndexReader::new(next(), number, slots).unwrap();
    let channel = ChannelClient::new(next()).unwrap();
    let reader = Reader::new(control, index, channel).unwrap();
    for (index, fd) in (0..).zip(fds) {
        let map = ReadMap::new(&fd, EXTENT_BYTES, Populate::Yes).unwrap();
        reader.map_extent(ExtentId::new(index, 1), map).unwrap();
    }
    let reading = ReaderProcess {
        reader,
        connection: Mutex::new(connection),
        stop: AtomicBool::new(false),
        violations: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        misses: AtomicU64::new(0),
        switches: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let reading = &reading;
            scope.spawn(move || reading.run(Random::new(seed << 8 | thread)));
        }
    });
    let counts = [&reading.reads, &reading.misses, &reading.violations, &reading.switches]
        .map(|count| count.load(Ordering::Relaxed));
    let done = [DONE, counts[0], counts[1], counts[2], counts[3]];
    reading.connection.into_inner().unwrap().send(&words(&done), &[]).unwrap();
}

impl ReaderProcess {
    fn run(&self, mut random: Random) {
        let mut held: HashMap<usize, (u64, View<'_>)> = HashMap::new();
        let started = Instant::now();
        for round in 0u64.. {
            if round.is_multiple_of(512) {
                self.look_for_stop();
                assert!(
                    started.elapsed() < TEST_TIMEOUT + Duration::from_secs(3600),
                    "no end comes"
                );
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let number = random.below(IDS);
            match self.reader.get(&id(number)).unwrap() {
                ReadOutcome::Object(view) => {
                    self.check(number, &view);
                    self.reads.fetch_add(1, Ordering::Relaxed);
                    // Every now and then a pin is kept for long, in the place of another one.
                    if random.below(64) == 0 {
                        let place = random.below(PINS_HELD as u64) as usize;
                        if let Some((number, old)) = held.insert(place, (number, view)) {
                            self.check(number, &old);
                        }
                    }
                }
                ReadOutcome::Missing => {
                    self.misses.fetch_add(1, Ordering::Relaxed);
                }
                ReadOutcome::TableChanged => self.follow(),
                ReadOutcome::Parted => panic!("the daemon of this test disconnects no client"),
                ReadOutcome::Unmapped(held) => panic!("every extent is mapped: {:?}", held.image()),
            }
        }
        for (number, view) in held.into_values() {
            self.check(number, &view);
        }
    }

    fn check(&self, number: u64, view: &View<'_>) {
        let of_this_object = view.image().id == id(number) && is_intact(view.data(), number);
        // Once more: the owner has had time to do something wrong.
        let still = is_intact(view.data(), number);
        if !of_this_object || !still {
            self.violations.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn look_for_stop(&self) {
        let connection = self.connection.lock().unwrap();
        let mut message = Vec::new();
        if connection.recv(&mut message, false).is_ok() {
            assert!(!message.is_empty(), "the owner died");
            assert_eq!(word(&message, 0), STOP);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn follow(&self) {
        let connection = self.connection.lock().unwrap();
        if self.reader.index().number() == self.reader.control().table() {
            return;
        }
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        connection.send(&words(&[WANT_TABLE]), &[]).unwrap();
        loop {
            let mut message = Vec::new();
            let mut received = connection.recv(&mut message, true).unwrap();
            assert!(!message.is_empty(), "the owner died");
            if word(&message, 0) == STOP {
                self.stop.store(true, Ordering::Relaxed);
                continue;
            }
            let fd = received.fds.remove(0);
            self.reader.index().switch(fd, word(&message, 1), word(&message, 2)).unwrap();
            self.switches.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

fn write(connection: &Connection, writer: u64, seed: u64) {
    let (fds, number, slots) = greet(connection, &[HELLO_WRITER, writer]);
    let mut fds = fds.into_iter();
    let mut next = || fds.next().unwrap();
    let control = ControlReader::new(next()).unwrap();
    let index = IndexReader::new(next(), number, slots).unwrap();
    let channel = ChannelClient::new(next()).unwrap();
    let extent = Arc::new(WriteExtent::new(next(), Populate::Yes).unwrap());
    let reader = Reader::new(control, index, channel).unwrap();
    let mut random = Random::new(seed);
    let mut message = Vec::new();
    let mut last = None;
    for nonce in 0u64.. {
        if connection.recv(&mut message, false).is_ok() {
            assert!(word(&message, 0) == STOP);
            break;
        }
        let Some(Completion::Lease { range, .. }) = reader.next_completion() else {
            std::thread::yield_now();
            continue;
        };
        let mut cell: Span = extent.lease(range.offset, range.bytes).unwrap();
        let number = random.below(IDS);
        fill(&mut cell, number, seed << 40 | nonce);
        let put = Submission::Put(Put {
            id: id(number),
            placement: Placement { extent: range.extent, offset: cell.offset() },
            sizes: Sizes { data: CELL_BYTES as u64, ..Sizes::default() },
            traits: Traits::default(),
        });
        drop(cell);
        // The ring is never full here (fewer cells than records); waiting for the daemon now and
        // then puts sleeping on the head under stress as well.
        if let Some(position) = last.take_if(|_| random.below(8) == 0) {
            let deadline = Some(Instant::now() + TEST_TIMEOUT);
            assert!(reader.channel().wait_applied(position, deadline).unwrap());
        }
        let submitted = reader.channel().submit(&put.encode(), reader.control()).unwrap();
        last = Some(submitted.position);
    }
    connection.send(&words(&[DONE, 0, 0, 0, 0]), &[]).unwrap();
}
