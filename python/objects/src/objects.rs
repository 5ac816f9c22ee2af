//! Objects of classes, and rows.

use plasmon_plo::codes::{elem, ext, kind, limit, make, source};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::decoder::{BLOCK, Decoder, NodeCopy, shown_text, text_of};
use super::errors::{broken, changed, misfit};
use super::maker::{Maker, finish};
use super::owned::OwnedReferences;
use super::raw::{self, Ptr};

impl<'a, 'py> Decoder<'a, 'py> {
    fn maker(&mut self, class: usize) -> PyResult<Maker<'py>> {
        if let Some(Some(known)) = self.makers.get(class) {
            return Ok(known.clone());
        }
        let py = self.py;
        let classes = &self.object.view.classes;
        let make = classes.make.get(class).copied().unwrap_or(u8::MAX);
        let from = classes.fields.index(class);
        let count = classes.fields.index(class + 1).saturating_sub(from);
        if count > limit::FIELDS_MAX {
            return Err(changed());
        }
        let mut fields = Vec::with_capacity(count);
        for field in from..from + count {
            let name = text_of(classes.field_names.at(field))?;
            fields.push(PyString::intern(py, &name));
        }
        let source = classes.source.get(class).copied().unwrap_or(u8::MAX);
        let target = if source == source::PICKLED {
            if make == make::ATTRIBUTES {
                return Err(broken(py, "a pickled class of attributes"));
            }
            let pickled = self.ext(classes.ext.index(class))?;
            // SAFETY: a reference of ours.
            unsafe { Bound::from_owned_ptr(py, pickled) }
        } else {
            let name = text_of(classes.name.at(class))?;
            let names = PyTuple::new(py, &fields)?;
            let key = (source, make, name, classes.version.at(class), names, self.pickle);
            let key = key.into_pyobject(py)?;
            let makers = self.context.get().makers(py).clone();
            match makers.get_item(&key)? {
                Some(known) => known,
                None => {
                    let found = self.context.call_method1("_resolve", &key)?;
                    makers.set_item(&key, &found)?;
                    found
                }
            }
        };
        let specified = source == source::SPECIFIED;
        let maker = Maker::new(make, specified, target, fields)?;
        if let Some(room) = self.makers.get_mut(class) {
            *room = Some(maker.clone());
        }
        Ok(maker)
    }

    /// The first parts of an object, which it is made of.
    fn parts(
        &mut self,
        node: &NodeCopy,
        from: usize,
        to: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let NodeCopy { elem, start, length, .. } = *node;
        let (from, to) = (from.min(length), to.min(length));
        if from == to {
            return Ok(Vec::new());
        }
        if elem == elem::ROWS {
            return Err(changed());
        }
        let mut parts = OwnedReferences::nulls(to - from);
        self.fill(elem, start + from, &mut parts.0)?;
        let parts = std::mem::take(&mut parts.0).into_iter();
        // SAFETY: each is a reference of ours.
        Ok(parts.map(|part| unsafe { Bound::from_owned_ptr(self.py, part) }).collect())
    }

    /// An object without what comes after its construction.
    pub(super) fn new_object(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let maker = self.maker(node.start2)?;
        self.constructed(&maker, node)
    }

    fn constructed(&mut self, maker: &Maker<'py>, node: &NodeCopy) -> PyResult<Ptr> {
        let parts = self.parts(node, 0, maker.arguments())?;
        self.again.are_filled(self.py, &parts)?;
        maker.construct(self.py, &parts).map(Bound::into_ptr)
    }

    pub(super) fn object(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let maker = self.maker(node.start2)?;
        let empty = self.empty(node.number);
        let made = if empty.is_null() {
            let made = self.constructed(&maker, node)?;
            // While the rest is built it may be asked for.
            self.keep_built(node.number, made);
            made
        } else {
            empty
        };
        // SAFETY: `built` holds it, and so does this.
        let object = unsafe { Bound::from_borrowed_ptr(self.py, made) };
        if maker.make == make::ATTRIBUTES {
            if maker.attributes() != node.length {
                return Err(changed());
            }
            let mut values = OwnedReferences::nulls(node.length);
            self.fill(node.elem, node.start, &mut values.0)?;
            maker.set_attributes(&object, &values.0)?;
            return self.still_built(node.number, made);
        }
        let rest = self.parts(node, maker.arguments(), node.length)?;
        // The state may be kept as it is; items and pairs are taken out of what they are in.
        self.again.are_filled(self.py, rest.get(1..).unwrap_or_default())?;
        let finished = finish(&object, &rest);
        finished.map_err(|error| if maker.specified { misfit(self.py, error) } else { error })?;
        self.still_built(node.number, made)
    }

    /// What `built` has a reference to, unless a part that was none of it before has taken that.
    fn still_built(&self, node: usize, made: Ptr) -> PyResult<Ptr> {
        if self.empty(node) == made { Ok(made) } else { Err(changed()) }
    }

    /// Builds the rows of a row node.
    pub(super) fn row_node(&mut self, node: &NodeCopy) -> PyResult<()> {
        let NodeCopy { number: header, kind, length: count, start2: fields, .. } = *node;
        if fields > limit::ROW_FIELDS_MAX {
            return Err(changed());
        }
        let mut keys = OwnedReferences::nulls(if kind == kind::DICT_ROWS { fields } else { 0 });
        if kind == kind::DICT_ROWS {
            self.fill(node.elem, node.start, &mut keys.0)?;
        }
        let maker = match kind {
            kind::OBJECT_ROWS => Some(self.maker(node.start)?),
            _ => None,
        };
        let last = header.checked_add(fields).ok_or_else(changed)?;
        let nodes = (header + 1..=last).map(|field| self.read(field));
        let nodes = nodes.collect::<PyResult<Vec<_>>>()?;
        if nodes.is_empty() || nodes.iter().any(|field| field.length != count) {
            return Err(changed());
        }
        let mut rows = OwnedReferences::with_capacity(count)?;
        // Columns are built a block at a time: values are used up while they are in the cache.
        for from in (0..count).step_by(BLOCK) {
            let length = (count - from).min(BLOCK);
            let mut columns = Vec::with_capacity(fields);
            for field in &nodes {
                let mut column = OwnedReferences::nulls(length);
                self.fill_part(field.elem, field.start, from, &mut column.0)?;
                columns.push(column);
            }
            match &maker {
                Some(maker) => self.object_rows(maker, &columns, &mut rows)?,
                None if kind == kind::DICT_ROWS => self.dict_rows(&keys, &columns, &mut rows)?,
                None => self.tuple_rows(&mut columns, &mut rows)?,
            }
        }
        self.rows.insert(header, rows);
        Ok(())
    }

    fn tuple_rows(
        &self,
        columns: &mut [OwnedReferences],
        rows: &mut OwnedReferences,
    ) -> PyResult<()> {
        let (count, fields) = (columns.first().map_or(0, |first| first.0.len()), columns.len());
        for at in 0..count {
            // SAFETY: attached; every item of the new tuple is set before it is handed out.
            let row = self.made(unsafe { ffi::PyTuple_New(fields as isize) })?;
            for (field, column) in columns.iter_mut().enumerate() {
                let value = std::mem::replace(&mut column.0[at], std::ptr::null_mut());
                // SAFETY: as above; the reference moves into the tuple.
                unsafe { ffi::PyTuple_SET_ITEM(row, field as isize, value) };
            }
            rows.0.push(row);
        }
        Ok(())
    }

    fn dict_rows(
        &self,
        keys: &OwnedReferences,
        columns: &[OwnedReferences],
        rows: &mut OwnedReferences,
    ) -> PyResult<()> {
        let count = columns.first().map_or(0, |first| first.0.len());
        for at in 0..count {
            // SAFETY: attached.
            let row = self.made(unsafe { raw::new_dict(columns.len()) })?;
            rows.0.push(row);
            for (key, column) in keys.0.iter().zip(columns) {
                // SAFETY: a dict and two objects, all alive.
                if unsafe { ffi::PyDict_SetItem(row, *key, column.0[at]) } != 0 {
                    return Err(PyErr::fetch(self.py));
                }
            }
        }
        Ok(())
    }

    fn object_rows(
        &self,
        maker: &Maker<'py>,
        columns: &[OwnedReferences],
        rows: &mut OwnedReferences,
    ) -> PyResult<()> {
        let count = columns.first().map_or(0, |first| first.0.len());
        let mut values = vec![std::ptr::null_mut(); columns.len()];
        for at in 0..count {
            for (value, column) in values.iter_mut().zip(columns) {
                *value = column.0[at];
            }
            if maker.make == make::ATTRIBUTES {
                let row = maker.construct(self.py, &[])?;
                maker.set_attributes(&row, &values)?;
                rows.0.push(row.into_ptr());
                continue;
            }
            // SAFETY: the columns hold references until all rows of the block are made.
            let parts =
                values.iter().map(|value| unsafe { Bound::from_borrowed_ptr(self.py, *value) });
            let parts: Vec<_> = parts.collect();
            let arguments = maker.arguments();
            let row = maker.construct(self.py, &parts[..arguments.min(parts.len())])?;
            finish(&row, &parts[arguments.min(parts.len())..])?;
            rows.0.push(row.into_ptr());
        }
        Ok(())
    }

    /// Refuses an object that needs pickle before any of it is built, and says what needs it.
    pub(super) fn refuse_pickles(&self) -> PyResult<()> {
        let view = &self.object.view;
        let class = view.classes.source.iter().position(|source| *source >= source::IMPORTABLE);
        let pickled = |kind: &u8| matches!(*kind, ext::GLOBAL | ext::PICKLE | ext::CLOUDPICKLE);
        let found = view.exts.kind.iter().position(pickled);
        if class.is_none() && found.is_none() {
            return Ok(());
        }
        let (what, place) = match (class, found) {
            (Some(class), _) if view.classes.source[class] == source::IMPORTABLE => {
                let name = shown_text(view.classes.name.at(class));
                (name, self.object.locate_class(class))
            }
            (Some(class), _) => ("a pickled class".to_owned(), self.object.locate_class(class)),
            (None, Some(ext)) if view.exts.kind[ext] == ext::GLOBAL => {
                let name = shown_text(view.exts.data.at(ext));
                (name, self.object.locate_ext(ext))
            }
            (None, found) => {
                ("a pickle".to_owned(), self.object.locate_ext(found.unwrap_or_default()))
            }
        };
        let refuse = self.py.import("plasmon.objects._context")?.getattr("refused")?;
        Err(PyErr::from_value(refuse.call1((what, place))?))
    }
}
