//! Objects that are there together or not at all: see [`Scope`].

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::Request;
use plasmon_proto::{Code, ObjectId};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::Result;
use crate::interrupt;
use crate::scopes::Scopes;

const ENDING: &str = "ending a scope";

/// Several objects that stay together or not at all.
///
/// Until [`Scope::publish`] the objects of its ids that this process makes are found and read as
/// any others, but they are deleted with the scope: when it is dropped, and when the process ends,
/// however it ends. What other clients make under one of the ids is theirs and stays, and so does
/// what a composite holds.
///
/// The daemon may be restarted meanwhile: the connection names the scope again. If this process
/// dies while no daemon runs, the objects stay.
pub struct Scope {
    connection: Arc<Connection>,
    number: u64,
    is_open: bool,
}

impl Client {
    /// A scope of these ids, which is to be there before the first of its objects is sealed. More
    /// can be added; all scopes of a process have at most
    /// [`SCOPE_IDS_MAX`](plasmon_proto::limits::SCOPE_IDS_MAX).
    pub fn scope(&self, ids: &[ObjectId]) -> Result<Scope> {
        let connection = Arc::clone(self.here()?);
        let number = connection.scopes().begin();
        let scope = Scope { connection, number, is_open: true };
        scope.add(ids)?;
        Ok(scope)
    }
}

impl Scope {
    /// Adds ids.
    pub fn add(&self, ids: &[ObjectId]) -> Result<()> {
        if let Some(id) = ids.first() {
            self.connection.check_ours("adding to a scope", *id)?;
        }
        self.connection.add_to_scope(self.number, ids)
    }

    /// Ends the scope: its objects stay, all of them from the same moment on. After an error it is
    /// as if the scope had been dropped.
    pub fn publish(mut self) -> Result<()> {
        let ended = self.end(true);
        self.is_open = ended.is_err();
        ended
    }

    fn end(&self, publish: bool) -> Result<()> {
        self.connection.end_scope(self.number, publish)
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
            // A caller that was interrupted still waits for this.
            if let Err(error) = interrupt::interruptible(|| false, || self.end(false)) {
                tracing::debug!(%error, "a scope goes with the next connection, or this process");
                self.connection.scopes().give_up(self.number);
            }
        }
    }
}

impl Connection {
    fn add_to_scope(&self, scope: u64, ids: &[ObjectId]) -> Result<()> {
        // Known here first: a connection that breaks meanwhile names them.
        self.scopes().add(scope, ids);
        pieces(ids).into_iter().try_for_each(|ids| {
            self.command("adding to a scope", Request::Scope { scope, ids, again: false })
        })
    }

    fn end_scope(&self, scope: u64, publish: bool) -> Result<()> {
        let end = || self.command(ENDING, Request::EndScope { scope, publish });
        let ended = match end() {
            // A restarted daemon was asked before it was told of the scope, or after it had ended
            // it without being able to say so.
            Err(error) if error.code() == Code::Absent => {
                self.scope_requests(scope).try_for_each(|request| self.command(ENDING, request))?;
                end()
            }
            ended => ended,
        };
        if ended.is_ok() {
            self.scopes().end(scope);
        }
        ended
    }

    /// Tells a daemon that may be another one what is in the scopes of this process.
    pub(crate) fn name_scopes_again(&self) {
        let open = self.scopes().open();
        for (scope, is_given_up) in open {
            let ended = is_given_up.then_some(Request::EndScope { scope, publish: false });
            for request in self.scope_requests(scope).chain(ended) {
                self.take_back(|requests| requests.tell(request));
            }
        }
    }

    fn scope_requests(&self, scope: u64) -> impl Iterator<Item = Request> + use<> {
        let ids = pieces(self.scopes().ids(scope));
        ids.into_iter().map(move |ids| Request::Scope { scope, ids, again: true })
    }

    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ids of each request; without ids there is one as well, which makes the scope.
fn pieces(ids: &[ObjectId]) -> Vec<Vec<ObjectId>> {
    match ids.is_empty() {
        true => vec![Vec::new()],
        false => ids.chunks(REQUEST_IDS_MAX).map(<[ObjectId]>::to_vec).collect(),
    }
}
