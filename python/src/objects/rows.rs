//! Rows: many containers of one shape become one column for each of their fields.
//!
//! Only containers that nothing else refers to can be rows, because rows have no numbers.

use plasmon_objects::codes::{elem, limit};
use plasmon_objects::tables::Run;
use pyo3::ffi;
use pyo3::prelude::*;

use super::classes::ClassKey;
use super::encode::{Column, Encoder, Items, Rows, Work};
use super::raw::{self, Ptr, Shape};

/// More fields than this are not looked at.
const FIELDS_MAX: usize = 32;

/// The columns of rows.
struct Columns {
    all: Vec<Vec<Ptr>>,
    rows: usize,
}

impl Columns {
    fn new(fields: usize, rows: usize) -> Self {
        let column = || Vec::with_capacity(rows);
        Self { all: std::iter::repeat_with(column).take(fields).collect(), rows }
    }

    /// Whether a row takes some bytes of its own, as the format asks: a field is neither None nor
    /// bool nor in its turn rows, or is rows of which one field is.
    fn are_solid(&self) -> bool {
        self.all.iter().filter_map(|column| column.first()).any(|first| is_solid(*first, 1))
    }
}

/// Whether a field that begins with this value is certainly no column of bits.
fn is_solid(value: Ptr, depth: usize) -> bool {
    // SAFETY: whoever asks for a run sees to it that its items, and so their parts, are alive.
    match unsafe { raw::shape(value) } {
        Shape::Int
        | Shape::Float
        | Shape::Str
        | Shape::Bytes
        | Shape::List
        | Shape::Set
        | Shape::FrozenSet => true,
        Shape::Tuple if depth > 0 => {
            // SAFETY: as above.
            let items = unsafe { raw::tuple_items(value) };
            items.iter().any(|item| is_solid(*item, depth - 1))
        }
        Shape::Dict if depth > 0 => {
            let mut solid = false;
            // SAFETY: as above.
            unsafe {
                raw::dict_items(value, |_, item| {
                    solid = is_solid(item, depth - 1);
                    !solid
                });
            }
            solid
        }
        _ => false,
    }
}

impl<'py> Encoder<'py> {
    /// The containers as rows, if they can be.
    pub(super) fn rows(&mut self, items: Items<'_>, shape: Shape) -> PyResult<Option<Run>> {
        if items.all.len() < limit::ROWS_MIN || self.canonical || !self.are_alike(items) {
            return Ok(None);
        }
        let found = match shape {
            Shape::Tuple => tuple_columns(items.all).map(|columns| {
                let (fields, rows) = (columns.all.len(), columns.rows);
                (columns, Rows::Tuples { fields, rows })
            }),
            Shape::Dict => dict_columns(items.all.iter().copied()).map(|(columns, keys)| {
                let rows = columns.rows;
                (columns, Rows::Dicts { keys, rows })
            }),
            _ => None,
        };
        Ok(found
            .filter(|(columns, _)| columns.are_solid())
            .map(|(columns, header)| self.write_rows(columns, header)))
    }

    /// Whether all are of the first one's type and belong to nothing else.
    fn are_alike(&self, items: Items<'_>) -> bool {
        // SAFETY: alive, as in `run`.
        let first = unsafe { raw::type_of(items.all[0]) };
        // SAFETY: as above.
        let alike = |item: &Ptr| unsafe {
            raw::type_of(*item) == first && raw::references(*item) <= items.base
        };
        items.all.iter().all(alike)
    }

    fn write_rows(&mut self, columns: Columns, header: Rows) -> Run {
        let start = self.tables.nodes.reserve_many(1 + columns.all.len());
        self.later(Work::Rows(Box::new(header)));
        for column in columns.all {
            self.later(Work::Field(Box::new(Column(column))));
        }
        Run { elem: elem::ROWS, start }
    }

    /// Objects of one class as rows of their attributes, if they can be. With `fields` those, else
    /// what is in their `__dict__`.
    pub(super) fn attribute_rows(
        &mut self,
        items: Items<'_>,
        fields: Option<&[Ptr]>,
    ) -> PyResult<Option<Run>> {
        if items.all.len() < limit::ROWS_MIN || self.canonical || !self.are_alike(items) {
            return Ok(None);
        }
        // SAFETY: alive, as in `run`.
        let class = unsafe { raw::type_of(items.all[0]) };
        let found = match fields {
            Some(fields) => {
                let columns = self.attribute_columns(items.all, fields)?;
                columns.map(|columns| (columns, fields.to_vec()))
            }
            None => {
                let dicts: PyResult<Vec<Ptr>> =
                    items.all.iter().map(|item| dict_of(self.py, *item)).collect();
                dict_columns(dicts?.into_iter())
            }
        };
        let Some((columns, keys)) = found.filter(|(columns, _)| columns.are_solid()) else {
            return Ok(None);
        };
        let (fields, rows) = (columns.all.len(), columns.rows);
        let class = ClassKey::attributes(class, keys);
        Ok(Some(self.write_rows(columns, Rows::Objects { class, fields, rows })))
    }

    fn attribute_columns(&self, items: &[Ptr], fields: &[Ptr]) -> PyResult<Option<Columns>> {
        if fields.is_empty() || fields.len() > FIELDS_MAX {
            return Ok(None);
        }
        let mut columns = Columns::new(fields.len(), items.len());
        for (column, field) in columns.all.iter_mut().zip(fields) {
            for item in items {
                match attribute(self.py, *item, *field)? {
                    Some(value) => column.push(value),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(columns))
    }

    /// Objects that were taken apart into constructor arguments alone as rows of those.
    pub(super) fn argument_rows(&mut self, arguments: Vec<Ptr>, class: ClassKey) -> Option<Run> {
        let columns = Columns { rows: arguments.len(), all: vec![arguments] };
        if !columns.are_solid() {
            return None;
        }
        let (fields, rows) = (1, columns.rows);
        Some(self.write_rows(columns, Rows::Objects { class, fields, rows }))
    }
}

/// The value of an attribute that is known to be kept in the object, borrowed from there. `None`
/// when nothing else refers to it, so that it is not kept there after all.
pub(super) fn attribute(py: Python<'_>, object: Ptr, name: Ptr) -> PyResult<Option<Ptr>> {
    // SAFETY: both are alive; the class has no code of its own for getting this attribute, which
    // the strategy made sure of.
    let value = unsafe { ffi::PyObject_GetAttr(object, name) };
    if value.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the reference is ours to drop; after that the object's own one keeps the value.
    unsafe {
        let held = raw::references(value) > 1;
        ffi::Py_DECREF(value);
        Ok(held.then_some(value))
    }
}

/// The `__dict__` of an object whose class does nothing special about it, borrowed from the object.
pub(super) fn dict_of(py: Python<'_>, object: Ptr) -> PyResult<Ptr> {
    // SAFETY: the object is alive and has a dict, which the strategy made sure of.
    let dict = unsafe { ffi::PyObject_GenericGetDict(object, std::ptr::null_mut()) };
    if dict.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the object keeps its dict.
    unsafe { ffi::Py_DECREF(dict) };
    Ok(dict)
}

fn tuple_columns(rows: &[Ptr]) -> Option<Columns> {
    // SAFETY: here and below: exact tuples that are alive.
    let fields = unsafe { raw::tuple_items(rows[0]) }.len();
    if fields == 0 || fields > FIELDS_MAX {
        return None;
    }
    // SAFETY: as above.
    let fits = |row: &Ptr| unsafe { raw::tuple_items(*row) }.len() == fields;
    if !rows.iter().all(fits) {
        return None;
    }
    let mut columns = Columns::new(fields, rows.len());
    for row in rows {
        // SAFETY: as above.
        let items = unsafe { raw::tuple_items(*row) };
        columns.all.iter_mut().zip(items).for_each(|(column, item)| column.push(*item));
    }
    Some(columns)
}

/// The columns of dicts with the same keys, by address, in the same order; and the keys.
fn dict_columns(mut rows: impl ExactSizeIterator<Item = Ptr>) -> Option<(Columns, Vec<Ptr>)> {
    let count = rows.len();
    let first = rows.next()?;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    // SAFETY: here and below: exact dicts that are alive.
    unsafe {
        raw::dict_items(first, |key, value| {
            keys.push(key);
            values.push(value);
            keys.len() <= FIELDS_MAX
        });
    }
    // SAFETY: the dict holds its keys.
    let text = |key: &Ptr| unsafe { raw::shape(*key) } == Shape::Str;
    if keys.is_empty() || keys.len() > FIELDS_MAX || !keys.iter().all(text) {
        return None;
    }
    let mut columns = Columns::new(keys.len(), count);
    columns.all.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    for row in rows {
        let mut at = 0;
        // SAFETY: as above.
        unsafe {
            raw::dict_items(row, |key, value| {
                let fits = keys.get(at) == Some(&key);
                if fits {
                    columns.all[at].push(value);
                    at += 1;
                } else {
                    at = usize::MAX;
                }
                fits
            });
        }
        if at != keys.len() {
            return None;
        }
    }
    Some((columns, keys))
}
