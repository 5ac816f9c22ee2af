//! The connection of one process: its requests, its sessions, and how it comes back.
//!
//! A forked child inherits its parent's memory but must not use its parent's connection, so every
//! process has a [`Process`] of its own, made at first use. Its sessions follow one another when
//! the daemon comes back without what it knew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
use plasmon_shm::socket::Connection;

use crate::answer::Answer;
use crate::calls::{Broken, Calls, Mending, Step};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::handshake::{Caller, Failed, Patience, connect_within};
use crate::ids::Ids;
use crate::interrupt;
use crate::options::ConnectOptions;
use crate::requests::Requests;
use crate::scopes::Scopes;
use crate::session::Session;

const RECONNECTING: &str = "reconnecting to the store";

/// The longest that a thread sleeps on shared memory before it makes sure that the daemon still
/// lives.
pub(crate) const ALIVE: Duration = Duration::from_millis(100);

/// Threads beyond this add nothing to a copy on machines of today.
const COPY_THREADS_MAX: usize = 6;

/// The same where the caller says how many: more are not started.
const COPY_THREADS_GIVEN_MAX: usize = 64;

/// Connections that one daemon ended at once, one after the other, without any answer: after the
/// first number the session is not resumed any more, after the second the client gives up.
const RESUMES_MAX: u32 = 3;
const FRUITLESS_MAX: u32 = 6;

/// The same for daemons that ended at once: something else may have killed them.
const DAEMONS_RESUMED_MAX: u32 = 16;
const DAEMONS_MAX: u32 = 32;

/// How often a daemon that is at work on a request may prove that it lives before the request has
/// taken too long all the same.
const PROOFS_MAX: u32 = 60;

/// The connection of one process.
#[derive(Debug)]
pub(crate) struct Process {
    /// The fork generation that this belongs to.
    fork: u64,
    socket: PathBuf,
    /// The daemon's user.
    owner: u32,
    options: ConnectOptions,
    calls: Calls,
    sessions: Chain<Arc<Session>>,
    /// Whether the last connection was a good one: only then is it worth waiting for another.
    patient: AtomicBool,
    closing: AtomicBool,
    /// Whether this client went on in another store, and no caller was told of that yet.
    untold: AtomicBool,
    serving: AtomicBool,
    /// Whether a thread unmaps what is gone.
    pub(crate) housekeeping: AtomicBool,
    copy_threads: usize,
    /// For the threads in the background.
    pub(crate) me: Weak<Self>,
    ids: Mutex<Ids>,
    /// Namespaces that this process has adopted, with their limits.
    adopted: Mutex<BTreeMap<String, u64>>,
    pub(crate) scopes: Mutex<Scopes>,
}

impl Process {
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
        let patience = Patience { until: Deadline::after(timeout), own: Deadline::NEVER };
        let welcomed =
            connect_within(caller, patience, &mut || None, &|| true).map_err(Failed::into_error)?;
        let session = Session::new(welcomed.welcome, welcomed.fds)?;
        Ok(Arc::new_cyclic(|me| Self {
            fork,
            socket: socket.to_owned(),
            owner: welcomed.owner,
            copy_threads: copy_threads(options.copy_threads),
            options,
            calls: Calls::new(welcomed.connection),
            sessions: Chain::new(Arc::new(session)),
            patient: AtomicBool::new(true),
            closing: AtomicBool::new(false),
            untold: AtomicBool::new(false),
            serving: AtomicBool::new(false),
            housekeeping: AtomicBool::new(false),
            me: Weak::clone(me),
            ids: Mutex::new(Ids::new()),
            adopted: Mutex::new(BTreeMap::new()),
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

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Whether every object is placed by the daemon and a release counts as use.
    pub(crate) fn is_exact(&self) -> bool {
        self.options.exact
    }

    /// How many threads copy a large object.
    pub(crate) fn copy_threads(&self) -> usize {
        self.copy_threads
    }

    /// The newest session.
    #[inline]
    pub(crate) fn session(&self) -> &Arc<Session> {
        self.sessions.newest()
    }

    /// All sessions, the oldest first.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.iter()
    }

    /// A unique id.
    pub(crate) fn new_id(&self) -> ObjectId {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).next()
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
        if self.untold.load(Ordering::Relaxed) && self.untold.swap(false, Ordering::Relaxed) {
            return Err(self.another_store());
        }
        self.calls.begin(doing, request, None)
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
            self.calls.begin("checking whether the daemon is running", Request::Sync, None)?;
        let deadline = Deadline::after(self.options.request_timeout);
        let answered = self.collect_by(&[number], deadline)?.is_some();
        if !answered {
            self.abandon_request(number);
        }
        Ok(answered)
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
            match self.calls.step(numbers, deadline)? {
                Step::Answered(position, Ok(answer)) => return Ok(Some((position, answer))),
                Step::Answered(_, Err(error)) => {
                    self.untold.store(false, Ordering::Relaxed);
                    return Err(error);
                }
                Step::Broken(link) => self.mend(link, deadline)?,
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
        if self.calls.take_back(change)
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
        self.calls.begin("waiting for objects", request, Some(signal))
    }

    /// Makes sure that the socket is read and written when no caller does.
    fn serve_in_background(&self) -> Result<()> {
        if !edge::may_serve_in_background() || self.serving.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let process = Weak::clone(&self.me);
        let serve = move || {
            // Held while serving; the store's last handle closes the calls, which ends the loop.
            if let Some(process) = process.upgrade() {
                while let Some(link) = process.calls.serve() {
                    // Without a deadline, and with nobody to interrupt it, this has no error.
                    let _ = process.mend(link, Deadline::NEVER);
                }
            }
        };
        let spawned = thread::Builder::new().name("plasmon-waits".to_owned()).spawn(serve);
        spawned.map(drop).map_err(|error| {
            self.serving.store(false, Ordering::Release);
            Error::io("starting a thread for waits", error)
        })
    }

    /// Sleeps until the daemon has applied the submission at this position, and makes sure that
    /// there is a daemon. An error means that the submission is lost.
    pub(crate) fn await_applied(&self, session: &Session, position: u64) -> Result<()> {
        const APPLYING: &str = "waiting for the daemon to apply a submission";
        let Some(channel) = session.channel() else {
            return Ok(());
        };
        let channel = channel.reader.channel();
        loop {
            match channel.wait_applied(position, Deadline::after(ALIVE).instant()) {
                Ok(true) => return Ok(()),
                Ok(false) => interrupt::check(APPLYING)?,
                Err(error) => return Err(Error::io(APPLYING, error)),
            }
            if !self.is_current(session) {
                return Err(Error::new(Code::Disconnected, APPLYING)
                    .with_detail("the daemon restarted and does not know of earlier submissions"));
            }
            // Answered only by a daemon that lives, and only behind everything submitted before.
            self.ask(APPLYING, Request::Sync)?;
        }
    }

    /// Mends the connection with this number, or waits while another thread does. An error: the
    /// caller was interrupted. When its time has passed, another thread goes on.
    fn mend(&self, link: u64, deadline: Deadline) -> Result<()> {
        let Mending::Mine(broken) = self.calls.claim_mending(link, deadline)? else {
            return Ok(());
        };
        match self.reconnect(link, broken, deadline) {
            Ok(renewed) => {
                self.patient.store(true, Ordering::Relaxed);
                if renewed.is_another_store {
                    // What was asked was asked about objects that are no more.
                    self.untold.store(true, Ordering::Relaxed);
                    self.calls.fail_all(&|| self.another_store());
                }
                self.calls.relink(renewed.connection, renewed.epoch);
                for id in self.session().go_on() {
                    self.take_back(|requests| requests.abort(id));
                }
                self.adopt_again();
                self.name_scopes_again();
            }
            Err(Failed::Ended(error)) => {
                self.calls.leave_mending();
                return if deadline.is_past() { Ok(()) } else { Err(error) };
            }
            Err(failed) => {
                let error = failed.into_error();
                // Whoever asks later tries once, so that a store that comes back is found.
                self.patient.store(false, Ordering::Relaxed);
                tracing::warn!(%error, "the daemon did not come back");
                self.calls.give_up(&|| {
                    Error::new(error.code(), RECONNECTING).with_detail(error.detail())
                });
            }
        }
        Ok(())
    }

    /// Becomes the parent of a namespace, and stays it when the daemon is restarted.
    pub(crate) fn adopt(&self, namespace: &str, bytes_max: u64) -> Result<()> {
        let request = Request::Adopt { namespace: namespace.to_owned(), bytes_max };
        self.command("adopting a namespace", request)?;
        self.adopted().insert(namespace.to_owned(), bytes_max);
        Ok(())
    }

    /// Tells a daemon that may be another one which namespaces are this process's. It reads that
    /// before the end of this connection, so there is no need to wait for the answers.
    fn adopt_again(&self) {
        for (namespace, bytes_max) in self.adopted().iter() {
            let (namespace, bytes_max) = (namespace.clone(), *bytes_max);
            self.take_back(|requests| requests.tell(Request::Adopt { namespace, bytes_max }));
        }
    }

    fn adopted(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every question is answered with that was under way when its store had ended and another
    /// one had taken the socket.
    pub(crate) fn another_store(&self) -> Error {
        Error::new(Code::Disconnected, RECONNECTING).with_detail(another_store(&self.socket))
    }

    /// Replaces the connection with this number by a new one.
    fn reconnect(&self, link: u64, broken: Broken, own: Deadline) -> Result<Renewed, Failed> {
        let Broken { fruitless, since } = broken;
        let patient = self.patient.load(Ordering::Relaxed);
        let until = if patient { self.options.reconnect_timeout } else { Duration::ZERO };
        let patience = Patience { until: Deadline::from(Some(since)).later(until), own };
        let caller = Caller::new(&self.socket, &self.options);
        // The entry itself and no copy: a new session is appended after this very one.
        let session = self.session();
        let wanted = || !self.closing.load(Ordering::Relaxed) && self.is_ours();
        if fruitless.of_daemon >= FRUITLESS_MAX || fruitless.daemons >= DAEMONS_MAX {
            return Err(Failed::ForGood(
                Error::new(Code::Disconnected, RECONNECTING)
                    .with_detail("the daemon closed several connections of this client in a row"),
            ));
        }
        // A session that the daemon ends again and again is better left behind, once: what is lent
        // to it stays its own until this process ends.
        let is_left =
            fruitless.of_daemon == RESUMES_MAX || fruitless.daemons == DAEMONS_RESUMED_MAX;
        let resume = || if is_left { None } else { session.resume(link + 1) };
        let welcomed = connect_within(caller, patience, &mut { resume }, &wanted)?;
        let epoch = welcomed.welcome.epoch;
        if welcomed.welcome.resumed {
            let lost = &welcomed.welcome.lost;
            session.resumed(welcomed.fds, lost).map_err(Failed::ForGood)?;
            tracing::info!(epoch, "resumed with the daemon");
            let connection = welcomed.connection;
            return Ok(Renewed { connection, epoch, is_another_store: false });
        }
        let is_another_store = welcomed.welcome.store != session.welcome.store;
        let fresh = Session::new(welcomed.welcome, welcomed.fds).map_err(Failed::ForGood)?;
        session.end();
        let lost = session.unapplied();
        if lost > 0 && is_another_store {
            fresh.writing().verdicts.lose_with_store(lost, another_store(&self.socket));
        } else if lost > 0 {
            fresh.writing().verdicts.lose(lost);
        }
        if is_another_store {
            tracing::warn!(lost, "the store has ended, and another store serves its socket");
        } else {
            tracing::warn!(
                lost,
                "reconnected with a new session: the daemon did not know this client"
            );
        }
        let left = Arc::clone(session);
        self.sessions.append_after(session, Arc::new(fresh));
        left.wake_housekeeping();
        Ok(Renewed { connection: welcomed.connection, epoch, is_another_store })
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        if !self.is_ours() || self.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        // What is still lent to this client after that stays its own until the process has let
        // the session go.
        self.session().return_leases();
        self.calls.close();
    }
}

#[cold]
fn disconnected() -> Error {
    Error::new(Code::Disconnected, "calling the store")
        .with_detail("this client has disconnected: connect again")
}

/// A connection in place of a broken one.
struct Renewed {
    connection: Connection,
    epoch: u64,
    /// Whether the store has ended, and this is another one.
    is_another_store: bool,
}

/// The message to a user whose store was replaced.
fn another_store(socket: &Path) -> String {
    format!(
        "the store that this client was connected to has ended and its objects are lost; \
         another store now serves {}, and this client is connected to it: put the objects again \
         that are still needed",
        socket.display()
    )
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

fn copy_threads(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(default_copy_threads).clamp(1, COPY_THREADS_GIVEN_MAX)
}

/// The number of cores that this process may use, but no more than memory can feed.
fn default_copy_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(COPY_THREADS_MAX)
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_ours() {
            // Nothing is left that reads or writes, or this would be alive.
            self.sessions.iter().for_each(|session| session.leave());
        }
        self.close();
        if self.is_ours() {
            self.session().wake_housekeeping();
        }
    }
}
