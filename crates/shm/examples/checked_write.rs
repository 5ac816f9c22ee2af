//! Measures how long a mebibyte takes that is stored past the caches, with its checksum and
//! without, and by way of a buffer, as what lies in an extent is stored.
//!
//! `cargo run --release -p plasmon-shm --example checked_write`

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::hint::black_box;
use std::io;
use std::time::Instant;

use plasmon_shm::dax::{Medium, fence};
use plasmon_shm::{DaxMap, Memfd, checksum};

const MIB: usize = 1 << 20;
/// Places that are written in turn, more than fit a cache.
const PLACES: usize = 512;
const ROUNDS: usize = 512;

/// The median of many rounds, each of which gets a place.
fn median_us(mut round: impl FnMut(u64)) -> f64 {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|number| {
            let begin = Instant::now();
            round((number % PLACES * MIB) as u64);
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2].as_secs_f64() * 1e6
}

fn main() -> io::Result<()> {
    let bytes = (PLACES * MIB) as u64;
    let target = Memfd::create("plasmon-target", bytes)?;
    target.reserve(0, bytes)?;
    let mut map = DaxMap::new(&target, bytes, Medium::Forced)?;
    let source: Vec<u8> = (0..MIB).map(|at| (at * 31 + at / 251) as u8).collect();
    let extent = Memfd::create("plasmon-source", 2 * MIB as u64)?;
    assert_eq!(rustix::io::pwrite(&extent, &source, 4160)?, MIB);
    let stored = median_us(|place| {
        map.write(place, &source);
        fence();
    });
    let summed = median_us(|_| {
        black_box(checksum::crc32c(black_box(&source)));
    });
    let mut sum = 0;
    let both = median_us(|place| {
        sum = map.write_checked(place, &source);
        fence();
    });
    println!("a mebibyte: stored {stored:.1} us, checksum alone {summed:.1} us");
    println!("stored with its checksum {both:.1} us");
    assert_eq!(sum, checksum::crc32c(&source));
    let mut buffer = vec![0; MIB];
    let read = median_us(|place| {
        let _ = rustix::io::pread(&extent, &mut buffer, 4160);
        sum = map.write_checked(place, &buffer);
        fence();
    });
    println!("read from an extent and stored with its checksum {read:.1} us");
    assert_eq!(sum, checksum::crc32c(&source));
    Ok(())
}
