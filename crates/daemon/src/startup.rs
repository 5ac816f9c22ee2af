//! From settings to a running daemon: a new store, or one that is taken over.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use plasmon_proto::limits::{ARENA_EXTENT_BYTES, CLIENTS_MAX};
use plasmon_proto::object::Level;
use plasmon_proto::pool::Origin;
use plasmon_shm::edge;
use plasmon_shm::index::resize::Index;
use plasmon_shm::socket::BindError;
use plasmon_shm::socket_folder;
use plasmon_shm::{ControlDaemon, IndexWriter, Listener, WakePage};
use plasmon_spill::{FileMeta, FileTier, FolderLock, SpillTier, TierConfig};
use plasmon_store::Store;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::Clock;
use crate::core::durable_log::report_ended;
use crate::core::{Core, Parts};
use crate::directory::{SLOTS_FIRST, SharedTables};
use crate::durable_start::{begin_log, open_log, start_log};
use crate::extents::Extents;
use crate::recovery::{self, BadInventory, Inventory};
use crate::sessions::{DETACHED_MAX, Sessions};
use crate::settings::{BadStart, Config, Spill};
use crate::workers::{Done, OpenTier, OpenedTier, ReadyExtents, Tier, Workers};
use plasmon_keeper::KeeperHandle;
use plasmon_keeper::KeeperLink;
use plasmon_keeper::Label;
use plasmon_shm::cgroup::{Groups, Headroom};
use plasmon_shm::shortage::is_failure_of_machine;

/// Serials that one daemon may give out. There are 2^62 in all, so a store can be restarted four
/// million times, and each of its daemons can seal a million objects a second for twelve days.
const SERIALS_PER_EPOCH: u64 = 1 << 40;

/// How long a store that is taken over waits for its spill tier. What is in the tier is not known
/// before, so this is as long as clients can be kept waiting.
const TIER_WITHIN: Duration = Duration::from_secs(2);

/// For how long a daemon refuses what its predecessor was killed over.
const DEADLY_FOR: Duration = Duration::from_secs(10);

/// Descriptors that the kernel's table has room for from the start: five for each client, a socket,
/// a process, a channel, a doorbell and an extent, and some more.
const DESCRIPTORS_AT_ONCE: u64 = 8 * CLIENTS_MAX as u64;

/// The objects of a tier, and the lock on its folder unless it was held already.
type TierContents = (Vec<FileMeta>, Option<FolderLock>);

/// A tier with the lock on its folder.
type LockedTier = (Box<dyn SpillTier>, FolderLock);

/// The number of a new store's first table; 0 is what the control page says before there is one.
const TABLE_FIRST: u64 = 1;

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// Another daemon serves the socket.
    #[error("{0}; use that store, stop it, or give another --socket")]
    AlreadyRunning(BindError),
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] BadStart),
    /// There can be no socket.
    #[error(transparent)]
    Socket(BindError),
    /// The store cannot be taken over.
    #[error("the store cannot be taken over: {0}")]
    Inventory(#[from] BadInventory),
    /// The spill folder cannot be used.
    #[error("the spill tier cannot be used: {0}")]
    Spill(#[from] plasmon_spill::Error),
    /// The log of durable objects cannot be used.
    #[error("the log of durable objects cannot be used: {0}")]
    Log(#[from] plasmon_log::LogError),
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl StartError {
    /// Whether the machine is out of something for the moment: another start may succeed.
    pub(crate) fn is_shortage(&self) -> bool {
        match self {
            Self::System { source, .. } => is_failure_of_machine(source),
            Self::Inventory(bad) => bad.is_shortage(),
            _ => false,
        }
    }
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { doing, source }
}

/// A daemon with a new, empty store. The keeper gets the given standard error.
pub(crate) fn fresh(
    config: Config,
    flags: Vec<String>,
    keeper_errors: Stdio,
) -> Result<Core, StartError> {
    let signals = watch_signals().map_err(system("watching for signals"))?;
    fresh_with(signals, config, flags, keeper_errors)
}

/// The same, with a socket that becomes readable when the daemon is asked to end.
pub(crate) fn fresh_with(
    signals: UnixStream,
    config: Config,
    flags: Vec<String>,
    keeper_errors: Stdio,
) -> Result<Core, StartError> {
    let clock = Clock::start();
    socket_folder::prepare(&config.socket).map_err(system("making the socket's folder"))?;
    let listener =
        Listener::bind(&config.socket, config.socket_mode).map_err(|error| match error {
            BindError::AlreadyRunning { .. } => StartError::AlreadyRunning(error),
            other => StartError::Socket(other),
        })?;
    let store_token = crate::random_word().map_err(system("drawing a random number"))?;
    let opened_log = open_log(&config)?;
    let tier = open_tier(&config, store_token)?;
    let (medium, spill_lock) = match tier {
        Some((tier, lock)) => (Some(Tier::Open(tier)), Some(lock)),
        None => (None, None),
    };
    let mut shared = new_shared().map_err(system("making the index"))?;
    if config.keeper {
        let link =
            KeeperLink::start(&flags, keeper_errors).map_err(system("starting the keeper"))?;
        recovery::hold_listener(&link, &listener).map_err(system("talking to the keeper"))?;
        shared.keeper = KeeperHandle::taken(link);
        let SharedTables { keeper, control, wakes, index, .. } = &mut shared;
        let pages = [control.memfd().as_fd(), wakes.as_fd()];
        keeper.hold(&Label::Control { store: store_token }, &pages);
        let table = Label::Index { number: index.table.number() };
        keeper.hold(&table, &[index.table.memfd().as_fd()]);
        if let Some(lock) = &spill_lock {
            keeper.hold(&Label::SpillFolder, &[lock.as_fd()]);
        }
    }
    let (headroom, memory_limit_bytes) = watch_memory(&config, &shared.control);
    let mut workers = workers(&config, headroom, medium)?;
    let mut store = Store::new(store_config(&config, &shared.control, store_token), shared);
    if let Some(opened) = opened_log {
        let started = start_log(opened, &mut workers, &mut store, clock.now_ms());
        started.map_err(system("starting the log worker"))?;
    }
    let parts = Parts {
        config,
        flags,
        store_token,
        listener,
        workers,
        store,
        extents: Extents::default(),
        signals,
        clock,
        spill_lock,
        tier_fault: String::new(),
        memory_limit_bytes,
    };
    Core::new(parts).map_err(system("starting to serve"))
}

/// A daemon with the store of one that died. The keeper is at the other end of standard input.
pub(crate) fn adopting(config: Config, flags: Vec<String>) -> Result<Core, StartError> {
    let signals = watch_signals().map_err(system("watching for signals"))?;
    let link = io::stdin().as_fd().try_clone_to_owned().map_err(system("finding the keeper"))?;
    // A second descriptor of the link would keep it registered when it is closed: once that keeper
    // is gone, every later one would be taken for gone as well.
    release_stdin().map_err(system("closing the standard input"))?;
    adopting_with(signals, config, flags, link)
}

/// The same, with a socket that becomes readable when the daemon is asked to end, and with the
/// keeper at the other end of `link`.
pub(crate) fn adopting_with(
    signals: UnixStream,
    config: Config,
    flags: Vec<String>,
    link: OwnedFd,
) -> Result<Core, StartError> {
    let clock = Clock::start();
    let (link, held) = KeeperLink::adopt(link).map_err(system("talking to the keeper"))?;
    let inventory = Inventory::sort(link, held)?;
    let Inventory { listener, store_token, mut shared, extents, dropped, .. } = inventory;
    let Inventory { mut spill_lock, distrusts_rings, .. } = inventory;
    let tier = config
        .spill
        .as_ref()
        .map(|spill| Tier::closed(tier_opener(spill, store_token, spill_lock.is_some())));
    let has_tier = tier.is_some();
    let (headroom, memory_limit_bytes) = watch_memory(&config, &shared.control);
    let mut workers = workers(&config, headroom, tier)?;
    let (mut spilled, mut tier_fault) = (Vec::new(), String::new());
    if has_tier {
        match opened(&mut workers)? {
            Ok((found, lock)) => (spilled, spill_lock) = (found, spill_lock.or(lock)),
            Err(fault) => tier_fault = fault,
        }
    }
    let objects = recovery::recovered_objects(&mut shared, &extents, spilled);
    let ranges = recovery::recovered_extents(&shared, &extents);
    tracing::info!(
        objects = objects.len(),
        extents = ranges.len(),
        epoch = shared.control.epoch(),
        "taking the store over"
    );
    let mut store = Store::new(store_config(&config, &shared.control, store_token), shared);
    let mut effects = Vec::new();
    for id in store.recover(clock.now_ms(), &ranges, objects, &mut effects) {
        tracing::error!(%id, "an object is corrupt: its index entry does not match its memory");
    }
    let logged = begin_log(&config, &mut workers).map_err(system("starting the log worker"))?;
    if let Some(found) = logged {
        report_ended(&store.adopt_log(clock.now_ms(), found, &mut effects));
    }
    let parts = Parts {
        config,
        flags,
        store_token,
        listener,
        workers,
        store,
        extents,
        signals,
        clock,
        spill_lock,
        tier_fault,
        memory_limit_bytes,
    };
    let mut core = Core::new(parts).map_err(system("starting to serve"))?;
    core.let_go(dropped);
    core.expect_pool_daemon();
    core.take_over(effects, distrusts_rings);
    // Not within the log line: a clock that is read only when the log level asks for it would make
    // the simulator behave differently then.
    let after_ms = clock.uptime_ms();
    tracing::info!(after_ms, "the store is taken over");
    Ok(core)
}

fn new_shared() -> io::Result<SharedTables> {
    let control = ControlDaemon::create()?;
    let table = IndexWriter::create(TABLE_FIRST, SLOTS_FIRST, crate::random_key()?)?;
    control.set_table(TABLE_FIRST);
    Ok(SharedTables {
        index: Index::new(table),
        control,
        wakes: WakePage::create()?,
        sessions: Sessions::new(DETACHED_MAX),
        keeper: KeeperHandle::unwanted(),
        grown: false,
    })
}

fn store_config(config: &Config, control: &ControlDaemon, boot: u64) -> plasmon_store::Config {
    if config.pool.is_none() {
        control.set_home(None);
    }
    plasmon_store::Config {
        capacity_bytes: config.capacity_bytes,
        page_bytes: page_bytes(),
        level: config.level,
        warm_bytes_max: config.warm_bytes_max,
        spill_bytes_max: config.spill.as_ref().map(|spill| spill.bytes_max.unwrap_or(u64::MAX)),
        durable: config.durable.is_some(),
        spill_cache: config.spill_cache,
        count_content: config.count_content,
        client_quota_bytes: config.client_quota_bytes.unwrap_or(0),
        owner_uid: Some(rustix::process::geteuid().as_raw()),
        first_serial: control.take_serials(SERIALS_PER_EPOCH),
        first_birth: control.births(),
        pool: config.pool.is_some(),
        node: control.home().map(|slot| Origin { slot, boot }),
    }
}

fn open_tier(config: &Config, store: u64) -> Result<Option<LockedTier>, StartError> {
    let Some(spill) = &config.spill else { return Ok(None) };
    if plasmon_spill::folder::is_in_memory(&spill.folder) {
        tracing::warn!(
            folder = %spill.folder.display(),
            "the spill folder is in memory (tmpfs), so spilling into it frees no memory; choose \
             a folder on a disk with --spill-dir"
        );
    }
    let tier = FileTier::open(&tier_config(spill, store))?;
    let lock = lock_folder(&spill.folder, store)?;
    sweep(&spill.folder, store);
    Ok(Some((Box::new(tier), lock)))
}

fn tier_config(spill: &Spill, store: u64) -> TierConfig {
    TierConfig { folder: spill.folder.clone(), store, bytes_max: spill.bytes_max }
}

/// How the tier of a store that is taken over is opened: by the file worker, because a disk that
/// hangs must not keep the store from serving.
fn tier_opener(spill: &Spill, store: u64, is_locked: bool) -> OpenTier {
    let (spill, mut is_locked) = (spill.clone(), is_locked);
    Box::new(move || {
        let mut tier = FileTier::again(&tier_config(&spill, store));
        let scan = tier.scan()?;
        for error in &scan.skipped {
            tracing::error!(%error, "a file of the spill tier is left where it is");
        }
        let lock = if is_locked { None } else { Some(lock_folder(&spill.folder, store)?) };
        is_locked = true;
        sweep(&spill.folder, store);
        Ok(OpenedTier { medium: Box::new(tier), found: scan.objects, lock })
    })
}

fn lock_folder(folder: &Path, store: u64) -> Result<FolderLock, plasmon_spill::Error> {
    FolderLock::take(folder, store).map_err(|source| plasmon_spill::Error::Io {
        action: "lock the store's folder",
        path: folder.to_owned(),
        source,
    })
}

/// Removes what stores that were killed left in the spill folder.
fn sweep(folder: &Path, own: u64) {
    let (removed, kept) = plasmon_spill::folder::sweep(folder, own);
    for path in removed {
        tracing::info!(path = %path.display(), "the spilled objects of a dead store are removed");
    }
    for (path, error) in kept {
        tracing::warn!(path = %path.display(), %error, "a dead store's folder cannot be removed");
    }
}

/// What is in the tier of a store that is taken over, or why that is not known yet.
fn opened(workers: &mut Workers) -> Result<Result<TierContents, String>, StartError> {
    let opened = workers.open_tier(TIER_WITHIN).map_err(system("starting the file worker"))?;
    Ok(match opened {
        Some(Done::TierOpened { found, lock }) => Ok((found, lock)),
        Some(Done::TierFault(fault)) => Err(fault),
        _ => {
            tracing::error!("the spill tier does not answer; the store starts without it");
            Err("the spill tier does not answer".to_owned())
        }
    })
}

/// What may be taken of the memory of this process's control groups, and their limit, 0 for none.
fn watch_memory(config: &Config, control: &ControlDaemon) -> (Headroom, u64) {
    let groups = Groups::of_this_process();
    let mut limit_bytes = 0;
    if let Some((limit, group)) = groups.limit() {
        limit_bytes = limit;
        if config.capacity_bytes > limit {
            tracing::warn!(
                capacity = config.capacity_bytes,
                limit,
                group = %group.display(),
                "the capacity is more than the control group of the daemon allows; what does not \
                 fit is refused as if the store were full"
            );
        }
    }
    let kills = groups.kills();
    let (kills_before, reserving) = control.take_stock(kills);
    let mut refused_from = None;
    if kills > kills_before && reserving > 0 {
        tracing::error!(
            bytes = reserving,
            "the previous daemon was killed for lack of memory; requests like its last are refused \
             for a while"
        );
        refused_from = Some((reserving, edge::now() + DEADLY_FOR));
    }
    (Headroom::new(groups, refused_from), limit_bytes)
}

/// Bytes of the machine's pages: 4096, or on some AArch64 machines 16 or 64 KiB.
fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn workers(
    config: &Config,
    headroom: Headroom,
    medium: Option<Tier>,
) -> Result<Workers, StartError> {
    // As large as the store makes the extents that small objects are carved from.
    let extent_bytes = (config.capacity_bytes / 16)
        .clamp(1 << 20, ARENA_EXTENT_BYTES)
        .next_multiple_of(page_bytes());
    let ahead = ReadyExtents {
        extents: (config.prefault_bytes / extent_bytes) as usize,
        extent_bytes,
        collapse: config.collapse,
        sealable: config.level != Level::Shared,
    };
    Workers::new(ahead, headroom, medium).map_err(system("preparing the workers"))
}

/// Puts nothing in the place of the standard input.
fn release_stdin() -> io::Result<()> {
    let nothing = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(&nothing)?)
}

/// As many descriptors as this process may have: every extent and every client needs some.
///
/// To be called before there is a second thread. The kernel makes its table of descriptors twice as
/// large whenever it is full, and where threads share the table, the one that needed a descriptor
/// waits for all processors: 10 to 20 ms, in which the loop would serve no client.
pub(crate) fn make_room_for_descriptors() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let raising = setrlimit(Resource::Nofile, raised);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = most.min(DESCRIPTORS_AT_ONCE).saturating_sub(1);
    // The table stays as large as its highest descriptor made it.
    drop(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), last as i32)?);
    Ok(raising?)
}

/// A socket that becomes readable when the process is asked to end.
fn watch_signals() -> io::Result<UnixStream> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let (signals, pipe) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, pipe.try_clone()?)?;
    }
    Ok(signals)
}
