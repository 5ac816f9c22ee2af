//! One module per command; this is the only table of them.

mod check;
mod connection;
mod doctor;
mod get;
mod ingest;
mod listing;
mod manual;
mod package;
mod pool;
mod put;
mod remove;
mod server;
mod sort;
mod sort_inputs;
mod sort_spill;
mod sort_work;
mod spark;
mod stat;
mod top;
mod watch;

use std::io::Write;

use anyhow::Result;

use self::connection::connect;
use crate::arguments::{Arguments, Command};
use crate::completion;
use crate::output::Output;
use crate::target;

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<()> {
    match &arguments.command {
        Command::Start(start) => server::start(arguments, start, output),
        Command::Stop => server::stop(&connect(arguments)?, output),
        Command::Status => listing::status(&connect(arguments)?, output),
        Command::Ls(list) => listing::list(&connect(arguments)?, list, output),
        Command::Stat { object } => stat::stat(&connect(arguments)?, object, output),
        Command::Put(put) => put::put(&connect(arguments)?, put, output),
        Command::Ingest(ingest) => ingest::ingest(&connect(arguments)?, ingest, output),
        Command::Get(get) => get::get(&connect(arguments)?, get, output),
        Command::Rm(remove) => remove::remove(&connect(arguments)?, remove, output),
        Command::Sort(sort) => sort::sort(&|| connect(arguments), sort, output),
        Command::Watch { namespace, prefix, count } => {
            let filter = listing::filter(namespace.as_deref(), prefix.as_deref());
            watch::watch(&connect(arguments)?, &filter, *count, output)
        }
        Command::Top { interval, count } => {
            let interval = target::seconds("--interval", *interval)?;
            top::top(&connect(arguments)?, interval, *count, output)
        }
        Command::Doctor(doctor) => doctor::doctor(arguments, doctor, output),
        Command::Pool(command) => pool::run(arguments, command, output),
        Command::Spark(command) => spark::run(arguments, command, output),
        Command::RunDemo { arguments: rest } => {
            package::run("plasmon.demo", "the demonstration", rest, arguments)
        }
        Command::Hdf5 { arguments: rest } => {
            package::run("plasmon.hdf5", "this command", rest, arguments)
        }
        Command::Paths { arguments: rest } => {
            package::run("plasmon.paths", "this command", rest, arguments)
        }
        Command::Completions { shell } => {
            std::io::stdout().lock().write_all(&completion::script(shell.key())?)?;
            Ok(())
        }
        Command::Man(man) => manual::manual(man),
    }
}
