//! Object ids as Python values.

use plasmon_client::{Name, ObjectId};
use plasmon_proto::id::OBJECT_ID_BYTES;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyTuple, PyType};

/// The 20-byte id of an object. Immutable, hashable, ordered by its bytes, and picklable.
#[pyclass(frozen, module = "plasmon", name = "ObjectId")]
#[derive(Debug)]
pub(crate) struct Id(ObjectId);

impl Id {
    /// The Python form of `id`.
    pub(crate) fn new(id: ObjectId) -> Self {
        Self(id)
    }

    /// The id itself.
    pub(crate) fn id(&self) -> ObjectId {
        self.0
    }
}

/// The id of a name in a namespace.
pub(crate) fn named(namespace: &str, text: &str) -> PyResult<ObjectId> {
    Ok(ObjectId::from_name(&name(namespace, text)?))
}

/// A checked name.
pub(crate) fn name(namespace: &str, text: &str) -> PyResult<Name> {
    Name::new(namespace, text).map_err(|bad| PyValueError::new_err(bad.to_string()))
}

#[pymethods]
impl Id {
    #[new]
    #[pyo3(signature = (binary, /))]
    fn create(binary: &[u8]) -> PyResult<Self> {
        ObjectId::from_slice(binary).map(Self).ok_or_else(|| {
            let found = binary.len();
            let text = format!("an object id has {OBJECT_ID_BYTES} bytes, found {found}");
            PyValueError::new_err(text)
        })
    }

    /// The id written as 40 hexadecimal digits.
    #[classmethod]
    #[pyo3(signature = (text, /))]
    fn from_hex(_class: &Bound<'_, PyType>, text: &str) -> PyResult<Self> {
        text.parse().map(Self).map_err(|bad| PyValueError::new_err(format!("{bad}")))
    }

    /// A new id from the system's random numbers.
    #[classmethod]
    fn random(_class: &Bound<'_, PyType>) -> PyResult<Self> {
        let mut bytes = [0; OBJECT_ID_BYTES];
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
            .map_err(std::io::Error::from)?;
        Ok(Self(ObjectId::new(bytes)))
    }

    /// The id that a name stands for, the same in every process.
    #[classmethod]
    #[pyo3(signature = (name, namespace = ""))]
    fn from_name(_class: &Bound<'_, PyType>, name: &str, namespace: &str) -> PyResult<Self> {
        named(namespace, name).map(Self)
    }

    /// The 20 bytes.
    #[getter]
    fn binary<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.as_bytes())
    }

    /// The id as 40 hexadecimal digits.
    fn hex(&self) -> String {
        self.0.to_string()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.binary(py)
    }

    fn __str__(&self) -> String {
        self.hex()
    }

    fn __repr__(&self) -> String {
        format!("ObjectId.from_hex('{}')", self.0)
    }

    fn __hash__(&self) -> u64 {
        // Ids are random or hashes of names, but a caller may count in either end of the bytes:
        // all of them take part.
        let (words, rest) = self.0.as_bytes().as_chunks::<8>();
        let tail = rest.iter().fold(0u64, |word, byte| (word << 8) | u64::from(*byte));
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain([tail]);
        words.fold(0, |hash: u64, word| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        })
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, compare: CompareOp) -> Py<PyAny> {
        let py = other.py();
        match other.cast::<Self>() {
            Ok(other) => {
                let truth = compare.matches(self.0.cmp(&other.get().0));
                pyo3::types::PyBool::new(py, truth).to_owned().into_any().unbind()
            }
            Err(_) => py.NotImplemented(),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        (slf.get_type(), (slf.get().binary(py),)).into_pyobject(py)
    }
}
