//! One round of everything that a client does with a store, and what must be so after it.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use plasmon_client::{Client, ConnectOptions, Error, ObjectId, PutOptions};
use plasmon_testkit::TEST_TIMEOUT;

use crate::node::Node;

const SMALL: usize = 1000;
const STRICT: usize = 100_000;
const LARGE: usize = 3 << 20;
/// Together with the others more than the store holds in memory.
const LARGE_COUNT: u64 = 5;

/// How long a round may take in which every step fails after its client's timeout.
const ROUND_WITHIN: Duration = Duration::from_secs(180);

/// How long a reader waits for an object that is put meanwhile.
const WAIT: Duration = Duration::from_secs(3);

/// What came of a round.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The objects that the store has acknowledged, with their sizes.
    pub acknowledged: Vec<(ObjectId, usize)>,
    /// The steps that failed, each with the error.
    pub errors: Vec<String>,
}

impl Outcome {
    fn note<T>(&mut self, step: &str, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.errors.push(format!("{step}: {error}"))).ok()
    }

    fn put(&mut self, step: &str, id: ObjectId, bytes: usize, result: Result<(), Error>) {
        if self.note(step, result).is_some() {
            self.acknowledged.push((id, bytes));
        }
    }

    /// Reads an object; bytes that differ are a violation and no error.
    fn read(&mut self, step: &str, store: &Client, id: ObjectId, bytes: usize) -> Result<()> {
        if let Some(found) = self.note(step, store.get(&id, Some(WAIT))) {
            ensure!(found.data() == content(&id, bytes), "{step}: wrong bytes of {id}");
        }
        Ok(())
    }
}

/// An id of a round.
pub fn id(round: u64, number: u64) -> ObjectId {
    let mut bytes = [0xfa; 20];
    bytes[..8].copy_from_slice(&round.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

/// What an object holds.
pub fn content(id: &ObjectId, bytes: usize) -> Vec<u8> {
    let seed = id.as_bytes().iter().fold(7_u8, |sum, byte| sum.wrapping_mul(31) ^ byte);
    // A length that no page and no allocation is a multiple of.
    let block: Vec<u8> = (0..4093_u32).map(|at| ((at * 5) ^ (at >> 8)) as u8 ^ seed).collect();
    let mut content = block.repeat(bytes.div_ceil(block.len()));
    content.truncate(bytes);
    content
}

/// Does everything once: with a client of the round's own, and, as the reader, with another one.
/// What fails is in the outcome; an error of this function is a broken promise.
pub fn round(options: &ConnectOptions, reader: &Client, number: u64) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let Some(writer) = outcome.note("connect", Client::connect(options)) else {
        return Ok(outcome);
    };
    let put = |id: ObjectId, bytes: usize, strict: bool| {
        let options = PutOptions { id: Some(id), strict, ..PutOptions::default() };
        writer.put(&content(&id, bytes), &options)?;
        writer.flush()
    };
    let small = id(number, 0);
    outcome.put("put small", small, SMALL, put(small, SMALL, false));
    outcome.read("get small", reader, small, SMALL)?;
    let strict = id(number, 1);
    outcome.put("put strict", strict, STRICT, put(strict, STRICT, true));
    outcome.read("get strict", reader, strict, STRICT)?;
    let awaited = id(number, 2);
    thread::scope(|scope| {
        let waiting =
            thread::Builder::new().spawn_scoped(scope, || reader.get(&awaited, Some(WAIT)));
        outcome.put("put awaited", awaited, SMALL, put(awaited, SMALL, false));
        let waiting = match waiting {
            Ok(waiting) => waiting,
            // The fault hit the round's own thread.
            Err(error) => {
                outcome.errors.push(format!("wait: {error}"));
                return Ok(());
            }
        };
        let found = waiting.join().map_err(|_| anyhow!("the waiting thread panicked"))?;
        outcome.note("wait", found);
        Ok::<(), anyhow::Error>(())
    })?;
    for large in (0..LARGE_COUNT).map(|at| id(number, 10 + at)) {
        outcome.put("put large", large, LARGE, put(large, LARGE, false));
    }
    for large in (0..LARGE_COUNT).map(|at| id(number, 10 + at)) {
        if outcome.acknowledged.contains(&(large, LARGE)) {
            outcome.read("get large", reader, large, LARGE)?;
        }
    }
    outcome.note("status", writer.status());
    Ok(outcome)
}

/// The same, with a limit to its time.
pub fn round_in_time(options: &ConnectOptions, reader: &Client, number: u64) -> Result<Outcome> {
    let (sender, receiver) = mpsc::channel();
    let (options, reader) = (options.clone(), reader.clone());
    // Not joined: a round that hangs is reported, and ends with the program.
    thread::Builder::new().name("round".to_owned()).spawn(move || {
        let _ = sender.send(round(&options, &reader, number));
    })?;
    match receiver.recv_timeout(ROUND_WITHIN) {
        Ok(outcome) => outcome,
        Err(_) => bail!("the round has no end"),
    }
}

/// Acknowledged objects are there with their bytes, and go when they are deleted.
pub fn check_objects(store: &Client, objects: &[(ObjectId, usize)]) -> Result<()> {
    for (id, bytes) in objects {
        let found = store.get(id, Some(TEST_TIMEOUT)).map_err(|error| anyhow!("lost: {error}"))?;
        ensure!(found.data() == content(id, *bytes), "wrong bytes of {id}");
    }
    Ok(())
}

/// Deletes what a round may have left.
pub fn delete(store: &Client, number: u64) -> Result<()> {
    let numbers = (0..3).chain(10..10 + LARGE_COUNT);
    let ids: Vec<ObjectId> = numbers.map(|at| id(number, at)).collect();
    store.delete(&ids).map(drop).map_err(|error| anyhow!("delete: {error}"))
}

/// Everything works: a whole round without an error. What the fault put off, such as opening the
/// spill tier, is tried again after a while, so there is a moment for it.
pub fn check_works(node: &Node, store: &Client, number: u64) -> Result<()> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let outcome = round_in_time(&node.options(), store, number)?;
        check_objects(store, &outcome.acknowledged)?;
        delete(store, number)?;
        if outcome.errors.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "after the fault: {:?}", outcome.errors);
    }
}

/// Waits until something is so, and says what is found if it never is.
pub fn until<T: std::fmt::Debug>(
    mut look: impl FnMut() -> Result<T>,
    is_so: impl Fn(&T) -> bool,
) -> Result<T> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let found = look();
        match found {
            Ok(found) if is_so(&found) => return Ok(found),
            found if Instant::now() >= deadline => bail!("it stays so: {found:?}"),
            _ => thread::yield_now(),
        }
    }
}
