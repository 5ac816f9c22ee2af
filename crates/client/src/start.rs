//! Finding, starting and meeting the daemon.
//!
//! ```text
//! connect_or_start: connect ── no daemon ──► spawn plasmond ──► connect until it answers
//!                      ▲                               │
//!                      └── it found another daemon ◄───┘   (two starters raced: use the winner)
//! ```

use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::incarnation::Incarnation;
use plasmon_shm::program;
use plasmon_shm::socket::Connection;
use plasmon_shm::socket_folder;
use rustix::event::PollFlags;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::options::{ConnectOptions, StartOptions};

const STARTING: &str = "starting a store";
const FINDING: &str = "finding the socket of this user's store";

/// How often to look whether the daemon has started. A start takes a few milliseconds.
const POLL: Duration = Duration::from_micros(500);

/// The exit code of a daemon that found another one on its socket.
const EXIT_ALREADY_RUNNING: i32 = 3;

/// The exit code of a daemon that does not take one of its settings.
const EXIT_BAD_SETTING: i32 = 2;

/// How much of a failed daemon's log an error quotes.
const LOG_TAIL_BYTES: u64 = 2048;

/// A daemon that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedDaemon {
    /// The daemon's process.
    pub pid: u32,
    /// The socket that it serves.
    pub socket: PathBuf,
}

/// Starts a store and returns when it answers. With a store already running on the socket:
/// [`Code::AlreadyRunning`].
///
/// The socket is the setting `socket`, else [`default_socket`]. The daemon goes on by itself, with
/// its log in a file beside the socket.
pub fn start(options: &StartOptions) -> Result<StartedDaemon> {
    let socket = match options.settings.iter().rfind(|(key, _)| key == "socket") {
        Some((_, path)) => PathBuf::from(path),
        None => default_socket()?,
    };
    if Connection::connect(&socket).is_ok() {
        return Err(already_running(&socket));
    }
    let program = daemon_program(options)?;
    socket_folder::make(&socket).map_err(|error| {
        Error::io(STARTING, error).with_detail(format!("making the folder of {}", socket.display()))
    })?;
    let log_path = socket.with_extension("log");
    let mut log = open_log(&log_path)?;
    let log_start = log.seek(SeekFrom::End(0)).map_err(|e| Error::io(STARTING, e))?;
    let arguments = arguments(&socket, &log_path, options);
    let mut child = Launcher(spawn(&program, &arguments, &log)?);
    match child.await_detached(Deadline::after(options.timeout))? {
        Some(status) if status.success() => Ok(StartedDaemon { pid: pid_of(&socket)?, socket }),
        Some(status) if status.code() == Some(EXIT_ALREADY_RUNNING) => {
            Err(already_running(&socket))
        }
        Some(status) if status.code() == Some(EXIT_BAD_SETTING) => {
            let said = tail(&mut log, log_start);
            let said = said.strip_prefix("plasmond: ").unwrap_or(&said);
            Err(Error::new(Code::BadRequest, STARTING).with_detail(said))
        }
        Some(status) => Err(Error::new(Code::Io, STARTING).with_detail(format!(
            "{} ended with {status}: {}",
            program.display(),
            tail(&mut log, log_start)
        ))),
        None => Err(Error::new(Code::TimedOut, STARTING).with_detail(format!(
            "{} did not listen on {} within {:?}",
            program.display(),
            socket.display(),
            options.timeout
        ))),
    }
}

/// Like [`start`], but a store that a program's `connect` started is stopped if it is empty and
/// has no client: its daemon's number then comes with that of the new one.
pub fn start_or_take_over(options: &StartOptions) -> Result<(StartedDaemon, Option<u32>)> {
    let refused = match start(options) {
        Err(error) if error.code() == Code::AlreadyRunning => error,
        outcome => return outcome.map(|started| (started, None)),
    };
    let socket = match options.settings.iter().rfind(|(key, _)| key == "socket") {
        Some((_, path)) => PathBuf::from(path),
        None => default_socket()?,
    };
    let found = Client::connect(&asking_options(&socket))?;
    let status = found.status()?;
    if status.linger_ms.is_none() {
        return Err(refused);
    }
    let daemon = Incarnation::of(status.pid).and_then(Incarnation::open);
    match found.shutdown_unused() {
        Ok(()) => {}
        Err(error) if error.code() == Code::InUse => {
            let detail = format!(
                "a program started the store on {}; {}. `plasmon stop` ends it now",
                socket.display(),
                error.detail()
            );
            return Err(Error::new(Code::AlreadyRunning, STARTING).with_detail(detail));
        }
        Err(error) => return Err(error),
    }
    if let Ok(Some(daemon)) = daemon {
        let ended = edge::ready_within(&daemon, PollFlags::IN, Some(options.timeout));
        ended.map_err(|error| Error::io(STARTING, error))?;
    }
    Ok((start(options)?, Some(status.pid)))
}

/// The socket of this user's store: `$PLASMON_SOCKET`, else `plasmon/store.sock` in
/// `$XDG_RUNTIME_DIR`, else `plasmon-<uid>/store.sock` in the temporary directory, which must then
/// belong to this user, and no other user may write to it.
pub fn default_socket() -> Result<PathBuf> {
    if let Some(socket) = env::var_os("PLASMON_SOCKET").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(socket));
    }
    let socket = socket_folder::default_socket();
    if socket_folder::runtime_folder().is_some() {
        return Ok(socket);
    }
    // Anybody can make a folder in the temporary directory.
    match socket_folder::check(&socket) {
        Ok(()) => Ok(socket),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(socket),
        Err(error) if error.raw_os_error().is_some() => Err(Error::io(FINDING, error)),
        Err(refused) => {
            Err(Error::new(Code::NotPermitted, FINDING).with_detail(refused.to_string()))
        }
    }
}

/// Where the daemon's program is: [`StartOptions::daemon`], else `$PLASMON_DAEMON`, else `plasmond`
/// beside the running program, else in `$PATH`.
pub fn daemon_program(options: &StartOptions) -> Result<PathBuf> {
    if let Some(program) = &options.daemon {
        return Ok(program.clone());
    }
    program::find("PLASMON_DAEMON", "plasmond", &[]).ok_or_else(|| {
        Error::new(Code::Unsupported, STARTING).with_detail(
            "plasmond is neither beside this program nor in PATH; set PLASMON_DAEMON to its path",
        )
    })
}

/// Where the daemon looks for the program of the pool daemon: `$PLASMON_POOLD`, else
/// `plasmon-poold` beside its own program, else in `$PATH`. `None` where there is no such file.
pub fn pool_daemon_program(options: &StartOptions) -> Option<PathBuf> {
    let daemon = daemon_program(options).ok();
    let beside = daemon.as_deref().and_then(Path::parent);
    let found = program::find("PLASMON_POOLD", "plasmon-poold", beside.as_slice());
    found.filter(|program| program.is_file())
}

fn open_log(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path);
    opened.map_err(|error| {
        Error::io(STARTING, error).with_detail(format!("opening {}", path.display()))
    })
}

fn arguments(socket: &Path, log: &Path, options: &StartOptions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--daemonize".into()];
    arguments.extend(["--log-file".into(), log.into(), "--socket".into(), socket.into()]);
    for (key, value) in options.settings.iter().filter(|(key, _)| key != "socket") {
        arguments.push(format!("--{}={value}", key.replace('_', "-")).into());
    }
    arguments
}

fn spawn(program: &Path, arguments: &[OsString], log: &File) -> Result<Child> {
    let log = log.try_clone().map_err(|error| Error::io(STARTING, error))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(|error| {
        Error::io(STARTING, error).with_detail(format!("running {}", program.display()))
    })
}

/// A program that was started and has not left a daemon behind yet. Dropped before it has, it is
/// ended: it may be stuck, and no other process knows it.
struct Launcher(Child);

impl Launcher {
    /// Waits until the program has left the daemon behind; `None` when the time has passed.
    fn await_detached(&mut self, deadline: Deadline) -> Result<Option<ExitStatus>> {
        loop {
            let status = self.0.try_wait().map_err(|error| Error::io(STARTING, error))?;
            if status.is_some() || deadline.is_past() {
                return Ok(status);
            }
            edge::sleep(interrupt::pause(POLL, deadline));
            interrupt::check(STARTING)?;
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        // A daemon that it has started already ends when it cannot say that it is ready.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The daemon's own number, which only it knows: what was spawned has ended already.
fn pid_of(socket: &Path) -> Result<u32> {
    Ok(Client::connect(&asking_options(socket))?.status()?.pid)
}

/// How to ask a daemon something about itself.
fn asking_options(socket: &Path) -> ConnectOptions {
    let (socket, name) = (Some(socket.to_owned()), "plasmon start".to_owned());
    ConnectOptions { socket, name, channel: false, ..ConnectOptions::default() }
}

fn already_running(socket: &Path) -> Error {
    let detail = format!("a daemon listens on {}", socket.display());
    Error::new(Code::AlreadyRunning, STARTING).with_detail(detail)
}

/// The end of what was logged after `start`, for the error that quotes it.
fn tail(log: &mut File, start: u64) -> String {
    let length = log.metadata().map_or(start, |metadata| metadata.len());
    let from = start.max(length.saturating_sub(LOG_TAIL_BYTES));
    let mut bytes = Vec::new();
    // A log that cannot be read leaves the quotation empty; the exit status is told all the same.
    if log.seek(SeekFrom::Start(from)).is_ok() {
        let _ = log.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
