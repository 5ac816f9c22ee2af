//! The main program: its command line, and how it starts and ends.
//!
//! ```text
//! plasmond                      serve in the foreground
//! plasmond --daemonize          start a detached one, wait until it serves, return
//! plasmond --role=keeper        (by a daemon)  hold its descriptors
//! plasmond --role=adopting      (by a keeper)  serve the store of one that died
//! ```

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::core::Core;
use crate::log;
use crate::pool_daemon;
use crate::settings::{self, Config, Invocation, Role, SettingsInput, flags};
use crate::startup::{self, StartError};
use plasmon_keeper::{EXIT_SHORTAGE, KEEPER_ARGUMENT};

/// Exit code: something failed.
const FAILED: u8 = 1;
/// Exit code: the command line is wrong.
const WRONG_USAGE: u8 = 2;
/// Exit code: another daemon serves the socket.
const ALREADY_RUNNING: u8 = 3;

/// How long the end waits for the last lines of the log to be written.
const LOGGED_WITHIN: Duration = Duration::from_secs(1);

/// Runs the program with these arguments, of which the first is its name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    // Before anything else, so that a keeper stays as small as a process can be.
    if arguments.get(1).is_some_and(|argument| argument == KEEPER_ARGUMENT) {
        return plasmon_keeper::run(&arguments[2..]);
    }
    let invocation = match flags::parse(arguments.iter().cloned()) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Help and version go to standard output and are no failure. If that is closed, nothing
            // wanted to read them.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { WRONG_USAGE } else { 0 });
        }
    };
    match start(&invocation, &arguments) {
        Ok(code) => code,
        Err(error) => {
            // Its standard error may lead nowhere: the starter of the store is gone.
            if invocation.role == Role::Adopting && invocation.log_file.is_some() {
                tracing::error!(%error, "the daemon cannot start");
            }
            log::flush(LOGGED_WITHIN);
            complain(&error.to_string());
            ExitCode::from(match error {
                StartError::AlreadyRunning(_) => ALREADY_RUNNING,
                StartError::Settings(_) => WRONG_USAGE,
                error if error.is_shortage() => EXIT_SHORTAGE,
                _ => FAILED,
            })
        }
    }
}

fn start(invocation: &Invocation, arguments: &[OsString]) -> Result<ExitCode, StartError> {
    let variable = |name: &str| std::env::var(name).ok();
    // A daemon that takes over was given everything as flags.
    let loaded = match invocation.role {
        Role::Adopting => settings::load(None, |_| None, &invocation.settings)?,
        Role::Fresh | Role::Detached => {
            settings::load(invocation.config.as_deref(), variable, &invocation.settings)?
        }
    };
    let config = Config::new(&loaded.settings)?;
    if let (Role::Fresh, Some(pool)) = (invocation.role, &config.pool) {
        pool.check_files()?;
        pool_daemon::check_program()?;
    }
    if invocation.daemonize && invocation.role == Role::Fresh {
        return detach(arguments);
    }
    let made_room = startup::make_room_for_descriptors();
    let log_file = invocation.log_file.as_deref();
    log::start(config.log, log_file)
        .map_err(|source| StartError::System { doing: "opening the log file", source })?;
    log::end_on_panic();
    if let Err(error) = made_room {
        tracing::info!(%error, "the limit of open files cannot be raised");
    }
    // Only for `ps`; it cannot fail for a name this short.
    let _ = rustix::thread::set_name(c"plasmond");
    let core = match invocation.role {
        Role::Adopting => {
            let flags = keeper_flags(&loaded, &config, invocation);
            startup::adopting(config, flags)?
        }
        Role::Fresh | Role::Detached => {
            let is_detached = invocation.role == Role::Detached;
            if is_detached {
                // The terminal's signals are no longer for us. It fails only where it is needless.
                let _ = rustix::process::setsid();
            }
            let (socket, flags) =
                (config.socket.clone(), keeper_flags(&loaded, &config, invocation));
            let linger = Duration::from_millis(config.linger_ms);
            let linger = config.end_with_last_client.then_some(linger);
            let keeper_errors = if is_detached { Stdio::null() } else { Stdio::inherit() };
            let core = startup::fresh(config, flags, keeper_errors)?;
            if let Err(error) = announce(invocation, &socket) {
                // The keeper would take the failure for a death, and serve a store that no
                // client knows.
                core.end();
                return Err(error);
            }
            if let Some(linger) = linger {
                tracing::warn!(
                    "a program started this store: it ends, with its objects, {} s after its last \
                     client disconnects; `plasmon start` starts one that stays",
                    linger.as_secs_f32()
                );
            }
            core
        }
    };
    serve(core)
}

/// Notifies the waiting starter that the store accepts connections, and detaches from the terminal.
fn announce(invocation: &Invocation, socket: &Path) -> Result<(), StartError> {
    let system = |doing| move |source| StartError::System { doing, source };
    if let Some(number) = invocation.ready_fd {
        notify_ready(number, socket).map_err(system("writing to --ready-fd"))?;
    }
    if invocation.role == Role::Detached {
        leave_terminal().map_err(system("leaving the terminal"))?;
    }
    Ok(())
}

fn serve(core: Core) -> Result<ExitCode, StartError> {
    core.run().map_err(|source| StartError::System { doing: "serving", source })?;
    log::flush(LOGGED_WITHIN);
    Ok(ExitCode::SUCCESS)
}

/// What a keeper starts later daemons with: every setting that was set explicitly, and what else
/// must not depend on where that daemon finds itself.
fn keeper_flags(loaded: &SettingsInput, config: &Config, invocation: &Invocation) -> Vec<String> {
    let mut flags = loaded.as_flags();
    flags.retain(|flag| !flag.starts_with("--socket=") && !flag.starts_with("--capacity-bytes="));
    flags.push(format!("--capacity-bytes={}", config.capacity_bytes));
    flags.extend(config.socket.to_str().map(|path| format!("--socket={path}")));
    let log_file = invocation.log_file.as_ref().and_then(|path| std::path::absolute(path).ok());
    flags.extend(log_file.and_then(|path| Some(format!("--log-file={}", path.to_str()?))));
    flags
}

/// Lets go of the descriptors that a terminal or a waiting parent is at the other end of.
fn leave_terminal() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Writes the socket's path as one line to a descriptor that was passed by its number.
fn notify_ready(number: u32, socket: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;

    let mut line = socket.as_os_str().as_bytes().to_vec();
    line.push(b'\n');
    // Reopened by its name, because a number alone is no descriptor that safe code may own.
    OpenOptions::new().write(true).open(format!("/proc/self/fd/{number}"))?.write_all(&line)
}

/// Starts this program once more without a terminal, and returns when that one serves.
fn detach(arguments: &[OsString]) -> Result<ExitCode, StartError> {
    let system = |doing| move |source| StartError::System { doing, source };
    let kept = arguments.iter().skip(1).filter(|argument| *argument != "--daemonize");
    let mut child = Command::new("/proc/self/exe")
        .arg0("plasmond")
        .args(["--role=detached", "--ready-fd=1"])
        .args(kept)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(system("starting in the background"))?;
    let mut line = String::new();
    if let Some(mut output) = child.stdout.take() {
        let mut byte = [0];
        while output.read(&mut byte).is_ok_and(|count| count == 1) && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
    }
    if !line.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(system("waiting for the background process"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED);
    Ok(ExitCode::from(code))
}

/// Says why the program ends, on standard error.
fn complain(text: &str) {
    // If that is closed, the exit code has to do.
    let _ = writeln!(io::stderr(), "plasmond: {text}");
}
