//! The settings as the daemon uses them: checked, with types, with nothing left to default.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plasmon_proto::limits::CLIENTS_MAX;
use plasmon_proto::message::Access;
use plasmon_proto::object::Level;
use plasmon_proto::settings::Settings;

use super::bad_start::BadStart;
use super::durable::Durable;
use super::pool::Pool;
use plasmon_shm::cgroup::Groups;
use plasmon_shm::incarnation::Incarnation;
use plasmon_shm::socket_folder::{self, SOCKET_PATH_BYTES_MAX};

/// More than any machine has, and little enough to count with.
pub const CAPACITY_BYTES_MAX: u64 = 1 << 56;

/// The longest time that a daemon may poll its rings: beyond a millisecond it is a busy loop.
pub const SPIN_US_MAX: u32 = 1000;

/// The shortest time after which a daemon may count as hung: less would be a machine that is busy.
pub const HANG_TIMEOUT_MS_MIN: u32 = 1000;

/// Where and how much may be spilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// The folder.
    pub folder: PathBuf,
    /// The most bytes, `None` for as many as the file system takes.
    pub bytes_max: Option<u64>,
}

/// A user besides the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The user.
    pub uid: u32,
    /// What the user may do.
    pub access: Access,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsMax {
    /// Of one user.
    pub of_user: usize,
    /// Of one process.
    pub of_process: usize,
}

/// What the daemon runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The socket.
    pub socket: PathBuf,
    /// Its mode.
    pub socket_mode: u32,
    /// Bytes of objects.
    pub capacity_bytes: u64,
    /// Whether the capacity counts data and metadata alone.
    pub count_content: bool,
    /// The spill tier, where there is one.
    pub spill: Option<Spill>,
    /// Whether objects that may be evicted are spilled instead.
    pub spill_cache: bool,
    /// The log of durable objects, where there is one.
    pub durable: Option<Durable>,
    /// The users that may connect besides the owner.
    pub admitted: Vec<Admission>,
    /// How sealed objects are protected.
    pub level: Level,
    /// Whether the daemon ends after its last client.
    pub end_with_last_client: bool,
    /// How long it waits for a client then, in milliseconds.
    pub linger_ms: u64,
    /// The process that the store was started for.
    pub starter: Option<Incarnation>,
    /// Whether the socket's folder is removed with the store.
    pub own_folder: bool,
    /// The pool that the store belongs to.
    pub pool: Option<Pool>,
    /// Whether there is a keeper.
    pub keeper: bool,
    /// How long the daemon may hang before the keeper kills it; zero: forever.
    pub hang_timeout: Duration,
    /// Free memory that stays warm at most.
    pub warm_bytes_max: u64,
    /// Memory that is made ready ahead.
    pub prefault_bytes: u64,
    /// Whether that memory is collapsed into huge pages.
    pub collapse: bool,
    /// The most bytes of one client, `None` for no limit.
    pub client_quota_bytes: Option<u64>,
    /// How many connections one user and one process may have.
    pub connections_max: ConnectionsMax,
    /// How long rings are polled after work, in microseconds.
    pub spin_us: u32,
    /// What is logged.
    pub log: tracing::level_filters::LevelFilter,
}

impl Config {
    /// Checks the settings and fills in what depends on the machine.
    pub fn new(settings: &Settings) -> Result<Self, BadStart> {
        Self::on(settings, machine_memory)
    }

    /// The same on a machine with so much memory, of which this process may use all.
    pub(super) fn on(
        settings: &Settings,
        machine_memory: impl Fn() -> u64,
    ) -> Result<Self, BadStart> {
        let capacity_bytes = capacity(settings.capacity_bytes.0, &machine_memory)?;
        let admitted = admitted(&settings.admit)?;
        let socket = match settings.socket.as_str() {
            "" => socket_folder::default_socket(),
            text => PathBuf::from(text),
        };
        Ok(Self {
            socket: socket_path(&socket)?,
            socket_mode: mode(&settings.socket_mode)?,
            capacity_bytes,
            count_content: settings.count_content,
            spill: spill(settings)?,
            spill_cache: settings.spill_cache,
            durable: Durable::of(settings)?,
            level: level(&settings.level, &admitted)?,
            admitted,
            end_with_last_client: settings.end_with_last_client,
            linger_ms: u64::from(settings.linger_ms),
            starter: starter(&settings.starter)?,
            own_folder: settings.own_folder,
            pool: Pool::of(settings)?,
            keeper: settings.keeper,
            hang_timeout: hang_timeout(settings.hang_timeout_ms)?,
            warm_bytes_max: match settings.warm_bytes_max.0 {
                0 => capacity_bytes / 4,
                bytes => bytes.min(capacity_bytes),
            },
            prefault_bytes: settings.prefault_bytes.0.min(capacity_bytes),
            collapse: settings.collapse,
            client_quota_bytes: Some(settings.client_quota_bytes.0).filter(|bytes| *bytes > 0),
            connections_max: connections_max(settings),
            spin_us: settings.spin_us.min(SPIN_US_MAX),
            log: settings.log.parse().map_err(|_| BadStart::Value {
                key: "log",
                what: format!("\"{}\" is not one of error, warn, info, debug, trace", settings.log),
            })?,
        })
    }

    /// What a user may do here, `None` for nothing at all.
    pub fn access_of(&self, uid: u32, owner_uid: u32) -> Option<Access> {
        if uid == owner_uid {
            return Some(Access::ReadWrite);
        }
        self.admitted.iter().find(|admission| admission.uid == uid).map(|found| found.access)
    }
}

fn starter(text: &str) -> Result<Option<Incarnation>, BadStart> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |()| BadStart::Value {
        key: "starter",
        what: format!("\"{text}\" is not a process in the form pid:ticks"),
    };
    text.parse().map(Some).map_err(wrong)
}

fn connections_max(settings: &Settings) -> ConnectionsMax {
    let most = |count: u32| (count as usize).clamp(1, CLIENTS_MAX);
    ConnectionsMax {
        of_user: most(settings.connections_per_user_max),
        of_process: most(settings.connections_per_process_max),
    }
}

fn hang_timeout(milliseconds: u32) -> Result<Duration, BadStart> {
    if (1..HANG_TIMEOUT_MS_MIN).contains(&milliseconds) {
        let what = format!("{milliseconds} is less than {HANG_TIMEOUT_MS_MIN}, and not 0");
        return Err(BadStart::Value { key: "hang_timeout_ms", what });
    }
    Ok(Duration::from_millis(milliseconds.into()))
}

/// The machine's memory, or what this process may use of it.
fn machine_memory() -> u64 {
    let machine = rustix::system::sysinfo().totalram as u64;
    let groups = Groups::of_this_process();
    groups.limit().map_or(machine, |(limit, _)| limit.min(machine))
}

fn capacity(bytes: u64, machine_memory: &impl Fn() -> u64) -> Result<u64, BadStart> {
    let bytes = match bytes {
        0 => machine_memory() / 2,
        bytes => bytes,
    };
    if bytes <= CAPACITY_BYTES_MAX {
        return Ok(bytes);
    }
    let what = format!("{bytes} bytes are more than a machine can have");
    Err(BadStart::Value { key: "capacity_bytes", what })
}

fn socket_path(path: &Path) -> Result<PathBuf, BadStart> {
    let absolute = std::path::absolute(path)
        .map_err(|error| BadStart::Value { key: "socket", what: error.to_string() })?;
    let bytes = absolute.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(BadStart::Value {
            key: "socket",
            what: format!(
                "{} has {bytes} bytes; the kernel takes at most {}",
                absolute.display(),
                SOCKET_PATH_BYTES_MAX
            ),
        });
    }
    Ok(absolute)
}

fn mode(text: &str) -> Result<u32, BadStart> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| {
        let what = format!("\"{text}\" is not a mode in octal, such as 0600");
        BadStart::Value { key: "socket_mode", what }
    })
}

fn spill(settings: &Settings) -> Result<Option<Spill>, BadStart> {
    if settings.spill_dir.is_empty() {
        return Ok(None);
    }
    let folder = std::path::absolute(&settings.spill_dir)
        .map_err(|error| BadStart::Value { key: "spill_dir", what: error.to_string() })?;
    let bytes_max = Some(settings.spill_bytes_max.0).filter(|bytes| *bytes > 0);
    Ok(Some(Spill { folder, bytes_max }))
}

fn admitted(values: &[String]) -> Result<Vec<Admission>, BadStart> {
    let one = |text: &String| {
        let (uid, access) = text.split_once(':')?;
        let access = match access {
            "rw" => Access::ReadWrite,
            "ro" => Access::ReadOnly,
            _ => return None,
        };
        Some(Admission { uid: uid.parse().ok()?, access })
    };
    let wrong = |text: &String| BadStart::Value {
        key: "admit",
        what: format!("\"{text}\" is neither uid:rw nor uid:ro"),
    };
    values.iter().map(|value| one(value).ok_or_else(|| wrong(value))).collect()
}

fn level(text: &str, admitted: &[Admission]) -> Result<Level, BadStart> {
    let least = if admitted.is_empty() { Level::Shared } else { Level::Leased };
    let asked = match text {
        "" => least,
        "shared" => Level::Shared,
        "leased" => Level::Leased,
        "strict" => Level::Strict,
        other => {
            let what = format!("\"{other}\" is not one of shared, leased, strict");
            return Err(BadStart::Value { key: "level", what });
        }
    };
    Ok(if asked == Level::Shared { least } else { asked })
}
