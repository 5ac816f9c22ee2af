//! The connection to a store, the base of `plasmon.Store`.
//!
//! The path of a get that finds its object in memory has no Python code and no system call: look
//! the id up, pin, make a [`Buffer`]. Everything that can wait is detached from the interpreter.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use plasmon_client::{Access, Code, Error, Filter, Level, Name, ObjectId, ObjectState, tag};
use plasmon_proto::value::{ValueHeader, array_kind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::arguments::{
    GetOptions, GetTimeout, connect_options, filter, get_timeout, instead, is_one, label, many_ids,
    many_labelled, needed, one_id, put_arguments, put_options, seconds,
};
use crate::buffer::Buffer;
use crate::describe;
use crate::error::{OrRaise, exception, raised};
use crate::event_wait::PendingWait;
use crate::id::Id;
use crate::interrupt::{ask, call};
use crate::near::Near;
use crate::numpy;
use crate::put;
use crate::wait::{Step, wait as wait_in_steps};
use crate::writer::Writer;
use plasmon_python_objects::{self as objects, context::Context};

static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A connection to a store, shared by all threads of a process.
#[pyclass(frozen, subclass, module = "plasmon._native", weakref)]
#[derive(Debug)]
pub(crate) struct Store {
    client: plasmon_client::Client,
    /// Whether only processes that could harm this one anyway can have written what is in it.
    pub(crate) trusted: bool,
    /// How Python objects are written and read, if the user set it.
    context: Mutex<Option<Py<Context>>>,
}

type Outcome = plasmon_client::Result<plasmon_client::Buffer>;

impl Store {
    /// The connection itself.
    pub(crate) fn client(&self) -> &plasmon_client::Client {
        &self.client
    }

    /// Notifications, for [`crate::subscription::Subscription`].
    pub(crate) fn subscribe(
        &self,
        py: Python<'_>,
        filter: &Filter,
    ) -> PyResult<plasmon_client::Subscription> {
        ask(py, || self.client.subscribe(filter))
    }

    fn wrap(&self, buffer: plasmon_client::Buffer) -> Buffer {
        Buffer::new(buffer, self.trusted)
    }

    /// How Python objects are written and read: as the user chose, or by the users that the store
    /// admits.
    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Context>> {
        let chosen = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        match &*chosen {
            Some(context) => Ok(context.bind(py).clone()),
            None if self.trusted => objects::trusting_context(py),
            None => objects::default_context(py),
        }
    }

    /// One object; an error names it as the caller does.
    fn one(
        &self,
        given: &Bound<'_, PyAny>,
        namespace: &str,
        timeout: Option<f64>,
        wait: bool,
    ) -> PyResult<plasmon_client::Buffer> {
        let id = one_id(given, namespace)?;
        if let Some(buffer) = self.client.take_mapped(&id) {
            return Ok(buffer);
        }
        let (py, limit) = (given.py(), get_timeout(timeout, wait)?);
        let found = call(py, || match limit {
            GetTimeout::None => self.client.get_existing(&id),
            GetTimeout::Within(timeout) => self.client.get(&id, timeout),
        })?;
        found.map_err(|error| self.explained(given, namespace, error))
    }

    /// An error about an object, which it names as the caller does. If the object is not there, the
    /// error, when shown, looks up which name may have been meant.
    #[cold]
    fn explained(&self, given: &Bound<'_, PyAny>, namespace: &str, error: Error) -> PyErr {
        let (py, is_absent) = (given.py(), error.code() == Code::Absent);
        let Some(called) = label(given, namespace) else { return raised(py, &error) };
        let raised = raised(py, &error.with_name(called));
        let name = given.extract::<String>().ok().and_then(|it| Name::new(namespace, it).ok());
        if let Some(name) = name.filter(|_| is_absent) {
            let near = Near::new(self.client.downgrade(), name);
            // The error is the same without the hint.
            let _ = Py::new(py, near).and_then(|near| raised.value(py).setattr("_near", near));
        }
        raised
    }

    /// Many objects; an error names each as the caller does.
    fn many(
        &self,
        given: &Bound<'_, PyAny>,
        namespace: &str,
        timeout: Option<f64>,
        wait: bool,
    ) -> PyResult<Vec<Outcome>> {
        let (ids, names) = many_labelled(given, namespace)?;
        let found = self.many_ids(given.py(), &ids, get_timeout(timeout, wait)?)?;
        let named = |(outcome, name): (Outcome, Option<String>)| match name {
            Some(name) => outcome.map_err(|error| error.with_name(name)),
            None => outcome,
        };
        Ok(found.into_iter().zip(names).map(named).collect())
    }

    fn many_ids(
        &self,
        py: Python<'_>,
        ids: &[ObjectId],
        limit: GetTimeout,
    ) -> PyResult<Vec<Outcome>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let timeout = match limit {
            GetTimeout::None => return ask(py, || self.client.get_many_existing(ids)),
            GetTimeout::Within(timeout) => timeout,
        };
        let may_come = |one: &Outcome| {
            let code = one.as_ref().err().map(Error::code);
            matches!(code, Some(Code::TimedOut | Code::Absent | Code::NotSealed))
        };
        // One that will never come ends the wait for the others.
        wait_in_steps(py, timeout, |step| match self.client.get_many(ids, Some(step)) {
            Err(error) if error.code() == Code::TimedOut => Ok(Step::NotYet(Err(error))),
            Err(error) => Err(error),
            Ok(found) => {
                let lost = found.iter().any(|one| one.is_err() && !may_come(one));
                let waits = found.iter().any(may_come) && !lost;
                Ok(if waits { Step::NotYet(Ok(found)) } else { Step::Done(Ok(found)) })
            }
        })?
        .or_raise(py)
    }

    fn value<'py>(
        &self,
        py: Python<'py>,
        buffer: plasmon_client::Buffer,
        wanted: Option<&Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if wanted.is_none() && buffer.tag() == tag::RAW {
            return Ok(PyBytes::new(py, buffer.data()).into_any());
        }
        let is_python = buffer.tag() == tag::PYTHON;
        let buffer = Bound::new(py, self.wrap(buffer))?;
        if is_python {
            let other = wanted.map(|wanted| wanted.to_str()).transpose()?;
            if !matches!(other, Some("bytes" | "memoryview")) {
                let value = objects::load(&self.objects(py)?, buffer.as_any())?;
                let Some(wanted) = wanted else { return Ok(value) };
                let values = py.import("plasmon._codecs")?;
                return values.call_method1("convert", (buffer, value, wanted));
            }
        }
        let kind = buffer.get().with(|buffer| {
            ValueHeader::of_object(buffer.tag(), buffer.metadata())
                .map(|(header, _)| (buffer.tag(), header.kind))
        })?;
        if wanted.is_none() && kind == Some((tag::NDARRAY, array_kind::NUMPY)) {
            return numpy::array(&buffer);
        }
        let decode = DECODE.get_or_try_init(py, || {
            PyResult::Ok(py.import("plasmon._codecs")?.getattr("decode")?.unbind())
        })?;
        decode.bind(py).call1((buffer, wanted))
    }
}

/// The stable names of states.
fn keys(states: Vec<ObjectState>) -> Vec<&'static str> {
    states.into_iter().map(ObjectState::key).collect()
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (**options))]
    fn create(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (connect, start) = connect_options(options)?;
        let client = ask(py, || match &start {
            Some(start) => plasmon_client::Client::connect_or_start(&connect, start),
            None => plasmon_client::Client::connect(&connect),
        })?;
        // Another user's daemon could send any claims about its store.
        let trusted = client.level() == Level::Shared && client.is_own();
        Ok(Self { client, trusted, context: Mutex::default() })
    }

    /// Those of the objects that can be read without asking the daemon anything, None for the
    /// others: never waits.
    #[pyo3(name = "_mapped")]
    fn mapped(&self, ids: Vec<PyRef<'_, Id>>) -> Vec<Option<Buffer>> {
        let take = |id: PyRef<'_, Id>| self.client.take_mapped(&id.id());
        ids.into_iter().map(|id| take(id).map(|buffer| self.wrap(buffer))).collect()
    }

    /// Those of the objects that are sealed and in memory, None for the others. Does not wait for
    /// objects, only for the daemon.
    #[pyo3(name = "_in_memory")]
    fn in_memory(&self, py: Python<'_>, ids: Vec<PyRef<'_, Id>>) -> PyResult<Vec<Option<Buffer>>> {
        let ids: Vec<ObjectId> = ids.iter().map(|id| id.id()).collect();
        let found = ask(py, || self.client.take_in_memory(&ids))?;
        Ok(found.into_iter().map(|found| found.map(|buffer| self.wrap(buffer))).collect())
    }

    /// Raises if the daemon refused one of the objects after its put had returned.
    #[pyo3(name = "_check_refused")]
    fn check_refused(&self, py: Python<'_>, ids: Vec<PyRef<'_, Id>>) -> PyResult<()> {
        ids.iter().try_for_each(|id| self.client.check_refused(&id.id())).or_raise(py)
    }

    /// The value of an object that is pinned.
    #[pyo3(name = "_value_of", signature = (buffer, as_ = None))]
    fn value_of<'py>(
        &self,
        buffer: &Bound<'py, Buffer>,
        as_: Option<&Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = buffer.py();
        self.value(py, buffer.get().with(Clone::clone)?, as_)
    }

    /// The ids that these ids and names are.
    #[pyo3(name = "_ids_of", signature = (ids, *, namespace = ""))]
    fn ids_of(&self, ids: &Bound<'_, PyAny>, namespace: &str) -> PyResult<Vec<Id>> {
        Ok(many_ids(ids, namespace)?.into_iter().map(Id::new).collect())
    }

    /// Why an object in this state cannot be had, as an exception; `late` when its time has passed.
    #[pyo3(name = "_reason", signature = (id, state, late, name = None))]
    fn reason<'py>(
        &self,
        py: Python<'py>,
        id: PyRef<'py, Id>,
        state: &str,
        late: bool,
        name: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let state = ObjectState::ALL
            .iter()
            .find(|known| known.key() == state)
            .ok_or_else(|| PyValueError::new_err(format!("there is no state \"{state}\"")))?;
        let error = plasmon_client::Client::reason(id.id(), *state, late);
        exception(py, &if let Some(name) = name { error.with_name(name) } else { error })
    }

    /// How many seconds the daemon may leave a request unanswered.
    #[getter]
    fn request_timeout(&self) -> f64 {
        self.client.request_timeout().as_secs_f64()
    }

    /// The path of the store's socket.
    #[getter]
    fn socket(&self) -> PathBuf {
        self.client.socket().to_owned()
    }

    /// How many bytes of objects the store holds.
    #[getter]
    fn capacity(&self) -> u64 {
        self.client.capacity_bytes()
    }

    /// How sealed objects are protected against their writer: "shared", "leased" or "strict".
    #[getter]
    fn level(&self) -> &'static str {
        describe::level(self.client.level())
    }

    /// How Python objects are written and read: a SerializationContext.
    ///
    /// By default, a store that only this user's processes can write (level "shared") is trusted
    /// like them: plasmon.objects.trusting_context, with pickle. Any other store gets
    /// plasmon.objects.default_context, without. Set it to choose; None restores the default.
    #[getter]
    fn context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Context>> {
        self.objects(py)
    }

    #[setter]
    fn set_context(&self, context: Option<Py<Context>>) {
        *self.context.lock().unwrap_or_else(PoisonError::into_inner) = context;
    }

    /// Whether this client may write.
    #[getter]
    fn writable(&self) -> bool {
        self.client.access() == Access::ReadWrite
    }

    /// A new unique id.
    fn new_id(&self) -> Id {
        Id::new(self.client.new_id())
    }

    /// Copies a value into a new object and returns its id.
    ///
    /// Takes bytes, NumPy arrays, pyarrow, pandas and polars data, anything with the buffer
    /// protocol or the Arrow PyCapsule interface, and any Python object that plasmon.serialize
    /// takes; get() returns it in its original type. One copy.
    ///
    /// `id` or `name` (a string, in `namespace`) choose the id; without either it is new and the
    /// call does not wait for the store to accept the object: a refusal is raised by flush() or by
    /// a get of the id. `metadata` is additional bytes of the caller. `policy` is "keep" (never
    /// dropped silently) or "cache" (evicted when memory is short). `ttl` is the object's time to
    /// live in seconds. `members` are objects that live at least as long as this one; with `owned`
    /// the object is deleted with the last composite that holds it. `strict` asks the kernel to
    /// refuse every later write. `replace` replaces an object that has this id or name, in one
    /// step: a reader finds either the old or the new object, and keeps the old one while it reads
    /// it; until then both take memory. `tag` says what bytes hold, for bytes only
    /// (docs/formats/values.md). `as_="arrow"` stores a data frame as an Arrow table even if that
    /// does not give back the very same frame.
    ///
    /// An object whose name begins with @, such as "@prod:sales", belongs to the pool of this
    /// store. `copies` says how many nodes of the pool keep it (1 to 8, default 2), and
    /// `copies_min` with how many it is accepted where there are no more nodes (1 to `copies`,
    /// default half of it, rounded up); put() returns when they have it. `placement` says where:
    /// with "local" this node has the first copy, with "spread" all are on other nodes, and this
    /// node may evict its own once they have theirs. `storage` is "memory", or "cache" for an
    /// object with one copy, on this node, which may be evicted: then it ends on all nodes. An
    /// object of a pool has no `ttl` and is not replaced; its `members` are objects of the pool
    /// without names, which it has accepted and which are here, and they are not kept for it; with
    /// `owns_members` they are deleted when it is.
    ///
    /// With `durable` the object outlives a loss of power: it is in the log of the store, in the
    /// folder that the store was started with (`durable_dir`), when put() returns, and is there
    /// again with the next store that has the folder. Its memory may be given to others; get()
    /// brings it back. Its `members` are durable, too. It is not `owned`, and not made in a scope.
    /// Without such a folder put() raises Unsupported, and StoreFull when the folder has no room.
    /// Of an object of a pool each of the `copies` is in the log of its node when put() returns;
    /// with fewer than `copies_min` nodes that have such a folder it raises NotEnoughNodes. Such an
    /// object has no `members`.
    ///
    /// With `pool` an object without a name belongs to the pool, too: other nodes get it by its id.
    /// One node keeps it unless `copies` says more. It is seen at once, and put() does not wait for
    /// the pool to accept it, which settle() does. With `copies` above 1, or `ack="copies"`, put()
    /// waits; `ack="local"` never does.
    ///
    /// Raises Exists, InUse (when a composite holds the object to be replaced), StoreFull,
    /// QuotaExceeded, TooLarge, and TypeError for a value that cannot be written. For an object of
    /// a pool also Unsupported (the store belongs to no pool), NotEnoughNodes and Unreachable;
    /// `copies`, `ack` and `placement="spread"` for any other object raise BadRequest.
    #[pyo3(
        signature = (value, **options),
        text_signature = "($self, value, *, id=None, name=None, namespace='', metadata=b'', \
                          policy='keep', ttl=None, members=None, owned=False, owns_members=False, \
                          strict=False, tag=0, replace=False, copies=None, copies_min=None, \
                          pool=False, ack=None, placement='local', storage=None, \
                          durable=False, as_=None)"
    )]
    fn put(&self, value: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Id> {
        let context = self.objects(value.py())?;
        let (options, form) = put_arguments(options)?;
        put::put(&self.client, value, options, form.as_ref(), &context)
    }

    /// Reserves an object of this many bytes and returns a Writer to fill it in place. Takes the
    /// options of put().
    #[pyo3(
        name = "create",
        signature = (nbytes, **options),
        text_signature = "($self, nbytes, *, id=None, name=None, namespace='', metadata=b'', \
                          policy='keep', ttl=None, members=None, owned=False, owns_members=False, \
                          strict=False, tag=0, replace=False, copies=None, copies_min=None, \
                          pool=False, ack=None, placement='local', storage=None, \
                          durable=False)"
    )]
    fn create_object(
        &self,
        py: Python<'_>,
        nbytes: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Writer> {
        let options = put_options(options)?;
        let writer = ask(py, || self.client.create(nbytes, &options))?;
        Ok(Writer::new(self.client.clone(), writer))
    }

    /// The value of an object, or a list with the values of many, in one call.
    ///
    /// An object that is not there raises Absent, a KeyError, at once. With `timeout` it waits up
    /// to that many seconds for objects that are not sealed yet, with `wait` without a limit.
    /// Arrays, tables and frames lie on the object's memory, read-only, and keep it pinned; bytes
    /// are copied (get_buffer() reads them in place). `as_` asks for another form: "arrow",
    /// "pandas", "polars", "numpy", "bytes" or "memoryview". A `default`, a positional argument as
    /// for dict.get(), is returned for an object that is not there.
    ///
    ///     >>> store.put([1, 2], name="numbers")
    ///     >>> store.get("numbers")
    ///     [1, 2]
    ///     >>> store.get("letters", None) is None
    ///     True
    ///
    /// Raises Absent, NotSealed (while it is being created), TimedOut (after `timeout`), Deleted,
    /// Evicted, CreatorDied, Corrupt.
    #[pyo3(
        signature = (ids, *default, **options),
        text_signature = "($self, ids, *default, namespace='', timeout=None, wait=False, as_=None)"
    )]
    fn get<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, default) = (ids.py(), instead(default)?);
        let GetOptions { namespace, timeout, wait, as_ } = GetOptions::of(options)?;
        let (namespace, as_) = (namespace.as_deref().unwrap_or_default(), as_.as_ref());
        let value = |found: PyResult<plasmon_client::Buffer>| match (found, &default) {
            (Ok(buffer), _) => self.value(py, buffer, as_),
            (Err(error), Some(default)) if is_missing(py, &error) => Ok(default.clone()),
            (Err(error), _) => Err(error),
        };
        if is_one(ids) {
            return value(self.one(ids, namespace, timeout, wait));
        }
        let found = self.many(ids, namespace, timeout, wait)?;
        let values = found.into_iter().map(|one| value(one.or_raise(py)));
        let values: PyResult<Vec<_>> = values.collect();
        Ok(PyList::new(py, values?)?.into_any())
    }

    /// The object itself, of any type, pinned and read in place. Waits only when asked to, like
    /// get().
    #[pyo3(signature = (id, *, namespace = "", timeout = None, wait = false))]
    fn get_buffer(
        &self,
        id: &Bound<'_, PyAny>,
        namespace: &str,
        timeout: Option<f64>,
        wait: bool,
    ) -> PyResult<Buffer> {
        Ok(self.wrap(self.one(id, namespace, timeout, wait)?))
    }

    /// `length` bytes of an object's data from `offset` on (None: all that follow), as they lie in
    /// the store, without waiting for it to be sealed. An object that was spilled is read in its
    /// file and stays there.
    ///
    ///     >>> store.read(store.put(b"0123456789"), 2, 3)
    ///     b'234'
    #[pyo3(signature = (id, offset = 0, length = None, *, namespace = ""))]
    fn read<'py>(
        &self,
        id: &Bound<'py, PyAny>,
        offset: u64,
        length: Option<u64>,
        namespace: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, id) = (id.py(), one_id(id, namespace)?);
        let piece = ask(py, || match length {
            Some(length) => self.client.read_range(&id, offset, length),
            None => self.client.read_from(&id, offset),
        })?;
        Ok(PyBytes::new(py, &piece))
    }

    /// Many objects with one timeout for all of them.
    ///
    /// With errors="return" an object that cannot be had has its exception in its place.
    #[pyo3(signature = (ids, *, namespace = "", timeout = None, wait = false, errors = "raise"))]
    fn get_buffers<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        namespace: &str,
        timeout: Option<f64>,
        wait: bool,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let returns = match errors {
            "raise" => false,
            "return" => true,
            other => {
                let text = format!("errors is \"raise\" or \"return\", found \"{other}\"");
                return Err(PyValueError::new_err(text));
            }
        };
        let py = ids.py();
        let found = self.many(ids, namespace, timeout, wait)?;
        let values = found.into_iter().map(|one| match one {
            Ok(buffer) => Ok(Bound::new(py, self.wrap(buffer))?.into_any()),
            Err(error) if returns => exception(py, &error),
            Err(error) => Err(raised(py, &error)),
        });
        let values: PyResult<Vec<_>> = values.collect();
        PyList::new(py, values?)
    }

    /// Whether the object is sealed, in memory or spilled to a file.
    #[pyo3(signature = (id, *, namespace = ""))]
    fn contains(&self, id: &Bound<'_, PyAny>, namespace: &str) -> PyResult<bool> {
        let (py, id) = (id.py(), one_id(id, namespace)?);
        ask(py, || self.client.contains(&id))
    }

    /// Where objects are in their lives: "absent", "creating", "sealed", "spilled", "evicted",
    /// "deleted", "creator_died" or "corrupt", one for each id.
    #[pyo3(signature = (ids, *, namespace = ""))]
    fn states(&self, ids: &Bound<'_, PyAny>, namespace: &str) -> PyResult<Vec<&'static str>> {
        let (py, ids) = (ids.py(), many_ids(ids, namespace)?);
        ask(py, || self.client.states(&ids)).map(keys)
    }

    /// Waits until `count` of the objects (None: all) are readable or their fate is known, for
    /// `timeout` seconds at most; their states then, also when the time has passed.
    ///
    /// With `beyond_end` it goes on waiting for objects that were deleted or evicted or whose
    /// creator died, because they may be created again.
    #[pyo3(signature = (ids, count = None, timeout = None, *, namespace = "", beyond_end = false))]
    fn wait(
        &self,
        ids: &Bound<'_, PyAny>,
        count: Option<usize>,
        timeout: Option<f64>,
        namespace: &str,
        beyond_end: bool,
    ) -> PyResult<Vec<&'static str>> {
        let (py, ids) = (ids.py(), many_ids(ids, namespace)?);
        let needed = needed(count, ids.len())?;
        if needed == 0 {
            return ask(py, || self.client.states(&ids)).map(keys);
        }
        let timeout = seconds(timeout)?;
        let states = ask(py, || {
            if beyond_end {
                self.client.wait_beyond_end(&ids, needed, timeout)
            } else {
                self.client.wait(&ids, needed, timeout)
            }
        })?;
        Ok(keys(states))
    }

    /// Starts a wait whose descriptor an event loop can watch; see wait_async().
    #[pyo3(
        name = "_start_wait",
        signature = (ids, count = None, timeout = None, *, namespace = "")
    )]
    fn start_wait(
        &self,
        ids: &Bound<'_, PyAny>,
        count: Option<usize>,
        timeout: Option<f64>,
        namespace: &str,
    ) -> PyResult<PendingWait> {
        let (py, ids) = (ids.py(), many_ids(ids, namespace)?);
        let (needed, timeout) = (needed(count, ids.len())?, seconds(timeout)?);
        ask(py, || self.client.start_wait(&ids, needed, timeout)).map(PendingWait::new)
    }

    /// Deletes objects; for each None, or the exception that says why not. See delete().
    #[pyo3(name = "_delete_many", signature = (ids, *, namespace = ""))]
    fn delete_many<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        namespace: &str,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let (py, ids) = (ids.py(), many_ids(ids, namespace)?);
        let outcomes = ask(py, || self.client.delete(&ids))?;
        let outcomes = ids.iter().zip(outcomes).map(|(id, outcome)| {
            outcome.map(|code| exception(py, &Error::of_delete(code, *id))).transpose()
        });
        outcomes.collect()
    }

    /// Deletes objects as soon as no client reads them; until then they stay visible. Returns how
    /// many are or will be deleted. Objects under construction stay.
    #[pyo3(name = "_delete_unused", signature = (ids, *, namespace = ""))]
    fn delete_unused(&self, ids: &Bound<'_, PyAny>, namespace: &str) -> PyResult<usize> {
        let (py, ids) = (ids.py(), many_ids(ids, namespace)?);
        let outcomes = ask(py, || self.client.delete_unused(&ids))?;
        Ok(outcomes.iter().filter(|outcome| outcome.is_none()).count())
    }

    /// Evicts objects with policy "cache", least recently used first, until this many bytes are
    /// free or no such object is left. Returns how many bytes and objects were evicted.
    #[pyo3(signature = (nbytes))]
    fn evict(&self, py: Python<'_>, nbytes: u64) -> PyResult<(u64, u64)> {
        ask(py, || self.client.evict(nbytes))
    }

    /// Marks objects as recently used.
    #[pyo3(signature = (ids, *, namespace = ""))]
    fn touch(&self, ids: &Bound<'_, PyAny>, namespace: &str) -> PyResult<()> {
        let (py, ids) = (ids.py(), many_ids(ids, namespace)?);
        ask(py, || self.client.touch(&ids))
    }

    /// What stat() makes an ObjectInfo of.
    #[pyo3(name = "_stat_fields", signature = (id, *, namespace = ""))]
    fn stat_fields<'py>(
        &self,
        id: &Bound<'py, PyAny>,
        namespace: &str,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (py, id) = (id.py(), one_id(id, namespace)?);
        let found = ask(py, || self.client.stat(&id))?;
        found.map(|info| describe::object(py, info)).transpose()
    }

    /// What list() makes ObjectInfos of.
    #[pyo3(name = "_list_fields", signature = (namespace = None, prefix = None))]
    fn list_fields<'py>(
        &self,
        py: Python<'py>,
        namespace: Option<String>,
        prefix: Option<String>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let filter = filter(namespace, prefix);
        let found = ask(py, || self.client.list(&filter))?;
        found.into_iter().map(|info| describe::object(py, info)).collect()
    }

    /// What status(), clients() and the methods of pool make their answers of.
    #[pyo3(name = "_fields", signature = (what, id = None, namespace = ""))]
    fn fields<'py>(
        &self,
        py: Python<'py>,
        what: &str,
        id: Option<&Bound<'py, PyAny>>,
        namespace: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let id = id.map(|id| one_id(id, namespace)).transpose()?;
        describe::plain(py, &ask(py, || describe::fields(&self.client, what, id))?)
    }

    /// BLAKE3 of the object's data and metadata, 32 bytes, computed once by the store.
    #[pyo3(signature = (id, *, namespace = ""))]
    fn digest<'py>(
        &self,
        id: &Bound<'py, PyAny>,
        namespace: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, id) = (id.py(), one_id(id, namespace)?);
        let digest = ask(py, || self.client.digest(&id))?;
        Ok(PyBytes::new(py, &digest))
    }

    /// Limits the bytes that this client may own; 0 for no limit.
    #[pyo3(signature = (nbytes))]
    fn set_quota(&self, py: Python<'_>, nbytes: u64) -> PyResult<()> {
        ask(py, || self.client.set_quota(nbytes))
    }

    /// Gives this client a share of the memory, once: its objects with policy "cache" take at most
    /// this many bytes, and are evicted only for its own new objects, until it disconnects. For
    /// exact connections.
    #[pyo3(name = "_set_share", signature = (nbytes))]
    fn set_share(&self, py: Python<'_>, nbytes: u64) -> PyResult<()> {
        ask(py, || self.client.set_share(nbytes))
    }

    /// Returns when everything put so far is accepted; raises what was refused meanwhile.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        ask(py, || self.client.flush())
    }

    /// Stops the daemon and drops every object; for the owner of the store.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        ask(py, || self.client.shutdown())
    }

    /// Ends the connection now. Later calls raise Disconnected; buffers stay readable.
    fn disconnect(&self, py: Python<'_>) {
        py.detach(|| self.client.disconnect());
    }
}

/// Whether an exception says that there is no such object, or none yet.
fn is_missing(py: Python<'_>, error: &PyErr) -> bool {
    const MISSING: [Code; 5] =
        [Code::Absent, Code::NotSealed, Code::Deleted, Code::Evicted, Code::CreatorDied];
    let code = error.value(py).getattr("code").and_then(|code| code.extract::<u16>());
    code.is_ok_and(|code| MISSING.iter().any(|missing| missing.number() == code))
}
