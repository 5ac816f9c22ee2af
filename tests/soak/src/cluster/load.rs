//! Clients at work: each thread puts, gets, waits for and deletes objects of a few names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plasmon_client::{Buffer, Client, Code, ConnectOptions, Error, Name, ObjectId, PutOptions};
use plasmon_testkit::{Random, pattern};

use super::history::{History, NameNo, PutEnd, Token};
use super::homed::{self, Homed};
use super::parts;

/// How many names there are.
pub(super) const NAMES: usize = 24;

/// A call that takes longer is a finding.
pub(super) const CALL_MAX: Duration = Duration::from_secs(60);

/// Objects of every other name are seldom deleted, so that faults find them there.
fn is_kept_longer(number: NameNo) -> bool {
    number % 2 == 1
}

/// Where the threads meet.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) history: Mutex<History>,
    /// Objects without names.
    pub(super) homed: Mutex<Homed>,
    /// What threads do, and since when.
    calls: Mutex<BTreeMap<usize, (String, Instant)>>,
    counts: Mutex<BTreeMap<String, u64>>,
    /// Where the nodes are now.
    pub(super) nodes: Mutex<Vec<ConnectOptions>>,
    /// How often each node died.
    deaths: Mutex<BTreeMap<usize, u64>>,
    is_paused: AtomicBool,
    is_over: AtomicBool,
}

/// What is behind a lock. A thread that panicked has said so itself.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// How often each outcome was there.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.counts).clone()
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn resume(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }

    /// A node died, and with it its clients: what they have mapped is from before.
    pub(super) fn node_died(&self, node: usize) {
        *lock(&self.deaths).entry(node).or_default() += 1;
    }

    fn deaths(&self, node: usize) -> u64 {
        lock(&self.deaths).get(&node).copied().unwrap_or(0)
    }

    /// No call begins from now on.
    pub(super) fn hold(&self) {
        let _calls = lock(&self.calls);
        self.is_paused.store(true, Ordering::SeqCst);
    }

    /// Lets every call end; what is still under way after as long as a call may take.
    pub(super) fn pause(&self) -> Vec<String> {
        self.hold();
        let deadline = Instant::now() + CALL_MAX;
        loop {
            let calls = lock(&self.calls);
            if calls.is_empty() {
                return Vec::new();
            }
            if Instant::now() > deadline {
                let line = |(what, since): &(String, Instant)| {
                    format!("after {:.0?} there is no answer to: {what}", since.elapsed())
                };
                return calls.values().map(line).collect();
            }
            drop(calls);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn count(&self, what: String) {
        *lock(&self.counts).entry(what).or_default() += 1;
    }

    /// Does one thing that is seen by others while it lasts; `None` while there is a pause.
    fn call<T>(&self, thread: usize, what: String, run: impl FnOnce() -> T) -> Option<T> {
        let begin = Instant::now();
        {
            let mut calls = lock(&self.calls);
            if self.is_paused.load(Ordering::SeqCst) {
                return None;
            }
            calls.insert(thread, (what.clone(), begin));
        }
        let outcome = run();
        lock(&self.calls).remove(&thread);
        if begin.elapsed() > CALL_MAX {
            let finding = format!("{what} took {:.0?}", begin.elapsed());
            lock(&self.history).findings.insert(finding);
        }
        Some(outcome)
    }
}

/// The name with this number.
pub(super) fn name(number: NameNo) -> Name {
    #[expect(clippy::expect_used, reason = "these names are valid")]
    Name::new("", format!("@soak:{number}")).expect("a valid name")
}

/// Which object this is, after a look at every byte.
pub(super) fn token_of(found: &Buffer) -> Result<Token, String> {
    let token = found.metadata().try_into().map(Token::from_le_bytes);
    let token = token.map_err(|_| format!("metadata of {} bytes", found.metadata().len()))?;
    let data = found.data();
    if data == pattern(token, bytes_of(token)) {
        Ok(token)
    } else {
        Err(format!("wrong bytes in {token}: {} of {}", data.len(), bytes_of(token)))
    }
}

/// The size of an object.
fn bytes_of(token: Token) -> usize {
    let mut random = Random::new(token ^ 0x5117e);
    let end = random.pick(&[1, 200, 20_000, 20_000, 300_000, 1_500_000, 4 << 20]);
    random.size_below(end + 1)
}

/// One thread, until the end.
pub(super) fn work(shared: &Arc<Shared>, thread: usize, node: usize, seed: u64) {
    let random = Random::new(seed);
    let mut worker = Worker { shared, thread, node, random, client: None, deaths: 0 };
    while !shared.is_over.load(Ordering::SeqCst) {
        worker.step();
        let pause_us = worker.random.below(20_000);
        std::thread::sleep(Duration::from_micros(pause_us));
    }
}

struct Worker<'a> {
    shared: &'a Shared,
    thread: usize,
    node: usize,
    random: Random,
    client: Option<Client>,
    /// How often its node had died when it was connected.
    deaths: u64,
}

impl Worker<'_> {
    fn step(&mut self) {
        let Some(client) = self.client() else { return };
        let number = self.random.size_below(NAMES);
        let code = match self.random.below(142) {
            137.. => {
                // What takes the place of an object is put when it has ended.
                self.delete(&client, number);
                self.put(&client, number)
            }
            80..95 if is_kept_longer(number) && self.random.percent(85) => None,
            100..110 => self.unnamed(&client, "put of objects without names", homed::put),
            110..120 => self.unnamed(&client, "get of an object without a name", homed::get),
            120..125 => self.unnamed(&client, "delete of an object without a name", homed::delete),
            125..131 => self.unnamed(&client, "gather of objects without names", parts::gather),
            131..137 => self.unnamed(&client, "region", parts::region),
            0..35 => self.put(&client, number),
            35..55 => self.get(&client, number, None),
            55..80 => {
                let timeout = Duration::from_millis(self.random.below(2000));
                self.get(&client, number, Some(timeout))
            }
            80..95 => self.delete(&client, number),
            95..100 => self.contains(&client, number),
        };
        if code.flatten() == Some(Code::Disconnected) {
            self.client = None;
        }
    }

    /// Its client, while the node can be reached.
    fn client(&mut self) -> Option<Client> {
        let deaths = self.shared.deaths(self.node);
        if std::mem::replace(&mut self.deaths, deaths) != deaths {
            self.client = None;
        }
        if self.client.is_none() {
            let options = lock(&self.shared.nodes).get(self.node)?.clone();
            let what = format!("node {}: connect", self.node);
            let connected = self.shared.call(self.thread, what, || Client::connect(&options).ok());
            self.client = connected.flatten();
        }
        self.client.clone()
    }

    fn put(&mut self, client: &Client, number: NameNo) -> Option<Option<Code>> {
        let copies = 1 + self.random.below(3) as u8;
        let copies_min = if self.random.percent(50) { copies } else { 0 };
        let certain = if copies_min > 0 { copies } else { copies.div_ceil(2) };
        let durable = self.random.percent(60);
        let kind = if durable { "durable put" } else { "put" };
        let (shared, node) = (self.shared, self.node);
        let what = format!("node {node}: {kind} of @soak:{number}, {copies} copies");
        let outcome = shared.call(self.thread, what, || {
            let token = lock(&shared.history).put_begins(number, certain.into(), durable);
            let metadata = token.to_le_bytes().to_vec();
            let options = PutOptions {
                name: Some(name(number)),
                metadata,
                copies,
                copies_min,
                durable,
                ..Default::default()
            };
            let outcome = client.put(&pattern(token, bytes_of(token)), &options);
            let end = match outcome.as_ref().map_err(Error::code) {
                Ok(_) => PutEnd::Accepted,
                Err(
                    code @ (Code::Exists | Code::NotEnoughNodes | Code::StoreFull | Code::InUse),
                ) => PutEnd::Refused(code),
                Err(_) => PutEnd::Unknown,
            };
            lock(&shared.history).put_ends(number, token, end);
            outcome.map(drop)
        })?;
        Some(self.told(kind, &outcome))
    }

    fn get(
        &mut self,
        client: &Client,
        number: NameNo,
        timeout: Option<Duration>,
    ) -> Option<Option<Code>> {
        let (shared, node) = (self.shared, self.node);
        let what = format!("node {node}: get of @soak:{number}, timeout {timeout:?}");
        let outcome =
            shared.call(self.thread, what, || look(shared, client, number, timeout).map(drop))?;
        Some(self.told(if timeout.is_some() { "wait" } else { "get" }, &outcome))
    }

    fn delete(&mut self, client: &Client, number: NameNo) -> Option<Option<Code>> {
        let (shared, node) = (self.shared, self.node);
        let what = format!("node {node}: delete of @soak:{number}");
        let outcome = shared.call(self.thread, what, || delete(shared, client, number))?;
        Some(self.told("delete", &outcome))
    }

    fn contains(&mut self, client: &Client, number: NameNo) -> Option<Option<Code>> {
        let what = format!("node {}: contains @soak:{number}", self.node);
        let run = || client.contains(&name(number).id()).map(drop);
        let outcome = self.shared.call(self.thread, what, run)?;
        Some(self.told("contains", &outcome))
    }

    fn unnamed(
        &mut self,
        client: &Client,
        what: &str,
        run: fn(&Shared, &Client, &mut Random) -> Result<(), Error>,
    ) -> Option<Option<Code>> {
        let (shared, random) = (self.shared, &mut self.random);
        let call = format!("node {}: {what}", self.node);
        let outcome = shared.call(self.thread, call, || run(shared, client, random))?;
        Some(self.told(what, &outcome))
    }

    fn told(&self, what: &str, outcome: &Result<(), Error>) -> Option<Code> {
        let code = outcome.as_ref().err().map(Error::code);
        self.shared.count(format!("{what} {}", code.map_or("ok", Code::key)));
        code
    }
}

/// Reads an object: as it is now, or waiting for it.
pub(super) fn look(
    shared: &Shared,
    client: &Client,
    number: NameNo,
    timeout: Option<Duration>,
) -> Result<Token, Error> {
    let id: ObjectId = name(number).id();
    let begin = Instant::now();
    let found = match timeout {
        Some(timeout) => client.get(&id, Some(timeout)),
        None => client.get_existing(&id),
    };
    match found {
        Ok(found) => {
            let token = token_of(&found);
            let mut history = lock(&shared.history);
            match token {
                Ok(token) => {
                    history.read(number, token, begin);
                    Ok(token)
                }
                Err(wrong) => {
                    history.findings.insert(format!("torn: @soak:{number}: {wrong}"));
                    Ok(0)
                }
            }
        }
        Err(error) => {
            if matches!(error.code(), Code::Absent | Code::Deleted) && timeout.is_none() {
                lock(&shared.history).absent(number, begin, error.code().key());
            }
            Err(error)
        }
    }
}

/// Deletes whatever a name has.
pub(super) fn delete(shared: &Shared, client: &Client, number: NameNo) -> Result<(), Error> {
    let delete = lock(&shared.history).delete_begins(number);
    let outcomes = client.delete(&[name(number).id()])?;
    match outcomes.first().copied().flatten() {
        None => {
            lock(&shared.history).delete_is_acknowledged(number, delete);
            Ok(())
        }
        Some(code) => Err(Error::new(code, "deleting")),
    }
}
