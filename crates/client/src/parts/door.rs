//! The connection over which parts are asked for.
//!
//! The pool daemon answers the requests of a connection in their order; several may be under way.
//! How long an answer takes depends on the network and on what was asked for, so it is waited for
//! as long as the pool daemon answers other questions meanwhile. One that is started again is
//! connected to again: a read can be asked twice.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::pool::{self, Door};

/// What an error says was being done.
pub(super) const READING: &str = "reading parts of object";

/// For how long a pool daemon that has ended is waited for.
const RECONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(super) struct ReadDoor {
    /// The socket of the store.
    store: PathBuf,
    door: Option<Door>,
    /// The number of the last request.
    number: u64,
    /// What is under way, in order.
    pending: VecDeque<(u64, Request)>,
}

impl ReadDoor {
    pub(super) fn new(store: PathBuf) -> Self {
        Self { store, door: None, number: 0, pending: VecDeque::new() }
    }

    /// How many requests are under way.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// One request, and its answer.
    pub(super) fn ask(&mut self, request: Request) -> Result<Reply> {
        self.begin(request)?;
        self.receive().map(|(_, reply)| reply)
    }

    /// Sends a request; its answer comes after those of the earlier ones.
    pub(super) fn begin(&mut self, request: Request) -> Result<()> {
        self.number += 1;
        let number = self.number;
        let is_sent = self.door.as_ref().map(|door| door.send(number, &request).is_ok());
        self.pending.push_back((number, request));
        match is_sent {
            Some(is_sent) => {
                if !is_sent {
                    self.door = None;
                }
                Ok(())
            }
            // Everything that is under way is sent with the connection.
            None => self.connect(Deadline::after(RECONNECT_WITHIN)),
        }
    }

    /// The answer to the first request that is under way.
    pub(super) fn receive(&mut self) -> Result<(Request, Reply)> {
        let received = self.receive_any();
        if received.is_err() {
            // What is under way is of no use to the caller any more.
            self.door = None;
            self.pending.clear();
        }
        received
    }

    fn receive_any(&mut self) -> Result<(Request, Reply)> {
        let mut broken: Option<Deadline> = None;
        loop {
            let Some(door) = &self.door else {
                let deadline = *broken.get_or_insert(Deadline::after(RECONNECT_WITHIN));
                self.connect(deadline)?;
                continue;
            };
            door.await_reply(&self.store)?;
            match door.receive() {
                Ok((number, reply)) => {
                    let first = self.pending.pop_front().filter(|(first, _)| *first == number);
                    let (_, request) = first.ok_or_else(|| Error::unexpected(READING))?;
                    return Ok((request, reply));
                }
                Err(error) if error.code() == Code::Unreachable => {
                    let deadline = *broken.get_or_insert(Deadline::after(RECONNECT_WITHIN));
                    if deadline.is_past() {
                        return Err(error);
                    }
                    self.door = None;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Connects, and sends what is under way. A pool daemon that is not there may come back; a
    /// store without a socket of one has none.
    fn connect(&mut self, deadline: Deadline) -> Result<()> {
        loop {
            interrupt::check(READING)?;
            let opened = Door::open(&self.store, READING).and_then(|door| {
                let mut pending = self.pending.iter();
                pending.try_for_each(|(number, request)| door.send(*number, request))?;
                Ok(door)
            });
            match opened {
                Ok(door) => {
                    self.door = Some(door);
                    return Ok(());
                }
                Err(error) => {
                    let may_come =
                        error.code() == Code::Unreachable && pool::has_socket(&self.store);
                    if !may_come || deadline.is_past() {
                        return Err(error);
                    }
                    edge::sleep(interrupt::pause(PAUSE, deadline));
                }
            }
        }
    }
}
