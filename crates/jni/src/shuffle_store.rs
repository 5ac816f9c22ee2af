//! A connection to a store on behalf of one Spark application.

use std::path::PathBuf;
use std::time::Duration;

use plasmon_client::{
    Buffer, Client, Code, ConnectOptions, Error, Filter, Name, ObjectId, ObjectReader, PutOptions,
    Result, StartOptions, Status, Writer,
};

const NAMING: &str = "naming a run of a shuffle";

/// Ids in one request to delete, well below what a frame takes.
const DELETED_AT_ONCE: usize = 512;

/// Identifies one run of the output of one attempt at a map task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId {
    /// Spark's number of the shuffle.
    pub shuffle: i32,
    /// Spark's number of the attempt, unique within the application.
    pub map: i64,
    /// The run; 0 is the last one to be sealed and has their number.
    pub run: i32,
}

impl RunId {
    /// The run in the two numbers that Java passes: the shuffle is the upper half of the first.
    pub(crate) fn packed(shuffle_and_run: i64, map: i64) -> Self {
        Self { shuffle: (shuffle_and_run >> 32) as i32, map, run: shuffle_and_run as i32 }
    }

    /// The text of its name.
    fn text(self) -> String {
        let Self { shuffle, map, run } = self;
        format!("{}{map}/{run}", prefix(shuffle))
    }
}

/// The common prefix of the names of all runs of a shuffle.
fn prefix(shuffle: i32) -> String {
    format!("shuffle-{shuffle}/")
}

/// A connection, and the namespace in which the application's objects are named.
#[derive(Debug)]
pub struct ShuffleStore {
    store: Client,
    namespace: String,
    /// For how long to wait for the store, and for what was spilled to come back.
    timeout: Duration,
    /// Whether sealing waits for the daemon's verdict, which only a quota makes worth knowing: the
    /// names of runs are the application's own, and each is used once.
    awaits_verdicts: bool,
}

impl ShuffleStore {
    /// Connects to a running store.
    pub fn connect(
        socket: PathBuf,
        client: String,
        namespace: String,
        timeout: Duration,
        awaits_verdicts: bool,
    ) -> Result<Self> {
        let options = ConnectOptions {
            socket: Some(socket),
            name: client,
            connect_timeout: timeout,
            ..ConnectOptions::default()
        };
        Ok(Self { store: Client::connect(&options)?, namespace, timeout, awaits_verdicts })
    }

    /// Starts a store of the application's own, which ends with its last client.
    pub fn start(daemon: PathBuf, settings: Vec<(String, String)>) -> Result<u32> {
        let options = StartOptions { daemon: Some(daemon), settings, ..StartOptions::default() };
        Ok(plasmon_client::start(&options)?.pid)
    }

    /// Makes the application's objects end with this connection, and limits them; 0 for no limit.
    pub fn adopt(&self, quota_bytes: u64) -> Result<()> {
        self.store.adopt(&self.namespace, quota_bytes)
    }

    fn name(&self, id: RunId) -> Result<Name> {
        Name::new(self.namespace.clone(), id.text())
            .map_err(|error| Error::new(Code::BadRequest, NAMING).with_detail(error.to_string()))
    }

    /// Reserves the memory of a run.
    pub fn create(&self, id: RunId, bytes: u64) -> Result<Writer> {
        let name = Some(self.name(id)?);
        let trusted = !self.awaits_verdicts;
        self.store.create(bytes, &PutOptions { name, trusted, ..PutOptions::default() })
    }

    /// Pins a run; one that was spilled comes back into memory first.
    pub fn open(&self, id: RunId) -> Result<Buffer> {
        let id = self.name(id)?.id();
        match self.store.take_now(&id) {
            Some(buffer) => Ok(buffer),
            None => self.open_slowly(&id),
        }
    }

    #[cold]
    fn open_slowly(&self, id: &ObjectId) -> Result<Buffer> {
        // A run that does not exist will never come: only a spilled one is worth waiting for.
        let state = self.store.states(&[*id])?.first().copied();
        match state {
            Some(state) if state.is_readable() => self.store.get(id, Some(self.timeout)),
            Some(state) => Err(Error::of_state("opening a run of a shuffle", *id, state)),
            None => Err(Error::new(Code::Absent, "opening a run of a shuffle").with_id(*id)),
        }
    }

    /// Pins a run that is in memory; `None` when it is spilled or does not exist.
    pub fn open_in_memory(&self, id: RunId) -> Result<Option<Buffer>> {
        Ok(self.store.take_now(&self.name(id)?.id()))
    }

    /// Opens a run to read pieces of it; one that was spilled stays in its file.
    pub fn open_pieces(&self, id: RunId) -> Result<ObjectReader> {
        self.store.open(&self.name(id)?.id())
    }

    /// Deletes the first `runs` runs of one attempt; a run that is gone is not an error.
    pub fn delete_attempt(&self, shuffle: i32, map: i64, runs: i32) -> Result<()> {
        let name = |run| Ok(self.name(RunId { shuffle, map, run })?.id());
        let ids = (0..runs).map(name).collect::<Result<Vec<_>>>()?;
        self.delete(&ids).map(drop)
    }

    /// Deletes all objects of a shuffle, of any attempt; returns their number.
    pub fn delete_shuffle(&self, shuffle: i32) -> Result<usize> {
        self.delete_listed(Some(prefix(shuffle)))
    }

    /// Deletes all objects of the application; returns their number.
    pub fn delete_application(&self) -> Result<usize> {
        self.delete_listed(None)
    }

    fn delete_listed(&self, prefix: Option<String>) -> Result<usize> {
        let filter = Filter { namespace: Some(self.namespace.clone()), prefix };
        let listed = self.store.list(&filter)?;
        let ids: Vec<ObjectId> = listed.iter().map(|info| info.id).collect();
        self.delete(&ids)
    }

    fn delete(&self, ids: &[ObjectId]) -> Result<usize> {
        let mut deleted = 0;
        for page in ids.chunks(DELETED_AT_ONCE) {
            let outcomes = self.store.delete(page)?;
            deleted += outcomes.iter().filter(|outcome| outcome.is_none()).count();
        }
        Ok(deleted)
    }

    /// The store's figures.
    pub fn status(&self) -> Result<Status> {
        self.store.status()
    }

    /// Ends the connection; pins stay readable.
    pub fn disconnect(&self) {
        self.store.disconnect();
    }

    /// Stops the store.
    pub fn shutdown(&self) -> Result<()> {
        self.store.shutdown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_unpacked_as_java_packs_it() {
        let id = RunId { shuffle: 7, map: 1 << 40, run: 3 };
        assert_eq!(RunId::packed((7 << 32) | 3, 1 << 40), id);
    }

    #[test]
    fn names_of_a_shuffle_share_a_prefix_that_no_other_shuffle_has() {
        let id = RunId { shuffle: 3, map: 17, run: 0 };
        assert_eq!(id.text(), "shuffle-3/17/0");
        assert!(id.text().starts_with(&prefix(3)));
        assert!(!RunId { shuffle: 31, ..id }.text().starts_with(&prefix(3)));
    }
}
