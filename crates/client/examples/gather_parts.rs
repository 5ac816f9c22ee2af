//! How long parts of many objects take from another node: in one call, one by one, and the same
//! bytes in one read.
//!
//! Two nodes of a pool must run, such as those of `plasmon pool dev --nodes 2`, with room for
//! 300 MB. `cargo run --release -p plasmon-client --example gather_parts -- SOCKET SOCKET` puts
//! objects into the store of the first and reads from that of the second. It prints medians of the
//! rounds, and the least and the most.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that a person runs, and that may stop where it fails"
)]

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plasmon_client::{Client, Code, ConnectOptions, ObjectId, PartsOf, PutOptions};

const ROUNDS: usize = 15;
const OBJECT_BYTES: u64 = 2 << 20;
const OBJECTS: u64 = 100;
const SMALL_OBJECTS: u64 = 1000;
const PART_BYTES: u64 = 4 << 10;
const PARTS: u64 = 1000;

fn connect(socket: PathBuf) -> Client {
    let options = ConnectOptions { socket: Some(socket), ..ConnectOptions::default() };
    Client::connect(&options).unwrap()
}

/// Puts an object, as soon as the nodes have joined.
fn put(store: &Client, bytes: u64) -> ObjectId {
    let options = PutOptions { pool: true, copies: 1, ..PutOptions::default() };
    let data: Vec<u8> = (0..bytes).map(|at| (at / PART_BYTES) as u8).collect();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match store.put(&data, &options) {
            Ok(id) => return id,
            Err(error) => assert!(
                matches!(error.code(), Code::Unreachable | Code::NotEnoughNodes)
                    && Instant::now() < end,
                "{error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The place of a part in an object, other ones for each object.
fn place(number: u64, object_bytes: u64) -> Range<u64> {
    let at = number.wrapping_mul(0x9e37_79b9) % (object_bytes / PART_BYTES) * PART_BYTES;
    at..at + PART_BYTES
}

fn check(pieces: &[plasmon_client::Piece], ranges: &[Range<u64>]) {
    for (piece, range) in pieces.iter().zip(ranges) {
        assert_eq!(piece.len() as u64, range.end - range.start);
        assert_eq!(piece.first(), Some(&((range.start / PART_BYTES) as u8)));
    }
}

fn measure(what: &str, mut work: impl FnMut()) {
    work();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (least, median, most) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
    println!("{what}: {median:.1} ms ({least:.1} to {most:.1})");
}

fn main() {
    let sockets: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [one, two] = sockets.try_into().expect("the sockets of two stores");
    let (one, two) = (connect(one), connect(two));
    for (count, bytes) in [(OBJECTS, OBJECT_BYTES), (SMALL_OBJECTS, 64 << 10)] {
        let ids: Vec<ObjectId> = (0..count).map(|_| put(&one, bytes)).collect();
        one.settle(&ids, Some(Duration::from_secs(60))).unwrap();
        let per_object = PARTS / count;
        let parts = (0..count).zip(&ids).map(|(at, id)| PartsOf {
            id: *id,
            ranges: (0..per_object).map(|part| place(at * per_object + part, bytes)).collect(),
        });
        let parts: Vec<PartsOf> = parts.collect();
        let in_all = format!("{PARTS} parts of {PART_BYTES} B of {count} objects");
        measure(&format!("{in_all}, one gather"), || {
            for (found, part) in two.pool_gather(parts.clone(), None).zip(&parts) {
                check(&found.unwrap(), &part.ranges);
            }
        });
        measure(&format!("{in_all}, a read for each"), || {
            for PartsOf { id, ranges } in &parts {
                for range in ranges {
                    let range = std::slice::from_ref(range);
                    check(&two.pool_read(id, range, None).unwrap(), range);
                }
            }
        });
        if per_object > 1 {
            measure(&format!("{in_all}, a read for each object"), || {
                for PartsOf { id, ranges } in &parts {
                    check(&two.pool_read(id, ranges, None).unwrap(), ranges);
                }
            });
        }
    }
    let whole = PARTS * PART_BYTES;
    let id = put(&one, whole);
    measure(&format!("{whole} B of one object, one read"), || {
        let found = two.pool_read(&id, std::slice::from_ref(&(0..whole)), None).unwrap();
        assert_eq!(found[0].len() as u64, whole);
    });
}
