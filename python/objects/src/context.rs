//! A context's rules for types: how their objects are taken apart, and how they are made again.
//!
//! The decisions are made in Python (`plasmon.objects._context`), once for each type and each class
//! of an object; what was decided is kept here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_cpython::attributes::{assign_class_version, class_version, probe};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyString, PyType};

/// Whether pickles may be written and read: the first of the modes.
pub(super) mod pickle {
    pub(crate) const NEVER: u8 = 0;
}

/// The modes by their numbers, which `plasmon.objects._extensions` has too.
const MODES: [&str; 3] = ["never", "std", "cloudpickle"];

/// The base of `plasmon.SerializationContext`.
#[pyclass(frozen, subclass, module = "plasmon._native", name = "_Context")]
#[derive(Debug)]
pub struct Context {
    pickle: AtomicU8,
    canonical: AtomicU8,
    runs_gc: AtomicU8,
    /// Strategies by the address of the type. A dict would call its metaclass's `__hash__`.
    strategies: Mutex<HashMap<usize, CachedStrategy>>,
    /// Makers by the description of a class.
    makers: Py<PyDict>,
}

/// A strategy, for as long as the type is in this version.
#[derive(Debug)]
struct CachedStrategy {
    /// Keeps the address from being another type's.
    kind: Py<PyType>,
    version: u32,
    strategy: Py<Strategy>,
}

/// Of more types nothing is remembered: then all are forgotten, and decided again.
const STRATEGIES_MAX: usize = 8192;

impl Context {
    fn strategies(&self) -> MutexGuard<'_, HashMap<usize, CachedStrategy>> {
        // No code runs while this is locked; what is taken out is dropped afterwards.
        self.strategies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pickle(&self) -> u8 {
        self.pickle.load(Ordering::Relaxed)
    }

    pub(super) fn is_canonical(&self) -> bool {
        self.canonical.load(Ordering::Relaxed) != 0
    }

    pub(super) fn runs_gc(&self) -> bool {
        self.runs_gc.load(Ordering::Relaxed) != 0
    }

    /// How objects of a type are taken apart, if that was decided before and neither the type nor
    /// a base of it has changed since. No code runs.
    pub(super) fn known_strategy<'py>(
        &self,
        py: Python<'py>,
        kind: *mut ffi::PyTypeObject,
    ) -> Option<Bound<'py, Strategy>> {
        let strategies = self.strategies();
        let known = strategies.get(&kind.addr())?;
        // SAFETY: attached; the type is alive, because the entry holds it.
        let fits = unsafe { class_version(kind) } == known.version;
        fits.then(|| known.strategy.bind(py).clone())
    }

    fn remember(&self, kind: &Bound<'_, PyType>, version: u32, strategy: &Bound<'_, Strategy>) {
        let (kind, strategy) = (kind.clone().unbind(), strategy.clone().unbind());
        let known = CachedStrategy { kind, version, strategy };
        let mut strategies = self.strategies();
        let full = strategies.len() >= STRATEGIES_MAX;
        let all = if full { std::mem::take(&mut *strategies) } else { HashMap::new() };
        let old = strategies.insert(known.kind.as_ptr().addr(), known);
        drop(strategies);
        drop((all, old));
    }

    pub(super) fn makers<'py>(&self, py: Python<'py>) -> &Bound<'py, PyDict> {
        self.makers.bind(py)
    }
}

/// Decides how objects of a type are taken apart, and remembers it for the type as it is.
pub(super) fn decide<'py>(
    context: &Bound<'py, Context>,
    kind: &Bound<'py, PyType>,
) -> PyResult<Bound<'py, Strategy>> {
    probe(kind.py());
    let version = assign_class_version(kind);
    let decided = context.call_method1("_decide", (kind,))?.cast_into::<Strategy>()?;
    // SAFETY: attached; the type is alive.
    let after = unsafe { class_version(kind.as_type_ptr()) };
    if version != 0 && version == after {
        context.get().remember(kind, version, &decided);
    }
    Ok(decided)
}

/// How objects of a type are taken apart: see [`Strategy`].
pub(super) mod how {
    /// Into an extension: `encode(object)` gives its kind, its data and buffers for the heap, or
    /// None for an object that must be taken apart by `__reduce_ex__`.
    pub(crate) const EXT: u8 = 0;
    /// Into attributes: those named, or all of its `__dict__`.
    pub(crate) const ATTRIBUTES: u8 = 1;
    /// Into the state that `encode(object)` gives.
    pub(crate) const STATE: u8 = 2;
    /// By its `__reduce_ex__`.
    pub(crate) const REDUCE: u8 = 3;
    /// Into what `encode(object)` gives in the form of `__reduce_ex__`'s result.
    pub(crate) const PARTS: u8 = 4;
    /// Into a tensor: memory that is lent.
    pub(crate) const MEMORY: u8 = 5;
    /// Into attributes, which are read without running code while the type is as it is.
    pub(crate) const PLAIN: u8 = 6;
}

/// How objects of a type are taken apart. Made by `plasmon.objects._context`.
#[pyclass(frozen, module = "plasmon._native", name = "_Strategy")]
#[derive(Debug)]
pub struct Strategy {
    pub(super) how: u8,
    pub(super) encode: Option<Py<PyAny>>,
    pub(super) source: u8,
    pub(super) name: String,
    pub(super) version: i32,
    pub(super) fields: Option<Vec<Py<PyString>>>,
    /// Whether reading the attributes runs no code while the type is as it is.
    pub(super) is_plain: bool,
}

#[pymethods]
impl Strategy {
    #[new]
    #[pyo3(
        signature = (how, encode = None, *, source = 0, name = "", version = 0, fields = None)
    )]
    fn create(
        how: u8,
        encode: Option<Py<PyAny>>,
        source: u8,
        name: &str,
        version: i32,
        fields: Option<Vec<Bound<'_, PyString>>>,
    ) -> Self {
        // Names of attributes are compared by address, and so interned.
        let intern = |field: Bound<'_, PyString>| {
            PyString::intern(field.py(), &field.to_string_lossy()).unbind()
        };
        let fields = fields.map(|fields| fields.into_iter().map(intern).collect());
        let is_plain = how == self::how::PLAIN;
        let how = if is_plain { self::how::ATTRIBUTES } else { how };
        Self { how, encode, source, name: name.to_owned(), version, fields, is_plain }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.encode)
    }
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn create(
        py: Python<'_>,
        _arguments: &Bound<'_, pyo3::types::PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        Self {
            pickle: AtomicU8::new(pickle::NEVER),
            canonical: AtomicU8::new(0),
            runs_gc: AtomicU8::new(0),
            strategies: Mutex::default(),
            makers: PyDict::new(py).unbind(),
        }
    }

    /// Whether pickles may be written and read: "never", "std" or "cloudpickle".
    #[getter(pickle)]
    fn pickle_mode(&self) -> &'static str {
        MODES[usize::from(self.pickle())]
    }

    #[setter(pickle)]
    fn set_pickle_mode(&self, py: Python<'_>, mode: &str) -> PyResult<()> {
        let Some(number) = MODES.iter().position(|known| *known == mode) else {
            let text = format!("pickle is \"never\", \"std\" or \"cloudpickle\", found \"{mode}\"");
            return Err(PyValueError::new_err(text));
        };
        self.pickle.store(number as u8, Ordering::Relaxed);
        self.forget(py);
        Ok(())
    }

    /// Whether equal values become equal bytes, regardless of the references to them.
    #[getter]
    fn canonical(&self) -> bool {
        self.is_canonical()
    }

    #[setter]
    fn set_canonical(&self, canonical: bool) {
        self.canonical.store(u8::from(canonical), Ordering::Relaxed);
    }

    /// The mode of the garbage collector while a value is built: "defer" or "run".
    #[getter]
    fn gc(&self) -> &'static str {
        if self.runs_gc() { "run" } else { "defer" }
    }

    #[setter]
    fn set_gc(&self, mode: &str) -> PyResult<()> {
        let runs = match mode {
            "defer" => 0,
            "run" => 1,
            _ => {
                let text = format!("gc is \"defer\" or \"run\", found \"{mode}\"");
                return Err(PyValueError::new_err(text));
            }
        };
        self.runs_gc.store(runs, Ordering::Relaxed);
        Ok(())
    }

    /// Drops what was decided, after a registration or another mode.
    #[pyo3(name = "_forget")]
    fn forget(&self, py: Python<'_>) {
        self.__clear__();
        self.makers.bind(py).clear();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.makers)?;
        // Another thread that has it locked is at work with the context, which is no garbage then.
        let Ok(strategies) = self.strategies.try_lock() else { return Ok(()) };
        for known in strategies.values() {
            visit.call(&known.kind)?;
            visit.call(&known.strategy)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let all = std::mem::take(&mut *self.strategies());
        drop(all);
    }
}
