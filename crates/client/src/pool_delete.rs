//! Deleting objects of the pool for good: until no node has a copy.

use std::time::Duration;

use plasmon_proto::pool_admin::{ObjectPlace, Standing};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::pool;

const DELETING: &str = "deleting object";

/// Waits between two looks at one object: copies mostly go at once.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_LAST: Duration = Duration::from_millis(100);

/// Nodes that an error names.
const NAMED_MAX: usize = 8;

/// Deletes objects, and waits until no node has a copy of any; each has its own result.
pub(crate) fn delete_and_wait(
    store: &Client,
    ids: &[ObjectId],
    timeout: Duration,
) -> Result<Vec<Result<()>>> {
    if let Some(local) = ids.iter().find(|id| !id.is_pooled()) {
        let detail = "it belongs to this store alone, and is gone after its last reader: a delete \
                      waits for copies of objects of a pool";
        return Err(Error::new(Code::BadRequest, DELETING).with_id(*local).with_detail(detail));
    }
    let until = Deadline::after(timeout);
    let outcomes = store.delete(ids)?;
    let wait = |(id, outcome): (&ObjectId, Option<Code>)| match outcome {
        None | Some(Code::Absent | Code::Deleted) => wait_until_gone(store, *id, until),
        Some(code) => Err(Error::new(code, DELETING).with_id(*id)),
    };
    let mut results = Vec::with_capacity(ids.len());
    for object in ids.iter().zip(outcomes) {
        let result = wait(object);
        interrupt::check(DELETING)?;
        results.push(result);
    }
    Ok(results)
}

/// The directory forgets a deleted object when every node has confirmed that it has no copy.
fn wait_until_gone(store: &Client, id: ObjectId, until: Deadline) -> Result<()> {
    let mut pause = PAUSE_FIRST;
    let mut nodes = Vec::new();
    loop {
        match pool::place(store.socket(), id) {
            Ok(ObjectPlace { standing: Standing::Dead, found, .. }) => {
                nodes = found.map_or_else(Vec::new, |it| [it.holders, it.caches].concat());
            }
            // The pool cannot say it now: what it said last holds.
            Ok(ObjectPlace { standing: Standing::Unreachable, .. }) => {}
            Err(error) if error.code() == Code::Unreachable => {}
            Err(error) => return Err(error),
            // It is gone; another object may have its id already.
            Ok(_) => return Ok(()),
        }
        interrupt::check(DELETING)?;
        if until.is_past() {
            return Err(not_gone(id, &nodes));
        }
        edge::sleep(interrupt::pause(pause, until));
        pause = (2 * pause).min(PAUSE_LAST);
    }
}

fn not_gone(id: ObjectId, nodes: &[String]) -> Error {
    let (named, others) = nodes.split_at(nodes.len().min(NAMED_MAX));
    let (code, detail) = match (named, others.len()) {
        ([], _) => {
            let detail = "it is deleted, and the pool cannot say now whether a node has a copy";
            (Code::Unreachable, detail.to_owned())
        }
        (named, others) => {
            let others = if others == 0 { String::new() } else { format!(" and {others} more") };
            let named = named.join(", ");
            let detail = format!("it is deleted, and these nodes may have a copy: {named}{others}");
            (Code::InUse, detail)
        }
    };
    Error::new(code, DELETING).with_id(id).with_detail(detail)
}
