//! What must hold when nothing is under way.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use plasmon_client::{Code, ConnectOptions, ObjectId, ObjectState, Store};
use plasmon_daemon::settings::Config;
use plasmon_proto::limits::{RESIDENT_SLACK_BYTES_MIN, RESIDENT_SLACK_PER_CAPACITY};
use plasmon_proto::object::Level;
use plasmon_shm::edge;

use crate::clients::{Habits, Shared};
use crate::model::Fact;
use crate::world::World;

/// For how long an object is waited for that must be there.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much memory there may be in all extents together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    bytes: u64,
    /// Whether the memory of what is dropped is gone, whoever has it mapped.
    is_given_back: bool,
}

impl Limit {
    /// What is promised for a store with these settings, and clients that do this.
    pub(crate) fn of(config: &Config, habits: Habits) -> Self {
        let capacity = config.capacity_bytes;
        let slack = (capacity / RESIDENT_SLACK_PER_CAPACITY).max(RESIDENT_SLACK_BYTES_MIN);
        // Elsewhere the kernel lets nobody take the pages of a sealed extent away: they count until
        // every client has unmapped them.
        let is_given_back = config.level == Level::Shared && !habits.strict;
        Self { bytes: capacity + slack, is_given_back }
    }
}

/// A look at everything, as a client.
pub(crate) struct Audit {
    pub(crate) world: Rc<World>,
    pub(crate) shared: Rc<Shared>,
    pub(crate) limit: Limit,
    /// Whether every other client has ended.
    pub(crate) is_last: bool,
    pub(crate) done: Rc<Cell<bool>>,
}

impl Audit {
    /// Looks.
    pub(crate) fn run(self) {
        if let Err(what) = self.look() {
            self.world.violate(what);
        }
        self.done.set(true);
    }

    fn look(&self) -> Result<(), String> {
        let options = ConnectOptions {
            socket: Some(self.shared.socket.clone()),
            connect_timeout: Duration::from_secs(60),
            copy_threads: Some(1),
            ..ConnectOptions::default()
        };
        let failed = |error: plasmon_client::Error| format!("audit: {error}");
        let store = Store::connect(&options).map_err(failed)?;
        self.objects(&store)?;
        self.memory().map_err(|what| format!("{what} {:?}", store.status()))?;
        if !self.is_last {
            return Ok(());
        }
        self.settled(&store)?;
        let ids: Vec<_> = store
            .list(&plasmon_client::Filter::default())
            .map_err(failed)?
            .into_iter()
            .map(|info| info.id)
            .collect();
        store.delete(&ids).map_err(failed)?;
        edge::sleep(Duration::from_secs(1));
        self.empty(&store)
    }

    /// What was acknowledged is there, with its bytes, and what was deleted is not.
    fn objects(&self, store: &Store) -> Result<(), String> {
        let ids = self.shared.model.borrow().ids();
        for id in ids {
            let fact = self.shared.model.borrow().fact(&id);
            if fact == Fact::Unsure {
                continue;
            }
            let look = self.shared.model.borrow_mut().look_afresh(id);
            match store.get(&id, Some(PATIENCE)) {
                Ok(buffer) => {
                    self.shared.model.borrow_mut().found(&look, buffer.data())?;
                }
                Err(error) if error.code() == Code::StoreFull => {}
                Err(error) if error.code() == Code::TimedOut && self.lacks_memory(store, &id) => {}
                Err(error) => {
                    let state = store.states(&[id]).map(|states| states.first().copied());
                    let missed = self.shared.model.borrow_mut().missed(&look, error.code().key());
                    missed.map_err(|what| format!("{what} (in state {state:?})"))?;
                }
            }
        }
        Ok(())
    }

    /// Whether an object is there, and cannot be read back: clients that sleep let nothing go, and
    /// each extent that is given up for it is waited for.
    fn lacks_memory(&self, store: &Store, id: &ObjectId) -> bool {
        let is_kept = self.shared.habits.sleep && !self.limit.is_given_back;
        let is_spilled = |states: Vec<ObjectState>| states == [ObjectState::Spilled];
        is_kept && store.states(&[*id]).is_ok_and(is_spilled)
    }

    /// No more memory is used than the capacity allows, and no client keeps what is gone.
    fn memory(&self) -> Result<(), String> {
        let (census, habits) = (self.world.memory.census(), self.shared.habits);
        // Nobody tells a client without a channel what is gone.
        if !habits.sleep && !habits.sockets && census.only_mapped > 0 {
            return Err(format!("memory: clients keep mappings of what is gone: {census:?}"));
        }
        let limit = self.limit.bytes;
        if census.resident_bytes > limit {
            return Err(format!("memory: {limit} bytes may be there: {census:?}"));
        }
        if self.limit.is_given_back && census.stranded_bytes > 0 {
            return Err(format!("memory: what was given back is still there: {census:?}"));
        }
        Ok(())
    }

    /// With every client gone nothing of theirs is left.
    fn settled(&self, store: &Store) -> Result<(), String> {
        let status = store.status().map_err(|error| format!("audit: {error}"))?;
        let (clients, leased, creating) = (status.clients, status.leased_bytes, status.creating);
        if (clients, leased, creating, status.lingering) != (1, 0, 0, 0) {
            return Err(format!("leak: every client is gone: {status:?}"));
        }
        let census = self.world.memory.census();
        if (census.channels, census.only_mapped, census.old) != (1, 0, 0) {
            return Err(format!("leak: every client is gone: {census:?}"));
        }
        Ok(())
    }

    /// With every object gone nothing of them is left.
    fn empty(&self, store: &Store) -> Result<(), String> {
        let status = store.status().map_err(|error| format!("audit: {error}"))?;
        if (status.used_bytes, status.objects, status.spilled) != (0, 0, 0) {
            return Err(format!("leak: every object is deleted: {status:?}"));
        }
        Ok(())
    }
}
