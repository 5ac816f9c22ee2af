//! How the objects of one class are made, and given what they consist of.
//!
//! What a class of the object stands for is decided in `plasmon.objects._context`, which refuses
//! what the pickle mode does not allow.

use plasmon_plo::codes::make;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::errors::{broken, changed, misfit};
use super::object_dict::dict_of;
use super::raw::Ptr;

/// How the objects of a class are made.
#[derive(Clone)]
pub(super) struct Maker<'py> {
    pub(super) make: u8,
    /// Whether it is one of the specification's, whose arguments are the format's business.
    pub(super) specified: bool,
    /// The class or the callable, or the object itself.
    target: Bound<'py, PyAny>,
    /// The names of attributes.
    fields: Vec<Field<'py>>,
}

/// An attribute.
#[derive(Clone)]
struct Field<'py> {
    name: Bound<'py, PyString>,
    /// Whether a descriptor of the class hides it in the object's dict.
    hidden: bool,
}

impl<'py> Maker<'py> {
    /// `found` is what `_resolve` gave: a callable, or a class and its hidden attributes.
    pub(super) fn new(
        make: u8,
        specified: bool,
        found: Bound<'py, PyAny>,
        names: Vec<Bound<'py, PyString>>,
    ) -> PyResult<Self> {
        if make != make::ATTRIBUTES {
            return Ok(Self { make, specified, target: found, fields: Vec::new() });
        }
        let (target, hidden): (_, Bound<'py, PyTuple>) = found.extract()?;
        let is_hidden = |name: &Bound<'py, PyString>| hidden.contains(name);
        let fields = names.into_iter().map(|name| {
            let hidden = !hidden.is_empty() && is_hidden(&name)?;
            Ok(Field { name, hidden })
        });
        Ok(Self { make, specified, target, fields: fields.collect::<PyResult<_>>()? })
    }

    /// How many of an object's first parts it is made of.
    pub(super) fn arguments(&self) -> usize {
        match self.make {
            make::ATTRIBUTES | make::VALUE => 0,
            make::NEW_EX => 2,
            _ => 1,
        }
    }

    /// How many attributes an object has.
    pub(super) fn attributes(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn construct(
        &self,
        py: Python<'py>,
        parts: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = || {
            let first = parts.first().and_then(|first| first.cast::<PyTuple>().ok());
            first.ok_or_else(|| broken(py, "an object whose arguments are not a tuple"))
        };
        match self.make {
            make::ATTRIBUTES => self.bare(py),
            make::VALUE => Ok(self.target.clone()),
            make::STATE => match parts.first() {
                Some(state) => self.target.call1((state,)),
                None => Err(changed()),
            },
            make::CALL => {
                let made = self.target.call(arguments()?, None);
                made.map_err(|error| if self.specified { misfit(py, error) } else { error })
            }
            make::NEW | make::NEW_EX => {
                let arguments = arguments()?;
                let mut all = vec![self.target.clone()];
                all.extend(arguments.iter());
                let named = parts.get(1).map(|named| named.cast::<PyDict>()).transpose()?;
                let new = self.target.getattr(intern!(py, "__new__"))?;
                new.call(PyTuple::new(py, all)?, named)
            }
            _ => Err(changed()),
        }
    }

    /// An object of a class without a layout of its own, its constructor not called.
    fn bare(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let class = self.target.cast::<PyType>()?.as_type_ptr();
        let empty = PyTuple::empty(py);
        // SAFETY: `_resolve` made sure that every base of the class but `object` is a class of
        // Python's without a layout of its own, so what `object` makes is one of it.
        unsafe {
            let new = ffi::PyBaseObject_Type.tp_new.ok_or_else(changed)?;
            Bound::from_owned_ptr_or_err(py, new(class, empty.as_ptr(), std::ptr::null_mut()))
        }
    }

    pub(super) fn set_attributes(
        &self,
        object: &Bound<'py, PyAny>,
        values: &[Ptr],
    ) -> PyResult<()> {
        for (Field { name, hidden }, value) in self.fields.iter().zip(values) {
            let object = object.as_ptr();
            // SAFETY: all three are alive. `_resolve` made sure that the attribute is a slot or an
            // item of the object's dict, so no code of the class runs.
            let outcome = unsafe {
                if *hidden {
                    ffi::PyDict_SetItem(dict_of(name.py(), object)?, name.as_ptr(), *value)
                } else {
                    ffi::PyObject_GenericSetAttr(object, name.as_ptr(), *value)
                }
            };
            if outcome != 0 {
                return Err(PyErr::fetch(name.py()));
            }
        }
        Ok(())
    }
}

/// Does what comes after an object's construction: state, items, pairs, setter.
pub(super) fn finish(object: &Bound<'_, PyAny>, rest: &[Bound<'_, PyAny>]) -> PyResult<()> {
    if rest.is_empty() {
        return Ok(());
    }
    let mut all = vec![object.clone()];
    all.extend(rest.iter().cloned());
    let module = object.py().import("plasmon.objects._reduce")?;
    module.getattr("finish")?.call1(PyTuple::new(object.py(), all)?).map(drop)
}
