//! The invariants that hold when nothing is under way.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use plasmon_client::{Client, Code, ConnectOptions};
use plasmon_daemon::settings::Config;
use plasmon_proto::limits::{RESIDENT_SLACK_BYTES_MIN, RESIDENT_SLACK_PER_CAPACITY};
use plasmon_proto::object::Level;
use plasmon_shm::edge;

use crate::clients::{Habits, Shared};
use crate::model::Fact;
use crate::world::World;

/// For how long an object is waited for that must be there.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How much memory there may be in all extents together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    bytes: u64,
    /// Whether the memory of what is dropped is gone, even where it is mapped.
    is_given_back: bool,
}

impl Limit {
    /// What is promised for a store with these settings, and clients that do this.
    pub(crate) fn of(config: &Config, habits: Habits) -> Self {
        let capacity = config.capacity_bytes;
        let slack = (capacity / RESIDENT_SLACK_PER_CAPACITY).max(RESIDENT_SLACK_BYTES_MIN);
        // Elsewhere the kernel does not let the pages of a sealed extent be taken away: they count
        // until every client has unmapped them.
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
        let store = Client::connect(&options).map_err(failed)?;
        self.objects(&store)?;
        self.memory().map_err(|what| format!("{what} {:?}", store.status()))?;
        if !self.is_last {
            return self.let_go(&store);
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
    fn objects(&self, store: &Client) -> Result<(), String> {
        let ids = self.shared.model.borrow().ids();
        for id in ids {
            let fact = self.shared.model.borrow().fact(&id);
            if fact == Fact::Unsure {
                continue;
            }
            let look = self.shared.model.borrow_mut().look_afresh(id);
            match store.get(&id, Some(TIMEOUT)) {
                Ok(buffer) => {
                    self.shared.model.borrow_mut().found(&look, buffer.data())?;
                }
                Err(error) if error.code() == Code::StoreFull => {}
                Err(error) => {
                    let state = store.states(&[id]).map(|states| states.first().copied());
                    let missed = self.shared.model.borrow_mut().missed(&look, error.code().key());
                    missed.map_err(|what| format!("{what} (in state {state:?})"))?;
                }
            }
        }
        Ok(())
    }

    /// No more memory is used than the capacity allows, and no client keeps what is gone.
    fn memory(&self) -> Result<(), String> {
        let (census, habits) = (self.world.memory.census(), self.shared.habits);
        // A client without a channel is not notified what is gone, nor is an earlier session.
        let is_notified = !habits.sockets && !self.shared.is_anew.get();
        if !habits.sleep && is_notified && census.only_mapped > 0 {
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

    /// What clients would let go with their next operation they have let go while they slept.
    fn let_go(&self, store: &Client) -> Result<(), String> {
        // One without a channel keeps what it writes to at level leased until it asks about it.
        if !self.shared.habits.sleep || self.shared.habits.sockets {
            return Ok(());
        }
        let retained = || {
            edge::sleep(Duration::from_secs(2));
            store.status().map_err(|error| format!("audit: {error}"))
        };
        let before = retained()?;
        self.shared.is_roused.set(true);
        let after = retained()?;
        self.shared.is_roused.set(false);
        if after.retained_bytes < before.retained_bytes {
            let left = after.retained_bytes;
            return Err(format!("memory: clients kept what was dropped, now {left}: {before:?}"));
        }
        Ok(())
    }

    /// With every client gone nothing of theirs is left.
    fn settled(&self, store: &Client) -> Result<(), String> {
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
    fn empty(&self, store: &Client) -> Result<(), String> {
        let status = store.status().map_err(|error| format!("audit: {error}"))?;
        if (status.used_bytes, status.objects, status.spilled) != (0, 0, 0) {
            return Err(format!("leak: every object is deleted: {status:?}"));
        }
        Ok(())
    }
}
