//! Shell completion of commands, flags and the names of objects in the running store.
//!
//! A shell calls this command again with `PLASMON_COMPLETE` set and the words of its line. The
//! names come from a store that is running already; without one there are none, and no error.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use plasmon_client::{Client, ConnectOptions};

use crate::target;

/// The variable that a shell sets when it asks for completions.
const VARIABLE: &str = "PLASMON_COMPLETE";

/// How long a completion waits for a store that does not answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The most names that are offered; more would not be read.
const CANDIDATES_MAX: usize = 1000;

/// The arguments of the commands that are written in Python and not declared here. A test of the
/// package compares them with its own.
const HDF5_WORDS: &[&str] = &[
    "plugin-path",
    "inspect",
    "export",
    "import",
    "doctor",
    "view",
    "run",
    "mv",
    "cp",
    "rm",
    "gc",
    "pack",
    "unpack",
    "--backend",
    "--dry-run",
    "--yes",
    "--help",
    "--json",
    "--namespace",
    "--out",
    "--settings",
    "--store",
];
const DEMO_WORDS: &[&str] = &[
    "--data-dir",
    "--help",
    "--input",
    "--json",
    "--picture",
    "--quick",
    "--rows",
    "--without-pickle",
    "--without-rivals",
];
const PATHS_WORDS: &[&str] =
    &["--cmake", "--daemon", "--help", "--include", "--json", "--lib", "--pkg-config"];

/// Answers a shell's request for completions; does not return after that.
pub(crate) fn answer(command: fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The script that the shell of this name runs at its start to enable completion.
pub(crate) fn script(shell: &str) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or(std::io::ErrorKind::Unsupported)?;
    if shell == "bash" {
        // Names of objects have colons, where bash would begin another word.
        script.extend(b"COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n");
    }
    completer.write_registration(VARIABLE, "plasmon", "plasmon", "plasmon", &mut script)?;
    Ok(script)
}

/// Names of objects.
pub(crate) fn objects() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| named(current))
}

/// Names of the nodes of the pool.
pub(crate) fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let start = current.to_string_lossy();
        let nodes = store().and_then(|store| store.pool_nodes().ok()).unwrap_or_default();
        let names = nodes.into_iter().map(|node| node.name);
        names
            .filter(|name| name.starts_with(start.as_ref()))
            .map(CompletionCandidate::new)
            .collect()
    })
}

/// Files, and names of objects.
pub(crate) fn files_and_objects() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut found = named(current);
        found.extend(PathCompleter::any().complete(current));
        found
    })
}

/// Words of `hdf5`, and files.
pub(crate) fn hdf5() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| words(HDF5_WORDS, current))
}

/// Words of `run-demo`, and files.
pub(crate) fn demo() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| words(DEMO_WORDS, current))
}

/// Words of `paths`.
pub(crate) fn paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| words(PATHS_WORDS, current))
}

fn words(words: &[&'static str], current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let fitting = words.iter().filter(|word| word.starts_with(start.as_ref()));
    let mut found: Vec<_> = fitting.map(CompletionCandidate::new).collect();
    found.extend(PathCompleter::any().complete(current));
    found
}

fn named(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let Some(store) = store() else { return Vec::new() };
    let mut names = target::names(&store);
    names.retain(|name| name.starts_with(start.as_ref()));
    names.sort_unstable();
    names.into_iter().take(CANDIDATES_MAX).map(CompletionCandidate::new).collect()
}

/// The store that the line names, or this user's.
fn store() -> Option<Client> {
    let options = ConnectOptions {
        socket: socket(std::env::args_os())
            .or_else(|| std::env::var_os("PLASMON_SOCKET").map(Into::into)),
        name: "plasmon completion".to_owned(),
        channel: false,
        request_timeout: TIMEOUT,
        ..ConnectOptions::default()
    };
    Client::connect(&options).ok()
}

/// The socket that a line names.
fn socket(mut words: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    while let Some(word) = words.next() {
        if word == "--socket" || word == "-s" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--socket=")) {
            return Some(PathBuf::from(path));
        }
    }
    None
}
