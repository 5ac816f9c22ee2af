//! The values of runs, made into the room that their container has for them.

use plasmon_plo::codes::{elem, slot};
use pyo3::ffi;
use pyo3::prelude::*;

use super::decoder::Decoder;
use super::errors::changed;
use super::owned::shared;
use super::raw::{self, Ptr};

impl Decoder<'_, '_> {
    /// Fills the room with the values of a run, references of the caller's.
    pub(super) fn fill(&mut self, elem: u8, start: usize, out: &mut [Ptr]) -> PyResult<()> {
        let view = &self.object.view;
        match elem {
            // SAFETY: here and below: attached; constants live forever.
            elem::NONE => out.iter_mut().for_each(|out| *out = shared(unsafe { ffi::Py_None() })),
            elem::BITS => {
                let bits = (start..).map(|at| view.bits.at(at));
                out.iter_mut().zip(bits).for_each(|(out, bit)| *out = truth(bit));
            }
            elem::I32 => {
                let values = whole(view.i32.range(start, out.len()), out)?;
                for (out, value) in out.iter_mut().zip(values) {
                    let value = i32::from_le_bytes(*value);
                    // SAFETY: attached.
                    *out = self.made(unsafe { ffi::PyLong_FromLong(value.into()) })?;
                }
            }
            elem::I64 => {
                let values = whole(view.i64.range(start, out.len()), out)?;
                for (out, value) in out.iter_mut().zip(values) {
                    let value = i64::from_le_bytes(*value);
                    // SAFETY: attached.
                    *out = self.made(unsafe { ffi::PyLong_FromLongLong(value) })?;
                }
            }
            elem::F64 => {
                let values = whole(view.f64.range(start, out.len()), out)?;
                for (out, value) in out.iter_mut().zip(values) {
                    let value = f64::from_le_bytes(*value);
                    // SAFETY: attached.
                    *out = self.made(unsafe { ffi::PyFloat_FromDouble(value) })?;
                }
            }
            elem::STRS => self.fill_strs(start, out)?,
            elem::REFS => {
                let numbers = whole(view.refs.range(start, out.len()), out)?;
                for (out, number) in out.iter_mut().zip(numbers) {
                    *out = self.str(u32::from_le_bytes(*number) as usize)?;
                }
            }
            elem::BINS => self.fill_each(start, out, Self::bytes)?,
            elem::NODES => self.fill_each(start, out, Self::node)?,
            elem::SLOTS => self.fill_each(start, out, Self::slot)?,
            elem::TENSORS => self.fill_each(start, out, Self::tensor)?,
            elem::EXTS => self.fill_each(start, out, Self::ext)?,
            elem::ROWS => self.fill_rows(start, out)?,
            _ => return Err(changed()),
        }
        Ok(())
    }

    /// Fills the room with the values of a run from one on. Rows come all at once.
    pub(super) fn fill_part(
        &mut self,
        elem: u8,
        start: usize,
        from: usize,
        out: &mut [Ptr],
    ) -> PyResult<()> {
        if elem != elem::ROWS {
            return self.fill(elem, start + from, out);
        }
        let Some(rows) = self.rows.get_mut(&start) else { return Err(changed()) };
        let Some(part) = rows.0.get_mut(from..from + out.len()) else { return Err(changed()) };
        out.swap_with_slice(part);
        all_there(out)
    }

    #[inline]
    fn fill_each(
        &mut self,
        start: usize,
        out: &mut [Ptr],
        make: impl Fn(&mut Self, usize) -> PyResult<Ptr>,
    ) -> PyResult<()> {
        for (at, out) in out.iter_mut().enumerate() {
            *out = make(self, start + at)?;
        }
        Ok(())
    }

    fn fill_strs(&mut self, start: usize, out: &mut [Ptr]) -> PyResult<()> {
        if !self.strs.0.is_empty() {
            return self.fill_each(start, out, Self::str);
        }
        let strs = self.object.view.strs;
        let ascii = self.ascii || strs.range(start, out.len()).is_ascii();
        let ends = whole(strs.offsets.range(start + 1, out.len()), out)?;
        let mut from = strs.offsets.index(start);
        for (end, out) in ends.iter().zip(out) {
            let to = u32::from_le_bytes(*end) as usize;
            let text = strs.bytes.get(from..to).ok_or_else(changed)?;
            // SAFETY: attached; ASCII if all of them are.
            let made = unsafe { if ascii { raw::new_ascii(text) } else { raw::new_str(text) } };
            *out = self.made_text(made)?;
            from = to;
        }
        Ok(())
    }

    /// A string as a reference of the caller's.
    pub(super) fn str(&mut self, number: usize) -> PyResult<Ptr> {
        if let Some(known) = self.strs.0.get(number).filter(|known| !known.is_null()) {
            return Ok(shared(*known));
        }
        let text = self.object.view.strs.at(number);
        // SAFETY: attached; ASCII if all of them are.
        let made = unsafe { if self.ascii { raw::new_ascii(text) } else { raw::new_str(text) } };
        let made = self.made_text(made)?;
        if let Some(room) = self.strs.0.get_mut(number) {
            *room = shared(made);
        }
        Ok(made)
    }

    fn bytes(&mut self, number: usize) -> PyResult<Ptr> {
        if let Some(known) = self.bins.0.get(number).filter(|known| !known.is_null()) {
            return Ok(shared(*known));
        }
        let bytes = self.object.view.bins.at(number);
        let start = bytes.as_ptr().cast();
        // SAFETY: attached; the bytes are copied.
        let made = unsafe { ffi::PyBytes_FromStringAndSize(start, bytes.len() as isize) };
        let made = self.made(made)?;
        if let Some(room) = self.bins.0.get_mut(number) {
            *room = shared(made);
        }
        Ok(made)
    }

    fn slot(&mut self, number: usize) -> PyResult<Ptr> {
        let slots = &self.object.view.slots;
        let kind = slots.kind.get(number).copied().unwrap_or(u8::MAX);
        let at = slots.offset.index(number);
        match kind {
            // SAFETY: here and below: attached.
            slot::NULL => Ok(shared(unsafe { ffi::Py_None() })),
            slot::BOOL => Ok(truth(slots.bool.at(at))),
            // SAFETY: as above.
            slot::INT => self.made(unsafe { ffi::PyLong_FromLongLong(slots.int.at(at)) }),
            slot::FLOAT => {
                let value = f64::from_le_bytes(slots.float.at(at).to_le_bytes());
                // SAFETY: as above.
                self.made(unsafe { ffi::PyFloat_FromDouble(value) })
            }
            slot::STR => self.str(slots.index(number, kind)),
            slot::BYTES => self.bytes(slots.index(number, kind)),
            slot::TENSOR => self.tensor(slots.index(number, kind)),
            slot::EXT => self.ext(slots.index(number, kind)),
            _ => self.node(slots.index(number, kind)),
        }
    }

    fn fill_rows(&mut self, header: usize, out: &mut [Ptr]) -> PyResult<()> {
        let Some(mut rows) = self.rows.remove(&header) else {
            return Err(changed());
        };
        whole(&rows.0, out)?;
        out.swap_with_slice(&mut rows.0);
        all_there(out)
    }
}

/// Values for all of the room.
#[inline]
fn whole<'v, T>(values: &'v [T], room: &[Ptr]) -> PyResult<&'v [T]> {
    if values.len() == room.len() { Ok(values) } else { Err(changed()) }
}

/// An error if a row was taken before: the check has seen to it that rows are used once, and the
/// memory changed since.
fn all_there(rows: &[Ptr]) -> PyResult<()> {
    if rows.iter().any(|row| row.is_null()) { Err(changed()) } else { Ok(()) }
}

#[inline]
fn truth(bit: bool) -> Ptr {
    // SAFETY: constants live for as long as the interpreter.
    shared(unsafe { if bit { ffi::Py_True() } else { ffi::Py_False() } })
}
