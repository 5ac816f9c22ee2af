//! Durable objects, put through our client: many at once, and by many clients.

use std::cell::RefCell;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use plasmon_client::{Client, PutOptions};
use plasmon_proto::ObjectId;
use serde::Deserialize;

use crate::protocol::Samples;
use crate::source::Payload;
use crate::timing::{Series, nanoseconds};

/// Objects that each of several clients keeps before it deletes them.
const KEPT: usize = 64;

/// Objects that are handed over at once.
#[derive(Debug, Deserialize)]
pub(crate) struct Batch {
    object_bytes: usize,
    count: u64,
    batch: usize,
}

/// Clients, each of which awaits the answer to its put.
#[derive(Debug, Deserialize)]
pub(crate) struct Clients {
    object_bytes: usize,
    clients: usize,
    seconds: f64,
}

/// The time of one object.
pub(crate) fn put_batch(store: &Client, request: &Batch) -> Result<Samples> {
    let payload = Payload::new(request.object_bytes, None)?;
    let objects = vec![(None, payload.as_slice()); request.batch];
    let made = RefCell::new(Vec::new());
    let options = durable();
    let put = || {
        made.borrow_mut().extend(store.put_many(&objects, &options)?);
        Ok(())
    };
    let clear = || delete(store, &made.take());
    let mut taken = Series { count: request.count, batch: 1 }.take(put, clear)?;
    taken.samples.iter_mut().for_each(|sample| *sample /= request.batch as f64);
    Ok(Samples { batch: request.batch as u64, ..taken })
}

/// The time that passes for a put of all together. Each thread has a client of its own.
pub(crate) fn put_clients(
    connect: impl Fn() -> Result<Client>,
    request: &Clients,
) -> Result<Samples> {
    let payload = Payload::new(request.object_bytes, None)?;
    let data = payload.as_slice();
    let stores = (0..request.clients).map(|_| connect()).collect::<Result<Vec<_>>>()?;
    for store in &stores {
        // The first put of a client asks for memory.
        let warm_up = store.put(data, &durable())?;
        delete(store, &[warm_up])?;
    }
    let begin = Barrier::new(stores.len());
    let within = Duration::from_secs_f64(request.seconds);
    let rates = thread::scope(|scope| {
        let begin = &begin;
        let put = |store| {
            scope.spawn(move || {
                begin.wait();
                put_for(store, data, within)
            })
        };
        let threads: Vec<_> = stores.iter().map(put).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("the thread of a client has panicked")))
        });
        ended.collect::<Result<Vec<f64>>>()
    })?;
    let rate: f64 = rates.into_iter().sum();
    Ok(Samples { samples: vec![1.0 / rate], batch: request.clients as u64 })
}

/// Puts for so long; how many in a nanosecond.
fn put_for(store: &Client, data: &[u8], within: Duration) -> Result<f64> {
    let (mut made, mut done) = (Vec::with_capacity(KEPT), 0_u64);
    let begin = Instant::now();
    while begin.elapsed() < within {
        made.push(store.put(data, &durable())?);
        done += 1;
        // Deletes are part of the log's work, as setting a key again is of Redis's.
        if made.len() == KEPT {
            delete(store, &made)?;
            made.clear();
        }
    }
    Ok(done as f64 / nanoseconds(begin.elapsed()))
}

fn durable() -> PutOptions {
    PutOptions { durable: true, ..PutOptions::default() }
}

fn delete(store: &Client, ids: &[ObjectId]) -> Result<()> {
    for (id, refusal) in ids.iter().zip(store.delete(ids)?) {
        if let Some(code) = refusal {
            bail!("deleting {id} was refused: {code:?}");
        }
    }
    Ok(())
}
