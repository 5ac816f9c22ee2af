//! The log of durable objects alone, in this process: no store, no daemon, no client.

mod churn;
mod object;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use plasmon_log::dax_device::Medium;
use plasmon_log::{DaxDevice, DeviceKind, LogConfig, Lsn, ObjectLog, Opened, Source};
use plasmon_proto::ObjectId;
use rustix::fs::{Advice, fadvise};
use serde::Deserialize;
use serde_json::{Value, json};

use self::object::{WORK_BYTES, described};
use crate::protocol::{Samples, answer};
use crate::source::Payload;
use crate::timing::{Series, nanoseconds};

const SEGMENT_BYTES: u64 = 64 << 20;
/// Objects that are synced together when many are made.
const BULK: usize = 1000;

/// A request of the log.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Request {
    Start {
        folder: PathBuf,
        /// Memory stands for persistent memory.
        #[serde(default)]
        forced: bool,
    },
    /// An object, a sync.
    Put { object_bytes: usize, count: u64 },
    /// A batch of objects, a sync.
    PutBatch { object_bytes: usize, count: u64, batch: usize },
    /// Opening a log of so many objects.
    Recover { object_bytes: usize, objects: usize, count: u64 },
    /// Puts and deletes for long.
    Churn(churn::Churn),
}

/// A log of its own for each request.
#[derive(Debug, Default)]
pub(crate) struct Side {
    folder: PathBuf,
    forced: bool,
    next: u64,
}

impl Side {
    pub(crate) fn run(&mut self, request: Request) -> Result<Value> {
        match request {
            Request::Start { folder, forced } => {
                (self.folder, self.forced) = (folder, forced);
                Ok(json!({ "address": "", "start_ns": 0, "versions": {} }))
            }
            Request::Put { object_bytes, count } => answer(self.put(object_bytes, count, 1)?),
            Request::PutBatch { object_bytes, count, batch } => {
                answer(self.put(object_bytes, count, batch)?)
            }
            Request::Recover { object_bytes, objects, count } => {
                answer(self.recover(object_bytes, objects, count)?)
            }
            Request::Churn(churn) => self.with_folder(|side, folder| {
                churn.run(side.open(folder)?.log.as_mut(), folder, &mut side.next)
            }),
        }
    }

    fn put(&mut self, size: usize, count: u64, batch: usize) -> Result<Samples> {
        let data = Payload::new(size, None)?;
        self.with_folder(|side, folder| {
            let mut log = side.open(folder)?.log;
            let made = std::cell::RefCell::new(Vec::new());
            let log = std::cell::RefCell::new(&mut log);
            let put = || {
                let mut log = log.borrow_mut();
                for _ in 0..batch {
                    let object = described(&mut side.next, size);
                    let lsn = log.put(&object, Source::Bytes(data.as_slice()))?;
                    made.borrow_mut().push((object.id, lsn));
                }
                Ok(log.sync()?)
            };
            let clear = || {
                let mut log = log.borrow_mut();
                delete(log.as_mut(), &made.take())?;
                // As the daemon's log does that has nothing to do for a while.
                while log.maintain(WORK_BYTES)? || log.prepare()? {}
                Ok(())
            };
            let mut taken = Series { count, batch: 1 }.take(put, clear)?;
            taken.samples.iter_mut().for_each(|sample| *sample /= batch as f64);
            Ok(Samples { batch: batch as u64, ..taken })
        })
    }

    fn recover(&mut self, size: usize, objects: usize, count: u64) -> Result<Samples> {
        let data = Payload::new(size, None)?;
        self.with_folder(|side, folder| {
            let mut log = side.open(folder)?.log;
            for at in 0..objects {
                log.put(&described(&mut side.next, size), Source::Bytes(data.as_slice()))?;
                if at % BULK == BULK - 1 {
                    log.sync()?;
                    while log.maintain(WORK_BYTES)? {}
                }
            }
            log.sync()?;
            while log.maintain(WORK_BYTES)? {}
            drop(log);
            let mut samples = Vec::new();
            for _ in 0..count {
                forget_pages(folder)?;
                let begin = Instant::now();
                let opened = side.open(folder)?;
                samples.push(nanoseconds(begin.elapsed()));
                ensure!(opened.found.len() == objects, "{} objects found", opened.found.len());
            }
            Ok(Samples { samples, batch: 1 })
        })
    }

    fn open(&self, folder: &Path) -> Result<Opened> {
        let config = LogConfig {
            folder: folder.to_owned(),
            device: DeviceKind::File,
            bytes_max: None,
            segment_bytes: SEGMENT_BYTES,
            power_loss_protection: false,
        };
        let opened = match self.forced {
            true => {
                let device = DaxDevice::open(folder, Medium::Forced)?;
                plasmon_log::open_on(Box::new(device), &config)
            }
            false => plasmon_log::open(&config),
        };
        opened.context("opening the log")
    }

    /// Runs something with a new folder, which is removed afterwards.
    fn with_folder<T>(&mut self, run: impl FnOnce(&mut Self, &Path) -> Result<T>) -> Result<T> {
        let folder = self.folder.join(format!("log-{}", self.next));
        std::fs::create_dir(&folder)?;
        let outcome = run(self, &folder);
        std::fs::remove_dir_all(&folder)?;
        outcome
    }
}

fn delete(log: &mut dyn ObjectLog, made: &[(ObjectId, Lsn)]) -> Result<()> {
    for (id, lsn) in made {
        log.dead(id, *lsn)?;
    }
    Ok(log.sync()?)
}

/// So that the next open reads from the disk.
fn forget_pages(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let file = File::open(&path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
