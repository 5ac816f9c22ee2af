//! The read path, measured: get and release of 1, 1000, 100,000 and 1,000,000 objects.
//!
//! ```text
//! cargo run --release -p plasmon-shm --example read_path
//! ```
//!
//! Daemon and client live in one process here; the client sees exactly what it would see in its own.
//! Each figure is the best of several rounds, so that a noisy machine shows what the code costs.
#![cfg_attr(loom, allow(unused, reason = "the mapped parts are absent from a model"))]

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
use std::{io, time::Instant};

#[cfg(not(loom))]
use plasmon_proto::{ObjectId, message::ExtentId};
#[cfg(not(loom))]
use plasmon_shm::{
    ChannelClient, ChannelDaemon, ControlDaemon, ControlReader, Found, IndexReader, IndexWriter,
    Memfd, Populate, ReadMap, Reader, SlotImage,
};

#[cfg(not(loom))]
const ROUNDS: usize = 5;

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
fn store(objects: u64) -> io::Result<(Reader, f64)> {
    let control = ControlDaemon::create()?;
    let mut index = IndexWriter::create(1, objects as usize * 2)?;
    control.set_table(1);
    let channel = ChannelDaemon::create()?;
    let extent = Memfd::create("payload", objects * 64)?;
    let started = Instant::now();
    for number in 0..objects {
        index.insert(&SlotImage {
            serial: number + 1,
            id: id(number),
            extent: ExtentId::new(0, 1),
            offset: number * 64,
            data: 64,
            metadata: 0,
            attributes: 0,
            created_ms: 0,
            record: number as u32,
            tag: 0,
            cache: false,
            owned: false,
        });
    }
    let insert_ns = started.elapsed().as_nanos() as f64 / objects as f64;
    let slots = index.slots() as u64;
    let reader = Reader::new(
        ControlReader::new(control.memfd().read_only()?)?,
        IndexReader::new(index.memfd().read_only()?, 1, slots)?,
        ChannelClient::new(channel.memfd().duplicate()?)?,
    )?;
    let map = ReadMap::new(extent.read_only()?, objects * 64, Populate::Yes)?;
    reader.map_extent(ExtentId::new(0, 1), map);
    Ok((reader, insert_ns))
}

/// Nanoseconds for one get and release, the best of some rounds.
#[cfg(not(loom))]
fn measure(reader: &Reader, ids: &[ObjectId]) -> (f64, usize) {
    let mut best = f64::MAX;
    let mut found = 0;
    let repeats = (2_000_000 / ids.len()).max(1);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        found = 0;
        for _ in 0..repeats {
            for id in ids {
                if let Ok(Found::Object(view)) = reader.get(id) {
                    found += usize::from(std::hint::black_box(view.data()).len() == 64);
                }
            }
        }
        let gets = (repeats * ids.len()) as f64;
        best = best.min(started.elapsed().as_nanos() as f64 / gets);
    }
    (best, found / repeats)
}

#[cfg(not(loom))]
#[expect(clippy::print_stdout, reason = "figures are what this example is for")]
fn main() -> io::Result<()> {
    println!("{:>10} {:>18} {:>14}", "objects", "get + release, ns", "insert, ns");
    for objects in [1, 1000, 100_000, 1_000_000u64] {
        let (reader, insert_ns) = store(objects)?;
        // In an order that has nothing to do with the order in the table.
        let ids: Vec<_> = (0..objects).map(|number| id(number * 7919 % objects)).collect();
        let (nanoseconds, found) = measure(&reader, &ids);
        println!("{objects:>10} {nanoseconds:>18.1} {insert_ns:>14.1}");
        assert_eq!(found, ids.len(), "every object is found");
        assert_eq!(reader.channel().ledger().pins(), 0, "every pin is released");
    }
    Ok(())
}
