//! A client of durable objects under the verifier's eyes.

use std::path::PathBuf;
use std::thread;

use clap::Args;
use plasmon_client::{Client, Code, Error, ObjectId, PutOptions};
use plasmon_testkit::Random;

use super::line::Line;
use crate::content::{self, Kind, Origin};
use crate::worker::connect;

/// Threads of one worker: what they put at about the same time is written with one sync.
const THREADS: u8 = 3;

/// Ids whose content each thread replaces.
const SLOTS: u64 = 4;

/// Objects that a thread leaves there at most.
const OWN_MAX: usize = 40;

/// Counters of slots begin here.
const SLOTS_FROM: u64 = 1 << 40;

/// What a worker is told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Orders {
    #[arg(long)]
    socket: PathBuf,
    #[arg(long)]
    number: u32,
    #[arg(long)]
    seed: u64,
}

/// Works until it is killed, or the store is gone.
pub(crate) fn run(orders: &Orders) -> anyhow::Result<()> {
    // The store may be killed before this worker reaches it.
    let Ok(client) = connect(&orders.socket, format!("worker {}", orders.number)) else {
        return Ok(());
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let origin = Origin { worker: orders.number, thread };
            let seed = orders.seed.wrapping_mul(31).wrapping_add(thread.into());
            let client = client.clone();
            scope.spawn(move || {
                let random = Random::new(seed);
                Hand { client, random, origin, counter: 0, own: Vec::new() }.work();
            });
        }
    });
    Ok(())
}

struct Hand {
    client: Client,
    random: Random,
    origin: Origin,
    counter: u64,
    /// Objects that are there.
    own: Vec<ObjectId>,
}

impl Hand {
    fn work(mut self) {
        loop {
            let is_over = match self.random.below(100) {
                0..50 => self.put(),
                50..70 => self.replace(),
                70..85 => self.delete(),
                _ if self.own.len() > OWN_MAX => self.delete(),
                _ => self.read(),
            };
            if is_over {
                return;
            }
        }
    }

    fn new_content(&mut self) -> ObjectId {
        let bytes = match self.random.below(100) {
            0..70 => self.random.below(8 << 10),
            70..95 => self.random.below(128 << 10),
            _ => self.random.below(3 << 20),
        };
        self.counter += 1;
        content::id(self.origin, self.counter, bytes as u32, Kind::Plain)
    }

    fn put(&mut self) -> bool {
        let id = self.new_content();
        Line::Putting(id).tell();
        match self.write(&id, &id, false) {
            Ok(()) => {
                Line::Put(id).tell();
                self.own.push(id);
                false
            }
            Err(error) => failed("put", &error),
        }
    }

    fn replace(&mut self) -> bool {
        let slot = SLOTS_FROM + self.random.below(SLOTS);
        let id = content::id(self.origin, slot, 0, Kind::Plain);
        let new = self.new_content();
        Line::Replacing(id, new).tell();
        match self.write(&id, &new, true) {
            Ok(()) => {
                Line::Replaced(id, new).tell();
                false
            }
            Err(error) => failed("replacement", &error),
        }
    }

    fn write(&self, id: &ObjectId, what: &ObjectId, replace: bool) -> Result<(), Error> {
        let options = PutOptions {
            id: Some(*id),
            metadata: content::metadata(what).to_vec(),
            durable: true,
            replace,
            ..PutOptions::default()
        };
        self.client.put(&content::data(what), &options).map(drop)
    }

    fn delete(&mut self) -> bool {
        let Some(at) = self.random.index(self.own.len()) else { return false };
        let id = self.own.swap_remove(at);
        Line::Deleting(id).tell();
        match self.client.delete(&[id]).map(|outcomes| outcomes[0]) {
            Ok(None) => Line::Deleted(id).tell(),
            Ok(Some(code)) => Line::Refused(format!("delete: {}", code.key())).tell(),
            Err(error) => return failed("delete", &error),
        }
        false
    }

    fn read(&mut self) -> bool {
        let Some(at) = self.random.index(self.own.len()) else { return false };
        let id = self.own[at];
        match self.client.get_existing(&id) {
            Ok(found) if content::matches(&id, found.data(), found.metadata()) => {
                Line::Verified.tell();
            }
            Ok(_) => Line::Violation(format!("torn: {id} has other content")).tell(),
            Err(error) if error.code() == Code::Absent => {
                Line::Violation(format!("lost: {id} was acknowledged and is absent")).tell();
            }
            Err(error) => return failed("get", &error),
        }
        false
    }
}

/// Tells of an error that may be; whether the store is gone.
fn failed(what: &str, error: &Error) -> bool {
    Line::Refused(format!("{what}: {}", error.code().key())).tell();
    error.code() == Code::Disconnected
}
