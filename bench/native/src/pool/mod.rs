//! Our client on the nodes of a pool: what a get on one node of an object of another one costs, and
//! what a put with copies does.
//!
//! One process has a client of every node, so one clock times all of them. Objects are put on the
//! first node and fetched on the second one.

mod failover;
mod nodes;
mod readers;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use plasmon_client::{Client, Name, PutOptions};
use plasmon_proto::ObjectId;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::readers::read;

use self::failover::Failover;
use self::nodes::{Nodes, PATIENCE, Place, named};
use crate::machines::Machines;
use crate::protocol::{Samples, answer};
use crate::source::Payload;
use crate::store;
use crate::timing::{Series, cpu_ns, nanoseconds};

/// Objects that are put before the first of them is fetched have at most so many bytes together.
const PREPARED_BYTES_MAX: usize = 64 << 20;

const STARTED: &str = "a request before start";

/// A request of the pool itself, or of the first node's store as if there were no pool.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Request {
    Pool(PoolRequest),
    Local(store::Request),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum PoolRequest {
    Start {
        directory: PathBuf,
        capacity_bytes: u64,
        /// What the nodes run on, one on each; without them all are on loopback.
        machines: Option<Machines>,
        /// Whether nodes encrypt all that they say to each other.
        #[serde(default)]
        encrypted: bool,
        /// By which providers of libfabric nodes write into each other's memory; without it all
        /// content moves over TCP.
        fabric: Option<String>,
    },
    Stop {},
    /// The first get, on the second node, of objects that the first one put.
    Fetch(FetchSeries),
    /// Gets of an object that was fetched before.
    SecondGet {
        object_bytes: usize,
        count: u64,
        batch: u64,
    },
    PutCopies {
        object_bytes: usize,
        copies: u8,
        count: u64,
    },
    /// Batches of objects without names, put and then settled together.
    PutSettled {
        object_bytes: usize,
        count: u64,
        batch: u64,
    },
    /// Several processes get one object at once.
    Readers {
        object_bytes: usize,
        readers: usize,
    },
    /// A node ends or stops: how long until its objects are read, or its names are put.
    Failover(Failover),
}

#[derive(Debug, Deserialize)]
pub(crate) struct FetchSeries {
    object_bytes: usize,
    count: usize,
    /// Objects that are fetched at the same time; a sample is the time of all of them.
    #[serde(default = "one")]
    at_once: usize,
    /// Fetches before the first sample, so that memory which the store had before is used.
    #[serde(default = "one")]
    warmups: usize,
}

fn one() -> usize {
    1
}

/// What fetches took.
#[derive(Debug, Default)]
struct Fetches {
    samples: Vec<f64>,
    /// Processor time of all processes of the pool for each fetch, as a mean of those that were
    /// prepared together.
    cpu_ns: Vec<u64>,
}

/// The clients of all nodes, and what they were started with.
#[derive(Debug, Default)]
pub(crate) struct Side {
    nodes: Option<Nodes>,
    local: store::Side,
    names: u64,
    payload: Vec<u8>,
}

impl Side {
    /// Carries out one request.
    pub(crate) fn run(&mut self, request: Request) -> Result<Value> {
        let request = match request {
            Request::Local(request) => return self.local.run(request),
            Request::Pool(request) => request,
        };
        match request {
            PoolRequest::Start { directory, capacity_bytes, machines, encrypted, fabric } => {
                self.start(&Place { directory, capacity_bytes, machines, encrypted, fabric })
            }
            PoolRequest::Stop {} => {
                self.stop();
                Ok(json!({}))
            }
            PoolRequest::Fetch(series) => self.fetch(&series),
            PoolRequest::SecondGet { object_bytes, count, batch } => {
                answer(self.second_get(object_bytes, Series { count, batch })?)
            }
            PoolRequest::PutCopies { object_bytes, copies, count } => {
                answer(self.put_copies(object_bytes, copies, count)?)
            }
            PoolRequest::PutSettled { object_bytes, count, batch } => {
                self.put_settled(object_bytes, Series { count, batch })
            }
            PoolRequest::Readers { object_bytes, readers } => {
                let name = self.put(object_bytes, 1)?;
                let nodes = self.nodes()?;
                let samples = readers::get_at_once(nodes.socket(1), &name, readers)?;
                nodes.delete(&[name.id()])?;
                answer(Samples { samples, batch: 1 })
            }
            PoolRequest::Failover(failover) => {
                answer(failover.run(self.nodes.as_mut().context(STARTED)?)?)
            }
        }
    }

    /// Ends the pool.
    pub(crate) fn stop(&mut self) {
        self.local.stop();
        self.nodes = None;
    }

    fn nodes(&self) -> Result<&Nodes> {
        self.nodes.as_ref().context(STARTED)
    }

    fn start(&mut self, place: &Place) -> Result<Value> {
        if let Some(missing) = nodes::missing_program() {
            return Ok(json!({ "unsupported": missing }));
        }
        let (nodes, taken) = Nodes::start(place)?;
        if place.fabric.is_some()
            && let Some(reason) = nodes.fabric_refusal()?
        {
            return Ok(json!({ "unsupported": reason }));
        }
        let address = nodes.socket(0).to_owned();
        self.local.run(store::Request::Connect { address: address.clone() })?;
        self.nodes = Some(nodes);
        let versions = json!({ "plasmon": env!("CARGO_PKG_VERSION") });
        Ok(json!({ "address": address, "start_ns": nanoseconds(taken), "versions": versions }))
    }

    fn next_name(&mut self) -> Result<Name> {
        self.names += 1;
        Ok(Name::new("", format!("@bench:{}", self.names))?)
    }

    /// Puts an object on the first node.
    fn put(&mut self, bytes: usize, copies: u8) -> Result<Name> {
        let name = self.next_name()?;
        self.fill_payload(bytes)?;
        self.nodes()?.client(0).put(&self.payload, &named(&name, copies))?;
        Ok(name)
    }

    /// The bytes of objects of this size: the same for all of them.
    fn fill_payload(&mut self, bytes: usize) -> Result<()> {
        if self.payload.len() != bytes {
            self.payload = Payload::new(bytes, None)?.as_slice().to_vec();
        }
        Ok(())
    }

    fn fetch(&mut self, series: &FetchSeries) -> Result<Value> {
        let Some(turn_bytes) = series.object_bytes.checked_mul(series.at_once) else {
            bail!("objects of so many bytes");
        };
        // Small ones follow each other without a pause, as requests to a server do.
        let prepared = (PREPARED_BYTES_MAX / turn_bytes.max(1)).max(1);
        let mut fetches = Fetches::default();
        for turns in [series.warmups, series.count] {
            fetches = Fetches::default();
            while fetches.samples.len() < turns {
                let count = prepared.min(turns - fetches.samples.len());
                self.fetch_prepared(series, count, &mut fetches)?;
            }
        }
        Ok(json!({ "samples": fetches.samples, "batch": 1, "cpu_ns": fetches.cpu_ns }))
    }

    /// Puts the objects of so many fetches, fetches them, and deletes them.
    fn fetch_prepared(
        &mut self,
        series: &FetchSeries,
        count: usize,
        fetches: &mut Fetches,
    ) -> Result<()> {
        let puts = (0..count * series.at_once).map(|_| self.put(series.object_bytes, 1));
        let ids: Vec<ObjectId> = puts.map(|name| Ok(name?.id())).collect::<Result<_>>()?;
        let nodes = self.nodes()?;
        let processes = nodes.processes();
        let before = cpu_ns(&processes);
        for together in ids.chunks(series.at_once) {
            let begin = Instant::now();
            get_all(nodes.client(1), together, series.object_bytes)?;
            fetches.samples.push(nanoseconds(begin.elapsed()));
        }
        fetches.cpu_ns.push(cpu_ns(&processes).saturating_sub(before) / count as u64);
        nodes.delete(&ids)
    }

    fn second_get(&mut self, bytes: usize, series: Series) -> Result<Samples> {
        let id = self.put(bytes, 1)?.id();
        let nodes = self.nodes()?;
        drop(nodes.client(1).get(&id, Some(PATIENCE))?);
        let get = || {
            let found = nodes.client(1).get_now(&id);
            let Some(object) = &found else { bail!("an object that was fetched is gone") };
            std::hint::black_box(object.data().as_ptr());
            Ok(())
        };
        let samples = series.take(get, || Ok(()))?;
        nodes.delete(&[id])?;
        Ok(samples)
    }

    fn put_copies(&mut self, bytes: usize, copies: u8, count: u64) -> Result<Samples> {
        self.fill_payload(bytes)?;
        let mut samples = Vec::new();
        for turn in 0..=count {
            let name = self.next_name()?;
            let nodes = self.nodes()?;
            let begin = Instant::now();
            nodes.client(0).put(&self.payload, &named(&name, copies))?;
            let taken = begin.elapsed();
            nodes.delete(&[name.id()])?;
            if turn > 0 {
                samples.push(nanoseconds(taken));
            }
        }
        Ok(Samples { samples, batch: 1 })
    }
}

impl Side {
    /// Puts batches of objects without names on the first node, and waits until the pool has
    /// accepted each batch.
    fn put_settled(&mut self, bytes: usize, series: Series) -> Result<Value> {
        self.fill_payload(bytes)?;
        let options = PutOptions { pool: true, ..PutOptions::default() };
        let nodes = self.nodes()?;
        let (mut samples, mut spent) = (Vec::new(), Vec::new());
        let processes = nodes.processes();
        for turn in 0..=series.count {
            let before = cpu_ns(&processes);
            let begin = Instant::now();
            let puts = (0..series.batch).map(|_| nodes.client(0).put(&self.payload, &options));
            let ids = puts.collect::<plasmon_client::Result<Vec<ObjectId>>>()?;
            let outcomes = nodes.client(0).settle(&ids, Some(PATIENCE))?;
            let taken = begin.elapsed();
            ensure!(outcomes.iter().all(Option::is_none), "the pool accepts every object");
            let cpu = cpu_ns(&processes).saturating_sub(before) / series.batch.max(1);
            nodes.delete(&ids)?;
            if turn > 0 {
                samples.push(nanoseconds(taken) / series.batch as f64);
                spent.push(cpu);
            }
        }
        Ok(json!({ "samples": samples, "batch": series.batch, "cpu_ns": spent }))
    }
}

/// Gets all objects at the same time, each on a thread of its own unless it is alone.
fn get_all(client: &Client, ids: &[ObjectId], bytes: usize) -> Result<()> {
    let get = |id: &ObjectId| -> Result<()> {
        let found = client.get(id, Some(PATIENCE))?;
        ensure!(found.data().len() == bytes, "an object has its bytes");
        Ok(())
    };
    if let [id] = ids {
        return get(id);
    }
    std::thread::scope(|scope| {
        let gets: Vec<_> = ids.iter().map(|id| scope.spawn(|| get(id))).collect();
        gets.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| bail!("a thread that gets has panicked"))
        })
    })
}
