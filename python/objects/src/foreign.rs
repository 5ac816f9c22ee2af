//! Everything that the encoder does not handle itself: extensions, and objects of classes.

use plasmon_plo::codes::{elem, ext, kind, make, slot};
use plasmon_plo::tables::{Node, Run};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use super::class_key::ClassKey;
use super::context::{Strategy, how};
use super::decimal::is_decimal;
use super::encoder::{Encoder, Items};
use super::heap::Piece;
use super::object_dict::dict_of;
use super::raw::{self, Ptr, Shape};
use super::reduced::{ReduceResult, Reduction, copyreg, exhausted, not_reduced};
use super::runs::Prefix;
use super::work::Work;

/// The protocol that objects are asked to take themselves apart for.
const PROTOCOL: u8 = 5;

impl<'py> Encoder<'py> {
    /// An object as an owned reference.
    pub(super) fn own(&self, object: Ptr) -> Bound<'py, PyAny> {
        // SAFETY: an item is alive, as the code that made it ensures.
        unsafe { Bound::from_borrowed_ptr(self.py, object) }
    }

    /// Whether something may be met again.
    fn is_shared(&self, object: Ptr, base: isize) -> bool {
        // SAFETY: alive, as above.
        self.canonical || unsafe { raw::references(object) } > base
    }

    /// An int of more than 64 bits. Its own methods are all that runs.
    pub(super) fn big_int(&mut self, item: Ptr, base: isize) -> PyResult<()> {
        if self.met_leaf(item, base) {
            return Ok(());
        }
        let value = self.own(item);
        // As few bytes as hold the number and its sign.
        let magnitude =
            if value.lt(0)? { value.call_method0("__invert__")? } else { value.clone() };
        let bits: usize = magnitude.call_method0(intern!(self.py, "bit_length"))?.extract()?;
        let options = PyDict::new(self.py);
        options.set_item("signed", true)?;
        let bytes = value.call_method("to_bytes", (bits / 8 + 1, "little"), Some(&options))?;
        self.tables.exts.data.bytes.extend_from_slice(bytes.cast::<PyBytes>()?.as_bytes());
        self.push_leaf(item, ext::INT, base);
        Ok(())
    }

    pub(super) fn surrogates(&mut self, item: Ptr, base: isize) -> PyResult<()> {
        if self.met_leaf(item, base) {
            return Ok(());
        }
        // SAFETY: an exact str that is alive.
        let encoded = unsafe { raw::utf8_with_surrogates(self.py, item)? };
        self.tables.exts.data.bytes.extend_from_slice(&encoded);
        self.push_leaf(item, ext::SURROGATES, base);
        Ok(())
    }

    /// A long str or bytes: it is copied from where it is when the object is written.
    pub(super) fn long(&mut self, item: Ptr, kind: u8, bytes: &[u8], base: isize) -> PyResult<()> {
        if !self.met_leaf(item, base) {
            let owner = self.own(item);
            // SAFETY: an exact str or bytes does not move or change its bytes while it lives.
            let piece = unsafe { Piece::of_memory(&owner, bytes.as_ptr(), bytes.len(), 0) };
            self.push_heap(piece);
            self.push_leaf(item, kind, base);
        }
        Ok(())
    }

    /// Gives the next extension an entry of the heap.
    fn push_heap(&mut self, piece: Piece) {
        let exts = &mut self.tables.exts;
        exts.data.bytes.extend_from_slice(&piece.bytes().to_le_bytes());
        let entry = self.tables.heap.push(piece.bytes());
        exts.heaps.values.push((entry as u32).to_le_bytes());
        self.heap.push(piece);
    }

    /// Whether an extension was met before; then a slot refers to it.
    fn met_leaf(&mut self, item: Ptr, base: isize) -> bool {
        let place = if self.is_shared(item, base) { self.memo.get(item) } else { None };
        if let Some(place) = place {
            let kind = if place.kind == slot::NODE { slot::REF } else { place.kind };
            self.tables.slots.push_index(kind, place.index as usize);
        }
        place.is_some()
    }

    fn push_leaf(&mut self, item: Ptr, kind: u8, base: isize) {
        let number = self.tables.exts.push(kind);
        if self.is_shared(item, base) {
            self.meet(item, slot::EXT, number);
        }
        self.tables.slots.push_index(slot::EXT, number);
    }

    /// Writes an object that is held.
    pub(super) fn slot_of_foreign(&mut self, item: Ptr, base: isize) -> PyResult<()> {
        self.open();
        if self.met_leaf(item, base) {
            return Ok(());
        }
        if self.is_array(item) {
            let next = self.tables.tensors.len();
            if self.push_array(item)? {
                if self.is_shared(item, base) {
                    self.meet(item, slot::TENSOR, next);
                }
                self.tables.slots.push_index(slot::TENSOR, next);
                return Ok(());
            }
        }
        if let Some(number) = self.push_memory(item)? {
            if self.is_shared(item, base) {
                self.meet(item, slot::TENSOR, number);
            }
            self.tables.slots.push_index(slot::TENSOR, number);
            return Ok(());
        }
        if let Some(number) = self.push_ext(item)? {
            if self.is_shared(item, base) {
                self.meet(item, slot::EXT, number);
            }
            self.tables.slots.push_index(slot::EXT, number);
            return Ok(());
        }
        let next = self.tables.nodes.len();
        self.slot_of_node(item, next, base);
        Ok(())
    }

    /// Writes an extension if the object's type is kept as one.
    fn push_ext(&mut self, item: Ptr) -> PyResult<Option<usize>> {
        self.open();
        let object = self.own(item);
        let strategy = self.strategy(&object.get_type())?;
        let strategy = strategy.get();
        let Some(encode) = strategy.encode.as_ref().filter(|_| strategy.how == how::EXT) else {
            return Ok(None);
        };
        if is_decimal(&object)? {
            let text = object.str()?;
            self.tables.exts.data.bytes.extend_from_slice(text.to_str()?.as_bytes());
            return Ok(Some(self.tables.exts.push(ext::DECIMAL)));
        }
        let encoded = encode.bind(self.py).call1((&object,))?;
        if encoded.is_none() {
            return Ok(None);
        }
        let encoded = encoded.cast_into::<PyTuple>()?;
        let kind: u8 = encoded.get_item(0)?.extract()?;
        if encoded.len() > 2 {
            for buffer in encoded.get_item(2)?.try_iter()? {
                self.push_heap(Piece::of_buffer(&buffer?)?);
            }
        }
        // Only when the rest has its lengths at the start, what the handler says follows.
        match kind {
            ext::SCALAR | ext::DTYPE => {
                let dtype = encoded.get_item(1)?.cast_into::<PyTuple>()?;
                let number = self.described_dtype(&dtype.get_item(0)?)?;
                self.tables.exts.data.bytes.extend_from_slice(&(number as u32).to_le_bytes());
                let data = dtype.get_item(1)?.cast_into::<PyBytes>()?;
                self.tables.exts.data.bytes.extend_from_slice(data.as_bytes());
            }
            _ => {
                let data = encoded.get_item(1)?.cast_into::<PyBytes>()?;
                self.tables.exts.data.bytes.extend_from_slice(data.as_bytes());
            }
        }
        Ok(Some(self.tables.exts.push(kind)))
    }

    pub(super) fn run_of_foreign(&mut self, items: Items<'_>) -> PyResult<Run> {
        let first = items.all[0];
        if self.is_known_array(first) {
            return self.run_of_arrays(items);
        }
        // SAFETY: alive, as in `run`.
        let class = unsafe { raw::type_of(first) };
        // Attributes of objects whose class is known, without code of others.
        if let Some(strategy) = self.context.get().known_strategy(self.py, class)
            && strategy.get().is_plain
            && raw::attributes::are_known(self.py)
        {
            let fields = field_pointers(strategy.get());
            if let Some(rows) = self.plain_rows(items, fields.as_deref())? {
                return Ok(rows);
            }
        }
        let mut copies = Vec::new();
        let items = self.hold(items, &mut copies);
        // Now that code may run, NumPy can be looked for, and elements of a structured type can be
        // described.
        if self.is_array(first) {
            return self.run_of_arrays(items);
        }
        if self.is_exact_array(first) {
            // How an array is written depends on its elements, not on its class: each decides.
            return self.mixed(items, Prefix::none());
        }
        let class = self.own(first).get_type();
        let strategy = self.strategy(&class)?;
        match strategy.get().how {
            how::MEMORY => self.mixed(items, Prefix::none()),
            how::EXT => self.run_of_exts(items),
            how::ATTRIBUTES => {
                let fields = field_pointers(strategy.get());
                match self.attribute_rows(items, fields.as_deref())? {
                    Some(rows) => Ok(rows),
                    None => self.run_of_objects(items, &class),
                }
            }
            how::REDUCE | how::PARTS => match self.reduced_rows(items, &class)? {
                Some(rows) => Ok(rows),
                None => self.run_of_objects(items, &class),
            },
            _ => self.run_of_objects(items, &class),
        }
    }

    fn run_of_exts(&mut self, items: Items<'_>) -> PyResult<Run> {
        let start = self.tables.exts.len();
        for (count, item) in items.all.iter().enumerate() {
            let shared = self.is_shared(*item, items.base);
            let known = shared && self.memo.get(*item).is_some();
            // SAFETY: alive: they are kept.
            let native = unsafe { raw::shape(*item) } != Shape::Foreign || self.is_array(*item);
            if known || native || self.push_ext(*item)?.is_none() {
                return self.mixed(items, Prefix::Entries { kind: slot::EXT, start, count });
            }
            if shared {
                self.meet(*item, slot::EXT, start + count);
            }
        }
        Ok(Run { elem: elem::EXTS, start })
    }

    /// Objects of one class, each as a node: a class that says so for all of its objects.
    fn run_of_objects(&mut self, items: Items<'_>, class: &Bound<'py, PyType>) -> PyResult<Run> {
        let start = self.tables.nodes.len();
        for (count, item) in items.all.iter().enumerate() {
            // SAFETY: alive: they are kept.
            let alike = unsafe { raw::type_of(*item) }.cast() == class.as_ptr();
            if !alike || self.met_node(*item, start + count, items.base).is_some() {
                self.tables.nodes.reserve_many(count);
                return self.mixed(items, Prefix::Entries { kind: slot::NODE, start, count });
            }
            self.later(Work::Value(*item));
        }
        self.tables.nodes.reserve_many(items.all.len());
        Ok(Run { elem: elem::NODES, start })
    }

    /// Objects that consist of constructor arguments, as rows of those, if they are nothing else.
    fn reduced_rows(
        &mut self,
        items: Items<'_>,
        class: &Bound<'py, PyType>,
    ) -> PyResult<Option<Run>> {
        let rows = plasmon_plo::codes::limit::ROWS_MIN;
        // SAFETY: alive: they are kept.
        let fits = |item: &Ptr| unsafe {
            raw::type_of(*item).cast() == class.as_ptr() && raw::references(*item) <= items.base
        };
        if items.all.len() < rows || self.canonical || !items.all.iter().all(fits) {
            return Ok(None);
        }
        let mut key: Option<ClassKey> = None;
        let mut arguments = Vec::with_capacity(items.all.len());
        for item in items.all {
            let taken = self.reduce(&self.own(*item))?;
            let own = match &taken {
                ReduceResult::Apart(reduced)
                    if reduced.parts.len() == 1
                        && matches!(reduced.make, make::CALL | make::NEW) =>
                {
                    let callable = self.keep(&reduced.callable);
                    Some((ClassKey::made_by(callable, reduced.make), self.keep(&reduced.parts[0])))
                }
                _ => None,
            };
            match own {
                Some((own, argument)) if key.as_ref().is_none_or(|key| *key == own) => {
                    key = Some(own);
                    arguments.push(argument);
                }
                _ => {
                    self.taken.insert(*item, taken);
                    break;
                }
            }
        }
        let Some(key) = key else { return Ok(None) };
        let rows = if arguments.len() == items.all.len() {
            self.argument_rows(&arguments, &key)
        } else {
            None
        };
        if rows.is_none() {
            // An object is asked once: this is what it said, for when its turn comes.
            for (item, argument) in items.all.iter().zip(arguments) {
                let (callable, parts) = (self.own(key.callable()), vec![self.own(argument)]);
                let reduced = Reduction { callable, make: key.make(), parts };
                self.taken.insert(*item, ReduceResult::Apart(reduced));
            }
        }
        Ok(rows)
    }

    /// A node that is not a container.
    pub(super) fn object(&mut self, number: usize, object: Ptr) -> PyResult<()> {
        let value = self.own(object);
        self.open();
        if self.is_array(object) {
            return self.array_of_objects(number, &value);
        }
        let class = value.get_type();
        let strategy = self.strategy(&class)?;
        let mut name = None;
        let (key, parts) = match strategy.get().how {
            how::ATTRIBUTES => self.attributes(&value, strategy.get())?,
            how::STATE => {
                let encode = strategy.get().encode.as_ref().ok_or_else(|| no_encoder(&class))?;
                let state = encode.bind(self.py).call1((&value,))?;
                let state = self.keep(&state);
                let key = ClassKey::made_by(class.as_ptr(), make::STATE);
                (key, vec![state])
            }
            _ => {
                let taken = match self.taken.remove(&object) {
                    Some(taken) => taken,
                    None => self.reduce(&value)?,
                };
                match taken {
                    ReduceResult::Apart(reduced) => {
                        let callable = self.keep(&reduced.callable);
                        let parts = reduced.parts.iter().map(|part| self.keep(part)).collect();
                        (ClassKey::made_by(callable, reduced.make), parts)
                    }
                    ReduceResult::Named(found) => {
                        name = Some(found);
                        (ClassKey::made_by(self.keep(&value), make::VALUE), Vec::new())
                    }
                }
            }
        };
        let extra = self.class(key, name.as_ref())?;
        let run = self.run(Items { all: &parts, base: 1, also: &[], held: true })?;
        let node = Node { kind: kind::OBJECT, run, length: parts.len(), extra, ..Node::default() };
        self.tables.nodes.set(number, node);
        Ok(())
    }

    fn attributes(
        &mut self,
        value: &Bound<'py, PyAny>,
        strategy: &Strategy,
    ) -> PyResult<(ClassKey, Vec<Ptr>)> {
        let class = value.get_type();
        let (mut keys, mut parts) = (Vec::new(), Vec::new());
        if let Some(fields) = &strategy.fields {
            for field in fields {
                let field = field.bind(self.py);
                keys.push(self.keep(field.as_any()));
                parts.push(self.keep(&value.getattr(field)?));
            }
        } else {
            self.in_hand();
            let dict = dict_of(self.py, value.as_ptr())?;
            // SAFETY: a dict that the object holds.
            unsafe {
                raw::dict_items(dict, |key, part| {
                    keys.push(key);
                    parts.push(part);
                    true
                });
            }
            self.keep_all(&parts);
            self.keep_all(&keys);
            self.done();
        }
        self.keep(value);
        // SAFETY: the names are held.
        let text =
            |key: &Ptr| unsafe { raw::shape(*key) == Shape::Str && raw::utf8(*key).is_some() };
        if !keys.iter().all(text) || keys.len() > plasmon_plo::codes::limit::FIELDS_MAX {
            let name = class.fully_qualified_name()?;
            let text = format!("cannot serialize a {name} whose attribute names are not strings");
            return Err(PyTypeError::new_err(text));
        }
        Ok((ClassKey::attributes(class.as_type_ptr(), keys), parts))
    }

    /// How an object is to be made again.
    fn reduce(&mut self, value: &Bound<'py, PyAny>) -> PyResult<ReduceResult<'py>> {
        self.open();
        let py = self.py;
        let class = value.get_type();
        let (table, new, new_ex) = copyreg(py)?;
        let strategy = self.strategy(&class)?;
        let found = match (&strategy.get().encode, table.get_item(&class)?) {
            (Some(encode), _) if strategy.get().how == how::PARTS => {
                encode.bind(py).call1((value,))?
            }
            (_, Some(reducer)) => reducer.call1((value,)).map_err(|e| not_reduced(value, e))?,
            // One that is not an extension, unlike most of its type.
            _ if strategy.get().how == how::EXT => {
                let taken = self.context.call_method1("_take", (value,));
                taken.map_err(|error| not_reduced(value, error))?
            }
            _ => value
                .call_method1(intern!(py, "__reduce_ex__"), (PROTOCOL,))
                .map_err(|error| not_reduced(value, error))?,
        };
        if found.is_instance_of::<PyString>() {
            return Ok(ReduceResult::Named(found));
        }
        let Ok(found) = found.cast_into::<PyTuple>() else {
            return Err(PyTypeError::new_err("__reduce_ex__ must give a str or a tuple"));
        };
        if !(2..=6).contains(&found.len()) {
            return Err(PyTypeError::new_err("__reduce_ex__ must give a tuple of 2 to 6"));
        }
        // Whatever is in there must live as long as anything may refer to it.
        self.keep(found.as_any());
        let callable = found.get_item(0)?;
        let arguments = found.get_item(1)?.cast_into::<PyTuple>()?;
        let (callable, make, mut parts) = if callable.is(new) {
            let rest = arguments.get_slice(1, arguments.len());
            (arguments.get_item(0)?, make::NEW, vec![rest.into_any()])
        } else if callable.is(new_ex) {
            let parts = vec![arguments.get_item(1)?, arguments.get_item(2)?];
            (arguments.get_item(0)?, make::NEW_EX, parts)
        } else {
            (callable, make::CALL, vec![arguments.into_any()])
        };
        for (at, part) in found.iter().enumerate().skip(2) {
            parts.push(match at {
                3 if !part.is_none() => exhausted(&part)?.into_any(),
                4 if !part.is_none() => {
                    let pairs = PyDict::new(py);
                    for pair in part.try_iter()? {
                        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
                        pairs.set_item(key, value)?;
                    }
                    pairs.into_any()
                }
                _ => part,
            });
        }
        while parts.last().is_some_and(|part| part.is_none()) {
            parts.pop();
        }
        Ok(ReduceResult::Apart(Reduction { callable, make, parts }))
    }
}

fn no_encoder(class: &Bound<'_, PyType>) -> PyErr {
    PyTypeError::new_err(format!("{class} has no serializer"))
}

fn field_pointers(strategy: &Strategy) -> Option<Vec<Ptr>> {
    let fields = strategy.fields.as_ref()?;
    Some(fields.iter().map(|field| field.as_ptr()).collect())
}
