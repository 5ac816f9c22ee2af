//! One module per command; this is the only table of them.

mod doctor;
mod get;
mod ingest;
mod listing;
mod package;
mod put;
mod server;
mod sort;
mod sort_guard;
mod sort_inputs;
mod sort_spilling;
mod spark;
mod top;
mod watch;

use anyhow::Result;
use clap::CommandFactory;
use plasmon_client::{ConnectOptions, Store};

use crate::arguments::{Arguments, Command};
use crate::output::Output;
use crate::target;

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<()> {
    match &arguments.command {
        Command::Start(start) => server::start(arguments, start, output),
        Command::Stop => server::stop(&connect(arguments)?, output),
        Command::Status => listing::status(&connect(arguments)?, output),
        Command::Ls(list) => listing::list(&connect(arguments)?, list, output),
        Command::Stat { object } => listing::stat(&connect(arguments)?, object, output),
        Command::Put(put) => put::put(&connect(arguments)?, put, output),
        Command::Ingest(ingest) => ingest::ingest(&connect(arguments)?, ingest, output),
        Command::Get(get) => get::get(&connect(arguments)?, get, output),
        Command::Rm { objects } => remove(&connect(arguments)?, objects, output),
        Command::Sort(sort) => sort::sort(&|| connect(arguments), sort, output),
        Command::SortGuard => sort_guard::guard(&connect(arguments)?),
        Command::Watch { namespace, prefix, count } => {
            let filter = listing::filter(namespace.as_deref(), prefix.as_deref());
            watch::watch(&connect(arguments)?, &filter, *count, output)
        }
        Command::Top { interval, count } => {
            let interval = target::seconds("--interval", *interval)?;
            top::top(&connect(arguments)?, interval, *count, output)
        }
        Command::Doctor => doctor::doctor(arguments, output),
        Command::Spark(command) => spark::run(arguments, command, output),
        Command::RunDemo { arguments: rest } => {
            package::run("plasmon.demo", "the demonstration", rest, arguments.json)
        }
        Command::Hdf5 { arguments: rest } => {
            package::run("plasmon.hdf5", "this command", rest, arguments.json)
        }
        Command::Paths { arguments: rest } => {
            package::run("plasmon.paths", "this command", rest, arguments.json)
        }
        Command::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(*shell, &mut command, "plasmon", &mut std::io::stdout().lock());
            Ok(())
        }
    }
}

/// The options of a connection as the arguments ask for it.
fn options(arguments: &Arguments) -> ConnectOptions {
    ConnectOptions {
        socket: arguments.socket.clone(),
        name: "plasmon command".to_owned(),
        ..ConnectOptions::default()
    }
}

/// Connects to the running store; the command never starts one on its own but for `start`.
fn connect(arguments: &Arguments) -> Result<Store> {
    Ok(Store::connect(&options(arguments))?)
}

fn remove(store: &Store, objects: &[String], output: &Output) -> Result<()> {
    let ids = objects.iter().map(|text| target::object(text)).collect::<Result<Vec<_>>>()?;
    let outcomes = store.delete(&ids)?;
    let mut failed = 0;
    for ((text, id), outcome) in objects.iter().zip(&ids).zip(&outcomes) {
        let word = outcome.map_or("deleted", |code| code.key());
        failed += usize::from(outcome.is_some());
        let document = serde_json::json!({ "object": text, "id": id.to_string(), "result": word });
        output.value(&document, || match outcome {
            None => format!("{text}: deleted"),
            Some(code) => format!("{text}: {word}; {}", code.advice()),
        })?;
    }
    if failed > 0 {
        anyhow::bail!("{failed} of {} objects were not deleted", objects.len());
    }
    Ok(())
}
