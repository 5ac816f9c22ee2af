//! Parts of objects for one connection.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use plasmon_pool::limits::UNREACHABLE_MS;
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, GatherRequest, Gathered};
use plasmon_proto::limits::GATHER_READS_MAX;
use plasmon_proto::parts::{Parts, ReadFailure, ReadReply, ReadRequest};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::socket::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::core::Asker;

/// So often a read looks whether its program is still there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// For so long a read waits for the node to take part in the pool.
const JOINED_WITHIN: Duration = Duration::from_millis(UNREACHABLE_MS);

/// The pause before the node is asked again.
const JOIN_PAUSE: Duration = Duration::from_millis(100);

/// Local objects of a connection that are remembered, to be deleted with it: at least those of one
/// answer. A program that asks several times at once has taken those before.
const HANDED_MAX: usize = GATHER_READS_MAX;

/// The longest that an object which does not exist is waited for.
const TIMEOUT_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;

/// What came of waiting for an answer.
enum Waited<T> {
    Reply(T),
    /// The node does not take part in the pool yet, or has ended.
    NoNode,
    /// The program has gone.
    NoProgram,
}

/// The local objects that a connection was given. Those that its program has not taken when it ends
/// are deleted then.
#[derive(Debug)]
pub(super) struct Handed<'a> {
    node: &'a Asker,
    ids: VecDeque<ObjectId>,
}

impl<'a> Handed<'a> {
    pub(super) fn new(node: &'a Asker) -> Self {
        Self { node, ids: VecDeque::new() }
    }

    /// Reads parts of an object. `None` when the connection ends: with its program, or because the
    /// request breaks a limit.
    pub(super) fn read(
        &mut self,
        connection: &Connection,
        mut request: ReadRequest,
    ) -> Option<ReadReply> {
        if !request.is_valid() {
            return None;
        }
        request.timeout_ms = request.timeout_ms.min(TIMEOUT_MS_MAX);
        let asked = self.ask(connection, |node, answer| node.read(request.clone(), answer))?;
        let reply = asked.unwrap_or(ReadReply::Failed(ReadFailure::Unreachable));
        if let ReadReply::Parts(Parts { object, .. }) = &reply {
            self.remember(object.as_slice());
        }
        Some(reply)
    }

    /// Reads parts of several objects, as [`read`](Self::read) does of one.
    pub(super) fn gather(
        &mut self,
        connection: &Connection,
        request: &GatherRequest,
    ) -> Option<GatherReply> {
        if !request.is_valid() {
            return None;
        }
        let asked = self.ask(connection, |node, answer| node.gather(request.clone(), answer))?;
        let reply = asked.unwrap_or_else(|| GatherReply {
            objects: Vec::new(),
            reads: vec![Gathered::Failed(ReadFailure::Unreachable); request.reads.len()],
        });
        self.remember(&reply.objects);
        Some(reply)
    }

    /// Asks the node until it takes part in the pool; its answer, if there is one. `None` when the
    /// program has gone.
    fn ask<T>(
        &self,
        connection: &Connection,
        ask: impl Fn(&Asker, SyncSender<T>) -> u64,
    ) -> Option<Option<T>> {
        let deadline = Deadline::after(JOINED_WITHIN);
        loop {
            let (sender, answer) = sync_channel(1);
            let number = ask(self.node, sender);
            match self.wait(connection, number, &answer) {
                Waited::Reply(reply) => return Some(Some(reply)),
                Waited::NoProgram => return None,
                Waited::NoNode if deadline.is_past() => return Some(None),
                Waited::NoNode => std::thread::sleep(JOIN_PAUSE),
            }
        }
    }

    /// Waits for the answer to a read.
    fn wait<T>(&self, connection: &Connection, number: u64, answer: &Receiver<T>) -> Waited<T> {
        loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(reply) => return Waited::Reply(reply),
                Err(RecvTimeoutError::Disconnected) => return Waited::NoNode,
                Err(RecvTimeoutError::Timeout) if is_over(connection).unwrap_or(true) => {
                    self.node.end_read(number);
                    return Waited::NoProgram;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn remember(&mut self, objects: &[ObjectId]) {
        self.ids.extend(objects);
        self.ids.drain(..self.ids.len().saturating_sub(HANDED_MAX));
    }
}

impl Drop for Handed<'_> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            self.node.delete(self.ids.drain(..).collect());
        }
    }
}

/// Whether the program has closed its end.
pub(super) fn is_over(connection: &Connection) -> io::Result<bool> {
    let mut fds = [PollFd::new(connection, PollFlags::RDHUP)];
    let ready = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())))?;
    Ok(ready > 0)
}
