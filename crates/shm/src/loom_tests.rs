//! Models of every protocol over shared words, run by loom in all orders that the memory model
//! allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p plasmon-shm --release --target-dir target/loom loom
//! ```
//!
//! What one process gives to the other (an object's memory, a published record) is a loom cell,
//! which reports every pair of accesses that is not ordered. Bounds on preemptions keep a model
//! within seconds and suffice to catch every weakening of the protocols that was tried.

use std::ops::Deref;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex, Notify};
use loom::thread;
use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Placement};
use plasmon_proto::object::{ObjectMeta, Sizes};

use crate::disconnect_word;
use crate::futex_event;
use crate::ledger::{Ledger, LedgerLocal, TooManyPins};
use crate::lookup::Lookup;
use crate::mapped_extent::{MappedExtent, Place};
use crate::ring::{Consumer, Producer, RECORD_WORDS, Ring};
use crate::scan::{LedgerScan, PinCounts};
use crate::sleep_flag;
use crate::slot::{HashKey, Head, Slot, SlotImage, State};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::table::{self, CurrentTable, Table, TableWriter};

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// A table that daemon and client share.
#[derive(Clone)]
struct Slots(Arc<Vec<Slot>>);

impl Slots {
    fn new(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| Slot::new()).collect()))
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.0
    }
}

/// An id for each incarnation. The tables have one slot, so all of them live in the same place.
fn id(serial: u64) -> ObjectId {
    ObjectId::new([serial as u8; 20])
}

fn image(serial: u64) -> SlotImage {
    SlotImage {
        serial,
        id: id(serial),
        placement: Placement { extent: ExtentId(serial), offset: 64 * serial },
        meta: ObjectMeta {
            sizes: Sizes { data: serial, metadata: serial, ..Sizes::default() },
            created_ms: serial,
            ..ObjectMeta::default()
        },
        record: serial as u32,
    }
}

/// A table as a client sees it.
fn view(slots: &[Slot]) -> Table<'_> {
    Table { slots, key: &HashKey::EXAMPLE }
}

/// A client looks for an object in table 1.
fn get(
    slots: &[Slot],
    id: &ObjectId,
    word: &AtomicU64,
    ledger: &Ledger<'_>,
) -> Result<Lookup, TooManyPins> {
    view(slots).get(id, CurrentTable { word, number: 1 }, ledger)
}

/// A client's ledger and the word that names the current table.
struct Client {
    entries: Vec<AtomicU64>,
    high: AtomicU64,
    local: LedgerLocal,
    current: AtomicU64,
}

impl Client {
    fn new(entries: usize) -> Self {
        Self {
            entries: (0..entries).map(|_| AtomicU64::new(0)).collect(),
            high: AtomicU64::new(0),
            local: LedgerLocal::new(),
            current: AtomicU64::new(1),
        }
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger::new(&self.entries, &self.high, &self.local)
    }

    /// Whether the daemon finds a pin on `serial`.
    fn pins(&self, serial: u64) -> bool {
        let mut counts = PinCounts::new(&[serial]);
        LedgerScan::new(&self.entries, &self.high).count(&mut counts);
        counts.of(&[serial]) != [0]
    }

    /// Reads object `serial` once, if it can be pinned in `slots`, which is table 1.
    fn read(&self, serial: u64, slots: &[Slot], memory: &UnsafeCell<u64>) {
        let found = get(slots, &id(serial), &self.current, &self.ledger());
        if let Ok(Lookup::Pinned(pin)) = found {
            assert_eq!(pin.words.image(), image(serial), "the fields belong to the object");
            // SAFETY: the object is pinned; loom fails the model if the daemon writes meanwhile.
            memory.with(|content| assert_eq!(unsafe { *content }, serial));
            self.ledger().release(pin.entry());
        }
    }
}

/// The daemon evicts: hides, looks at the ledger, uses the memory again or shows the object.
fn evict(writer: &mut TableWriter<Slots>, at: usize, client: &Client, memory: &UnsafeCell<u64>) {
    writer.hide([at]);
    if client.pins(1) {
        writer.show(at);
    } else {
        // SAFETY: the object has no pins; loom fails the model if a reader remains.
        memory.with_mut(|content| unsafe { *content = 2 });
        writer.remove(at);
    }
}

#[test]
fn loom_a_pinned_object_is_not_evicted() {
    model(4, || {
        let slots = Slots::new(1);
        let mut writer = TableWriter::adopt(slots.clone(), HashKey::EXAMPLE);
        let at = writer.insert(&image(1), State::Live);
        let shared = Arc::new((Client::new(1), UnsafeCell::new(1)));
        let other = shared.clone();
        let reader = thread::spawn(move || other.0.read(1, &slots, &other.1));
        evict(&mut writer, at, &shared.0, &shared.1);
        reader.join().unwrap();
    });
}

#[test]
fn loom_two_threads_pin_in_one_ledger_while_the_daemon_evicts() {
    model(2, || {
        let slots = Slots::new(1);
        let mut writer = TableWriter::adopt(slots.clone(), HashKey::EXAMPLE);
        let at = writer.insert(&image(1), State::Live);
        let shared = Arc::new((Client::new(2), UnsafeCell::new(1)));
        let readers = [0, 1].map(|_| {
            let (other, slots) = (shared.clone(), slots.clone());
            thread::spawn(move || other.0.read(1, &slots, &other.1))
        });
        evict(&mut writer, at, &shared.0, &shared.1);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// One thread pins where another lowers the mark below which the daemon looks.
#[test]
fn loom_a_pin_counts_while_the_mark_falls() {
    model(3, || {
        let slots = Slots::new(1);
        let mut writer = TableWriter::adopt(slots.clone(), HashKey::EXAMPLE);
        let at = writer.insert(&image(1), State::Live);
        let shared = Arc::new((Client::new(1), UnsafeCell::new(1)));
        // The mark is up from an earlier pin.
        let entry = shared.0.ledger().claim(7).unwrap();
        shared.0.ledger().release(entry);
        let (other, third) = (shared.clone(), shared.clone());
        let reader = thread::spawn(move || other.0.read(1, &slots, &other.1));
        let lowerer = thread::spawn(move || third.0.ledger().lower());
        evict(&mut writer, at, &shared.0, &shared.1);
        reader.join().unwrap();
        lowerer.join().unwrap();
    });
}

#[test]
fn loom_a_pin_in_an_old_table_counts_or_fails() {
    model(3, || {
        let old = Slots::new(1);
        let mut writer = TableWriter::adopt(old.clone(), HashKey::EXAMPLE);
        writer.insert(&image(1), State::Live);
        let shared = Arc::new((Client::new(1), UnsafeCell::new(1)));
        let other = shared.clone();
        let reader = thread::spawn(move || other.0.read(1, &old, &other.1));

        // The daemon grows the table and evicts from the new one; the old one still says live.
        let mut grown = TableWriter::adopt(Slots::new(1), HashKey::EXAMPLE);
        let at = grown.insert(&image(1), State::Live);
        table::announce(&shared.0.current, 2);
        evict(&mut grown, at, &shared.0, &shared.1);
        reader.join().unwrap();
    });
}

/// A client whose connection broke unnoticed pinned what the daemon had ceased to look for.
#[test]
fn loom_a_pin_through_a_broken_connection_counts_or_is_given_up() {
    model(4, || {
        let slots = Slots::new(1);
        let mut writer = TableWriter::adopt(slots.clone(), HashKey::EXAMPLE);
        let at = writer.insert(&image(1), State::Live);
        let shared = Arc::new((Client::new(1), UnsafeCell::new(1), AtomicU64::new(0)));
        let other = shared.clone();
        let reader = thread::spawn(move || {
            let (client, memory, parted) = &*other;
            let found = get(&slots, &id(1), &client.current, &client.ledger());
            let Ok(Lookup::Pinned(pin)) = found else { return };
            if !disconnect_word::is_set(parted) {
                // SAFETY: it is pinned; loom fails the model if the daemon writes meanwhile.
                memory.with(|content| assert_eq!(unsafe { *content }, 1));
            }
            client.ledger().release(pin.entry());
        });
        let (client, memory, parted) = &*shared;
        disconnect_word::set(parted, true);
        let is_forgotten = !client.pins(1);
        writer.hide([at]);
        if is_forgotten {
            // SAFETY: what this client pins now is void; loom fails the model if it still reads.
            memory.with_mut(|content| unsafe { *content = 2 });
        }
        reader.join().unwrap();
    });
}

/// The daemon publishes incarnation 1 and, unless it is pinned, 2 in the same slot and memory.
fn publish_twice(slots: Slots, client: &Client, memory: &UnsafeCell<u64>, published: &AtomicU64) {
    let mut writer = TableWriter::adopt(slots, HashKey::EXAMPLE);
    // SAFETY: nothing is published yet.
    memory.with_mut(|content| unsafe { *content = 1 });
    let at = writer.insert(&image(1), State::Live);
    writer.hide([at]);
    if !client.pins(1) {
        writer.remove(at);
        // SAFETY: the object has no pins; loom fails the model if a reader remains.
        memory.with_mut(|content| unsafe { *content = 2 });
        published.store(2, Ordering::Relaxed);
        writer.insert(&image(2), State::Live);
    }
}

#[test]
fn loom_a_slot_is_seen_whole_also_when_it_is_used_again() {
    for wanted in [1, 2] {
        model(3, move || {
            let slots = Slots::new(1);
            let shared = Arc::new((Client::new(1), UnsafeCell::new(0), AtomicU64::new(0)));
            let (other, table) = (shared.clone(), slots.clone());
            let reader = thread::spawn(move || other.0.read(wanted, &table, &other.1));
            publish_twice(slots, &shared.0, &shared.1, &shared.2);
            reader.join().unwrap();
        });
    }
}

#[test]
fn loom_an_object_is_not_reported_before_it_is_published() {
    model(3, || {
        let slots = Slots::new(1);
        let shared = Arc::new((Client::new(1), UnsafeCell::new(0), AtomicU64::new(0)));
        let (other, slots_of_reader) = (shared.clone(), slots.clone());
        let reader = thread::spawn(move || {
            if view(&slots_of_reader).contains(&id(2)) {
                assert_eq!(slots_of_reader[0].head(), Head::new(2, State::Live));
                assert_eq!(other.2.load(Ordering::Relaxed), 2, "what came before is visible");
            }
        });
        publish_twice(slots, &shared.0, &shared.1, &shared.2);
        reader.join().unwrap();
    });
}

/// A ring of two records.
///
/// Loom runs loads in program order, so a record could never be seen overwritten too early. The
/// cells stand for the records' places and change hands with the cursors; for them loom asks for
/// order.
struct Memory {
    places: [UnsafeCell<u64>; 2],
    tail: AtomicU64,
    head: AtomicU64,
    words: Vec<AtomicU64>,
    sleeping: AtomicU32,
}

impl Memory {
    fn new() -> Self {
        Self {
            places: [UnsafeCell::new(0), UnsafeCell::new(0)],
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            words: (0..2 * RECORD_WORDS).map(|_| AtomicU64::new(0)).collect(),
            sleeping: AtomicU32::new(0),
        }
    }

    fn ring(&self) -> Ring<'_> {
        Ring { tail: &self.tail, head: &self.head, words: &self.words }
    }

    fn produce(&self, count: u64) {
        let mut producer = Producer::new(0);
        for number in 1..=count {
            while producer.room(&self.ring()).unwrap() == 0 {
                thread::yield_now();
            }
            // SAFETY: the place belongs to the producer; loom fails the model if it does not.
            self.places[number as usize % 2].with_mut(|place| unsafe { *place = number });
            producer.push(&self.ring(), &[number; RECORD_WORDS]);
            producer.publish(&self.ring());
        }
    }
}

#[test]
fn loom_records_are_neither_torn_nor_overwritten_too_early() {
    model(2, || {
        let memory = Arc::new(Memory::new());
        let other = memory.clone();
        let producer = thread::spawn(move || other.produce(3));
        let mut consumer = Consumer::new(0);
        for number in 1..=3 {
            while consumer.available(&memory.ring()).unwrap() == 0 {
                thread::yield_now();
            }
            assert_eq!(consumer.pop(&memory.ring()), (number - 1, [number; RECORD_WORDS]));
            let place = &memory.places[number as usize % 2];
            // SAFETY: the place belongs to the consumer; loom fails the model if it does not.
            place.with(|place| assert_eq!(unsafe { *place }, number));
            consumer.advance(&memory.ring());
        }
        producer.join().unwrap();
    });
}

#[test]
fn loom_a_sleeping_daemon_misses_no_submission() {
    model(4, || {
        // Nothing but the cursor matters here: was there something new before it slept? The second
        // submission rings only if no other submission rang for the same sleep.
        let shared = Arc::new((Memory::new(), Notify::new()));
        let other = shared.clone();
        let client = thread::spawn(move || {
            let mut producer = Producer::new(0);
            let rung = AtomicU32::new(0);
            for number in [1, 2] {
                producer.push(&other.0.ring(), &[number; RECORD_WORDS]);
                producer.publish(&other.0.ring());
                if sleep_flag::must_ring_once(&other.0.sleeping, &rung) {
                    other.1.notify();
                }
            }
        });
        let (memory, doorbell) = &*shared;
        let consumer = Consumer::new(0);
        let (mut seen, mut sleep) = (0, 1);
        while seen < 2 {
            sleep_flag::prepare_to_sleep(&memory.sleeping, sleep);
            sleep += 2;
            if consumer.available(&memory.ring()).unwrap() == seen {
                // Loom fails the model if the doorbell never rings.
                doorbell.wait();
            }
            sleep_flag::stay_awake(&memory.sleeping);
            seen = consumer.available(&memory.ring()).unwrap();
        }
        client.join().unwrap();
    });
}

/// A futex: the comparison and falling asleep are one step for those who wake.
struct Futex {
    lock: Mutex<()>,
    sleepers: Condvar,
}

#[test]
fn loom_a_client_that_waits_for_the_head_is_woken() {
    model(4, || {
        let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0), Futex::new()));
        let other = shared.clone();
        let client = thread::spawn(move || {
            let (head, sleepers, futex) = &*other;
            sleep_flag::join_sleepers(sleepers);
            while head.load(Ordering::Acquire) == 0 {
                let lock = futex.lock.lock().unwrap();
                if head.load(Ordering::Relaxed) == 0 {
                    drop(futex.sleepers.wait(lock).unwrap());
                }
            }
            sleep_flag::leave_sleepers(sleepers);
        });
        let (head, sleepers, futex) = &*shared;
        head.store(1, Ordering::Release);
        if sleep_flag::must_ring(sleepers) {
            let _lock = futex.lock.lock().unwrap();
            futex.sleepers.notify_all();
        }
        client.join().unwrap();
    });
}

impl Futex {
    fn new() -> Self {
        Self { lock: Mutex::new(()), sleepers: Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, seen: u32) {
        let lock = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(self.sleepers.wait(lock).unwrap());
        }
    }

    fn wake(&self) {
        let _lock = self.lock.lock().unwrap();
        self.sleepers.notify_all();
    }
}

/// A publisher wakes the event; a third process wakes it whenever it likes.
#[test]
fn loom_a_sleeper_misses_no_event_whatever_else_wakes() {
    model(3, || {
        let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0), Futex::new()));
        let (other, third) = (shared.clone(), shared.clone());
        let sleeper = thread::spawn(move || {
            let (published, word, futex) = &*other;
            loop {
                let seen = futex_event::set(word);
                if published.load(Ordering::Acquire) == 1 {
                    break;
                }
                // Loom fails the model if it is never woken.
                futex.wait(word, seen);
            }
        });
        let meddler = thread::spawn(move || {
            let (_, word, futex) = &*third;
            if futex_event::is_set(word) {
                futex_event::wake(word, 7);
                futex.wake();
            }
        });
        let (published, word, futex) = &*shared;
        published.store(1, Ordering::Release);
        if futex_event::must_wake(word) {
            futex_event::wake(word, 0);
            futex.wake();
        }
        sleeper.join().unwrap();
        meddler.join().unwrap();
    });
}

#[test]
fn loom_one_event_wakes_all_that_set_it() {
    model(3, || {
        let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0), Futex::new()));
        let sleepers = [0, 1].map(|_| {
            let other = shared.clone();
            thread::spawn(move || {
                let (published, word, futex) = &*other;
                loop {
                    let seen = futex_event::set(word);
                    if published.load(Ordering::Acquire) == 1 {
                        break;
                    }
                    futex.wait(word, seen);
                }
            })
        });
        let (published, word, futex) = &*shared;
        published.store(1, Ordering::Release);
        if futex_event::must_wake(word) {
            futex_event::wake(word, 0);
            futex.wake();
        }
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
    });
}

/// An entry of the table of mapped extents changes hands while a reader looks it up: it finds the
/// words of the extent that it asks for, or nothing.
#[test]
fn a_place_never_mixes_two_extents() {
    model(3, || {
        let extent = |birth| ExtentId::new(0, birth);
        let mapped = |birth| MappedExtent { base: birth, bytes: birth };
        let place = Arc::new(Place::new());
        place.set(extent(1), mapped(1));
        let writer = {
            let place = place.clone();
            thread::spawn(move || {
                place.set(extent(2), mapped(2));
                place.clear();
                place.set(extent(3), mapped(3));
            })
        };
        for birth in 1..=3 {
            let found = place.lookup(extent(birth));
            assert!(found.is_none_or(|found| found == mapped(birth)), "{found:?} for {birth}");
        }
        writer.join().unwrap();
    });
}

/// Two threads of a client submit, each after the other or at once; then one of them notifies a
/// process that asks the daemon. The daemon looks only at rings that it watches and those whose
/// doorbell rang.
#[test]
fn loom_a_question_finds_what_was_submitted_before_it() {
    struct Shared {
        tail: AtomicU64,
        awaited: AtomicU32,
        rung: AtomicU32,
        /// What the kernel lists: whether the doorbell rang.
        doorbell: AtomicU32,
        /// The question: how many records there must be.
        asked: AtomicU64,
    }
    impl Shared {
        fn submit(&self) -> u64 {
            let position = self.tail.fetch_add(1, Ordering::SeqCst) + 1;
            let number = sleep_flag::number_to_ring(&self.awaited, &self.rung);
            if number != 0 {
                // As in the kernel, which has a lock there: one after the other.
                self.doorbell.swap(1, Ordering::SeqCst);
                sleep_flag::has_rung(&self.rung, number);
            }
            position
        }

        /// Whether the ring rests.
        fn rest(&self, number: u32, seen: u64) -> bool {
            sleep_flag::prepare_to_sleep(&self.awaited, number);
            let is_idle = self.tail.load(Ordering::Acquire) == seen;
            if !is_idle {
                sleep_flag::stay_awake(&self.awaited);
            }
            is_idle
        }

        /// What the daemon has seen after it looked where it has to.
        fn look(&self, rests: &mut bool, seen: u64) -> u64 {
            if self.doorbell.swap(0, Ordering::SeqCst) == 1 && *rests {
                sleep_flag::stay_awake(&self.awaited);
                *rests = false;
            }
            if *rests { seen } else { self.tail.load(Ordering::Acquire) }
        }
    }
    model(3, || {
        let shared = Arc::new(Shared {
            tail: AtomicU64::new(0),
            awaited: AtomicU32::new(0),
            rung: AtomicU32::new(0),
            doorbell: AtomicU32::new(0),
            asked: AtomicU64::new(0),
        });
        let (one, other) = (shared.clone(), shared.clone());
        let first = thread::spawn(move || one.submit());
        let second = thread::spawn(move || {
            let position = other.submit();
            other.asked.store(position, Ordering::Release);
        });
        let mut rests = shared.rest(1, 0);
        let mut seen = shared.look(&mut rests, 0);
        if !rests {
            rests = shared.rest(3, seen);
        }
        second.join().unwrap();
        let asked = shared.asked.load(Ordering::Acquire);
        seen = shared.look(&mut rests, seen);
        assert!(seen >= asked, "what was submitted before the question counts for its answer");
        first.join().unwrap();
    });
}
