//! The classes of an object that is being written.
//!
//! A class is described when its first object's turn comes, because that is when a reader meets it.

use plasmon_plo::codes::{ext, make, source};
use plasmon_plo::tables::Class;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use super::class_key::ClassKey;
use super::context::{Strategy, decide};
use super::encoder::Encoder;
use super::raw::{self, Ptr};

/// A callable as `plasmon.objects` describes it: source, name, version; the kind and the bytes of a
/// pickle of it.
type CallableDescription = (u8, String, i32, u8, Option<Py<PyBytes>>);

impl<'py> Encoder<'py> {
    /// The number of a class, which is written when it is new. `name` is that of an object that is
    /// found by it.
    pub(super) fn class(
        &mut self,
        key: ClassKey,
        name: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<usize> {
        if let Some(number) = self.classes.last(&key) {
            return Ok(number);
        }
        let known = self.classes.number(&key);
        let number = match known {
            Some(number) => number,
            None => self.write_class(&key, name)?,
        };
        if known.is_none() && self.is_pinned() {
            // It is known by addresses.
            self.keep_all(&key.objects().collect::<Vec<_>>());
        }
        self.classes.note(key, number);
        Ok(number)
    }

    fn write_class(
        &mut self,
        key: &ClassKey,
        given: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<usize> {
        // SAFETY: the objects of the class are alive and hold it, or the encoder holds it.
        let callable = unsafe { Bound::from_borrowed_ptr(self.py, key.callable()) };
        let class = Class { make: key.make(), ..Class::default() };
        if matches!(key.make(), make::ATTRIBUTES | make::STATE)
            && let Ok(kind) = callable.cast::<PyType>()
        {
            let known = self.context.get().known_strategy(self.py, kind.as_type_ptr());
            let strategy = match known {
                Some(known) => known,
                None => {
                    // The names are the objects' own, which may change now.
                    self.keep_all(&key.objects().collect::<Vec<_>>());
                    self.strategy(kind)?
                }
            };
            let Strategy { source, version, ref name, .. } = *strategy.get();
            let class = Class { source, name, version, ..class };
            return Ok(self.push_class(class, key.fields()));
        }
        self.open();
        let describe = self.context.getattr("_describe")?;
        let described: CallableDescription =
            describe.call1((&callable, key.make(), given))?.extract()?;
        let (source, name, version, kind, pickled) = described;
        let mut class = Class { source, name: &name, version, ..class };
        if source == source::PICKLED
            && let Some(bytes) = &pickled
        {
            let kind = if kind == ext::PICKLE { ext::PICKLE } else { ext::CLOUDPICKLE };
            self.tables.exts.data.bytes.extend_from_slice(bytes.as_bytes(self.py));
            class.ext = Some(self.tables.exts.push(kind));
        }
        Ok(self.push_class(class, key.fields()))
    }

    fn push_class(&mut self, class: Class<'_>, fields: &[Ptr]) -> usize {
        // SAFETY: the names of attributes are exact strs that the class or its objects hold. One
        // with surrogates is no attribute of a strategy.
        let names = fields.iter().map(|field| unsafe { raw::utf8(*field) }.unwrap_or_default());
        self.tables.classes.push(class, names)
    }

    /// How objects of a type are taken apart.
    pub(super) fn strategy(
        &mut self,
        class: &Bound<'py, PyType>,
    ) -> PyResult<Bound<'py, Strategy>> {
        // SAFETY: attached, and the class is alive. No two classes ever have the same version.
        let version = unsafe { raw::attributes::class_version(class.as_type_ptr()) };
        if let Some((last, its, strategy)) = &self.last_strategy
            && (*last, *its) == (class.as_ptr(), version)
        {
            return Ok(strategy.clone());
        }
        if let Some(known) = self.context.get().known_strategy(self.py, class.as_type_ptr()) {
            self.last_strategy = Some((class.as_ptr(), version, known.clone()));
            return Ok(known);
        }
        let mut known = self.unversioned.iter().rev();
        if let Some((_, known)) = known.find(|(known, _)| *known == class.as_ptr()) {
            return Ok(known.clone());
        }
        self.open();
        let decided = decide(self.context, class)?;
        // Until it is remembered for a version of the class, this encoder knows it.
        self.keep(class.as_any());
        self.unversioned.push((class.as_ptr(), decided.clone()));
        Ok(decided)
    }
}
