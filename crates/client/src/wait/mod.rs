//! Waiting for objects, also for more of them than one request can name.

mod futex;
pub(crate) mod poll;

use std::time::Duration;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::ObjectState;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;

use self::futex::sleep_until_listed;
use self::poll::WAITING;
use crate::connection::Connection;
use crate::error::{Error, Result};

/// How much later than asked for a daemon may answer a wait before its client stops waiting. It
/// answers in time unless it is stopped or the machine is overloaded.
const GRACE: Duration = Duration::from_millis(500);

/// The same for a wait of no time at all: a question, which the daemon answers at once.
const GRACE_OF_A_QUESTION: Duration = Duration::from_secs(2);

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    end: Deadline,
    grace: Duration,
    is_question: bool,
}

impl Until {
    pub(crate) fn timeout(timeout: Option<Duration>) -> Self {
        if timeout == Some(Duration::ZERO) {
            return Self::question(GRACE_OF_A_QUESTION);
        }
        Self { end: Deadline::within(timeout), grace: GRACE, is_question: false }
    }

    /// No wait for objects, only for the daemon's answer.
    pub(crate) fn question(grace: Duration) -> Self {
        Self { end: Deadline::after(Duration::ZERO), grace, is_question: true }
    }

    /// Whether the caller had no time at all.
    pub(crate) fn is_question(self) -> bool {
        self.is_question
    }

    pub(crate) fn is_past(self) -> bool {
        self.end.is_past()
    }

    pub(crate) fn left(self) -> Duration {
        self.end.left().unwrap_or(Duration::MAX)
    }

    /// What is left, rounded up so that a wait does not end before its time.
    pub(crate) fn left_ms(self) -> Option<u64> {
        let left = self.end.left()?;
        Some(u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// Until when the daemon's answer is waited for.
    pub(crate) fn with_grace(self) -> Deadline {
        let now = Deadline::after(Duration::ZERO);
        if self.is_past() { now.later(self.grace) } else { self.end.later(self.grace) }
    }
}

/// The states of the objects when `count` of them (0: all) are decided, or the time has passed.
pub(crate) fn wait(
    connection: &Connection,
    ids: &[ObjectId],
    count: usize,
    until: Until,
    beyond_end: bool,
) -> Result<Vec<ObjectState>> {
    if count > ids.len() {
        let detail = "the wait needs more objects to be ready than it names";
        return Err(Error::new(Code::BadRequest, WAITING)
            .with_amounts(count as u64, ids.len() as u64)
            .with_detail(detail));
    }
    if ids.is_empty() || all_listed(connection, ids) {
        return Ok(vec![ObjectState::Sealed; ids.len()]);
    }
    if ids.len() <= REQUEST_IDS_MAX {
        return wait_once(connection, ids, count, until, beyond_end);
    }
    if count == 0 || count == ids.len() {
        let chunks = ids.chunks(REQUEST_IDS_MAX);
        let states = chunks.map(|chunk| wait_once(connection, chunk, 0, until, beyond_end));
        return Ok(states.collect::<Result<Vec<_>>>()?.concat());
    }
    wait_for_some(connection, ids, count, until, beyond_end)
}

/// Whether the index lists every one of them: then there is nothing to ask.
fn all_listed(connection: &Connection, ids: &[ObjectId]) -> bool {
    let session = connection.session();
    session
        .channel()
        .is_some_and(|channel| ids.iter().all(|id| channel.reader.contains(id) == Some(true)))
}

fn wait_once(
    connection: &Connection,
    ids: &[ObjectId],
    count: usize,
    until: Until,
    beyond_end: bool,
) -> Result<Vec<ObjectState>> {
    let number = begin_wait(connection, ids, count, until, beyond_end)?;
    let deadline = until.with_grace();
    if let [id] = ids
        && sleep_until_listed(connection, id, number, deadline)?
    {
        connection.rpc().forget(number);
        return Ok(vec![ObjectState::Sealed]);
    }
    match connection.collect(&[number], deadline)?.1.reply {
        Reply::States(states) if states.len() == ids.len() => Ok(states),
        Reply::Failed(failure) => Err(Error::of_failure(WAITING, failure)),
        _ => Err(Error::unexpected(WAITING)),
    }
}

fn begin_wait(
    connection: &Connection,
    ids: &[ObjectId],
    count: usize,
    until: Until,
    beyond_end: bool,
) -> Result<u64> {
    let request = wait_request(ids, count, until, beyond_end);
    connection.begin(WAITING, request)
}

/// Some of more objects than one request can name: asks where all of them are, then waits until
/// anything changes among those that are undecided, and asks again.
fn wait_for_some(
    connection: &Connection,
    ids: &[ObjectId],
    count: usize,
    until: Until,
    beyond_end: bool,
) -> Result<Vec<ObjectState>> {
    loop {
        let states = connection.states(ids)?;
        let decided = |state: &ObjectState| is_decided(*state, beyond_end);
        let ready = states.iter().filter(|state| decided(state)).count();
        if ready >= count || until.is_past() {
            return Ok(states);
        }
        let undecided: Vec<ObjectId> =
            ids.iter().zip(&states).filter(|(_, s)| !decided(s)).map(|(id, _)| *id).collect();
        let numbers = undecided
            .chunks(REQUEST_IDS_MAX)
            .map(|chunk| begin_wait(connection, chunk, 1, until, beyond_end))
            .collect::<Result<Vec<_>>>()?;
        let answer = connection.collect(&numbers, until.with_grace());
        numbers.iter().for_each(|number| connection.abandon_request(*number));
        answer?;
    }
}

/// The request for a wait.
pub(crate) fn wait_request(
    ids: &[ObjectId],
    count: usize,
    until: Until,
    beyond_end: bool,
) -> Request {
    // The count is at most the number of ids, which fits a request.
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    Request::Wait { ids: ids.to_vec(), count, timeout_ms: until.left_ms(), beyond_end }
}

/// Whether a wait for an object in this state is over; the daemon decides alike.
fn is_decided(state: ObjectState, beyond_end: bool) -> bool {
    match state {
        ObjectState::Sealed | ObjectState::Corrupt | ObjectState::Unreachable => true,
        ObjectState::Absent
        | ObjectState::Creating
        | ObjectState::Spilled
        | ObjectState::Remote => false,
        ObjectState::Evicted | ObjectState::Deleted | ObjectState::CreatorDied => !beyond_end,
    }
}
