//! The endpoints of this node, by which other nodes write into memory of its store.
//!
//! ```text
//!   movers ── windows, writes ──►  Fabric ── endpoints of libfabric, tested before they are used
//!          ◄── what became of writes ──┘  └─ one that had to be closed is opened again, elsewhere
//! ```
//!
//! An endpoint is closed when a peer was lost while it may have been writing: nothing else ends a
//! write that a card or a process has begun. The other transfers of that endpoint go on over the
//! bulk lanes. A node without endpoints is one like any other.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use plasmon_fabric::{Choice, Completion, Endpoint, Error, Opened, Provider, Sink};
use plasmon_membership::fabric::Fabric as Report;
use plasmon_net::note::{Endpoints, NamedEndpoint};

/// How often endpoints that had to be closed are opened again in the life of this process. Beyond
/// that something is the matter that opening does not mend.
const OPENED_AGAIN_MAX: u32 = 1000;

/// Why a node that encrypts content uses none.
const ENCRYPTED: &str = "pool_encrypt_data is set, and what is written into memory is in clear";

/// The bits of a token that say which mover a write is of.
const MOVER_SHIFT: u32 = 56;

/// What a mover is told.
pub(crate) enum News {
    /// A write ended.
    Written(Completion),
    /// There are other endpoints than before.
    Endpoints,
}

/// Tells a mover.
pub(crate) type Teller = Box<dyn Fn(News) + Send + Sync>;

/// The endpoints of a node.
pub(crate) struct Fabric {
    address: Option<IpAddr>,
    machine: String,
    state: Mutex<State>,
    movers: Arc<OnceLock<Vec<Teller>>>,
    written_bytes: AtomicU64,
    /// Changes with what is said of it.
    generation: AtomicU32,
}

#[derive(Default)]
struct State {
    endpoints: Vec<Arc<Endpoint>>,
    /// Providers that are not used, and why.
    refused: Vec<String>,
    /// Endpoints that had to be closed.
    closed: u32,
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Fabric {
    /// Opens what is chosen and works, at this address of the machine; `None` where nothing is
    /// chosen. A node that encrypts content opens nothing.
    pub(crate) fn open(
        choice: &Choice,
        address: Option<IpAddr>,
        encrypts_data: bool,
    ) -> Option<Arc<Self>> {
        if choice.providers().is_empty() {
            return None;
        }
        let movers = Arc::new(OnceLock::new());
        let mut state = State::default();
        if encrypts_data {
            state.refused.push(ENCRYPTED.to_owned());
        } else {
            state.add(plasmon_fabric::open(choice, address, &sink_of(&movers)));
        }
        let fabric = Arc::new(Self {
            address,
            machine: plasmon_fabric::machine().unwrap_or_default(),
            state: Mutex::new(state),
            movers,
            written_bytes: AtomicU64::new(0),
            generation: AtomicU32::new(1),
        });
        tracing::info!("content comes over {}", fabric.status());
        Some(fabric)
    }

    /// This node has written so many bytes into windows of others.
    pub(crate) fn count(&self, bytes: u64) {
        // A figure for people: nothing follows from its order.
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes this node has written into windows of others.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// What tells each mover, by its number. Once.
    pub(crate) fn attach(&self, movers: Vec<Teller>) {
        // There is one set of movers in the life of a node.
        let _ = self.movers.set(movers);
    }

    /// The token of a write of this mover.
    pub(crate) fn token(mover: usize, number: u64) -> u64 {
        (mover as u64) << MOVER_SHIFT | number & ((1 << MOVER_SHIFT) - 1)
    }

    /// Each change is one step, so the state is whole also after a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is said to peers.
    pub(crate) fn endpoints(&self) -> Endpoints {
        let state = self.state();
        let open = state.endpoints.iter().filter(|endpoint| endpoint.is_open());
        let named = |endpoint: &Arc<Endpoint>| NamedEndpoint {
            provider: number_of(endpoint.provider()),
            name: endpoint.name().to_vec(),
        };
        Endpoints { machine: self.machine.clone(), endpoints: open.map(named).collect() }
    }

    /// The endpoint for what is moved between this node and one that said this of itself: shared
    /// memory within a machine, else a provider that both have.
    pub(crate) fn common(&self, theirs: &Endpoints) -> Option<Arc<Endpoint>> {
        let is_here = !self.machine.is_empty() && self.machine == theirs.machine;
        let state = self.state();
        let has = |endpoint: &Arc<Endpoint>| {
            let number = number_of(endpoint.provider());
            endpoint.is_open() && theirs.endpoints.iter().any(|one| one.provider == number)
        };
        let fits = |endpoint: &&Arc<Endpoint>, within: bool| {
            endpoint.provider().reaches_machines() != within && has(endpoint)
        };
        let within = state.endpoints.iter().find(|endpoint| is_here && fits(endpoint, true));
        within.or_else(|| state.endpoints.iter().find(|endpoint| fits(endpoint, false))).cloned()
    }

    /// The endpoint of this provider.
    pub(crate) fn of_provider(&self, number: u8) -> Option<Arc<Endpoint>> {
        let state = self.state();
        let is_it = |endpoint: &&Arc<Endpoint>| {
            number_of(endpoint.provider()) == number && endpoint.is_open()
        };
        state.endpoints.iter().find(is_it).cloned()
    }

    /// Closes an endpoint, so that nothing is written into its windows any more, and has another
    /// one opened.
    pub(crate) fn reset(self: &Arc<Self>, endpoint: &Arc<Endpoint>) {
        close(endpoint);
        let is_allowed = {
            let mut state = self.state();
            let before = state.endpoints.len();
            state.endpoints.retain(|other| !Arc::ptr_eq(other, endpoint));
            // Another mover has done it already.
            if state.endpoints.len() == before {
                return;
            }
            state.closed += 1;
            state.closed <= OPENED_AGAIN_MAX
        };
        self.tell_endpoints();
        if is_allowed {
            self.open_again(endpoint.provider());
        }
    }

    fn open_again(self: &Arc<Self>, provider: Provider) {
        let fabric = self.clone();
        let run = move || {
            let choice = Choice::These(vec![provider]);
            let opened = plasmon_fabric::open(&choice, fabric.address, &sink_of(&fabric.movers));
            fabric.state().add(opened);
            fabric.tell_endpoints();
        };
        let started = std::thread::Builder::new().name("pool-fabric".to_owned()).spawn(run);
        if let Err(error) = started {
            tracing::warn!("provider {provider} cannot be opened again: {error}");
        }
    }

    fn tell_endpoints(&self) {
        // The state that it tells of is behind a lock.
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.movers.get().into_iter().flatten().for_each(|tell| tell(News::Endpoints));
    }

    /// Changes whenever [`report`](Self::report) does.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// What operators are told of this node.
    pub(crate) fn report(&self) -> Report {
        let state = self.state();
        let (providers, refused) = (state.providers(), state.refused.join("; "));
        Report { providers: providers.join(", "), refused, closed: state.closed }
    }

    /// What people are told: the providers in use, or why content goes over TCP.
    pub(crate) fn status(&self) -> String {
        let Report { providers, refused, .. } = self.report();
        match (providers.is_empty(), refused.is_empty()) {
            (false, _) => providers,
            (true, true) => String::from("tcp"),
            (true, false) => format!("tcp ({refused})"),
        }
    }
}

impl State {
    /// What was opened, and what was not.
    fn add(&mut self, opened: Opened) {
        self.endpoints.extend(opened.endpoints.into_iter().map(Arc::new));
        for (provider, error) in opened.refused {
            tracing::warn!("nothing is written by provider {provider}: {error}");
            let reason = error.to_string();
            if !self.refused.contains(&reason) {
                self.refused.push(reason);
            }
        }
    }

    /// What libfabric calls the providers in use.
    fn providers(&self) -> Vec<&str> {
        let open = self.endpoints.iter().filter(|endpoint| endpoint.is_open());
        open.map(|endpoint| endpoint.provider_name()).collect()
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let bytes = self.written_bytes();
        if bytes > 0 {
            tracing::info!("{bytes} bytes were written into other nodes over {}", self.status());
        }
    }
}

/// Closes an endpoint; where that cannot be, the process ends.
pub(crate) fn close(endpoint: &Endpoint) {
    if let Err(error) = endpoint.close() {
        give_up(&error);
    }
}

/// Ends the process: something may be written for ever into memory that the store is to have back.
/// Nothing but that end prevents it, and the daemon of the store starts another one.
pub(crate) fn give_up(error: &Error) -> ! {
    tracing::error!("the pool daemon ends: memory of the store cannot be taken back: {error}");
    plasmon_fabric::end_process()
}

/// Gives each write that ended to its mover.
fn sink_of(movers: &Arc<OnceLock<Vec<Teller>>>) -> Sink {
    let movers = movers.clone();
    Arc::new(move |completion: Completion| {
        let number = (completion.token >> MOVER_SHIFT) as usize;
        if let Some(tell) = movers.get().and_then(|movers| movers.get(number)) {
            tell(News::Written(completion));
        }
    })
}

/// What a provider is between nodes.
fn number_of(provider: Provider) -> u8 {
    match provider {
        Provider::Verbs => 1,
        Provider::Efa => 2,
        Provider::Net => 3,
        Provider::Shm => 4,
    }
}

/// That, of an endpoint.
pub(crate) fn provider_number(endpoint: &Endpoint) -> u8 {
    number_of(endpoint.provider())
}
