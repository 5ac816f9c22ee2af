//! Puts and deletes for long: what the log writes and keeps beside the objects' own bytes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use plasmon_log::{Lsn, ObjectLog, Source};
use plasmon_proto::ObjectId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::object::{WORK_BYTES, described};
use crate::source::Payload;

const OBJECT_BYTES_MIN: u64 = 4 << 10;
const OBJECT_BYTES_MAX: u64 = 256 << 10;
/// Puts that are synced together.
const BATCH: usize = 16;
const BLOCK_BYTES: u64 = 512;

#[derive(Debug, Deserialize)]
pub(crate) struct Churn {
    /// What the objects have together once the log is full of them.
    live_bytes: u64,
    /// What is put after that.
    written_bytes: u64,
    /// Whether the oldest object is deleted first, or any.
    oldest_first: bool,
}

/// The objects of the log, and what was counted.
#[derive(Debug, Default)]
struct State {
    objects: std::collections::VecDeque<(ObjectId, Lsn, u64)>,
    live_bytes: u64,
    put_bytes: u64,
    random: u64,
}

impl State {
    /// A number that looks random and is the same in each run (xorshift).
    fn draw(&mut self, below: u64) -> u64 {
        let mut x = self.random.max(1);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x % below
    }
}

impl Churn {
    /// Runs it in a log that is new.
    pub(super) fn run(
        &self,
        log: &mut dyn ObjectLog,
        folder: &Path,
        next: &mut u64,
    ) -> Result<Value> {
        let payload = Payload::new(usize::try_from(OBJECT_BYTES_MAX)?, None)?;
        let mut state = State { random: 8317, ..State::default() };
        while state.put_bytes < self.live_bytes {
            self.batch(log, &payload, next, &mut state)?;
        }
        let (written, put) = (log.status().written_bytes, state.put_bytes);
        let mut space: f64 = 0.0;
        while state.put_bytes - put < self.written_bytes {
            self.batch(log, &payload, next, &mut state)?;
            space = space.max(folder_bytes(folder)? as f64 / state.live_bytes as f64);
        }
        let written = log.status().written_bytes - written;
        let samples = [written as f64 / (state.put_bytes - put) as f64];
        Ok(json!({ "samples": samples, "batch": 1, "space_amplification": space }))
    }

    /// Puts some objects and deletes as many bytes as are too many.
    fn batch(
        &self,
        log: &mut dyn ObjectLog,
        payload: &Payload,
        next: &mut u64,
        state: &mut State,
    ) -> Result<()> {
        for _ in 0..BATCH {
            let range = OBJECT_BYTES_MAX - OBJECT_BYTES_MIN + 1;
            let size = OBJECT_BYTES_MIN + state.draw(range);
            let object = described(next, usize::try_from(size)?);
            let bytes = &payload.as_slice()[..usize::try_from(size)?];
            let lsn = log.put(&object, Source::Bytes(bytes))?;
            state.objects.push_back((object.id, lsn, size));
            state.live_bytes += size;
            state.put_bytes += size;
        }
        while state.live_bytes > self.live_bytes {
            let count = state.objects.len() as u64;
            let at = if self.oldest_first { 0 } else { usize::try_from(state.draw(count))? };
            let found = if self.oldest_first {
                state.objects.pop_front()
            } else {
                state.objects.swap_remove_back(at)
            };
            let Some((id, lsn, size)) = found else { break };
            log.dead(&id, lsn)?;
            state.live_bytes -= size;
        }
        log.sync()?;
        while log.maintain(WORK_BYTES)? {}
        Ok(())
    }
}

/// What a folder's files take of their device.
fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => folder_bytes(&entry.path())?,
            false => entry.metadata()?.blocks() * BLOCK_BYTES,
        };
    }
    Ok(bytes)
}
