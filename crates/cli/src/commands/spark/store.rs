//! What `plasmon spark doctor` looks at for the store and the pool that an application would use.

use std::path::PathBuf;

use plasmon_client::{Client, Code, ConnectOptions};
use plasmon_proto::limits::COPIES_MAX;

use super::jar::STORE;
use super::settings::{ACK, COPIES, POOL, Place, QUOTA, Settings};
use crate::arguments::Arguments;
use crate::commands::check::{Check, Verdict, check};
use crate::commands::connection::options;
use crate::commands::pool;
use crate::output::count;

/// Checks the store that the driver would use and, if the shuffle is to be there, its pool.
pub(super) fn checks(arguments: &Arguments, settings: &Settings) -> Vec<Check> {
    match settings.place() {
        Err(wrong) => vec![
            check("shuffle", Verdict::Bad, wrong)
                .advise("set it to auto, none or a namespace such as @spark"),
        ],
        Ok(Place::Machine(why)) => on_machine(arguments, settings, &why, Verdict::Good),
        Ok(Place::Pool { prefix, is_required }) => {
            on_pool(arguments, settings, &prefix, is_required)
        }
    }
}

/// One store has all outputs: the named one, or one that the driver starts.
fn on_machine(
    arguments: &Arguments,
    settings: &Settings,
    why: &str,
    verdict: Verdict,
) -> Vec<Check> {
    let shuffle = check("shuffle", verdict, format!("on one machine: {why}")).advise(
        "executors on other machines are refused: for these, start a store of a pool on each \
         machine (`plasmon start --cluster etcd://HOST:PORT`)",
    );
    let Some(socket) = settings.get(STORE).map(PathBuf::from) else {
        return vec![check("store", Verdict::Good, "each application starts its own"), shuffle];
    };
    let store = match Client::connect(&reaching(arguments, &socket)) {
        Ok(store) => store,
        Err(error) => {
            let advice = format!(
                "start it with `plasmon --socket {} start`, or name no store (--socket, \
                 PLASMON_SOCKET, {STORE}): each application then starts its own",
                socket.display()
            );
            let store = check("store", Verdict::Bad, error.to_string()).advise(&advice);
            return vec![store, shuffle];
        }
    };
    let mut checks = vec![reached(&store)];
    checks.extend(store.status().ok().map(|status| version_check(&status.version)));
    checks.push(shuffle);
    checks
}

/// The pool of the driver's store has the outputs.
fn on_pool(
    arguments: &Arguments,
    settings: &Settings,
    prefix: &str,
    is_required: bool,
) -> Vec<Check> {
    let named = settings.get(STORE).map(PathBuf::from).map(Ok);
    let socket = match named.unwrap_or_else(plasmon_client::default_socket) {
        Ok(socket) => socket,
        Err(error) => return vec![check("store", Verdict::Bad, error.to_string())],
    };
    let place = socket.display().to_string();
    let start = format!(
        "start it with `plasmon --socket {place} start --cluster etcd://HOST:PORT`, on each \
         machine that runs the driver or executors; --socket, PLASMON_SOCKET and {STORE} name \
         another store"
    );
    let store = match Client::connect(&reaching(arguments, &socket)) {
        Ok(store) => store,
        Err(error) if error.code() == Code::Disconnected && !is_required => {
            let why = format!("{POOL} is auto, and no store runs at {place}");
            return on_machine(arguments, settings, &why, Verdict::Note);
        }
        Err(error) => {
            return vec![check("store", Verdict::Bad, error.to_string()).advise(&start)];
        }
    };
    let status = match store.status() {
        Ok(status) => status,
        Err(error) => return vec![check("store", Verdict::Bad, error.to_string())],
    };
    if status.cluster.is_empty() {
        if !is_required {
            let why = format!("{POOL} is auto, and the store at {place} belongs to no pool");
            return on_machine(arguments, settings, &why, Verdict::Note);
        }
        let found = format!("the store at {place} belongs to no pool");
        let advice = format!(
            "stop it and start it with `plasmon --socket {place} start --cluster \
             etcd://HOST:PORT`, or leave the shuffle on one machine with --pool=none"
        );
        return vec![
            reached(&store),
            version_check(&status.version),
            check("pool", Verdict::Bad, found).advise(&advice),
        ];
    }
    let pool = format!("{} (namespaces {prefix}-..)", status.cluster);
    let mut checks = vec![
        reached(&store),
        version_check(&status.version),
        check("pool", Verdict::Good, pool),
        pool::node_check(&store, &status.node_name),
    ];
    checks.extend(pool::whole_checks(&store));
    checks.extend(copies_check(&store, settings.get(COPIES)));
    checks.extend(refused(settings));
    checks
}

/// Settings with which an application on the pool is refused at its start.
fn refused(settings: &Settings) -> Vec<Check> {
    let mut checks = Vec::new();
    let bad = |found: String, advice: &str| check("settings", Verdict::Bad, found).advise(advice);
    if let Some(ack) = settings.get(ACK).filter(|ack| !["sync", "async"].contains(ack)) {
        checks.push(bad(format!("{ACK} is {ack}"), "set it to sync or async, or leave it out"));
    }
    if let Some(quota) = settings.get(QUOTA).filter(|quota| !quota.trim_matches('0').is_empty()) {
        checks.push(bad(
            format!("{QUOTA} is {quota}, and a namespace of a pool has no limit of bytes"),
            "unset it, or leave the shuffle on one machine with --pool=none",
        ));
    }
    checks
}

fn reaching(arguments: &Arguments, socket: &std::path::Path) -> ConnectOptions {
    ConnectOptions { socket: Some(socket.to_owned()), ..options(arguments) }
}

fn reached(store: &Client) -> Check {
    check("store", Verdict::Good, format!("reached at {}", store.socket().display()))
}

/// The jar has this command's version, as its own check finds.
fn version_check(version: &str) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    let verdict = if version == own { Verdict::Good } else { Verdict::Note };
    check("store version", verdict, format!("{version} (this command and its jar: {own})"))
        .advise("it can be reached, so it works; install the same version on both sides")
}

/// Whether as many nodes take copies as are asked for. `None` where the pool does not tell, which
/// has a check of its own.
fn copies_check(store: &Client, wanted: Option<&str>) -> Option<Check> {
    let takers = pool::takers(store).ok()?;
    Some(copies_of(wanted, takers))
}

fn copies_of(wanted: Option<&str>, takers: u32) -> Check {
    const WHAT: &str = "copies";
    let number = wanted.unwrap_or("0").parse::<u32>();
    let Some(wanted) = number.ok().filter(|number| *number <= u32::from(COPIES_MAX)) else {
        let found = format!("{COPIES} is not a number from 0 to {COPIES_MAX}");
        return check(WHAT, Verdict::Bad, found).advise("set it to one, or leave it out");
    };
    let takes = if takers == 1 { "takes" } else { "take" };
    let have = format!("{} of the pool {takes} copies", count(u64::from(takers), "node"));
    match wanted {
        0 if takers < 2 => check(WHAT, Verdict::Note, format!("1 of each output: {have}"))
            .advise("what a node has is lost with it: start a second one"),
        0 => check(WHAT, Verdict::Good, format!("2 of each output: {have}")),
        wanted => {
            let verdict = if wanted > takers { Verdict::Note } else { Verdict::Good };
            check(WHAT, verdict, format!("{wanted} of each output: {have}"))
                .advise(&format!("start more nodes, or set {COPIES} to fewer"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::super::command_line::CommandLine;
    use super::*;

    #[test]
    fn copies_are_as_many_as_nodes_take_them() {
        for (wanted, takers, verdict, found) in [
            (None, 3, "good", "2 of each output: 3 nodes of the pool take copies"),
            (None, 1, "note", "1 of each output: 1 node of the pool takes copies"),
            (Some("3"), 3, "good", "3 of each output: 3 nodes"),
            (Some("3"), 2, "note", "3 of each output: 2 nodes"),
            (Some("two"), 2, "bad", "spark.plasmon.copies is not a number"),
            (Some("9"), 2, "bad", "spark.plasmon.copies is not a number from 0 to 8"),
        ] {
            let told: Value = serde_json::to_value(copies_of(wanted, takers)).unwrap();
            assert_eq!(told["verdict"], verdict, "{told}");
            assert!(told["found"].as_str().unwrap().starts_with(found), "{told}");
        }
    }

    #[test]
    fn settings_that_end_an_application_on_the_pool_are_found() {
        let found = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let line = CommandLine::parse(&words);
            let settings = Settings::new(BTreeMap::new(), BTreeMap::new(), &line, None);
            serde_json::to_string(&refused(&settings)).unwrap()
        };
        assert_eq!(found("-c spark.plasmon.ack=sync -c spark.plasmon.quota.bytes=0"), "[]");
        assert!(found("-c spark.plasmon.ack=all").contains("spark.plasmon.ack is all"));
        assert!(found("-c spark.plasmon.quota.bytes=10g").contains("no limit of bytes"));
    }

    #[test]
    fn another_version_is_noted() {
        let verdict = |version| serde_json::to_value(version_check(version)).unwrap();
        assert_eq!(verdict(env!("CARGO_PKG_VERSION"))["verdict"], "good");
        assert_eq!(verdict("0.0.1")["verdict"], "note");
    }
}
