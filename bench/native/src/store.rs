//! Our client, measured through its public face.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use plasmon_client::{Client, ConnectOptions, PutOptions, StartOptions};
use plasmon_proto::ObjectId;
use plasmon_proto::message::Filter;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::columns;
use crate::durable;
use crate::protocol::{Samples, answer};
use crate::source::Payload;
use crate::timing::{Series, awaited, nanoseconds, rate, spaced};

/// Objects in one request of a bulk operation, as an application would batch them.
const BULK: usize = 1024;

const GONE: &str = "an object that was put is gone";

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Request {
    Start {
        directory: PathBuf,
        capacity_bytes: u64,
        #[serde(default)]
        settings: Vec<(String, String)>,
        /// For a log of durable objects.
        folder: Option<PathBuf>,
    },
    Connect {
        address: PathBuf,
    },
    Stop {},
    Get {
        object_bytes: usize,
        #[serde(default = "one")]
        objects: usize,
        #[serde(default)]
        way: GetWay,
        count: u64,
        batch: u64,
    },
    GetRate {
        object_bytes: usize,
        seconds: f64,
    },
    GetMany {
        object_bytes: usize,
        objects: usize,
        count: u64,
    },
    Put(PutSeries),
    PutBatch(durable::Batch),
    PutClients(durable::Clients),
    InsertRate {
        object_bytes: usize,
        objects: usize,
    },
    Fill {
        object_bytes: usize,
        objects: usize,
    },
    Clear {},
    List {
        count: u64,
    },
    Delete {
        object_bytes: usize,
        #[serde(default)]
        awaited: bool,
        count: u64,
        batch: u64,
    },
    WakeSeal {
        series: u64,
        count: usize,
        gap_us: u64,
    },
    WakeWait {
        series: u64,
        count: usize,
    },
    AppendInt64(columns::Append),
    DoubleBuffer(columns::Double),
    /// Kill the daemon over `objects` objects, and wait until the next one answers.
    Recover {
        object_bytes: usize,
        objects: usize,
        count: u64,
    },
}

/// What a get gives back.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GetWay {
    /// A pin that borrows the store.
    #[default]
    Pinned,
    /// The same, with the first bytes of the data read.
    Touched,
    /// A buffer that keeps the store.
    Owned,
}

/// How an object is put.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PutWay {
    /// An id of the client's making: nothing is awaited.
    #[default]
    OwnId,
    /// An id of the caller's: the store's answer is awaited.
    UserId,
    /// Without a channel: every step is a message on the socket.
    Socket,
    /// Create, write in place, seal.
    InPlace,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PutSeries {
    object_bytes: usize,
    count: u64,
    #[serde(default = "one_u64")]
    batch: u64,
    #[serde(default)]
    way: PutWay,
    source: Option<String>,
    /// Threads that copy; none: the client's choice.
    threads: Option<usize>,
    /// Whether the first put is measured as well, which finds memory as the daemon made it.
    #[serde(default)]
    cold: bool,
}

fn one() -> usize {
    1
}

fn one_u64() -> u64 {
    1
}

/// One client, and the store that it started, if any.
#[derive(Debug, Default)]
pub(crate) struct Side {
    store: Option<Client>,
    started: bool,
    filled: Vec<ObjectId>,
}

impl Side {
    /// Carries out one request.
    pub(crate) fn run(&mut self, request: Request) -> Result<Value> {
        match request {
            Request::Start { directory, capacity_bytes, mut settings, folder } => {
                let log = folder.map(|folder| folder.join("log").display().to_string());
                settings.extend(log.map(|folder| ("durable_dir".into(), folder)));
                self.start(directory, capacity_bytes, settings)
            }
            Request::Connect { address } => {
                self.store = Some(connect(address, true, None)?);
                Ok(json!({}))
            }
            Request::Stop {} => {
                self.stop();
                Ok(json!({}))
            }
            Request::Get { object_bytes, objects, way, count, batch } => {
                answer(self.get(object_bytes, objects, way, Series { count, batch })?)
            }
            Request::GetRate { object_bytes, seconds } => self.get_rate(object_bytes, seconds),
            Request::GetMany { object_bytes, objects, count } => {
                answer(self.get_many(object_bytes, objects, count)?)
            }
            Request::Put(series) => answer(self.put(&series)?),
            Request::PutBatch(batch) => answer(durable::put_batch(self.store()?, &batch)?),
            Request::PutClients(clients) => {
                let socket = self.store()?.socket().to_owned();
                let connect = || connect(socket.clone(), true, None);
                answer(durable::put_clients(connect, &clients)?)
            }
            Request::InsertRate { object_bytes, objects } => {
                self.insert_rate(object_bytes, objects)
            }
            Request::Fill { object_bytes, objects } => {
                let made = self.make(object_bytes, objects)?;
                self.filled.extend(made);
                Ok(json!({}))
            }
            Request::Clear {} => {
                let filled = std::mem::take(&mut self.filled);
                self.delete(&filled)?;
                Ok(json!({}))
            }
            Request::List { count } => answer(self.list(count)?),
            Request::Delete { object_bytes, awaited, count, batch } => {
                answer(self.delete_each(object_bytes, awaited, Series { count, batch })?)
            }
            Request::WakeSeal { series, count, gap_us } => self.wake_seal(series, count, gap_us),
            Request::AppendInt64(request) => answer(columns::append(self.store()?, request)?),
            Request::DoubleBuffer(request) => answer(columns::double(self.store()?, request)?),
            Request::Recover { object_bytes, objects, count } => {
                answer(self.recover(object_bytes, objects, count)?)
            }
            Request::WakeWait { series, count } => {
                let store = self.store()?;
                answer(awaited(count, |turn| {
                    drop(store.get(&shared_id(series, turn), None)?);
                    Ok(())
                })?)
            }
        }
    }

    /// Ends the connection, and the daemon when this side started it.
    pub(crate) fn stop(&mut self) {
        if let Some(store) = self.store.take() {
            if self.started {
                // The harness ends the processes that are left of a side.
                let _ = store.shutdown();
            }
            store.disconnect();
        }
    }

    fn store(&self) -> Result<&Client> {
        self.store.as_ref().context("a request before start or connect")
    }

    fn start(
        &mut self,
        directory: PathBuf,
        capacity_bytes: u64,
        mut settings: Vec<(String, String)>,
    ) -> Result<Value> {
        let socket = directory.join("plasmon.sock");
        settings.push(("socket".into(), socket.display().to_string()));
        settings.push(("capacity_bytes".into(), capacity_bytes.to_string()));
        let options = StartOptions { settings, ..StartOptions::default() };
        let begin = Instant::now();
        plasmon_client::start(&options)?;
        let store = connect(socket.clone(), true, None)?;
        let taken = nanoseconds(begin.elapsed());
        self.store = Some(store);
        self.started = true;
        let versions = json!({ "plasmon": env!("CARGO_PKG_VERSION") });
        Ok(json!({ "address": socket, "start_ns": taken, "versions": versions }))
    }

    /// Makes objects and waits until every client can see them.
    fn make(&self, size: usize, objects: usize) -> Result<Vec<ObjectId>> {
        let store = self.store()?;
        let payload = Payload::new(size, None)?;
        let batch = [(None, payload.as_slice()); BULK];
        let mut made = Vec::with_capacity(objects);
        while made.len() < objects {
            let next = BULK.min(objects - made.len());
            made.extend(store.put_many(&batch[..next], &PutOptions::default())?);
        }
        store.flush()?;
        Ok(made)
    }

    fn delete(&self, ids: &[ObjectId]) -> Result<()> {
        for part in ids.chunks(BULK) {
            for (id, refusal) in part.iter().zip(self.store()?.delete(part)?) {
                if let Some(code) = refusal {
                    bail!("deleting {id} was refused: {code:?}");
                }
            }
        }
        Ok(())
    }

    fn get(&self, size: usize, objects: usize, way: GetWay, series: Series) -> Result<Samples> {
        let store = self.store()?;
        let ids = scattered(self.make(size, objects)?);
        let mut next = ids.iter().cycle();
        let get = || {
            let Some(id) = next.next() else { bail!("a get takes an object") };
            match way {
                // The object is looked at where it is: moving it about would be measured as well.
                GetWay::Pinned => {
                    let found = store.get_now(id);
                    let Some(object) = &found else { bail!(GONE) };
                    std::hint::black_box(object.data().as_ptr());
                }
                GetWay::Touched => {
                    let found = store.get_now(id);
                    let Some(object) = &found else { bail!(GONE) };
                    std::hint::black_box(object.data().first().copied());
                }
                GetWay::Owned => {
                    let object = store.get(id, Some(Duration::ZERO))?;
                    std::hint::black_box(object.data().as_ptr());
                }
            }
            Ok(())
        };
        let samples = series.take(get, || Ok(()))?;
        self.delete(&ids)?;
        Ok(samples)
    }

    fn get_rate(&self, size: usize, seconds: f64) -> Result<Value> {
        let store = self.store()?;
        let ids = self.make(size, 1)?;
        let per_s = rate(seconds, || {
            let found = store.get_now(&ids[0]);
            let Some(object) = &found else { bail!(GONE) };
            std::hint::black_box(object.data().as_ptr());
            Ok(())
        })?;
        self.delete(&ids)?;
        Ok(json!({ "per_s": per_s }))
    }

    fn get_many(&self, size: usize, objects: usize, count: u64) -> Result<Samples> {
        let store = self.store()?;
        let ids = self.make(size, objects)?;
        let get = || {
            for object in store.get_many(&ids, Some(Duration::ZERO))? {
                std::hint::black_box(object?);
            }
            Ok(())
        };
        let samples = Series { count, batch: 1 }.take(get, || Ok(()))?;
        self.delete(&ids)?;
        Ok(samples)
    }

    fn put(&self, request: &PutSeries) -> Result<Samples> {
        let payload = Payload::new(request.object_bytes, request.source.as_deref())?;
        let data = payload.as_slice();
        let own = self.store()?;
        let channel = !matches!(request.way, PutWay::Socket);
        let other = if !channel || request.threads.is_some() {
            Some(connect(own.socket().to_owned(), channel, request.threads)?)
        } else {
            None
        };
        let store = other.as_ref().unwrap_or(own);
        let made = std::cell::RefCell::new(Vec::new());
        let put = || {
            let id = match request.way {
                PutWay::OwnId | PutWay::Socket => store.put(data, &PutOptions::default())?,
                PutWay::UserId => {
                    let id = Some(store.new_id());
                    store.put(data, &PutOptions { id, ..PutOptions::default() })?
                }
                PutWay::InPlace => {
                    let mut writer = store.create(data.len() as u64, &PutOptions::default())?;
                    writer.copy_from_slice(data);
                    writer.seal()?
                }
            };
            made.borrow_mut().push(id);
            Ok(())
        };
        let clear = || {
            store.flush()?;
            self.delete(&made.take())
        };
        if request.cold {
            let begin = Instant::now();
            put()?;
            let samples = vec![nanoseconds(begin.elapsed())];
            clear()?;
            return Ok(Samples { samples, batch: 1 });
        }
        Series { count: request.count, batch: request.batch }.take(put, clear)
    }

    fn insert_rate(&self, size: usize, objects: usize) -> Result<Value> {
        let warm_up = self.make(size, objects)?;
        self.delete(&warm_up)?;
        let begin = Instant::now();
        let made = self.make(size, objects)?;
        let per_s = objects as f64 / begin.elapsed().as_secs_f64();
        ensure!(self.store()?.get_now(&made[objects - 1]).is_some(), "a flushed object is visible");
        self.delete(&made)?;
        Ok(json!({ "per_s": per_s }))
    }

    fn recover(&self, size: usize, objects: usize, count: u64) -> Result<Samples> {
        let store = self.store()?;
        let ids = self.make(size, objects)?;
        let recover = || {
            let before = store.status()?;
            let begin = Instant::now();
            let pid = Pid::from_raw(i32::try_from(before.pid)?).context("a daemon has a number")?;
            kill_process(pid, Signal::KILL)?;
            let after = store.status()?;
            let taken = begin.elapsed();
            ensure!(after.epoch == before.epoch + 1, "another daemon answers");
            ensure!(after.objects == before.objects, "an object was lost");
            Ok(nanoseconds(taken))
        };
        let samples = (0..count).map(|_| recover()).collect::<Result<_>>()?;
        self.delete(&ids)?;
        Ok(Samples { samples, batch: 1 })
    }

    fn list(&self, count: u64) -> Result<Samples> {
        let store = self.store()?;
        let expected = self.filled.len();
        let list = || {
            let found = store.list(&Filter::default())?.len();
            ensure!(found >= expected, "a listing of {found} objects, of {expected}");
            Ok(())
        };
        Series { count, batch: 1 }.take(list, || Ok(()))
    }

    fn delete_each(&self, size: usize, awaited: bool, series: Series) -> Result<Samples> {
        let store = self.store()?;
        let objects = usize::try_from(series.batch * (series.count + 1))?;
        let mut made = self.make(size, objects)?;
        let delete = || {
            let id = made.pop().context("an object for every delete")?;
            if awaited { self.delete(&[id]) } else { Ok(store.delete_soon(&id)?) }
        };
        series.take(delete, || Ok(store.flush()?))
    }

    fn wake_seal(&self, series: u64, count: usize, gap_us: u64) -> Result<Value> {
        let store = self.store()?;
        let mut writers = Vec::new();
        for turn in 0..count {
            let id = Some(shared_id(series, turn));
            writers.push(store.create(64, &PutOptions { id, ..PutOptions::default() })?);
        }
        writers.reverse();
        let mut made = Vec::new();
        let stamps = spaced(count, Duration::from_micros(gap_us), |_| {
            made.push(writers.pop().context("a writer for every turn")?.seal()?);
            Ok(())
        })?;
        answer(stamps)
    }
}

fn connect(socket: PathBuf, channel: bool, copy_threads: Option<usize>) -> Result<Client> {
    let options = ConnectOptions {
        socket: Some(socket),
        name: "bench".into(),
        channel,
        copy_threads,
        connect_timeout: Duration::from_secs(10),
        ..ConnectOptions::default()
    };
    Ok(Client::connect(&options)?)
}

/// The id that the two clients of one series use for one turn.
fn shared_id(series: u64, turn: usize) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&series.to_le_bytes());
    bytes[8..16].copy_from_slice(&(turn as u64).to_le_bytes());
    ObjectId::new(bytes)
}

/// The same ids in an order in which neither slots nor objects are neighbours. The list itself is
/// read from front to back: a caller's own misses are not the store's.
fn scattered(ids: Vec<ObjectId>) -> Vec<ObjectId> {
    // A step near the golden section that shares no divisor with the length meets every place once.
    let length = ids.len();
    let mut step = (length as f64 * 0.618) as usize | 1;
    while greatest_common_divisor(step, length) != 1 {
        step += 2;
    }
    (0..length).map(|turn| ids[turn * step % length]).collect()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
