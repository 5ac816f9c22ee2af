//! Puts and deletes in batches, each synced before it is acknowledged, and the log's own work.

use anyhow::Result;
use plasmon_log::{ObjectLog, Source};

use crate::audit::Known;
use crate::content::{bytes, described};
use crate::serial::Serial;

const BATCH_MAX: u64 = 12;
/// What lives at most; the log has several times as much room.
const LIVE_BYTES_MAX: u64 = 48 << 20;
/// What one call of the log's own work may read and write.
const WORK_BYTES: u64 = 4 << 20;

/// Runs until the power is cut.
pub(crate) fn run(
    log: &mut dyn ObjectLog,
    objects: Vec<Known>,
    serial: &mut Serial,
    seed: u64,
    boot: u64,
) -> Result<()> {
    // A number is never used twice, whatever was lost.
    let mut load = Load { objects, next: boot << 32, random: seed ^ boot.rotate_left(32) | 1 };
    loop {
        load.batch(log, serial)?;
        if load.draw(4) == 0 {
            while log.maintain(WORK_BYTES)? || log.prepare()? {}
        }
    }
}

struct Load {
    objects: Vec<Known>,
    next: u64,
    random: u64,
}

impl Load {
    /// A number that looks random (xorshift).
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Mostly small ones, as metadata is; some of several chunks.
    fn size(&mut self) -> u64 {
        match self.draw(20) {
            0 => self.draw(3 << 20),
            1..=4 => self.draw(128 << 10),
            _ => self.draw(8 << 10),
        }
    }

    /// Deletes and puts, one sync, then the acknowledgements of all of them.
    fn batch(&mut self, log: &mut dyn ObjectLog, serial: &mut Serial) -> Result<()> {
        let doomed = self.doomed();
        let count = 1 + self.draw(BATCH_MAX);
        let mut born: Vec<Known> = Vec::new();
        for _ in 0..count {
            born.push(Known { number: self.next, lsn: 0, bytes: self.size() });
            self.next += 1;
        }
        let begun = doomed.iter().map(|old| format!("delete {}", old.number));
        let begun = begun.chain(born.iter().map(|new| format!("put {} {}", new.number, new.bytes)));
        serial.say(&begun.collect::<Vec<_>>())?;
        for old in &doomed {
            log.dead(&described(old.number, old.bytes).id, old.lsn)?;
        }
        for new in &mut born {
            let content: Vec<u8> = bytes(new.number, 0, new.bytes).collect();
            new.lsn = log.put(&described(new.number, new.bytes), Source::Bytes(&content))?;
        }
        log.sync()?;
        let done = doomed.iter().map(|old| format!("deleted {}", old.number));
        let done = done.chain(born.iter().map(|new| format!("acked {}", new.number)));
        serial.say(&done.collect::<Vec<_>>())?;
        self.objects.append(&mut born);
        Ok(())
    }

    /// Objects to delete: a few at random, and as many as are too many.
    fn doomed(&mut self) -> Vec<Known> {
        let mut doomed = Vec::new();
        let mut wanted = self.draw(4);
        let mut live: u64 = self.objects.iter().map(|object| object.bytes).sum();
        while !self.objects.is_empty() && (wanted > 0 || live > LIVE_BYTES_MAX) {
            let at = self.draw(self.objects.len() as u64) as usize;
            let object = self.objects.swap_remove(at);
            live -= object.bytes;
            wanted = wanted.saturating_sub(1);
            doomed.push(object);
        }
        doomed
    }
}
