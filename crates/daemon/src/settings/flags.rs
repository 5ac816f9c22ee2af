//! The command line of `plasmond`, made from the table of settings.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use plasmon_proto::settings::{Kind, SETTINGS, Setting};

use super::names::{flag_of, variable_of};

/// As what this process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// By a person or a client, to serve a new store.
    Fresh,
    /// By `--daemonize`, to serve a new store detached from the terminal.
    Detached,
    /// By a keeper, to take a store over; the keeper is at the other end of standard input.
    Adopting,
}

/// Everything that the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// As what.
    pub role: Role,
    /// A file with settings.
    pub config: Option<PathBuf>,
    /// Where to write a line when the store accepts connections.
    pub ready_fd: Option<u32>,
    /// Whether to detach.
    pub daemonize: bool,
    /// Where a detached daemon logs.
    pub log_file: Option<PathBuf>,
    /// The settings given as flags.
    pub settings: Vec<(&'static str, String)>,
}

/// Reads the command line. Errors and `--help` are clap's and know how to print themselves.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    let given = |setting: &Setting| -> Option<(&'static str, String)> {
        let value = matches.get_one::<String>(setting.key)?;
        let key = SETTINGS.iter().find(|known| known.key == setting.key)?.key;
        Some((key, value.clone()))
    };
    Ok(Invocation {
        role: role_of(&matches),
        config: matches.get_one::<PathBuf>("config").cloned(),
        ready_fd: matches.get_one::<u32>("ready-fd").copied(),
        daemonize: matches.get_flag("daemonize"),
        log_file: matches.get_one::<PathBuf>("log-file").cloned(),
        settings: SETTINGS.iter().filter_map(given).collect(),
    })
}

fn role_of(matches: &ArgMatches) -> Role {
    match matches.get_one::<String>("role").map(String::as_str) {
        Some("adopting") => Role::Adopting,
        Some("detached") => Role::Detached,
        _ => Role::Fresh,
    }
}

/// The command that clap parses with, also for completions and the reference page.
pub fn command() -> Command {
    let path = value_parser!(PathBuf);
    Command::new("plasmond")
        .version(env!("CARGO_PKG_VERSION"))
        .args_override_self(true)
        .about("Serves a Plasmon store to the processes of this machine.")
        .after_help(
            "Later sources win: defaults, the file of --config, PLASMON_* variables, flags.\n\
             Exit codes: 0 stopped cleanly, 1 failed, 2 wrong usage, 3 already running,\n\
             4 the machine is out of memory, descriptors or the like.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(path.clone())
                .help("A TOML file with settings; its keys are the flags with underscores"),
        )
        .arg(
            Arg::new("ready-fd")
                .long("ready-fd")
                .value_name("N")
                .value_parser(value_parser!(u32))
                .help(
                    "Write one line with the socket's path to this descriptor when the store \
                       accepts connections",
                ),
        )
        .arg(
            Arg::new("daemonize")
                .long("daemonize")
                .action(ArgAction::SetTrue)
                .help("Run in the background, and return when the store accepts connections"),
        )
        .arg(
            Arg::new("log-file")
                .long("log-file")
                .value_name("FILE")
                .value_parser(path)
                .help("Where to log instead of standard error; /dev/null with --daemonize"),
        )
        .arg(Arg::new("role").long("role").hide(true).value_parser(["adopting", "detached"]))
        .args(SETTINGS.iter().map(flag))
}

fn flag(setting: &Setting) -> Arg {
    let value_name = match setting.kind {
        Kind::Text => "TEXT",
        Kind::Bytes => "BYTES",
        Kind::Number => "NUMBER",
        Kind::Switch => "true|false",
        Kind::List => "LIST",
    };
    let text = setting.doc.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let default = if setting.default.is_empty() { "empty" } else { setting.default };
    let help = format!("{} [default: {default}] [env: {}]", text.trim(), variable_of(setting.key));
    let argument = Arg::new(setting.key)
        .long(flag_of(setting.key))
        .value_name(value_name)
        .help(help)
        .help_heading("Settings");
    if setting.kind == Kind::Switch {
        argument.num_args(0..=1).default_missing_value("true")
    } else {
        argument.allow_hyphen_values(true)
    }
}
