//! Objects that are there together or not at all: see [`Scope`].

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use plasmon_proto::limits::{REQUEST_IDS_MAX, SCOPE_IDS_MAX};
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::rpc::Step;
use crate::scopes::{Aborted, Scopes};

const ADDING: &str = "adding to a scope";
const PUBLISHING: &str = "publishing a scope";
const ABORTING: &str = "aborting a scope";

/// Several objects that stay together or not at all.
///
/// Until [`Scope::publish`] the objects of its ids that this client makes are found and read as
/// any others, but they are deleted with the scope: when it is aborted or dropped, when the client
/// disconnects, and when the process ends, however it ends. What other clients make under one of
/// the ids is theirs and stays, and so does what a composite holds.
///
/// The daemon may be restarted meanwhile: the connection names the scope again. If this process
/// dies while no daemon runs, the objects stay.
///
/// A scope keeps the connection, as a writer does. In a forked child it can only be dropped, which
/// does nothing to the parent's.
pub struct Scope {
    connection: Arc<Connection>,
    number: u64,
    is_open: bool,
    /// Without a handle of the store the connection would be closed.
    _store: Client,
}

impl Client {
    /// A scope of these ids, which is to be there before the first of its objects is sealed. More
    /// can be added; all scopes of a client have at most [`SCOPE_IDS_MAX`], beyond which this is
    /// [`Code::LimitReached`].
    pub fn scope(&self, ids: &[ObjectId]) -> Result<Scope> {
        let connection = Arc::clone(self.here()?);
        let number = connection.scopes().begin();
        let scope = Scope { connection, number, is_open: true, _store: self.clone() };
        match scope.add(ids) {
            Ok(()) => Ok(scope),
            Err(error) => {
                scope.forget();
                Err(error)
            }
        }
    }
}

impl Scope {
    /// Adds ids. If they are too many ([`Code::LimitReached`]), none of them is added; after
    /// another error some of them may be.
    pub fn add(&self, ids: &[ObjectId]) -> Result<()> {
        self.check_ours(ADDING)?;
        self.connection.add_to_scope(self.number, ids)
    }

    /// Ends the scope: its objects stay, all of them from the same moment on. After an error it is
    /// given up; the objects go as soon as the daemon reads that.
    pub fn publish(self) -> Result<()> {
        self.end(PUBLISHING, true)
    }

    /// Ends the scope: its objects are deleted. After an error they go as soon as the daemon reads
    /// that, or the one after it, at the latest when this process ends.
    pub fn abort(self) -> Result<()> {
        self.end(ABORTING, false)
    }

    fn end(mut self, doing: &'static str, publish: bool) -> Result<()> {
        self.check_ours(doing)?;
        self.is_open = false;
        let ended = self.connection.end_scope(doing, self.number, publish);
        if ended.is_err() {
            self.connection.give_up_scope(self.number);
        }
        ended
    }

    /// Ends a scope that its caller never had, without waiting.
    fn forget(mut self) {
        self.is_open = false;
        if self.connection.is_ours() {
            self.connection.give_up_scope(self.number);
        }
    }

    fn check_ours(&self, doing: &'static str) -> Result<()> {
        match self.connection.is_ours() {
            true => Ok(()),
            false => Err(Error::new(Code::Forked, doing)
                .with_detail("the scope is the parent's: make one in this process")),
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.is_open && self.connection.is_ours() {
            let (connection, number) = (&self.connection, self.number);
            // A caller that was interrupted still waits for this.
            let end = || connection.end_scope(ABORTING, number, false);
            if let Err(error) = interrupt::interruptible(|| false, end) {
                tracing::debug!(%error, "a scope is ended later, or with this process");
                connection.give_up_scope(number);
            }
        }
    }
}

impl Connection {
    fn add_to_scope(&self, scope: u64, ids: &[ObjectId]) -> Result<()> {
        self.forget_ended_scopes();
        // Known here first: a connection that breaks meanwhile names them.
        self.scopes().add(scope, ids).map_err(too_many)?;
        pieces(ids)
            .into_iter()
            .try_for_each(|ids| self.command(ADDING, Request::Scope { scope, ids, again: false }))
    }

    fn end_scope(&self, doing: &'static str, scope: u64, publish: bool) -> Result<()> {
        if !publish && !self.scopes().contains(scope) {
            // The client has disconnected, which ended it.
            return Ok(());
        }
        let end = || self.command(doing, Request::EndScope { scope, publish });
        let ended = match end() {
            // A restarted daemon was asked before it was told of the scope, or after it had ended
            // it without being able to say so.
            Err(error) if error.code() == Code::Absent => {
                let mut named = self.scope_requests(scope, true);
                named.try_for_each(|request| self.command(doing, request))?;
                end()
            }
            ended => ended,
        };
        match (&ended, publish) {
            (Ok(()), true) => self.scopes().publish(scope),
            (Ok(()), false) => self.scopes().end(scope),
            (Err(_), _) => {}
        }
        ended
    }

    /// Gives a scope up without waiting for the daemon, which reads this before what is asked
    /// later. It may have published the scope for a caller that did not get the answer: so the
    /// scope is named once more.
    fn give_up_scope(&self, scope: u64) {
        self.tell_of_scope(scope, false);
        self.ask_to_give_up(scope);
    }

    fn ask_to_give_up(&self, scope: u64) {
        let end = Request::EndScope { scope, publish: false };
        // Once the client has disconnected there is no such scope.
        let request = self.rpc().begin(ABORTING, end, None).ok();
        self.scopes().give_up(scope, request);
    }

    /// Forgets the scopes that were given up and that the daemon has ended by now. One that is
    /// named to a later daemon would take along what was made under its ids since.
    fn forget_ended_scopes(&self) {
        let open = self.scopes().open();
        for (scope, given_up) in open {
            if let Some(Aborted { request: Some(request) }) = given_up
                && self.rpc().look(request)
                && self.has_ended(request)
            {
                self.scopes().end(scope);
            }
        }
    }

    /// Whether the daemon has done what was asked with this number; does not wait.
    fn has_ended(&self, request: u64) -> bool {
        match self.rpc().step(&[request], Deadline::after(Duration::ZERO)) {
            Ok(Step::Answered(_, Ok(answer))) => matches!(answer.reply, Reply::Done),
            _ => false,
        }
    }

    /// Tells a daemon that may be another one what is in the scopes of this process.
    pub(crate) fn name_scopes_again(&self) {
        self.forget_ended_scopes();
        let open = self.scopes().open();
        for (scope, given_up) in open {
            self.tell_of_scope(scope, true);
            if let Some(Aborted { request }) = given_up {
                // It may be sent already, before the daemon was told of the scope.
                request.into_iter().for_each(|request| self.abandon_request(request));
                self.ask_to_give_up(scope);
            }
        }
    }

    /// Ends all scopes of a client that disconnects. The daemon reads that before the end of the
    /// connection.
    pub(crate) fn give_up_scopes(&self) {
        let ended = self.scopes().end_all();
        for scope in ended {
            let end = Request::EndScope { scope, publish: false };
            self.take_back(|requests| requests.send_unanswered(end));
        }
    }

    fn tell_of_scope(&self, scope: u64, again: bool) {
        for request in self.scope_requests(scope, again) {
            self.take_back(|requests| requests.send_unanswered(request));
        }
    }

    fn scope_requests(&self, scope: u64, again: bool) -> impl Iterator<Item = Request> + use<> {
        let ids = pieces(&self.scopes().ids(scope));
        ids.into_iter().map(move |ids| Request::Scope { scope, ids, again })
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many(count: usize) -> Error {
    Error::new(Code::LimitReached, ADDING)
        .with_amounts(count as u64, SCOPE_IDS_MAX as u64)
        .with_detail(format!(
            "all scopes of one client have at most {SCOPE_IDS_MAX} ids: publish or abort one of \
             them first"
        ))
}

/// The ids of each request; without ids there is one as well, which makes the scope.
fn pieces(ids: &[ObjectId]) -> Vec<Vec<ObjectId>> {
    match ids.is_empty() {
        true => vec![Vec::new()],
        false => ids.chunks(REQUEST_IDS_MAX).map(<[ObjectId]>::to_vec).collect(),
    }
}
