//! A connection to a store on behalf of one Spark application.

use std::path::PathBuf;
use std::time::Duration;

use plasmon_client::{
    Ack, Buffer, Client, Code, ConnectOptions, Error, Filter, Name, NodeState, ObjectId,
    ObjectReader, ObjectState, PartsGather, PartsOf, PoolNode, PutOptions, Result, StartOptions,
    Status, Writer,
};

const NAMING: &str = "naming a run of a shuffle";
const SETTLING: &str = "waiting for the copies of a run of a shuffle";

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
        format!("{}{run}", prefix_of_attempt(shuffle, map))
    }

    /// Whether a reduce task wrote it while its memory was short: no other task reads it.
    fn is_spill(self) -> bool {
        self.map < 0
    }
}

/// The common prefix of the names of all runs of a shuffle.
fn prefix(shuffle: i32) -> String {
    format!("shuffle-{shuffle}/")
}

/// The common prefix of the names of all runs of an attempt at a map task.
fn prefix_of_attempt(shuffle: i32, map: i64) -> String {
    format!("{}{map}/", prefix(shuffle))
}

/// What the runs of an application are called, and how many copies they have.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The application's namespace. If it is one of a pool, all nodes find the runs.
    pub namespace: String,
    /// In a pool, the namespace of what this process alone needs, which ends with it.
    pub scratch: String,
    /// In a pool, how many nodes keep a run.
    pub copies: u8,
}

/// A part of one run, of whichever node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPart {
    /// The run.
    pub run: RunId,
    /// The slot of the node that made it.
    pub slot: u16,
    /// Where in the run the part begins, in bytes.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// A connection, and the namespace in which the application's objects are named.
#[derive(Debug)]
pub struct ShuffleStore {
    store: Client,
    place: Place,
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
        place: Place,
        timeout: Duration,
        awaits_verdicts: bool,
    ) -> Result<Self> {
        let options = ConnectOptions {
            socket: Some(socket),
            name: client,
            connect_timeout: timeout,
            ..ConnectOptions::default()
        };
        let store = Client::connect(&options)?;
        let made = Self { store, place, timeout, awaits_verdicts };
        if made.is_pooled() {
            made.store.adopt(&made.place.scratch, 0)?;
        }
        Ok(made)
    }

    /// The pool that a running store belongs to: the addresses of its etcd, or the empty text.
    pub fn pool_of(socket: PathBuf, timeout: Duration) -> Result<String> {
        let options = ConnectOptions {
            socket: Some(socket),
            name: "spark".to_owned(),
            connect_timeout: timeout,
            ..ConnectOptions::default()
        };
        Ok(Client::connect(&options)?.status()?.cluster)
    }

    fn is_pooled(&self) -> bool {
        self.place.namespace.starts_with('@')
    }

    /// Starts a store of the application's own, which ends with its last client.
    pub fn start(daemon: PathBuf, settings: Vec<(String, String)>) -> Result<u32> {
        let options = StartOptions { daemon: Some(daemon), settings, ..StartOptions::default() };
        Ok(plasmon_client::start(&options)?.pid)
    }

    /// Makes the application's objects end with this connection, and limits them; 0 for no limit.
    pub fn adopt(&self, quota_bytes: u64) -> Result<()> {
        self.store.adopt(&self.place.namespace, quota_bytes)
    }

    fn name(&self, id: RunId) -> Result<Name> {
        let is_scratch = self.is_pooled() && id.is_spill();
        let namespace = if is_scratch { &self.place.scratch } else { &self.place.namespace };
        Name::new(namespace.clone(), id.text())
            .map_err(|error| Error::new(Code::BadRequest, NAMING).with_detail(error.to_string()))
    }

    /// The name of a run, and its id where it is made on this node.
    fn named(&self, id: RunId) -> Result<(Name, ObjectId)> {
        let name = self.name(id)?;
        let id = match name.is_pooled() {
            true => name.id_at(self.store.pool_slot()?.0),
            false => name.id(),
        };
        Ok((name, id))
    }

    /// The id of a run that is made on this node.
    fn id(&self, id: RunId) -> Result<ObjectId> {
        Ok(self.named(id)?.1)
    }

    /// Reserves the memory of a run.
    pub fn create(&self, id: RunId, bytes: u64) -> Result<Writer> {
        let (name, id) = self.named(id)?;
        let trusted = !self.awaits_verdicts;
        let options = PutOptions { id: Some(id), trusted, ..PutOptions::default() };
        let options = match name.is_pooled() {
            // The copies are made meanwhile: `settle` waits for all of an output at once.
            true => PutOptions { copies: self.place.copies, ack: Some(Ack::Local), ..options },
            false => options,
        };
        self.store.create(bytes, &PutOptions { name: Some(name), ..options })
    }

    /// Waits until the pool has accepted the runs 0 up to `runs` of an attempt that were made here,
    /// with their copies.
    pub fn settle(&self, shuffle: i32, map: i64, runs: i32) -> Result<()> {
        let id = |run| self.id(RunId { shuffle, map, run });
        let ids = (0..runs).map(id).collect::<Result<Vec<_>>>()?;
        let outcomes = self.store.settle(&ids, Some(self.timeout))?;
        let refused = ids.iter().zip(outcomes).find_map(|(id, outcome)| Some((*id, outcome?)));
        match refused {
            None => Ok(()),
            Some((id, code)) => Err(Error::new(code, SETTLING).with_id(id)),
        }
    }

    /// The slot of this node in its pool.
    pub fn slot(&self) -> Result<u16> {
        Ok(self.store.pool_slot()?.0)
    }

    /// The nodes of the pool as text, a line for each: its slot, `up` or `down`, and its name.
    pub fn nodes(&self) -> Result<String> {
        let nodes = self.store.pool_nodes()?;
        let line = |node: &PoolNode| {
            let state = if node.state == NodeState::Up { "up" } else { "down" };
            format!("{} {state} {}\n", node.slot.0, node.name)
        };
        Ok(nodes.iter().map(line).collect())
    }

    /// Asks for parts of runs, which come in this order, with so many bytes under way. A run that
    /// does not exist is not waited for.
    pub fn gather(&self, wanted: &[WantedPart], bytes_ahead: u64) -> Result<PartsGather> {
        let part = |wanted: &WantedPart| {
            let id = self.name(wanted.run)?.id_at(wanted.slot);
            let range = wanted.start..wanted.end;
            Ok(PartsOf { id, ranges: Vec::from([range]) })
        };
        let parts = wanted.iter().map(part).collect::<Result<Vec<_>>>()?;
        let mut gather = self.store.pool_gather(parts, Some(Duration::ZERO));
        gather = gather.with_bytes_ahead(bytes_ahead);
        gather.begin();
        Ok(gather)
    }

    /// Pins a run; one that was spilled comes back into memory first.
    pub fn open(&self, id: RunId) -> Result<Buffer> {
        let id = self.id(id)?;
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
        Ok(self.store.take_now(&self.id(id)?))
    }

    /// Opens a run to read pieces of it; one that was spilled stays in its file.
    pub fn open_pieces(&self, id: RunId) -> Result<ObjectReader> {
        self.store.open(&self.id(id)?)
    }

    /// Deletes the first `runs` runs of one attempt; a run that is gone is not an error.
    pub fn delete_attempt(&self, shuffle: i32, map: i64, runs: i32) -> Result<()> {
        let id = |run| self.id(RunId { shuffle, map, run });
        let ids = (0..runs).map(id).collect::<Result<Vec<_>>>()?;
        self.delete(&ids).map(drop)
    }

    /// Deletes what an attempt left on any node of the pool; returns how many objects that were.
    pub fn delete_everywhere(&self, shuffle: i32, map: i64) -> Result<usize> {
        self.delete_listed(Some(prefix_of_attempt(shuffle, map)))
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
        let filter = Filter { namespace: Some(self.place.namespace.clone()), prefix };
        let (mut ids, mut unlisted) = (Vec::new(), None);
        // A node of a pool that does not answer is named at the end; the others have answered.
        for listed in self.store.listing(&filter) {
            match listed {
                Ok(info) => ids.push(info.id),
                Err(error) => unlisted = Some(error),
            }
        }
        let deleted = self.delete(&ids)?;
        unlisted.map_or(Ok(deleted), Err)
    }

    /// Makes what is in memory of a shuffle the first to be spilled; returns its bytes.
    pub fn demote_shuffle(&self, shuffle: i32) -> Result<u64> {
        let namespace = Some(self.place.namespace.clone());
        let mut objects = self.store.list(&Filter { namespace, prefix: Some(prefix(shuffle)) })?;
        objects.retain(|info| info.state == ObjectState::Sealed);
        let ids: Vec<ObjectId> = objects.iter().map(|info| info.id).collect();
        self.store.demote(&ids)?;
        Ok(objects.iter().map(|info| info.sizes.data).sum())
    }

    /// Makes the copies of outputs, each an attempt with its slot and the number of its runs, the
    /// first to be spilled on every node of the pool; no node is waited for.
    pub fn demote_outputs(&self, shuffle: i32, outputs: &[(i64, u16, i32)]) -> Result<()> {
        let mut ids = Vec::new();
        for &(map, slot, runs) in outputs {
            for run in 0..runs {
                ids.push(self.name(RunId { shuffle, map, run })?.id_at(slot));
            }
        }
        self.store.demote(&ids)
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
