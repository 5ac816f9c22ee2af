//! Scopes in Python: objects that stay together or not at all.
//!
//! ```text
//! open ── publish() ───────────────────────► published: the objects stay
//!   └──── abort(), an error, collected ────► aborted: they are deleted
//! ```
//!
//! No lock is held during a call of the client: a signal handler that runs meanwhile, or another
//! thread, may use the same scope.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plasmon_client::{Error, ObjectId};
use plasmon_cpython::destructor::in_drop;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::many_ids;
use crate::error::{OrRaise, bad_request};
use crate::interrupt::{ask, call};
use crate::store::Store;

const PUBLISHING: &str = "publishing a scope";

/// Objects of some ids that stay together or not at all; made by Store.scope(). As a context
/// manager it publishes them at the end of the block and deletes them when the block raises.
#[pyclass(frozen, module = "plasmon", name = "Scope", weakref)]
#[derive(Debug)]
pub(crate) struct Scope {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Shared with the calls of `add` that are under way.
    Open(Arc<plasmon_client::Scope>),
    Published,
    /// Given up, or its end is under way on some thread.
    Aborted,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Published => "published",
            Self::Aborted => "aborted",
        }
    }
}

impl Scope {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scope of the client, to be used without the lock.
    fn open(&self, py: Python<'_>, doing: &'static str) -> PyResult<Arc<plasmon_client::Scope>> {
        match &*self.lock() {
            State::Open(scope) => Ok(Arc::clone(scope)),
            ended => Err(has_ended(py, doing, ended)),
        }
    }

    /// Takes the scope out of its state, to publish it: no call of `add` uses it.
    fn take(&self, py: Python<'_>) -> PyResult<plasmon_client::Scope> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Aborted) {
            State::Open(scope) => Arc::try_unwrap(scope).map_err(|scope| {
                *state = State::Open(scope);
                let detail =
                    "a call that adds ids to the scope is under way: publish it after that";
                bad_request(py, PUBLISHING, detail.to_owned())
            }),
            ended => {
                let error = has_ended(py, PUBLISHING, &ended);
                *state = ended;
                Err(error)
            }
        }
    }

    /// Aborts the scope if it is open. An error is what a signal handler raised.
    fn give_up(&self, py: Python<'_>) -> PyResult<Result<(), Error>> {
        let scope = {
            let mut state = self.lock();
            match std::mem::replace(&mut *state, State::Aborted) {
                State::Open(scope) => scope,
                ended => {
                    *state = ended;
                    return Ok(Ok(()));
                }
            }
        };
        call(py, move || end(scope))
    }
}

fn has_ended(py: Python<'_>, doing: &'static str, ended: &State) -> PyErr {
    let detail = match ended {
        State::Published => "the scope is published, and its objects stay: make another one",
        _ => "the scope is aborted, and its objects are deleted: make another one",
    };
    bad_request(py, doing, detail.to_owned())
}

/// The ids and names of arguments, each of which may be an iterable of them.
fn all_ids(given: &Bound<'_, PyTuple>, namespace: &str) -> PyResult<Vec<ObjectId>> {
    let mut ids = Vec::with_capacity(given.len());
    for one in given {
        ids.extend(many_ids(&one, namespace)?);
    }
    Ok(ids)
}

#[pymethods]
impl Scope {
    #[new]
    #[pyo3(signature = (store, *ids, namespace = ""))]
    fn create(
        store: &Bound<'_, Store>,
        ids: &Bound<'_, PyTuple>,
        namespace: &str,
    ) -> PyResult<Self> {
        let ids = all_ids(ids, namespace)?;
        let client = store.get().client();
        let scope = ask(store.py(), || client.scope(&ids))?;
        Ok(Self { state: Mutex::new(State::Open(Arc::new(scope))) })
    }

    /// "open", "published" or "aborted".
    #[getter]
    fn state(&self) -> &'static str {
        self.lock().name()
    }

    /// Adds objects, by id or by name in `namespace`, or iterables of them; call it before they
    /// are put.
    ///
    /// Raises LimitReached, without adding any, when all scopes of this connection would have more
    /// than 8192 ids, and BadRequest, a ValueError, when the scope has ended.
    #[pyo3(signature = (*ids, namespace = ""))]
    fn add(&self, ids: &Bound<'_, PyTuple>, namespace: &str) -> PyResult<()> {
        const ADDING: &str = "adding to a scope";
        let py = ids.py();
        let ids = all_ids(ids, namespace)?;
        let scope = self.open(py, ADDING)?;
        // It may be the last to drop the scope, which asks the daemon.
        ask(py, move || scope.add(&ids))
    }

    /// Ends the scope: its objects stay, all of them from the same moment on.
    ///
    /// After an error of the store the objects are deleted. Raises BadRequest, a ValueError, when
    /// the scope has ended.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        let scope = self.take(py)?;
        let mut outcome = Ok(());
        let called = call(py, || outcome = scope.publish());
        if outcome.is_ok() {
            // Also when a signal handler raised something meanwhile.
            *self.lock() = State::Published;
        }
        called.and_then(|()| outcome.or_raise(py))
    }

    /// Ends the scope: its objects are deleted. A second abort does nothing.
    ///
    /// After an error of the store they are deleted as soon as the daemon is there again, at the
    /// latest when this process ends. Raises BadRequest, a ValueError, when they were published.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        if let published @ State::Published = &*self.lock() {
            return Err(has_ended(py, "aborting a scope", published));
        }
        self.give_up(py)?.or_raise(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        drop(slf.get().open(slf.py(), "entering the block of a scope")?);
        Ok(slf)
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        let failed = raised.get_item(0).is_ok_and(|class| !class.is_none());
        match (self.state(), failed) {
            ("open", false) => self.publish(py).or_else(|error| {
                // What was not published must not stay half made until it is collected.
                drop(self.give_up(py)?);
                Err(error)
            }),
            // What the block raised is told. Without the daemon the objects go later, and a forked
            // child has none.
            ("open", true) => self.give_up(py).map(drop),
            _ => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<plasmon.Scope: {}>", self.state())
    }
}

/// Aborts a scope; where a call of `add` uses it, the end of that call does.
fn end(scope: Arc<plasmon_client::Scope>) -> Result<(), Error> {
    Arc::into_inner(scope).map_or(Ok(()), plasmon_client::Scope::abort)
}

impl Drop for Scope {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Open(scope) = std::mem::replace(state, State::Aborted) {
            in_drop(|py| {
                // It waits for the daemon no longer than a moment, which may do this also later.
                py.detach(|| drop(plasmon_client::interruptible(|| true, || end(scope))));
            });
        }
    }
}
