//! The arguments of calls: ids and names, times, and the options of a new object.

use std::path::PathBuf;
use std::time::Duration;

use plasmon_client::{
    Ack, ConnectOptions, CopyPlacement, Durability, Filter, ObjectId, Policy, PutOptions,
    StartOptions,
};
use plasmon_proto::limits::COPIES_MAX;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::id::{Id, name, named};

/// One id, given as such or as a name in `namespace`.
#[inline]
pub(crate) fn one_id(given: &Bound<'_, PyAny>, namespace: &str) -> PyResult<ObjectId> {
    match given.cast_exact::<Id>() {
        Ok(id) => Ok(id.get().id()),
        Err(_) => unusual_id(given, namespace),
    }
}

fn unusual_id(given: &Bound<'_, PyAny>, namespace: &str) -> PyResult<ObjectId> {
    if let Ok(text) = given.cast::<PyString>() {
        return named(namespace, text.to_str()?);
    }
    if let Ok(id) = given.cast::<Id>() {
        return Ok(id.get().id());
    }
    let found = given.get_type().qualname()?;
    Err(PyTypeError::new_err(format!(
        "an object is named with an ObjectId or a str, found {found}"
    )))
}

/// Whether `given` is one id or name, rather than many.
pub(crate) fn is_one(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<Id>() || given.is_instance_of::<PyString>()
}

/// Many ids: any iterable of ids and names.
pub(crate) fn many_ids(given: &Bound<'_, PyAny>, namespace: &str) -> PyResult<Vec<ObjectId>> {
    if is_one(given) {
        return Ok(vec![one_id(given, namespace)?]);
    }
    let items = given.try_iter().map_err(|_| no_ids())?;
    items.map(|item| one_id(&item?, namespace)).collect()
}

/// Many ids, with the names that the caller gave for some of them.
pub(crate) fn many_labelled(
    given: &Bound<'_, PyAny>,
    namespace: &str,
) -> PyResult<(Vec<ObjectId>, Vec<Option<String>>)> {
    if is_one(given) {
        return Ok((vec![one_id(given, namespace)?], vec![label(given, namespace)]));
    }
    let items = given.try_iter().map_err(|_| no_ids())?;
    items
        .map(|item| item.and_then(|item| Ok((one_id(&item, namespace)?, label(&item, namespace)))))
        .collect()
}

fn no_ids() -> PyErr {
    PyTypeError::new_err("objects are named with an ObjectId, a str, or an iterable of them")
}

/// A time in seconds; infinity and `None` mean no limit.
pub(crate) fn seconds(given: Option<f64>) -> PyResult<Option<Duration>> {
    match given {
        None => Ok(None),
        Some(seconds) if seconds == f64::INFINITY => Ok(None),
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map(Some)
            .map_err(|_| PyValueError::new_err(format!("{seconds} is not a number of seconds"))),
    }
}

/// How long a get waits for objects that do not exist yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GetTimeout {
    /// Not at all: a missing object is an error at once.
    None,
    /// For this long; `None` without a limit.
    Within(Option<Duration>),
}

/// How long a get waits: a timeout asks for a wait, as `wait` does.
pub(crate) fn get_timeout(timeout: Option<f64>, wait: bool) -> PyResult<GetTimeout> {
    match seconds(timeout)? {
        None if timeout.is_none() && !wait => Ok(GetTimeout::None),
        timeout => Ok(GetTimeout::Within(timeout)),
    }
}

/// The keyword arguments of `get`.
#[derive(Debug, Default)]
pub(crate) struct GetOptions<'py> {
    pub(crate) namespace: Option<String>,
    pub(crate) timeout: Option<f64>,
    pub(crate) wait: bool,
    pub(crate) as_: Option<Bound<'py, PyString>>,
}

impl<'py> GetOptions<'py> {
    #[inline]
    pub(crate) fn of(given: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let mut options = Self::default();
        let Some(given) = given else { return Ok(options) };
        for (key, value) in given.iter() {
            match key.cast::<PyString>()?.to_str()? {
                "namespace" => options.namespace = Some(value.extract()?),
                "timeout" => options.timeout = value.extract()?,
                "wait" => options.wait = value.extract()?,
                "as_" => options.as_ = value.extract()?,
                other => {
                    let text = format!("get() got an unexpected argument '{other}'");
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        Ok(options)
    }
}

/// The caller's name for one object, for an error: its name, unless the id was given.
pub(crate) fn label(given: &Bound<'_, PyAny>, namespace: &str) -> Option<String> {
    let text = given.cast::<PyString>().ok()?.to_string_lossy().into_owned();
    Some(if namespace.is_empty() { text } else { format!("{namespace}:{text}") })
}

/// A filter of objects.
pub(crate) fn filter(namespace: Option<String>, prefix: Option<String>) -> Filter {
    Filter { namespace, prefix }
}

fn policy(given: &str) -> PyResult<Policy> {
    match given {
        "keep" => Ok(Policy::Keep),
        "cache" => Ok(Policy::Cache),
        other => {
            let text = format!("a policy is \"keep\" or \"cache\", found \"{other}\"");
            Err(PyValueError::new_err(text))
        }
    }
}

/// The options of a put, and the form that it asks for.
pub(crate) fn put_arguments<'py>(
    given: Option<&Bound<'py, PyDict>>,
) -> PyResult<(PutOptions, Option<Bound<'py, PyAny>>)> {
    let form = given.map(|given| given.get_item("as_")).transpose()?.flatten();
    let (Some(given), Some(form)) = (given, form) else {
        return Ok((put_options(given)?, None));
    };
    let rest = given.copy()?;
    rest.del_item("as_")?;
    Ok((put_options(Some(&rest))?, Some(form).filter(|form| !form.is_none())))
}

/// The options of a new object from the keyword arguments of `put` and `create`.
pub(crate) fn put_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<PutOptions> {
    let mut options = PutOptions::default();
    let Some(given) = given else { return Ok(options) };
    let (mut text, mut namespace) = (None, String::new());
    for (key, value) in given.iter() {
        let key = key.cast::<PyString>()?;
        let (key, none) = (key.to_str()?, value.is_none());
        match key {
            "id" if !none => options.id = Some(one_id(&value, "")?),
            "name" if !none => text = Some(value.extract::<String>()?),
            "namespace" => namespace = value.extract()?,
            "metadata" => options.metadata = bytes(&value)?,
            "policy" => options.policy = policy(value.extract()?)?,
            "ttl" => options.ttl = seconds(value.extract()?)?,
            "members" if !none => options.members = many_ids(&value, "")?,
            "owned" => options.owned = value.extract()?,
            "owns_members" => options.owns_members = value.extract()?,
            "strict" => options.strict = value.extract()?,
            "replace" => options.replace = value.extract()?,
            "tag" => options.tag = value.extract()?,
            "copies" if !none => options.copies = copies(key, &value)?,
            "copies_min" if !none => options.copies_min = copies(key, &value)?,
            "pool" => options.pool = value.extract()?,
            "ack" if !none => options.ack = Some(ack(value.extract()?)?),
            "placement" => options.placement = placement(value.extract()?)?,
            "storage" if !none => options.storage = Some(storage(value.extract()?)?),
            "durable" => options.durable = value.extract()?,
            "id" | "name" | "members" | "copies" | "copies_min" | "ack" | "storage" => {}
            other => {
                let text = format!("put() and create() take no argument '{other}'");
                return Err(PyTypeError::new_err(text));
            }
        }
    }
    if let Some(text) = text {
        options.name = Some(name(&namespace, &text)?);
    } else if !namespace.is_empty() {
        return Err(PyValueError::new_err("a namespace needs a name"));
    }
    Ok(options)
}

/// When a put of an object of a pool returns.
fn ack(given: &str) -> PyResult<Ack> {
    match given {
        "copies" => Ok(Ack::Copies),
        "local" => Ok(Ack::Local),
        other => {
            let text = format!("ack is \"copies\" or \"local\", found \"{other}\"");
            Err(PyValueError::new_err(text))
        }
    }
}

/// Where the copies of an object of a pool are.
fn placement(given: &str) -> PyResult<CopyPlacement> {
    CopyPlacement::of_key(given).ok_or_else(|| {
        PyValueError::new_err(format!("a placement is \"local\" or \"spread\", found \"{given}\""))
    })
}

/// What an object of a pool survives.
fn storage(given: &str) -> PyResult<Durability> {
    Durability::of_key(given).ok_or_else(|| {
        let text = format!("a storage is \"memory\", \"cache\" or \"durable\", found \"{given}\"");
        PyValueError::new_err(text)
    })
}

/// How many nodes of a pool keep an object.
fn copies(key: &str, given: &Bound<'_, PyAny>) -> PyResult<u8> {
    let count: i64 = given.extract()?;
    u8::try_from(count).ok().filter(|count| (1..=COPIES_MAX).contains(count)).ok_or_else(|| {
        PyValueError::new_err(format!("{key} is 1 to {COPIES_MAX} nodes of a pool, found {count}"))
    })
}

/// The bytes of any object with the buffer protocol.
pub(crate) fn bytes(given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    pyo3::buffer::PyBuffer::<u8>::get(given)
        .and_then(|buffer| buffer.to_vec(given.py()))
        .or_else(|_| given.extract())
}

/// The options of a connection and of a store to be started.
pub(crate) fn connect_options(
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<(ConnectOptions, Option<StartOptions>)> {
    let (mut connect, mut start) = (ConnectOptions::default(), StartOptions::default());
    let mut starts = false;
    let duration = |value: &Bound<'_, PyAny>| -> PyResult<Duration> {
        Ok(seconds(Some(value.extract()?))?.unwrap_or(Duration::MAX))
    };
    for (key, value) in given.into_iter().flat_map(|given| given.iter()) {
        match key.cast::<PyString>()?.to_str()? {
            "socket" => connect.socket = value.extract::<Option<PathBuf>>()?,
            "name" => connect.name = value.extract()?,
            "exact" => connect.exact = value.extract()?,
            "connect_timeout" => connect.connect_timeout = duration(&value)?,
            "reconnect_timeout" => connect.reconnect_timeout = duration(&value)?,
            "request_timeout" => connect.request_timeout = duration(&value)?,
            "owner" => connect.owner = value.extract()?,
            "copy_threads" => connect.copy_threads = value.extract()?,
            "start" => starts = value.extract()?,
            "daemon" => start.daemon = value.extract::<Option<PathBuf>>()?,
            "settings" => start.settings = value.extract()?,
            "start_timeout" => start.timeout = duration(&value)?,
            other => {
                return Err(PyTypeError::new_err(format!("a store takes no argument '{other}'")));
            }
        }
    }
    Ok((connect, starts.then_some(start)))
}

/// The default that the caller gave for an object that is not there.
pub(crate) fn instead<'py>(given: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match given.len() {
        0 => Ok(None),
        1 => given.get_item(0).map(Some),
        more => {
            let text = format!("get() takes ids and a default, found {more} more; ids are a list");
            Err(PyTypeError::new_err(text))
        }
    }
}

/// How many of the objects a wait is for; `None` means all.
pub(crate) fn needed(count: Option<usize>, ids: usize) -> PyResult<usize> {
    match count {
        None => Ok(ids),
        Some(count) if count <= ids => Ok(count),
        Some(count) => {
            let text = format!("cannot wait for {count} of {ids} objects");
            Err(PyValueError::new_err(text))
        }
    }
}
