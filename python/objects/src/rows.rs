//! Rows: many containers of one shape become one column for each of their fields.
//!
//! Only containers that nothing else refers to can be rows, because rows have no numbers.

use plasmon_plo::codes::{elem, limit};
use plasmon_plo::tables::Run;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::class_key::ClassKey;
use super::encoder::{Encoder, Items};
use super::object_dict::dict_of;
use super::raw::{self, Ptr, Shape};
use super::work::{Column, Rows, Work};

/// More fields than this are not looked at.
const FIELDS_MAX: usize = 32;

/// The columns of rows.
struct Columns {
    all: Vec<Vec<Ptr>>,
    rows: usize,
    /// Whether the encoder holds the values.
    held: bool,
}

impl Columns {
    fn new(fields: usize, rows: usize) -> Self {
        let column = || Vec::with_capacity(rows);
        Self { all: std::iter::repeat_with(column).take(fields).collect(), rows, held: false }
    }

    /// Whether a row takes some bytes of its own, as the format asks: a field is neither None nor
    /// bool nor in its turn rows, or is rows of which one field is.
    fn are_solid(&self) -> bool {
        self.all.iter().filter_map(|column| column.first()).any(|first| is_solid(*first, 1))
    }
}

/// Whether a field that begins with this value is certainly no column of bits.
fn is_solid(value: Ptr, depth: usize) -> bool {
    // SAFETY: the items of a run, and so their parts, are alive, as its caller ensures.
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
        let held = columns.held;
        for values in columns.all {
            self.later(Work::Field(Box::new(Column { values, held })));
        }
        Run { elem: elem::ROWS, start }
    }

    /// Objects of one class as rows of their attributes, if they can be. With `fields` those, else
    /// what is in their `__dict__`. `None` as well when code of others would have to run.
    pub(super) fn plain_rows(
        &mut self,
        items: Items<'_>,
        fields: Option<&[Ptr]>,
    ) -> PyResult<Option<Run>> {
        if !self.can_be_rows(items) {
            return Ok(None);
        }
        // Also of items that are held, the values are looked at where they lie.
        self.in_hand();
        let found = match fields {
            Some(fields) => plain_columns(items.all, fields).map(|found| (found, fields.to_vec())),
            None => self.columns_of_dicts(items)?,
        };
        let run = self.write_objects(items, found);
        if items.held {
            self.done();
        }
        Ok(run)
    }

    /// The same for objects that are held: the values are asked for, and code of others may run.
    pub(super) fn attribute_rows(
        &mut self,
        items: Items<'_>,
        fields: Option<&[Ptr]>,
    ) -> PyResult<Option<Run>> {
        debug_assert!(items.held, "code of others runs");
        if !self.can_be_rows(items) {
            return Ok(None);
        }
        let found = match fields {
            Some(fields) if !fields.is_empty() && fields.len() <= FIELDS_MAX => {
                let columns = self.asked_columns(items.all, fields)?;
                Some((columns, fields.to_vec()))
            }
            Some(_) => None,
            None => {
                // Their dicts are looked at where they lie.
                self.in_hand();
                self.columns_of_dicts(items)?
            }
        };
        let run = self.write_objects(items, found);
        self.done();
        Ok(run)
    }

    fn can_be_rows(&self, items: Items<'_>) -> bool {
        items.all.len() >= limit::ROWS_MIN && !self.canonical && self.are_alike(items)
    }

    fn columns_of_dicts(&self, items: Items<'_>) -> PyResult<Option<(Columns, Vec<Ptr>)>> {
        let dicts: PyResult<Vec<Ptr>> =
            items.all.iter().map(|item| dict_of(self.py, *item)).collect();
        Ok(dict_columns(dicts?.into_iter()))
    }

    fn write_objects(
        &mut self,
        items: Items<'_>,
        found: Option<(Columns, Vec<Ptr>)>,
    ) -> Option<Run> {
        let (columns, keys) = found.filter(|(columns, _)| columns.are_solid())?;
        let (fields, rows) = (columns.all.len(), columns.rows);
        // SAFETY: alive, as in `run`.
        let class = ClassKey::attributes(unsafe { raw::type_of(items.all[0]) }, keys);
        Some(self.write_rows(columns, Rows::Objects { class, fields, rows }))
    }

    /// The attributes of the objects, held from then on.
    fn asked_columns(&mut self, items: &[Ptr], fields: &[Ptr]) -> PyResult<Columns> {
        let mut columns = Columns { held: true, ..Columns::new(fields.len(), items.len()) };
        for (column, field) in columns.all.iter_mut().zip(fields) {
            let field = self.own(*field);
            for item in items {
                let value = self.own(*item).getattr(field.cast::<PyString>()?)?;
                column.push(self.keep(&value));
            }
        }
        Ok(columns)
    }

    /// Objects that were taken apart into constructor arguments alone as rows of those.
    pub(super) fn argument_rows(&mut self, arguments: &[Ptr], class: &ClassKey) -> Option<Run> {
        let columns = Columns { rows: arguments.len(), all: vec![arguments.to_vec()], held: true };
        if !columns.are_solid() {
            return None;
        }
        let (fields, rows) = (1, columns.rows);
        let class = class.clone();
        Some(self.write_rows(columns, Rows::Objects { class, fields, rows }))
    }
}

/// The attributes of objects of a class that says that reading them runs no code; `None` when it
/// would for one of the objects, or one has none.
fn plain_columns(items: &[Ptr], fields: &[Ptr]) -> Option<Columns> {
    if fields.is_empty() || fields.len() > FIELDS_MAX {
        return None;
    }
    // SAFETY: here and below: alive, as in `run`.
    if !items.iter().all(|item| unsafe { raw::attributes::has_plain_names(*item) }) {
        return None;
    }
    let mut columns = Columns::new(fields.len(), items.len());
    for (column, field) in columns.all.iter_mut().zip(fields) {
        for item in items {
            // SAFETY: nothing ran since the class and the object were asked.
            column.push(unsafe { raw::attributes::plain_attribute(*item, *field) }?);
        }
    }
    Some(columns)
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
