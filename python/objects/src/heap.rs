//! The bytes that an object's heap will hold, where they are until it is written.

use arrow_buffer::Buffer;
use plasmon_cpython::buffer::Flat;
use plasmon_plo::layout::HEAP_ALIGN;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyAny;

use super::stream::ArrowStream;

/// Zeros for padding.
pub(super) const ZEROS: [u8; HEAP_ALIGN as usize] = [0; HEAP_ALIGN as usize];

/// The owner of the bytes of a piece.
enum Owner {
    /// An object that does not move or change them while a reference to it exists.
    Object(Py<PyAny>, *const u8, usize),
    /// Memory that is lent through the buffer protocol.
    Lent(Flat),
    /// An Arrow stream, in pieces of its own.
    Stream(Vec<Buffer>),
}

/// One entry of the heap.
pub(super) struct Piece {
    owner: Owner,
    /// Zeros before the bytes.
    pad: usize,
}

// SAFETY: the bytes are only read; the owner is a reference that keeps them where they are.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    /// Memory of an object, such as a string or an array, after `pad` zeros.
    ///
    /// # Safety
    ///
    /// `owner` must keep the `bytes` bytes from `start` on where they are for as long as it lives.
    pub(super) unsafe fn of_memory(
        owner: &Bound<'_, PyAny>,
        start: *const u8,
        bytes: usize,
        pad: usize,
    ) -> Self {
        Self { owner: Owner::Object(owner.clone().unbind(), start, bytes), pad }
    }

    /// Memory of an object with the buffer protocol, or an Arrow stream.
    pub(super) fn of_buffer(owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(stream) = owner.cast::<ArrowStream>() {
            return Ok(Self { owner: Owner::Stream(stream.get().pieces()), pad: 0 });
        }
        Ok(Self { owner: Owner::Lent(Flat::of(owner)?), pad: 0 })
    }

    /// How many bytes there are.
    pub(super) fn bytes(&self) -> u64 {
        let own = match &self.owner {
            Owner::Object(_, _, bytes) => *bytes,
            Owner::Lent(flat) => flat.bytes().len(),
            Owner::Stream(pieces) => pieces.iter().map(Buffer::len).sum(),
        };
        (self.pad + own) as u64
    }

    /// The bytes, one stretch after the other.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many): (&[u8], &[Buffer]) = match &self.owner {
            Owner::Object(_, start, bytes) if *bytes != 0 => {
                // SAFETY: the owner keeps the bytes where they are, by the contract of
                // `of_memory`.
                (unsafe { std::slice::from_raw_parts(*start, *bytes) }, &[])
            }
            Owner::Object(..) => (&[], &[]),
            Owner::Lent(flat) => (flat.bytes(), &[]),
            Owner::Stream(pieces) => (&[], pieces),
        };
        let own = [&ZEROS[..self.pad], one].into_iter();
        own.chain(many.iter().map(Buffer::as_slice)).filter(|slice| !slice.is_empty())
    }

    /// The bytes and the zeros after them, as the heap has them.
    pub(super) fn padded(&self) -> impl Iterator<Item = &[u8]> {
        let past = (self.bytes() % HEAP_ALIGN) as usize;
        let zeros = if past == 0 { &[][..] } else { &ZEROS[past..] };
        self.slices().chain(std::iter::once(zeros).filter(|zeros| !zeros.is_empty()))
    }
}

impl Piece {
    /// Shows the garbage collector what keeps the bytes.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.owner {
            Owner::Object(owner, ..) => visit.call(owner),
            Owner::Lent(flat) => visit.call(flat.owner()),
            Owner::Stream(_) => Ok(()),
        }
    }
}

/// A piece of the heap that is lent out by itself.
#[pyclass(frozen, module = "plasmon._native", name = "_Piece")]
#[derive(Debug)]
pub struct LentPiece {
    /// The owner of the bytes.
    #[expect(dead_code, reason = "it is held, not used")]
    owner: Option<Py<PyAny>>,
    own: Vec<u8>,
    start: *const u8,
    bytes: usize,
}

// SAFETY: the bytes are only read; the owner is a reference that keeps them where they are.
unsafe impl Send for LentPiece {}
// SAFETY: as above.
unsafe impl Sync for LentPiece {}

impl Piece {
    /// The bytes as an object with the buffer protocol, where they lie if they are in one stretch.
    pub(super) fn lend<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, LentPiece>> {
        let lent = match &self.owner {
            Owner::Object(owner, start, bytes) if self.pad == 0 => LentPiece {
                owner: Some(owner.clone_ref(py)),
                own: Vec::new(),
                start: *start,
                bytes: *bytes,
            },
            _ => {
                let own = self.slices().collect::<Vec<_>>().concat();
                LentPiece { owner: None, start: own.as_ptr(), bytes: own.len(), own }
            }
        };
        Bound::new(py, lent)
    }
}

#[pymethods]
impl LentPiece {
    fn __len__(&self) -> usize {
        debug_assert!(self.own.is_empty() || self.own.len() == self.bytes, "one or the other");
        self.bytes
    }

    /// Lends the bytes out through the buffer protocol.
    ///
    /// # Safety
    ///
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let part = (slf.get().start.cast_mut(), slf.get().bytes);
        // SAFETY: CPython gives a view to fill; it holds a reference to this object, which keeps
        // the bytes where they are.
        unsafe { plasmon_cpython::buffer::fill(slf.as_any(), view, part, true, flags) }
    }
}
