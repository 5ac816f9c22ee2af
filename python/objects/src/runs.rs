//! Runs: values of one type become one stretch of a typed column.
//!
//! A run is tried by the type of its first value. When a value turns up that doesn't fit, those
//! before it ([`Prefix`]) and the rest become slots, which hold anything.

use plasmon_plo::codes::{elem, ext, limit, slot};
use plasmon_plo::tables::{Run, word};
use pyo3::ffi;
use pyo3::prelude::*;

use super::encoder::{Encoder, Items};
use super::raw::{self, Ptr, Shape};
use super::work::Work;
use plasmon_cpython::memo::Place;

/// The values of a run that are in a table already, when the rest doesn't fit there.
#[derive(Clone, Copy)]
pub(super) enum Prefix {
    /// A number of None.
    None(usize),
    /// From a length of bits on.
    Bits { start: usize, count: usize },
    /// From a length of i32 on.
    I32 { start: usize, count: usize },
    /// From a length of i64 on.
    I64 { start: usize, count: usize },
    /// From a length of f64 on.
    F64 { start: usize, count: usize },
    /// Consecutive entries of a table that slots refer to.
    Entries { kind: u8, start: usize, count: usize },
    /// Strings whose numbers are in refs from here on.
    Refs { start: usize, count: usize },
}

impl Prefix {
    pub(super) fn none() -> Self {
        Self::None(0)
    }

    fn count(self) -> usize {
        match self {
            Self::None(count)
            | Self::Bits { count, .. }
            | Self::I32 { count, .. }
            | Self::I64 { count, .. }
            | Self::F64 { count, .. }
            | Self::Entries { count, .. }
            | Self::Refs { count, .. } => count,
        }
    }
}

impl<'py> Encoder<'py> {
    /// Writes values as a run.
    pub(super) fn run(&mut self, items: Items<'_>) -> PyResult<Run> {
        let Some(first) = items.all.first() else { return Ok(Run::default()) };
        // SAFETY: here and below: the items of a run are alive, as its caller ensures.
        match unsafe { raw::shape(*first) } {
            Shape::Str => self.run_of_strs(items),
            Shape::Float => self.run_of_floats(items),
            Shape::Int => self.run_of_ints(items),
            Shape::Bool => self.run_of_bools(items),
            Shape::None => self.run_of_none(items),
            Shape::Bytes => self.run_of_bytes(items),
            shape if shape.is_container() => self.run_of_containers(items, shape),
            _ => self.run_of_foreign(items),
        }
    }

    fn run_of_floats(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.f64.len();
        let kind = &raw mut ffi::PyFloat_Type;
        let count = append(&mut self.tables.f64, items.all, |item| {
            // SAFETY: alive, and an exact float when its type is that.
            unsafe { raw::is_exact(item, kind).then(|| raw::float(item).to_le_bytes()) }
        });
        if count < items.all.len() {
            return self.mixed(items, Prefix::F64 { start, count });
        }
        Ok(Run { elem: elem::F64, start })
    }

    fn run_of_ints(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.i32.len();
        let kind = &raw mut ffi::PyLong_Type;
        let count = append(&mut self.tables.i32, items.all, |item| {
            // SAFETY: alive, and an exact int when its type is that.
            let value = unsafe { if raw::is_exact(item, kind) { raw::int(item) } else { None } };
            value.and_then(|value| i32::try_from(value).ok()).map(i32::to_le_bytes)
        });
        if count < items.all.len() {
            return self.run_of_longs(items, start, count);
        }
        Ok(Run { elem: elem::I32, start })
    }

    /// Goes on with 64 bits where 32 were too few.
    fn run_of_longs(&mut self, items: Items<'_>, small: usize, done: usize) -> PyResult<Run> {
        let kind = &raw mut ffi::PyLong_Type;
        // SAFETY: here and below: alive, and an exact int when its type is that.
        if unsafe { !raw::is_exact(items.all[done], kind) || raw::int(items.all[done]).is_none() } {
            return self.mixed(items, Prefix::I32 { start: small, count: done });
        }
        let column = &mut self.tables.i64;
        let start = column.len();
        column.reserve(items.all.len());
        let widened = self.tables.i32[small..].iter();
        column.extend(widened.map(|v| i64::from(i32::from_le_bytes(*v)).to_le_bytes()));
        self.tables.i32.truncate(small);
        let count = done
            + append(column, &items.all[done..], |item| {
                // SAFETY: as above.
                let value =
                    unsafe { if raw::is_exact(item, kind) { raw::int(item) } else { None } };
                value.map(i64::to_le_bytes)
            });
        if count < items.all.len() {
            return self.mixed(items, Prefix::I64 { start, count });
        }
        Ok(Run { elem: elem::I64, start })
    }

    fn run_of_bools(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.bits.len();
        for (count, item) in items.all.iter().enumerate() {
            // SAFETY: alive.
            if unsafe { raw::shape(*item) } != Shape::Bool {
                return self.mixed(items, Prefix::Bits { start, count });
            }
            self.tables.bits.push(is_true(*item));
        }
        Ok(Run { elem: elem::BITS, start })
    }

    fn run_of_none(&mut self, items: Items<'_>) -> PyResult<Run> {
        let count = items.all.iter().take_while(|item| raw::is_none(**item)).count();
        if count < items.all.len() {
            return self.mixed(items, Prefix::None(count));
        }
        let start = self.tables.bits.len();
        self.tables.bits.extend_zeros(count);
        Ok(Run { elem: elem::NONE, start })
    }

    fn run_of_bytes(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.bins.len();
        for (count, item) in items.all.iter().enumerate() {
            let prefix = Prefix::Entries { kind: slot::BYTES, start, count };
            // SAFETY: alive, and exact bytes when its type is that.
            let bytes = unsafe {
                match raw::shape(*item) {
                    Shape::Bytes => raw::bytes(*item),
                    _ => return self.mixed(items, prefix),
                }
            };
            if bytes.len() >= limit::LONG_BYTES {
                return self.mixed(items, prefix);
            }
            if self.met_text(*item, slot::BYTES, bytes, items.base).is_some() {
                return self.mixed(items, prefix);
            }
            self.tables.bins.push(bytes);
        }
        Ok(Run { elem: elem::BINS, start })
    }

    fn run_of_strs(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.strs.len();
        let mut refs = None;
        self.tables.strs.offsets.reserve(items.all.len() + 1);
        for (count, item) in items.all.iter().enumerate() {
            // SAFETY: alive, and an exact str when its type is that.
            let text = unsafe {
                match raw::shape(*item) {
                    Shape::Str => raw::utf8(*item),
                    _ => None,
                }
            };
            let Some(text) = text.filter(|text| text.len() < limit::LONG_STR_BYTES) else {
                let prefix = match refs {
                    Some(start) => Prefix::Refs { start, count },
                    None => Prefix::Entries { kind: slot::STR, start, count },
                };
                return self.mixed(items, prefix);
            };
            let next = self.tables.strs.len();
            let number = match self.met_text(*item, slot::STR, text, items.base) {
                None => {
                    self.tables.strs.push(text);
                    next
                }
                Some(known) => {
                    if refs.is_none() {
                        refs = Some(self.tables.refs.len());
                        self.tables.refs.extend((start..start + count).map(word));
                    }
                    known
                }
            };
            if refs.is_some() {
                self.tables.refs.push(word(number));
            }
        }
        Ok(match refs {
            Some(start) => Run { elem: elem::REFS, start },
            None => Run { elem: elem::STRS, start },
        })
    }

    /// The number of a str or bytes that was met before; if it wasn't, the next number will be its.
    #[inline]
    fn met_text(&mut self, item: Ptr, kind: u8, text: &[u8], base: isize) -> Option<usize> {
        let table = if kind == slot::STR { &self.tables.strs } else { &self.tables.bins };
        let next = table.len();
        if self.canonical {
            let contents = self.contents.get_or_insert_default();
            let known = contents.get(&(kind, text.into())).copied();
            if known.is_none() {
                contents.insert((kind, text.into()), next as u32);
            }
            return known.map(|known| known as usize);
        }
        // SAFETY: alive.
        if unsafe { raw::references(item) } <= base {
            return None;
        }
        self.meet(item, kind, next).map(|place| place.index as usize)
    }

    fn run_of_containers(&mut self, items: Items<'_>, shape: Shape) -> PyResult<Run> {
        if let Some(rows) = self.rows(items, shape)? {
            return Ok(rows);
        }
        let start = self.tables.nodes.len();
        for (count, item) in items.all.iter().enumerate() {
            // SAFETY: alive.
            let fits = unsafe { raw::shape(*item) }.is_container()
                && self.met_node(*item, start + count, items.base).is_none();
            if !fits {
                self.tables.nodes.reserve_many(count);
                return self.mixed(items, Prefix::Entries { kind: slot::NODE, start, count });
            }
            self.later(Work::Value(*item));
        }
        self.tables.nodes.reserve_many(items.all.len());
        Ok(Run { elem: elem::NODES, start })
    }

    /// Where a container was met before; if it wasn't, `number` is its.
    #[inline]
    pub(super) fn met_node(&mut self, item: Ptr, number: usize, base: isize) -> Option<Place> {
        // SAFETY: alive.
        if unsafe { raw::references(item) } <= base && !self.canonical {
            return None;
        }
        self.meet(item, slot::NODE, number)
    }

    pub(super) fn run_of_arrays(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.tensors.len();
        let (mut items, mut copies) = (items, Vec::new());
        let mut count = self.push_arrays(items, 0)?;
        if count < items.all.len() && !items.held {
            // The next one's element type is met for the first time: it is described by others.
            items = self.hold(items, &mut copies);
            count = self.push_arrays(items, count)?;
        }
        if count < items.all.len() {
            return self.mixed(items, Prefix::Entries { kind: slot::TENSOR, start, count });
        }
        Ok(Run { elem: elem::TENSORS, start })
    }

    /// Writes arrays from one on, up to what is none, or none that was not met before; how many
    /// are written then.
    fn push_arrays(&mut self, items: Items<'_>, from: usize) -> PyResult<usize> {
        for (count, item) in items.all.iter().enumerate().skip(from) {
            // SAFETY: alive.
            let shared = unsafe { raw::references(*item) } > items.base || self.canonical;
            let known = shared && self.memo.get(*item).is_some();
            let is_array =
                if items.held { self.is_array(*item) } else { self.is_known_array(*item) };
            let number = self.tables.tensors.len();
            if known || !is_array || !self.push_array(*item)? {
                return Ok(count);
            }
            if shared {
                self.meet(*item, slot::TENSOR, number);
            }
        }
        Ok(items.all.len())
    }

    /// Writes values as slots; those of `prefix` were written elsewhere before.
    pub(super) fn mixed(&mut self, items: Items<'_>, prefix: Prefix) -> PyResult<Run> {
        let start = self.tables.slots.len();
        self.prefix(prefix);
        let rest = Items { all: &items.all[prefix.count()..], ..items };
        // SAFETY: alive.
        let native = |item: &Ptr| unsafe { raw::shape(*item) } != Shape::Foreign;
        let mut copies = Vec::new();
        let rest = match rest.held || rest.all.iter().all(native) {
            true => rest,
            false => self.hold(rest, &mut copies),
        };
        for item in rest.all {
            self.slot(*item, rest.base)?;
        }
        Ok(Run { elem: elem::SLOTS, start })
    }

    /// Makes slots of values that are in another table, and takes them out of there if slots hold
    /// such values themselves.
    fn prefix(&mut self, prefix: Prefix) {
        let tables = &mut self.tables;
        let slots = &mut tables.slots;
        match prefix {
            Prefix::None(count) => (0..count).for_each(|_| slots.push_null()),
            Prefix::Bits { start, count } => {
                (start..start + count).for_each(|at| slots.push_bool(tables.bits.at(at)));
                tables.bits.truncate(start);
            }
            Prefix::I32 { start, .. } => {
                let values = tables.i32.drain(start..);
                values.for_each(|value| slots.push_int(i32::from_le_bytes(value).into()));
            }
            Prefix::I64 { start, .. } => {
                let values = tables.i64.drain(start..);
                values.for_each(|value| slots.push_int(i64::from_le_bytes(value)));
            }
            Prefix::F64 { start, .. } => {
                let values = tables.f64.drain(start..);
                values.for_each(|value| slots.push_float(f64::from_le_bytes(value)));
            }
            Prefix::Entries { kind, start, count } => {
                (start..start + count).for_each(|entry| slots.push_index(kind, entry));
            }
            Prefix::Refs { start, .. } => {
                let values = tables.refs.drain(start..);
                let numbers = values.map(|value| u32::from_le_bytes(value) as usize);
                numbers.for_each(|number| slots.push_index(slot::STR, number));
            }
        }
    }

    /// Writes one value as a slot.
    fn slot(&mut self, item: Ptr, base: isize) -> PyResult<()> {
        // SAFETY: here and below: alive, as in `run`.
        match unsafe { raw::shape(item) } {
            Shape::None => self.tables.slots.push_null(),
            Shape::Bool => self.tables.slots.push_bool(is_true(item)),
            Shape::Float => {
                // SAFETY: an exact float.
                self.tables.slots.push_float(unsafe { raw::float(item) });
            }
            // SAFETY: an exact int.
            Shape::Int => match unsafe { raw::int(item) } {
                Some(value) => self.tables.slots.push_int(value),
                None => self.big_int(item, base)?,
            },
            Shape::Str => self.slot_of_str(item, base)?,
            Shape::Bytes => {
                // SAFETY: exact bytes.
                let bytes = unsafe { raw::bytes(item) };
                if bytes.len() >= limit::LONG_BYTES {
                    return self.long(item, ext::LONG_BYTES, bytes, base);
                }
                let next = self.tables.bins.len();
                let number = self.met_text(item, slot::BYTES, bytes, base);
                if number.is_none() {
                    self.tables.bins.push(bytes);
                }
                self.tables.slots.push_index(slot::BYTES, number.unwrap_or(next));
            }
            shape if shape.is_container() => {
                let next = self.tables.nodes.len();
                self.slot_of_node(item, next, base);
            }
            _ => return self.slot_of_foreign(item, base),
        }
        Ok(())
    }

    /// Writes a container, or another object that becomes a node, as a slot.
    pub(super) fn slot_of_node(&mut self, item: Ptr, next: usize, base: isize) {
        match self.met_node(item, next, base) {
            Some(place) if place.kind == slot::NODE => {
                self.tables.slots.push_index(slot::REF, place.index as usize);
            }
            Some(place) => self.tables.slots.push_index(place.kind, place.index as usize),
            None => {
                self.later(Work::Value(item));
                let number = self.tables.nodes.reserve();
                self.tables.slots.push_index(slot::NODE, number);
            }
        }
    }

    fn slot_of_str(&mut self, item: Ptr, base: isize) -> PyResult<()> {
        // SAFETY: an exact str that is alive.
        let Some(text) = (unsafe { raw::utf8(item) }) else {
            return self.surrogates(item, base);
        };
        if text.len() >= limit::LONG_STR_BYTES {
            return self.long(item, ext::LONG_STR, text, base);
        }
        let next = self.tables.strs.len();
        let number = self.met_text(item, slot::STR, text, base);
        if number.is_none() {
            self.tables.strs.push(text);
        }
        self.tables.slots.push_index(slot::STR, number.unwrap_or(next));
        Ok(())
    }
}

/// Appends what items are in a column, up to the first that does not fit; how many did.
#[inline]
fn append<T: Copy>(column: &mut Vec<T>, items: &[Ptr], value: impl Fn(Ptr) -> Option<T>) -> usize {
    column.reserve(items.len());
    let mut count = 0;
    for (room, item) in column.spare_capacity_mut().iter_mut().zip(items) {
        let Some(value) = value(*item) else { break };
        room.write(value);
        count += 1;
    }
    // SAFETY: `count` after the old length were just written, within the capacity.
    unsafe { column.set_len(column.len() + count) };
    count
}

#[inline]
fn is_true(object: Ptr) -> bool {
    // SAFETY: True is alive for as long as the interpreter is.
    object == unsafe { ffi::Py_True() }
}
