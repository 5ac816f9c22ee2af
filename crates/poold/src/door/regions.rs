//! Regions for one connection.
//!
//! Writes follow each other without waiting for their answers, up to [`REGION_WRITES_MAX`]; any
//! other request waits until they are answered, so that replies come in the order of the requests.
//! The regions that a connection allocated end with it, unless they are sealed before. A child
//! that its program forked has the connection open as well, so the process is watched, too.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use plasmon_cluster::{Node, NodeState, Slot};
use plasmon_pool::limits::UNREACHABLE_MS;
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::region::{
    AllocateRequest, REGION_WRITES_MAX, RegionFailure, RegionReply, RegionRequest,
};
use plasmon_proto::{Code, frame};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::pidfd::ProcessFd;
use plasmon_shm::socket::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::reads::is_over;
use crate::core::{Asker, RegionAnswer, RegionAsked, RegionQuestion};

/// So often a request looks whether its program is still there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// For so long a request waits for the node to take part in the pool.
const JOINED_WITHIN: Duration = Duration::from_millis(UNREACHABLE_MS);

/// The pause before the node is asked again.
const JOIN_PAUSE: Duration = Duration::from_millis(100);

/// What came of waiting for an answer.
enum Waited {
    Answer(RegionAnswer),
    /// The node does not take part in the pool yet, or has ended.
    NoNode,
    /// The program has gone.
    NoProgram,
}

/// What comes of a request.
pub(super) enum Served {
    Reply(Reply),
    /// It is answered with the next ones.
    Later,
    /// The connection ends: with its program, or because the request breaks a limit.
    End,
}

/// What a connection does with regions.
#[derive(Debug)]
pub(super) struct Regions<'a> {
    node: &'a Asker,
    /// The number of the connection.
    owner: u64,
    /// The process at its other end, once it has allocated something.
    process: Option<ProcessFd>,
    /// Writes that are not answered, with the numbers of their requests.
    writes: VecDeque<(u64, Receiver<RegionAnswer>)>,
}

impl<'a> Regions<'a> {
    pub(super) fn new(node: &'a Asker, owner: u64) -> Self {
        Self { node, owner, process: None, writes: VecDeque::new() }
    }

    /// Waits for the next request. While there is none, and when too many writes are under way,
    /// writes are answered. A connection with regions may say nothing for any time. False when the
    /// connection ends.
    pub(super) fn wait_for_request(&mut self, connection: &Connection) -> bool {
        while !self.writes.is_empty() {
            let has_room = self.writes.len() < REGION_WRITES_MAX;
            if has_room && is_readable(connection).unwrap_or(true) {
                return true;
            }
            if !self.answer_write(connection) {
                return false;
            }
        }
        let Some(process) = &self.process else { return true };
        let mut fds = [
            PollFd::new(connection, PollFlags::IN | PollFlags::RDHUP),
            PollFd::new(process, PollFlags::IN),
        ];
        let ready = rustix::io::retry_on_intr(|| poll(&mut fds, None));
        ready.is_ok() && fds[1].revents().is_empty()
    }

    /// Answers all writes. False when the connection ends.
    pub(super) fn answer_writes(&mut self, connection: &Connection) -> bool {
        while !self.writes.is_empty() {
            if !self.answer_write(connection) {
                return false;
            }
        }
        true
    }

    /// Answers the first write. False when the connection ends.
    fn answer_write(&mut self, connection: &Connection) -> bool {
        let Some((number, answer)) = self.writes.pop_front() else { return true };
        let reply = match wait(connection, &answer) {
            Waited::Answer(answer) => answer.reply,
            // The program asks again, and waits for the node then.
            Waited::NoNode => RegionReply::Failed(RegionFailure::Interrupted),
            Waited::NoProgram => return false,
        };
        frame::encode_admin_reply(number, &Reply::Region(reply))
            .is_ok_and(|reply| connection.send(&reply, &[]).is_ok())
    }

    /// Serves a request about regions.
    pub(super) fn serve(
        &mut self,
        connection: &Connection,
        number: u64,
        request: Request,
    ) -> Served {
        let reply = match request {
            Request::Region(request) if !request.is_valid() || !request.is_of_program() => None,
            Request::Region(write @ RegionRequest::Write { .. }) => {
                let (sender, answer) = sync_channel(1);
                let asked = RegionAsked::Request(write);
                self.node.region(RegionQuestion { owner: self.owner, asked, answer: sender });
                self.writes.push_back((number, answer));
                return Served::Later;
            }
            _ if !self.answer_writes(connection) => None,
            Request::Allocate(request) if request.is_valid() => self.allocate(connection, &request),
            Request::Region(request) => self.ask(connection, &request),
            _ => None,
        };
        reply.map_or(Served::End, Served::Reply)
    }

    /// Asks something else of a region. `None` when the connection ends.
    fn ask(&self, connection: &Connection, request: &RegionRequest) -> Option<Reply> {
        let ask = || RegionAsked::Request(request.clone());
        match self.answer(connection, ask) {
            Waited::Answer(RegionAnswer { reply, .. }) => Some(Reply::Region(reply)),
            Waited::NoNode => Some(failed(RegionFailure::Unreachable)),
            Waited::NoProgram => None,
        }
    }

    /// Makes a region. `None` when the connection ends.
    fn allocate(&mut self, connection: &Connection, request: &AllocateRequest) -> Option<Reply> {
        let AllocateRequest { bytes, copies, copies_min, ref node } = *request;
        if self.process.is_none() {
            self.process = connection.process().ok();
        }
        if self.process.is_none() {
            // It is of another pid namespace: nothing would say when it is gone.
            return Some(failed(RegionFailure::Refused(Code::NotPermitted)));
        }
        let home = match node {
            None => None,
            Some(name) => match self.slot_of(name) {
                None => return Some(failed(RegionFailure::NoNode)),
                found => found,
            },
        };
        let allocate = || RegionAsked::Allocate { home, bytes, copies, copies_min };
        match self.answer(connection, allocate) {
            Waited::Answer(RegionAnswer { id, reply: RegionReply::Done }) => {
                Some(Reply::Allocated(id))
            }
            Waited::Answer(RegionAnswer { reply, .. }) => Some(Reply::Region(reply)),
            Waited::NoNode => Some(failed(RegionFailure::Unreachable)),
            Waited::NoProgram => None,
        }
    }

    /// The node of the pool with this name, unless it was given up.
    fn slot_of(&self, name: &str) -> Option<Slot> {
        let map = self.node.pool().map.unwrap_or_default();
        let is_named =
            |(_, node): &(Slot, &Node)| node.member.name == name && node.state != NodeState::Out;
        map.nodes().find(is_named).map(|(slot, _)| slot)
    }

    /// Asks until the node takes part in the pool.
    fn answer(&self, connection: &Connection, ask: impl Fn() -> RegionAsked) -> Waited {
        let deadline = Deadline::after(JOINED_WITHIN);
        loop {
            let (sender, answer) = sync_channel(1);
            self.node.region(RegionQuestion { owner: self.owner, asked: ask(), answer: sender });
            match wait(connection, &answer) {
                Waited::NoNode if !deadline.is_past() => std::thread::sleep(JOIN_PAUSE),
                waited => return waited,
            }
        }
    }
}

impl Drop for Regions<'_> {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.node.end_region_owner(self.owner);
        }
    }
}

fn failed(failure: RegionFailure) -> Reply {
    Reply::Region(RegionReply::Failed(failure))
}

/// Waits for an answer.
fn wait(connection: &Connection, answer: &Receiver<RegionAnswer>) -> Waited {
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return Waited::Answer(answer),
            Err(RecvTimeoutError::Disconnected) => return Waited::NoNode,
            Err(RecvTimeoutError::Timeout) if is_over(connection).unwrap_or(true) => {
                return Waited::NoProgram;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Whether there is something to read, or the connection has ended.
fn is_readable(connection: &Connection) -> io::Result<bool> {
    let mut fds = [PollFd::new(connection, PollFlags::IN | PollFlags::RDHUP)];
    let ready = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())))?;
    Ok(ready > 0)
}
