//! `plasmon doctor`: checks the machine and the store, and suggests changes.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use plasmon_client::{Client, ConnectOptions, Error, LogFigures, PutOptions, Status};
use plasmon_proto::Code;
use rustix::process::{Resource, getrlimit};

use super::check::{Check, Verdict, check, report};
use super::connection::options;
use super::pool;
use crate::arguments::{Arguments, Doctor};
use crate::output::{Output, bytes};

/// With fewer descriptors than this, a client with many large objects may run out.
const DESCRIPTORS_WANTED: u64 = 4096;

/// The first kernel with every call that the store needs (`MADV_POPULATE_WRITE`).
const KERNEL_WANTED: (u32, u32) = (5, 14);

/// Runs every check; the command fails when one is bad.
pub(super) fn doctor(arguments: &Arguments, doctor: &Doctor, output: &Output) -> Result<()> {
    let mut checks = vec![kernel(), descriptors(), memory(), huge_pages()];
    checks.extend(store(&options(arguments)));
    let given = doctor.cluster.clone().filter(|cluster| !cluster.is_empty());
    if let Some(cluster) = given.or_else(|| pool::cluster(&options(arguments))) {
        let listen = doctor.pool_listen.as_deref().filter(|listen| !listen.is_empty());
        checks.extend(pool::checks(&cluster, listen, &doctor.etcd));
    }
    report(&checks, output)
}

fn kernel() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    let verdict = match version {
        Some(version) if version >= KERNEL_WANTED => Verdict::Good,
        _ => Verdict::Bad,
    };
    let (major, minor) = KERNEL_WANTED;
    check("kernel", verdict, release).advise(&format!("Linux {major}.{minor} or later is needed"))
}

fn descriptors() -> Check {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let verdict = if limit < DESCRIPTORS_WANTED { Verdict::Note } else { Verdict::Good };
    check("open files", verdict, format!("at most {limit}"))
        .advise("raise it with `ulimit -n` where many large objects are used at once")
}

fn memory() -> Check {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    match (field("MemAvailable:"), field("MemTotal:")) {
        (Some(available), Some(total)) => {
            let verdict = if available * 4 < total { Verdict::Note } else { Verdict::Good };
            let found = format!("{} of {} available", bytes(available << 10), bytes(total << 10));
            check("memory", verdict, found)
                .advise("start the store with a --capacity below what is available")
        }
        _ => check("memory", Verdict::Note, "unknown"),
    }
}

fn huge_pages() -> Check {
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let text = fs::read_to_string(path).unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let verdict =
        if chosen == "never" || chosen == "unknown" { Verdict::Note } else { Verdict::Good };
    check("huge pages", verdict, format!("shmem_enabled is {chosen}")).advise(
        "first writes into fresh memory are faster with `advise`; so they are with collapse=true",
    )
}

fn store(options: &ConnectOptions) -> Vec<Check> {
    let store = match Client::connect(options) {
        Ok(store) => store,
        Err(error) if error.code() == Code::Disconnected => {
            return vec![
                check("store", Verdict::Note, "none is running")
                    .advise("`plasmon start` starts one"),
            ];
        }
        Err(error) => return vec![check("store", Verdict::Bad, error.to_string())],
    };
    let reached = check("store", Verdict::Good, format!("reached at {}", store.socket().display()));
    let mut checks = vec![reached];
    match used(&store) {
        Ok(found) => checks.extend(found),
        Err(error) => checks.push(check("store", Verdict::Bad, error.to_string())),
    }
    // What is wrong with the store has a check of its own.
    if let Some(status) = store.status().ok().filter(|status| !status.cluster.is_empty()) {
        checks.push(pool::node_check(&store, &status.node_name));
    }
    checks
}

/// Uses the store once, and times it.
fn used(store: &Client) -> std::result::Result<Vec<Check>, Error> {
    let start = Instant::now();
    let status = store.status()?;
    let asked = start.elapsed();
    let version = env!("CARGO_PKG_VERSION");
    let same = if status.version == version { Verdict::Good } else { Verdict::Note };
    let counted = status.used_bytes.saturating_add(status.retained_bytes);
    let room = status.capacity_bytes.saturating_sub(counted);
    let full = if room * 10 < status.capacity_bytes { Verdict::Note } else { Verdict::Good };
    let mut checks = vec![
        check("version", same, format!("{} (this command: {version})", status.version))
            .advise("install the same version on both sides"),
        check("room", full, format!("{} of {} free", bytes(room), bytes(status.capacity_bytes)))
            .advise("delete objects, or start the store with more capacity or a spill directory"),
        check("question", Verdict::Good, format!("answered in {:.0} us", micros(asked))),
    ];
    checks.extend([resident(&status), away(&status), limit(&status), spill(&status)]);
    checks.extend(status.log.as_ref().map(durable));
    if store.access() == plasmon_client::Access::ReadOnly {
        checks.push(check("access", Verdict::Note, "read-only"));
        return Ok(checks);
    }
    let id = store.put(b"doctor", &PutOptions::default())?;
    let start = Instant::now();
    let buffer = store.get(&id, Some(Duration::from_secs(5)))?;
    let got = start.elapsed();
    let right = if buffer.data() == b"doctor" { Verdict::Good } else { Verdict::Bad };
    drop(buffer);
    store.delete(&[id])?;
    checks.push(check(
        "put and get",
        right,
        format!("worked; the first get took {:.1} us", micros(got)),
    ));
    Ok(checks)
}

/// Whether clients retain memory that belongs to no object any more.
fn resident(status: &Status) -> Check {
    let (resident, retained) = (bytes(status.resident_bytes), status.retained_bytes);
    let found = match retained {
        0 => format!("{resident} of the machine's memory"),
        _ => format!(
            "{resident} of the machine's memory, {} of it for deleted objects",
            bytes(retained)
        ),
    };
    let verdict = if retained * 10 < status.capacity_bytes { Verdict::Good } else { Verdict::Note };
    check("resident", verdict, found).advise(
        "a client still has deleted objects mapped, such as one that is stopped: the daemon's \
         log names the processes",
    )
}

/// Whether much is lent to clients whose connection broke.
fn away(status: &Status) -> Check {
    let lent = status.away_bytes;
    let verdict = if lent * 10 < status.capacity_bytes { Verdict::Good } else { Verdict::Note };
    let found = format!("{} lent to clients whose connection broke", bytes(lent));
    check("away", verdict, found).advise(
        "processes whose connection broke may still write to it: they return it when they \
         reconnect, close the store, or end",
    )
}

/// Whether the control group of the daemon, which is charged for all memory of the store, and the
/// spill tier allow what the store promises.
fn limit(status: &Status) -> Check {
    let (limit, capacity) = (status.memory_limit_bytes, status.capacity_bytes);
    let found = match limit {
        0 => "the daemon's control group has no limit".to_owned(),
        limit => format!("the daemon's control group allows {}", bytes(limit)),
    };
    let verdict = if limit > 0 && capacity > limit { Verdict::Note } else { Verdict::Good };
    check("memory limit", verdict, found).advise(
        "the whole store is charged to it, including what clients write: raise it, or start \
         the store with less capacity",
    )
}

fn spill(status: &Status) -> Check {
    match status.spill_fault.as_str() {
        "" if status.spills => check("spill tier", Verdict::Good, "works"),
        "" => check("spill tier", Verdict::Good, "none"),
        fault => check("spill tier", Verdict::Bad, fault)
            .advise("no spilled object is lost: repair the folder, and the daemon tries again"),
    }
}

/// Whether the log of durable objects takes what it is given.
fn durable(log: &LogFigures) -> Check {
    if !log.fault.is_empty() {
        return check("durable log", Verdict::Bad, log.fault.clone()).advise(
            "durable objects can be read, and neither be put nor deleted: look at the disk of the \
             folder, then `plasmon stop` and start the store again",
        );
    }
    if log.damaged + log.corrupt > 0 {
        let found = format!(
            "{} damaged places were found in {}, {} objects cannot be read",
            log.damaged, log.folder, log.corrupt
        );
        return check("durable log", Verdict::Bad, found).advise(
            "the daemon's log names the objects: those of a pool are repaired from other nodes \
             (`plasmon pool verify --deep`), delete the others and put them again, and replace the \
             disk",
        );
    }
    let room = log.bytes_max.saturating_sub(log.live_bytes);
    let is_short = log.bytes_max > 0 && room * 10 < log.bytes_max;
    let verdict = if is_short { Verdict::Note } else { Verdict::Good };
    let found = format!("{} objects, {} in {}", log.objects, bytes(log.used_bytes), log.folder);
    check("durable log", verdict, found)
        .advise("it is nearly full: delete durable objects, or raise durable_bytes_max")
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
