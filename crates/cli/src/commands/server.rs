//! `plasmon start` and `plasmon stop`.

use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plasmon_client::{Client, StartOptions, Status};
use plasmon_proto::settings::Settings;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use super::{connection, pool};
use crate::arguments::{Arguments, Start};
use crate::failure::usage;
use crate::output::{Output, bytes, count};

/// How long a daemon may take until it accepts connections, and to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a daemon that outlives this command.
pub(super) fn start(arguments: &Arguments, start: &Start, output: &Output) -> Result<()> {
    let settings = settings(arguments, start)?;
    let mut checked = Settings::default();
    for (key, value) in &settings {
        checked.set(key, value).map_err(|bad| usage(bad.to_string()))?;
    }
    let in_environment = env::var("PLASMON_CLUSTER").is_ok_and(|cluster| !cluster.is_empty());
    if !checked.cluster.is_empty() || in_environment {
        pool::program()?;
    }
    let join_within = Duration::try_from_secs_f64(start.node.join_timeout)?;
    let options = StartOptions { settings, timeout: TIMEOUT, ..StartOptions::default() };
    let (started, replaced) = plasmon_client::start_or_take_over(&options)?;
    let mut connect = connection::options(arguments);
    connect.socket = Some(started.socket.clone());
    let store = Client::connect(&connect)?;
    let status = store.status()?;
    let warning = warning(&status);
    if let (Some(warning), false) = (&warning, output.is_json()) {
        output.warn(warning);
    }
    let joined = (!status.cluster.is_empty()).then(|| pool::join(&store, join_within, output));
    let document = json!({
        "warning": warning,
        "socket": started.socket, "pid": status.pid, "keeper_pid": status.keeper_pid,
        "capacity_bytes": status.capacity_bytes, "level": status.level, "replaced_pid": replaced,
        "cluster": status.cluster, "node_name": status.node_name,
        "durable_objects": status.log.as_ref().map(|log| log.objects),
        "joined": joined.as_ref().map(Result::is_ok),
        "not_joined": joined.as_ref().and_then(|joined| joined.as_ref().err()),
    });
    if let (Some(Err(why)), false) = (&joined, output.is_json()) {
        output.warn(&not_joined(&status, &started.socket, why));
    }
    output.value(&document, || {
        let taken = replaced.map_or_else(String::new, |pid| {
            format!("stopped the empty store that a program had started (process {pid})\n")
        });
        let (name, cluster) = (&status.node_name, &status.cluster);
        let node = match joined {
            None => String::new(),
            Some(Ok(nodes)) => {
                let nodes = count(nodes.into(), "node");
                format!("\nit is the node {name} of the pool {cluster}, which has {nodes} now")
            }
            Some(Err(_)) => format!("\nit is to be the node {name} of the pool {cluster}"),
        };
        let durable = status.log.as_ref().map_or_else(String::new, |log| {
            format!("\n{} in {}", count(log.objects, "durable object"), log.folder)
        });
        format!(
            "{taken}store started: {}, {} of capacity, process {}{durable}{node}",
            started.socket.display(),
            bytes(status.capacity_bytes),
            status.pid
        )
    })
}

/// The settings of the daemon, as keys and values.
fn settings(arguments: &Arguments, start: &Start) -> Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    if let Some(socket) = &arguments.socket {
        settings.push(("socket".to_owned(), socket.display().to_string()));
    }
    if let Some(capacity) = &start.capacity {
        settings.push(("capacity_bytes".to_owned(), capacity.clone()));
    }
    if let Some(directory) = &start.spill_dir {
        settings.push(("spill_dir".to_owned(), directory.display().to_string()));
    }
    if let Some(directory) = &start.durable_dir {
        // The daemon has another working folder.
        let directory = std::path::absolute(directory)?;
        settings.push(("durable_dir".to_owned(), directory.display().to_string()));
    }
    settings.extend(start.node.settings());
    for setting in &start.settings {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| usage(format!("--set takes key=value, found \"{setting}\"")))?;
        settings.push((key.trim().replace('-', "_"), value.trim().to_owned()));
    }
    Ok(settings)
}

/// The warning about a node that has not joined its pool, or does not reach the others.
fn not_joined(status: &Status, socket: &Path, why: &str) -> String {
    format!(
        "node {} is not ready in the pool {}: {why}. It goes on trying; until then puts and gets \
         of the pool wait or fail here. `plasmon doctor` looks for the cause, and the log is {}",
        status.node_name,
        status.cluster,
        socket.with_extension("log").display()
    )
}

/// The warning about a capacity larger than the memory of the machine or of the control group: the
/// store promises more than it can hold.
fn warning(status: &Status) -> Option<String> {
    let machine = rustix::system::sysinfo().totalram as u64;
    let limited = status.memory_limit_bytes > 0 && status.memory_limit_bytes < machine;
    let (memory, of) = match limited {
        true => (status.memory_limit_bytes, "the control group of this store may use"),
        false => (machine, "this machine has"),
    };
    (status.capacity_bytes > memory).then(|| {
        format!(
            "the capacity of {} is more than the {} of memory that {of}: puts may fail before \
             the store is full; give `plasmon start` a smaller --capacity",
            bytes(status.capacity_bytes),
            bytes(memory)
        )
    })
}

/// Stops the daemon and waits until it has ended.
pub(super) fn stop(store: &Client, output: &Output) -> Result<()> {
    let status = store.status()?;
    let processes = [status.pid, status.keeper_pid];
    store.shutdown()?;
    let deadline = std::time::Instant::now() + TIMEOUT;
    while processes.iter().any(|&pid| lives(pid)) {
        if std::time::Instant::now() > deadline {
            anyhow::bail!("process {} was told to stop but still runs", status.pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    output.value(&json!({ "stopped": status.pid }), || {
        format!("store stopped: {} objects, {}", status.objects, bytes(status.used_bytes))
    })
}

fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}
