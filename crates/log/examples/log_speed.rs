//! Measures a log: batches of puts beside `pwrite` and `fdatasync`, and an opening. On files, or
//! with `PLASMON_LOG_FORCE_DAX=1` on a folder that stands for persistent memory.
//!
//! `cargo run --release -p plasmon-log --example log_speed -- FOLDER [OBJECTS]`

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use plasmon_log::dax_device::FORCE;
use plasmon_log::{DeviceKind, LogConfig, Source, open};
use plasmon_proto::object::{Attributes, ObjectMeta, Sizes};
use plasmon_proto::{Name, ObjectId};
use plasmon_spill::FileMeta;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: log_speed FOLDER [OBJECTS]")?;
    let objects: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let folder = Path::new(&folder).join("plasmon-log-speed");
    puts(&folder)?;
    openings(&folder, objects)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn config(folder: &Path) -> LogConfig {
    let is_forced = std::env::var_os(FORCE).is_some();
    LogConfig {
        folder: folder.join("log"),
        device: if is_forced { DeviceKind::Dax } else { DeviceKind::File },
        bytes_max: None,
        segment_bytes: 64 << 20,
        power_loss_protection: false,
    }
}

fn object(number: u64, bytes: usize) -> FileMeta {
    let mut id = [0; 20];
    id[..8].copy_from_slice(&number.to_le_bytes());
    let meta = ObjectMeta {
        sizes: Sizes { data: bytes as u64, ..Sizes::default() },
        ..ObjectMeta::default()
    };
    let name = Name::new("speed", format!("object-{number}")).ok();
    FileMeta::new(ObjectId::new(id), 0, meta, Attributes { name, ..Attributes::default() })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Batches of puts and the same bytes by `pwrite` and `fdatasync`, in turns.
fn puts(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut log = open(&config(folder))?.log;
    println!("device: {}", log.status().device);
    let cases = [(4096, 1, 200), (4096, 64, 100), (65_536, 1, 200), (1 << 20, 1, 100)];
    let cases = cases.into_iter().chain([(8 << 20, 1, 20), (64 << 20, 1, 5)]);
    let mut number = 0;
    for (bytes, batch, rounds) in cases {
        let payload = vec![7; bytes];
        let path = folder.join("beside");
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        let before = log.status();
        for round in 0..rounds {
            let start = Instant::now();
            for _ in 0..batch {
                number += 1;
                log.put(&object(number, bytes), Source::Bytes(&payload))?;
            }
            log.sync()?;
            ours.push(start.elapsed());
            while log.maintain(8 << 20)? || log.prepare()? {}
            let start = Instant::now();
            for index in 0..batch {
                file.write_all_at(&payload, (round * batch + index) * bytes as u64)?;
            }
            file.sync_data()?;
            plain.push(start.elapsed());
        }
        let after = log.status();
        let written = (after.written_bytes - before.written_bytes) as f64;
        let put = (after.put_bytes - before.put_bytes) as f64;
        println!(
            "{batch} x {bytes} bytes: log {:?}, pwrite + fdatasync {:?}, written {:.3} times",
            median(ours),
            median(plain),
            written / put
        );
        std::fs::remove_file(path)?;
    }
    drop(log);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Fills a log with small objects and opens it.
fn openings(folder: &Path, objects: u64) -> Result<(), Box<dyn Error>> {
    let config = config(folder);
    let mut log = open(&config)?.log;
    let start = Instant::now();
    let payload = [7; 100];
    for number in 0..objects {
        log.put(&object(number, payload.len()), Source::Bytes(&payload))?;
        if number % 1000 == 999 {
            log.sync()?;
        }
    }
    log.sync()?;
    let status = log.status();
    println!(
        "{objects} objects of 100 bytes: put in {:?}, {} segments, {} bytes",
        start.elapsed(),
        status.segments,
        status.used_bytes
    );
    drop(log);
    for _ in 0..3 {
        let start = Instant::now();
        let opened = open(&config)?;
        let elapsed = start.elapsed();
        println!("opened in {elapsed:?}: {} bytes read", opened.recovery.read_bytes);
        assert_eq!(opened.found.len() as u64, objects);
    }
    Ok(())
}
