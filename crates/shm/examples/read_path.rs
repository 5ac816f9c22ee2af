//! The read path, measured: get and release of 1, 1000, 100,000 and 1,000,000 objects.
//!
//! ```text
//! cargo run --release -p plasmon-shm --example read_path [-- --huge]
//! ```
//!
//! With `--huge` the index is backed by huge pages first, as a daemon does in the background.
//!
//! Daemon and client live in one process here; the client sees exactly what it would see in its
//! own.
#![cfg_attr(loom, allow(unused, reason = "the mapped parts are absent from a model"))]

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
use std::{io, time::Instant};

#[cfg(not(loom))]
use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Placement};
use plasmon_proto::object::{ObjectMeta, Sizes};
#[cfg(not(loom))]
use plasmon_shm::{
    ChannelClient, ChannelDaemon, ControlDaemon, ControlReader, HashKey, IndexReader, IndexWriter,
    Memfd, Populate, ReadMap, ReadOutcome, Reader, SlotImage,
};

#[cfg(not(loom))]
const SLICES: usize = 1000;
#[cfg(not(loom))]
const GETS: usize = 4096;
#[cfg(not(loom))]
const BATCH: u64 = 64;

#[cfg(not(loom))]
fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    // As a client makes them: random bytes, then a counter.
    bytes[..8].copy_from_slice(&0x9e37_79b9_7f4a_7c15u64.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

/// A store with `objects` objects of 64 bytes, as a client has it mapped.
#[cfg(not(loom))]
fn store(objects: u64) -> io::Result<(Reader, Slices)> {
    let control = ControlDaemon::create()?;
    let mut index = IndexWriter::create(1, objects as usize * 2, HashKey::EXAMPLE)?;
    control.set_table(1);
    let channel = ChannelDaemon::create()?;
    let extent = Memfd::create("payload", objects * 64)?;
    let mut inserts = Slices::default();
    for number in 0..objects {
        if number % GETS as u64 == 0 {
            inserts.cut();
        }
        // As a daemon does with a batch from a ring.
        if number % BATCH == 0 {
            (number..number + BATCH).for_each(|number| index.prefetch(&id(number)));
        }
        index.insert(&SlotImage {
            serial: number + 1,
            id: id(number),
            placement: Placement { extent: ExtentId::new(0, 1), offset: number * 64 },
            meta: ObjectMeta {
                sizes: Sizes { data: 64, ..Sizes::default() },
                ..ObjectMeta::default()
            },
            record: number as u32,
        });
    }
    inserts.cut();
    if std::env::args().any(|argument| argument == "--huge") {
        index.memfd().collapse()?;
    }
    let slots = index.slots() as u64;
    let reader = Reader::new(
        ControlReader::new(control.memfd().read_only()?)?,
        IndexReader::new(index.memfd().read_only()?, 1, slots)?,
        ChannelClient::new(channel.memfd().duplicate()?)?,
    )?;
    let map = ReadMap::new(extent.read_only()?, objects * 64, Populate::Yes)?;
    reader.map_extent(ExtentId::new(0, 1), map)?;
    Ok((reader, inserts))
}

/// Times of slices of some thousand operations, which are short enough that most of them are not
/// interrupted on a busy machine.
#[cfg(not(loom))]
#[derive(Default)]
struct Slices {
    started: Option<Instant>,
    nanoseconds: Vec<f64>,
}

#[cfg(not(loom))]
impl Slices {
    /// Ends a slice, if one has begun, and begins the next.
    fn cut(&mut self) {
        let now = Instant::now();
        if let Some(started) = self.started.replace(now) {
            self.nanoseconds.push((now - started).as_nanos() as f64 / GETS as f64);
        }
    }

    /// The median and the best, for one operation.
    fn figures(mut self) -> (f64, f64) {
        self.nanoseconds.sort_by(f64::total_cmp);
        (self.nanoseconds[self.nanoseconds.len() / 2], self.nanoseconds[0])
    }
}

/// Gets and releases, over and over.
#[cfg(not(loom))]
fn measure(reader: &Reader, ids: &[ObjectId]) -> Slices {
    let mut gets = Slices::default();
    let mut left = ids.iter().cycle();
    gets.cut();
    for _ in 0..SLICES {
        let mut found = 0;
        for id in left.by_ref().take(GETS) {
            if let Ok(ReadOutcome::Object(view)) = reader.get(id) {
                found += usize::from(std::hint::black_box(view.data()).len() == 64);
            }
        }
        gets.cut();
        assert_eq!(found, GETS, "every object is found");
    }
    gets
}

#[cfg(not(loom))]
#[expect(clippy::print_stdout, reason = "figures are what this example is for")]
fn main() -> io::Result<()> {
    println!("{:>10} {:>26} {:>20}", "objects", "get + release (best), ns", "insert (best), ns");
    for objects in [1, 1000, 100_000, 1_000_000u64] {
        let (reader, inserts) = store(objects)?;
        // In an order that has nothing to do with the order in the table.
        let ids: Vec<_> = (0..objects).map(|number| id(number * 7919 % objects)).collect();
        let (get, get_best) = measure(&reader, &ids).figures();
        print!("{objects:>10} {get:>18.1} ({get_best:>5.1})");
        if objects > GETS as u64 {
            let (insert, insert_best) = inserts.figures();
            print!(" {insert:>12.1} ({insert_best:>5.1})");
        }
        println!();
        assert_eq!(reader.channel().ledger().pins(), 0, "every pin is released");
    }
    Ok(())
}
