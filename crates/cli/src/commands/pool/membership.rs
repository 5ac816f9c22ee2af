//! What `plasmon start` and `plasmon doctor` say of the node of the running store: whether it has
//! joined its pool.

use std::time::Duration;

use plasmon_client::{Client, Code, Deadline, Participation};

use super::joining::{missing, unreached, wait};
use super::no_answer::unanswered;
use crate::commands::check::{Check, Verdict, check};
use crate::output::{Output, count};

/// Waits until the node of this store has joined its pool and is connected with the other nodes:
/// how many nodes the pool has, or what is missing.
pub(crate) fn join(store: &Client, within: Duration, output: &Output) -> Result<u32, String> {
    let deadline = Deadline::after(within);
    let tell = |why: &str| output.progress(&format!("waiting until the node has joined: {why}"));
    wait(store, 1, deadline, tell).map(|found| found.live)
}

/// Whether the node of this store has joined its pool.
pub(crate) fn node_check(store: &Client, name: &str) -> Check {
    const WHAT: &str = "pool node";
    let bad = |found: String, advice: &str| check(WHAT, Verdict::Bad, found).advise(advice);
    let found = match store.pool_participation() {
        Ok(found) => found,
        Err(error) if error.code() == Code::NotPermitted => {
            return check(WHAT, Verdict::Note, format!("{name}: {error}"))
                .advise("ask as the user whose store it is");
        }
        Err(error) => {
            let found = format!("{name}: {}", unanswered(store, &error));
            return bad(found, "the checks of etcd may say why, and the log of the store does");
        }
    };
    if found.has_joined() && !found.unreached.is_empty() {
        let others = unreached(store, &found);
        return bad(
            format!("{name} has joined, and is not connected with {others}"),
            "nodes must reach each other at these addresses: --pool-listen chooses another one, \
             and firewalls must let them through",
        );
    }
    if found.has_joined() {
        return check(WHAT, Verdict::Good, joined(name, &found));
    }
    let why = missing(store, &found, 1);
    let advice = match found.refused {
        Some(_) => "stop this store, and start it as the reason says",
        None => "a node joins within seconds; the log of the store says what it waits for",
    };
    bad(format!("{name} has not joined: {why}"), advice)
}

fn joined(name: &str, found: &Participation) -> String {
    let others = count(u64::from(found.live.saturating_sub(1)), "other node");
    format!("{name} has joined, and is connected with {others}")
}
