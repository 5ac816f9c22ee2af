//! Looking at processes of clients that are away.

use std::os::fd::AsFd;
use std::time::Instant;

use plasmon_shm::mappings::{Inode, Trace, trace};

use super::SessionCheck;
use crate::core::Core;
use crate::sessions::SessionNo;
use crate::workers::Done;

impl Core {
    /// Has the processes looked at whose sessions are due.
    pub(in crate::core) fn look_at_processes(&mut self, now: Instant) {
        if self.looks.next().is_none_or(|at| at > now) {
            return;
        }
        let mut wanted = Vec::new();
        for no in self.looks.take_due(now) {
            let is_left = self.shared().sessions.get(no).is_some_and(|session| session.has_left());
            if is_left && !self.is_connected(no) {
                self.end_session(no);
            }
            match self.what_to_look_for(no) {
                Some(question) => wanted.push(question),
                None => self.looks.forget(no),
            }
        }
        if wanted.is_empty() {
            return;
        }
        let look = move || {
            let found = wanted
                .into_iter()
                .map(|(looked, process, file)| (looked, trace(process.as_fd(), file)));
            Done::Looked(found.collect())
        };
        self.looks.busy = true;
        if let Err(error) = self.workers.aside("plasmon-looker", look) {
            // The next time comes.
            tracing::warn!(%error, "processes of disconnected clients cannot be checked");
            self.looks.busy = false;
        }
    }

    fn is_connected(&self, no: SessionNo) -> bool {
        let session = self.store.directory().sessions.get(no);
        let client = session.and_then(|session| session.client);
        client.is_some_and(|client| self.peers.get(client).is_some())
    }

    /// The process of a session that is not connected and holds something, and the file that it
    /// maps while it does.
    fn what_to_look_for(
        &self,
        no: SessionNo,
    ) -> Option<(SessionCheck, std::os::fd::OwnedFd, Inode)> {
        let shared = self.store.directory();
        let session = shared.sessions.get(no)?;
        if self.is_connected(no) || !session.holds_anything() {
            return None;
        }
        let lost = session.lost_channel.as_ref().map(AsFd::as_fd);
        let channel = session.channel.as_ref().map(|channel| channel.memfd().as_fd());
        let file = channel.or(lost).unwrap_or(shared.control.memfd().as_fd());
        let process = session.process.try_clone().ok()?;
        Some((SessionCheck { session: no, token: session.token }, process, Inode::of(file).ok()?))
    }

    /// What became of the processes.
    pub(in crate::core) fn looked(&mut self, found: Vec<(SessionCheck, Trace)>) {
        self.looks.busy = false;
        for (SessionCheck { session: no, token }, trace) in found {
            let Some(session) = self.store.directory().sessions.get(no) else { continue };
            let pid = session.pid;
            if session.token != token || self.is_connected(no) {
                continue;
            }
            match trace {
                Trace::There => {}
                Trace::Gone => {
                    tracing::debug!(pid, "a process has given up its session and still runs");
                    self.end_session(no);
                }
                Trace::Unknown => {
                    tracing::debug!(pid, "cannot determine whether a process uses a session");
                }
            }
        }
    }
}
