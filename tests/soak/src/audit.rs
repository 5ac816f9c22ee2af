//! The account: with every worker gone, what is in the store must be what was acknowledged, and the
//! daemon and the keeper must hold no more than that needs.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use plasmon_client::{Code, Filter, Level, ObjectId, ObjectInfo, ObjectState, Status};
use plasmon_testkit::Random;

use crate::content;
use crate::fates::{Fate, Fates};
use crate::node::Node;
use crate::processes;
use crate::residency;
use crate::tally::Tally;

/// For how long a get waits for an object that must be there: it may have to be read from a file.
const MUST_BE_THERE: Duration = Duration::from_secs(10);

/// So often an audit leaves nothing in the store.
const EMPTIED_EVERY: u64 = 4;

/// Ids in one delete.
const DELETE_IDS_MAX: usize = 512;

/// Objects from here on may have their own extent.
const LARGE_OBJECT_BYTES: u64 = 16 << 20;

/// What extents are made of.
const PAGE_BYTES: u64 = 4096;

/// Memfds beside extents and channels: the control page, the wake page, the index table, and
/// one more table while the index moves, which it does with puts.
const MEMFDS_FIXED: usize = 4;

/// Compares the store with what is known of it, then deletes some of it so that it stays small.
pub(crate) fn run(
    node: &Node,
    fates: &mut Fates,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<()> {
    tally.audits += 1;
    let quiet = node.daemon.until("the workers' traces to go", |now| {
        now.clients == 1 && now.creating == 0 && now.lingering == 0 && now.waits == 0
    });
    if let Err(error) = quiet {
        tally.leaks.push(error.to_string());
    }
    check_objects(node, fates, tally);
    check_listing(node, fates, tally)?;
    check_memory(node, tally)?;
    let everything = tally.audits.is_multiple_of(EMPTIED_EVERY);
    thin_out(node, fates, if everything { 100 } else { 50 }, random, tally)?;
    check_memory(node, tally)
}

/// Every object that must be there is there, whole; none that was deleted is.
fn check_objects(node: &Node, fates: &Fates, tally: &mut Tally) {
    for (id, fate) in fates.all() {
        let timeout = if fate == Fate::There { MUST_BE_THERE } else { Duration::ZERO };
        match node.daemon.store.get(&id, Some(timeout)) {
            Ok(_) if fate == Fate::Gone => {
                tally.violations.push(format!("object {id} was deleted and is there"));
            }
            Ok(buffer) => {
                tally.verified += 1;
                if !content::matches(&id, buffer.data(), buffer.metadata()) {
                    tally.violations.push(format!("object {id} has other bytes"));
                }
            }
            Err(error) if fate == Fate::There => tally.lost.push(error.to_string()),
            Err(error) => {
                let ends =
                    [Code::Absent, Code::Deleted, Code::Evicted, Code::CreatorDied, Code::TimedOut];
                if !ends.contains(&error.code()) {
                    tally.violations.push(format!("object {id}: {error}"));
                }
            }
        }
    }
}

/// Nothing is listed that was never put: an aborted object, or one that was never finished.
fn check_listing(node: &Node, fates: &Fates, tally: &mut Tally) -> Result<()> {
    for info in node.daemon.store.list(&Filter::default())? {
        match fates.of(&info.id) {
            Some(Fate::There | Fate::Either) => {}
            Some(Fate::Gone) => tally.violations.push(format!("{} is listed", info.id)),
            None => tally.violations.push(format!("{} is listed and was never put", info.id)),
        }
        if info.pins != 0 {
            tally.leaks.push(format!("object {} has {} pins", info.id, info.pins));
        }
    }
    Ok(())
}

/// What is counted as used is used, and the descriptors are those of what is there.
fn check_memory(node: &Node, tally: &mut Tally) -> Result<()> {
    let settled = |now: &Status| now.lingering == 0 && now.leased_bytes == 0;
    let status = match node.daemon.until("the leases to return", settled) {
        Ok(status) => status,
        Err(error) => {
            tally.leaks.push(error.to_string());
            node.daemon.store.status()?
        }
    };
    let listed = node.daemon.store.list(&Filter::default())?;
    let sealed = listed.iter().filter(|info| info.state == ObjectState::Sealed);
    let (least, most) = sealed.map(charge).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let used = status.used_bytes;
    if !(least..=most).contains(&used) {
        let text = format!("{used} bytes are counted as used, the objects need {least} to {most}");
        tally.leaks.push(text);
    }
    // Extents are closed in the background.
    let few = |now: &Status| {
        let most = now.extents as usize + now.clients as usize + MEMFDS_FIXED;
        [now.pid, now.keeper_pid].map(|pid| processes::memfds(pid).is_ok_and(|found| found <= most))
            == [true, true]
    };
    if let Err(error) = node.daemon.until("unused memfds to be closed", few) {
        let held = [status.pid, status.keeper_pid].map(residency::memfds);
        tally.leaks.push(format!("{error}; {}", held.join("; ")));
    }
    Ok(())
}

/// The least and the most that an object costs: a large one may have whole pages to itself, and so
/// has one that the kernel makes immutable.
fn charge(info: &ObjectInfo) -> (u64, u64) {
    let footprint = info.sizes.footprint().unwrap_or(0);
    let own_pages = footprint >= LARGE_OBJECT_BYTES || info.level == Level::Strict;
    (footprint, if own_pages { footprint.next_multiple_of(PAGE_BYTES) } else { footprint })
}

/// Deletes what no worker vouches for, and this share of the rest.
fn thin_out(
    node: &Node,
    fates: &mut Fates,
    percent: u64,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<()> {
    let mut chosen: Vec<ObjectId> = Vec::new();
    for (id, fate) in fates.all() {
        if fate != Fate::There || random.percent(percent) {
            chosen.push(id);
        }
    }
    for ids in chosen.chunks(DELETE_IDS_MAX) {
        let there: HashSet<ObjectId> =
            ids.iter().filter(|id| fates.of(id) == Some(Fate::There)).copied().collect();
        for (id, code) in ids.iter().zip(node.daemon.store.delete(ids)?) {
            if there.contains(id)
                && let Some(code) = code
            {
                tally.violations.push(format!("deleting object {id}: {}", code.key()));
            }
            if node.daemon.store.contains(id)? {
                tally.violations.push(format!("object {id} outlived its deletion"));
            }
            fates.forget(id);
        }
    }
    Ok(())
}
