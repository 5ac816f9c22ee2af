//! Objects of a pool that are seen before the pool has accepted them: the home of their ids, and
//! whether they are accepted by now.

use std::time::Duration;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::pool::Slot;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::wait::Until;

const SETTLING: &str = "waiting until the pool accepts objects";

/// How long a store that has just started may take to join its pool.
const JOINED_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks whether it has.
const JOINED_PAUSE: Duration = Duration::from_millis(5);

/// How long a put waits for the pool to accept the object.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(60);

/// Requests that are under way at a time: a quarter of the ids that one client may wait for.
const REQUESTS_MAX: usize = 16;

/// Objects that were put and are not accepted by a pool yet.
impl Client {
    /// Waits until the pool of the store has accepted objects that were put on this node, with as
    /// many copies as they were put with, without a limit for `None`. One code for each: `None`
    /// for an accepted one, [`Code::TimedOut`] if it is not decided in time.
    ///
    /// What the pool refuses has ended, as if it had been deleted, and its code says why:
    /// [`Code::NotEnoughNodes`], [`Code::StoreFull`]. An object that ended otherwise has the code
    /// of its end, such as [`Code::Deleted`]. [`Code::Unreachable`] says that there is no pool
    /// daemon to ask; the object is still there, and can be settled later. [`Code::BadRequest`]:
    /// the id is of no pool, or of another node.
    pub fn settle(&self, ids: &[ObjectId], timeout: Option<Duration>) -> Result<Vec<Option<Code>>> {
        settle(self.here()?, ids, Until::timeout(timeout))
    }
}

fn settle(connection: &Connection, ids: &[ObjectId], until: Until) -> Result<Vec<Option<Code>>> {
    let mut outcomes = Vec::with_capacity(ids.len());
    for window in ids.chunks(REQUESTS_MAX * REQUEST_IDS_MAX) {
        let mut numbers = Vec::with_capacity(REQUESTS_MAX);
        for chunk in window.chunks(REQUEST_IDS_MAX) {
            let request = Request::Settle { ids: chunk.to_vec(), timeout_ms: until.left_ms() };
            numbers.push((connection.begin(SETTLING, request)?, chunk.len()));
        }
        let mut answers = numbers.into_iter();
        while let Some((number, count)) = answers.next() {
            let answer = match connection.collect(&[number], until.with_grace()) {
                Ok((_, answer)) => answer.reply,
                Err(error) => {
                    answers.for_each(|(number, _)| connection.abandon_request(number));
                    return Err(error);
                }
            };
            match answer {
                Reply::Outcomes(answered) if answered.len() == count => outcomes.extend(answered),
                Reply::Failed(failure) => {
                    answers.for_each(|(number, _)| connection.abandon_request(number));
                    return Err(Error::of_failure(SETTLING, failure));
                }
                _ => return Err(Error::unexpected(SETTLING)),
            }
        }
    }
    explain_refusals(connection, ids, &mut outcomes);
    Ok(outcomes)
}

/// What the store itself refused, after its put had returned, is absent; why, this client knows.
fn explain_refusals(connection: &Connection, ids: &[ObjectId], outcomes: &mut [Option<Code>]) {
    if !outcomes.contains(&Some(Code::Absent)) {
        return;
    }
    let session = connection.session();
    session.drain_fully();
    let writing = session.writing();
    for (id, outcome) in ids.iter().zip(outcomes) {
        if *outcome == Some(Code::Absent) {
            *outcome = writing.verdicts.refusal_of(id).or(*outcome);
        }
    }
}

/// Waits until the pool has accepted an object that was just put.
pub(crate) fn settle_put(
    connection: &Connection,
    doing: &'static str,
    ids: &[ObjectId],
) -> Result<()> {
    let outcomes = settle(connection, ids, Until::timeout(Some(ACCEPTED_WITHIN)))?;
    let refused = ids.iter().zip(outcomes).find_map(|(id, outcome)| Some((*id, outcome?)));
    let Some((id, code)) = refused else { return Ok(()) };
    let (code, detail) = match code {
        Code::TimedOut | Code::Unreachable => (
            Code::Unreachable,
            "the object is on this node, and the pool has not said yet whether it accepts it: \
             settle its id to wait for that, or delete it",
        ),
        code => (code, "the pool did not accept the object, and it has ended"),
    };
    Err(Error::new(code, doing).with_id(id).with_detail(detail))
}

/// Waits until the pool has accepted the members of an object that is about to be put.
pub(crate) fn settle_members(
    connection: &Connection,
    doing: &'static str,
    members: &[ObjectId],
) -> Result<()> {
    let outcomes = settle(connection, members, Until::timeout(Some(ACCEPTED_WITHIN)))?;
    let refused = members.iter().zip(outcomes).find_map(|(id, outcome)| Some((*id, outcome?)));
    let Some((id, code)) = refused else { return Ok(()) };
    let (code, detail) = match code {
        Code::TimedOut | Code::Unreachable => (
            Code::Unreachable,
            "the pool has not said yet whether it accepts this member of the object: settle its \
             id, then put the object again",
        ),
        Code::BadRequest => (
            Code::Absent,
            "this member of the object is not on this node: get it, and keep it until the object \
             is put",
        ),
        code => (code, "this member of the object has ended: put it again, under another id"),
    };
    Err(Error::new(code, doing).with_id(id).with_detail(detail))
}

/// The home of ids that are made now.
#[inline]
pub(crate) fn home(connection: &Connection, doing: &'static str) -> Result<Slot> {
    match connection.session().home() {
        Some(home) => Ok(home),
        None => await_home(connection, doing),
    }
}

#[cold]
fn await_home(connection: &Connection, doing: &'static str) -> Result<Slot> {
    if connection.status()?.cluster.is_empty() {
        return Err(Error::new(Code::Unsupported, doing).with_detail(
            "this store belongs to no pool of several nodes: start it with --cluster",
        ));
    }
    let deadline = Deadline::after(JOINED_WITHIN);
    loop {
        if let Some(home) = connection.session().home() {
            return Ok(home);
        }
        if deadline.is_past() {
            return Err(Error::new(Code::Unreachable, doing).with_detail(
                "the store has not joined its pool yet; `plasmon pool status` says what the pool \
                 waits for",
            ));
        }
        edge::sleep(interrupt::pause(JOINED_PAUSE, deadline));
        interrupt::check(doing)?;
        connection.check_open()?;
    }
}
