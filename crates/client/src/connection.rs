//! The connection of one process: its requests, its sessions, and how it comes back.
//!
//! Its sessions follow one another when the daemon comes back without what it knew.

mod reconnect;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use plasmon_proto::limits::CLIENT_NAME_BYTES_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::request::Cost;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::eventfd::Doorbell;
use plasmon_shm::fork;

use crate::adoptions::Adoptions;
use crate::answer::Answer;
use crate::append_only_list::AppendOnlyList;
use crate::error::{Error, Result};
use crate::handshake::{Caller, HandshakeError, Timeouts, connect_within};
use crate::options::ConnectOptions;
use crate::requests::Requests;
use crate::rpc::{Rpc, Step};
use crate::scopes::Scopes;
use crate::session::Session;

/// The longest that a thread sleeps on shared memory before it makes sure that the daemon still
/// lives.
pub(crate) const ALIVE: Duration = Duration::from_millis(100);

/// How often a daemon that is at work on a request may prove that it lives before the request has
/// taken too long all the same.
const PROOFS_MAX: u32 = 60;

/// The connection of one process.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The fork generation that this belongs to.
    fork: u64,
    socket: PathBuf,
    /// The daemon's user.
    owner: u32,
    options: ConnectOptions,
    rpc: Rpc,
    sessions: AppendOnlyList<Arc<Session>>,
    /// Whether a broken connection is waited for: the last attempt to reconnect succeeded.
    waits_for_daemon: AtomicBool,
    closing: AtomicBool,
    /// Whether this client went on in another store, which no error has reported yet.
    store_change_unreported: AtomicBool,
    /// Whether a thread reads and writes the socket when no caller does.
    background_thread_runs: AtomicBool,
    /// Whether a thread unmaps what is gone.
    pub(crate) idle_thread: AtomicBool,
    /// For the threads in the background.
    pub(crate) me: Weak<Self>,
    adoptions: Adoptions,
    pub(crate) scopes: Mutex<Scopes>,
}

impl Connection {
    /// Connects.
    pub(crate) fn connect(
        socket: &Path,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<Arc<Self>> {
        const CONNECTING: &str = "connecting to the store";
        let fork = fork::watch().map_err(|error| Error::io(CONNECTING, error))?;
        let mut options = options.clone();
        if options.name.is_empty() {
            options.name = program_name();
        }
        let caller = Caller::new(socket, &options);
        let timeouts = Timeouts { until: Deadline::after(timeout), own: Deadline::NEVER };
        let welcomed = connect_within(caller, timeouts, &mut || None, &|| true)
            .map_err(HandshakeError::into_error)?;
        let session = Session::new(welcomed.welcome, welcomed.fds)?;
        Ok(Arc::new_cyclic(|me| Self {
            fork,
            socket: socket.to_owned(),
            owner: welcomed.owner,
            options,
            rpc: Rpc::new(welcomed.connection),
            sessions: AppendOnlyList::new(Arc::new(session)),
            waits_for_daemon: AtomicBool::new(true),
            closing: AtomicBool::new(false),
            store_change_unreported: AtomicBool::new(false),
            background_thread_runs: AtomicBool::new(false),
            idle_thread: AtomicBool::new(false),
            me: Weak::clone(me),
            adoptions: Adoptions::default(),
            scopes: Mutex::default(),
        }))
    }

    /// Whether this process made it, and not one that it was forked from.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        self.fork == fork::generation()
    }

    /// An error in a process that was forked from the one that made this.
    pub(crate) fn check_ours(&self, doing: &'static str, id: ObjectId) -> Result<()> {
        if self.is_ours() { Ok(()) } else { Err(Error::new(Code::Forked, doing).with_id(id)) }
    }

    /// An error once this client has disconnected itself. What it holds by then stays readable;
    /// what is not held is not looked for any more, also not where it could be found.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        // A call that runs while another thread disconnects may come before or after that.
        if self.closing.load(Ordering::Relaxed) { Err(disconnected()) } else { Ok(()) }
    }

    /// The fork generation of the process that made it.
    pub(crate) fn fork(&self) -> u64 {
        self.fork
    }

    /// The daemon's user. A daemon that takes over is the same one's.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    pub(crate) fn rpc(&self) -> &Rpc {
        &self.rpc
    }

    /// Whether every object is placed by the daemon and a release counts as use.
    pub(crate) fn is_exact(&self) -> bool {
        self.options.exact
    }

    /// The newest session.
    #[inline]
    pub(crate) fn session(&self) -> &Arc<Session> {
        self.sessions.newest()
    }

    /// Whether this is the newest session: an earlier one belongs to a daemon that is gone.
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        std::ptr::eq(&raw const **self.session(), session)
    }

    /// All sessions, the oldest first.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.iter()
    }

    /// Asks and waits for the answer, however often the connection breaks in between. A failure
    /// that the daemon reports is an error.
    pub(crate) fn ask(&self, doing: &'static str, request: Request) -> Result<Answer> {
        let answer = self.ask_again(doing, request)?;
        match answer.reply {
            Reply::Failed(failure) => Err(Error::of_failure(doing, failure)),
            _ => Ok(answer),
        }
    }

    /// Like [`Self::ask`], but gives a failure as it is.
    pub(crate) fn ask_again(&self, doing: &'static str, request: Request) -> Result<Answer> {
        let takes_time = request.cost() > Cost::Light;
        let number = self.begin(doing, request)?;
        self.answer(doing, number, takes_time)
    }

    /// Sends a request of a caller; an error if this client has moved to another store meanwhile.
    pub(crate) fn begin(&self, doing: &'static str, request: Request) -> Result<u64> {
        if self.store_change_unreported.load(Ordering::Relaxed)
            && self.store_change_unreported.swap(false, Ordering::Relaxed)
        {
            return Err(self.another_store());
        }
        self.rpc.begin(doing, request, None)
    }

    /// The answer to a request. A daemon that leaves it unanswered for too long must prove that it
    /// lives, if the request may take it time.
    pub(crate) fn answer(
        &self,
        doing: &'static str,
        number: u64,
        takes_time: bool,
    ) -> Result<Answer> {
        let mut proofs = 0;
        loop {
            let deadline = Deadline::after(self.options.request_timeout);
            if let Some((_, answer)) = self.collect_by(&[number], deadline)? {
                return Ok(answer);
            }
            if !takes_time || proofs == PROOFS_MAX || !self.lives()? {
                self.abandon_request(number);
                return Err(self.unanswered(doing));
            }
            proofs += 1;
        }
    }

    /// Whether the daemon answers a question that takes it no time.
    fn lives(&self) -> Result<bool> {
        let number =
            self.rpc.begin("checking whether the daemon is running", Request::Sync, None)?;
        let deadline = Deadline::after(self.options.request_timeout);
        let answered = self.collect_by(&[number], deadline)?.is_some();
        if !answered {
            self.abandon_request(number);
        }
        Ok(answered)
    }

    /// The socket of the store.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    fn unanswered(&self, doing: &'static str) -> Error {
        Error::new(Code::TimedOut, doing).with_detail(format!(
            "the daemon on {} did not answer within {:?}: it is stopped or overloaded (see its \
             log), or needs a longer request_timeout",
            self.socket.display(),
            self.options.request_timeout
        ))
    }

    /// Waits for the answer to one of several requests; all are abandoned when this fails.
    pub(crate) fn collect(&self, numbers: &[u64], deadline: Deadline) -> Result<(usize, Answer)> {
        if let Some(found) = self.collect_by(numbers, deadline)? {
            return Ok(found);
        }
        numbers.iter().for_each(|number| self.abandon_request(*number));
        Err(Error::new(Code::TimedOut, "waiting for the daemon")
            .with_detail("it did not answer in time: it is stopped or overloaded"))
    }

    /// The same, but leaves the requests as they are when the time has passed.
    fn collect_by(&self, numbers: &[u64], deadline: Deadline) -> Result<Option<(usize, Answer)>> {
        let collected = self.try_collect(numbers, deadline);
        if collected.is_err() {
            numbers.iter().for_each(|number| self.abandon_request(*number));
        }
        collected
    }

    fn try_collect(&self, numbers: &[u64], deadline: Deadline) -> Result<Option<(usize, Answer)>> {
        loop {
            match self.rpc.step(numbers, deadline)? {
                Step::Answered(position, Ok(answer)) => return Ok(Some((position, answer))),
                Step::Answered(_, Err(error)) => {
                    self.store_change_unreported.store(false, Ordering::Relaxed);
                    return Err(error);
                }
                Step::Broken(link) => self.restore_connection(link, deadline)?,
                Step::TimedOut => return Ok(None),
            }
        }
    }

    /// The answer to a request is wanted no more; what the daemon gives with it is given back.
    pub(crate) fn abandon_request(&self, number: u64) {
        self.take_back(|requests| requests.abandon(number));
    }

    /// Takes something back without waiting for anything.
    pub(crate) fn take_back(&self, change: impl FnOnce(&mut Requests)) {
        if self.rpc.take_back(change)
            && let Err(error) = self.serve_in_background()
        {
            // The next request sends it.
            tracing::warn!(%error, "cannot tell the daemon now that something is free; the next \
                                    request does");
        }
    }

    /// Asks without waiting; the signal rings when the answer is there.
    pub(crate) fn ask_later(&self, request: Request, signal: Arc<Doorbell>) -> Result<u64> {
        self.serve_in_background()?;
        self.rpc.begin("waiting for objects", request, Some(signal))
    }

    /// Makes sure that the socket is read and written when no caller does.
    fn serve_in_background(&self) -> Result<()> {
        if !edge::may_serve_in_background()
            || self.background_thread_runs.swap(true, Ordering::AcqRel)
        {
            return Ok(());
        }
        let connection = Weak::clone(&self.me);
        let serve = move || {
            // Held while serving; the store's last handle closes the calls, which ends the loop.
            if let Some(connection) = connection.upgrade() {
                while let Some(link) = connection.rpc.serve() {
                    // Without a deadline, and without an interrupt check, this has no error.
                    let _ = connection.restore_connection(link, Deadline::NEVER);
                }
            }
        };
        let spawned = thread::Builder::new().name("plasmon-waits".to_owned()).spawn(serve);
        spawned.map(drop).map_err(|error| {
            self.background_thread_runs.store(false, Ordering::Release);
            Error::io("starting a thread for waits", error)
        })
    }

    /// Becomes the parent of a namespace, and stays it when the daemon is restarted.
    pub(crate) fn adopt(&self, namespace: &str, bytes_max: u64) -> Result<()> {
        let request = Request::Adopt { namespace: namespace.to_owned(), bytes_max };
        self.command("adopting a namespace", request)?;
        self.adoptions.insert(namespace, bytes_max);
        Ok(())
    }

    /// Is not the parent of a namespace any more.
    pub(crate) fn end_adoption(&self, namespace: &str) -> Result<()> {
        self.adoptions.remove(namespace);
        let request = Request::EndAdoption { namespace: namespace.to_owned() };
        self.command("ending the adoption of a namespace", request)
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        if !self.is_ours() || self.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.give_up_scopes();
        for namespace in self.adoptions.take_pooled() {
            let end = Request::EndAdoption { namespace };
            self.take_back(|requests| requests.send_unanswered(end));
        }
        // What is still lent to this client after that stays its own until the process has let
        // the session go.
        self.session().return_leases();
        self.rpc.close();
    }
}

#[cold]
fn disconnected() -> Error {
    Error::new(Code::Disconnected, "calling the store")
        .with_detail("this client has disconnected: connect again")
}

/// What a client is called that did not choose a name.
fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let mut name = name.map_or_else(String::new, |name| name.into_owned());
    let end = (0..=CLIENT_NAME_BYTES_MAX.min(name.len())).rfind(|end| name.is_char_boundary(*end));
    name.truncate(end.unwrap_or(0));
    name
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_ours() {
            // Nothing is left that reads or writes, or this would be alive.
            self.sessions.iter().for_each(|session| session.leave());
        }
        self.close();
        if self.is_ours() {
            self.session().wake_idle_thread();
        }
    }
}
