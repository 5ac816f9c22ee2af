//! Every rule of the format, checked once.
//!
//! The check goes through the nodes in the order of their numbers, as the writer did, with one
//! counter for each table: the first mention of an entry must be that of exactly the next entry.
//! So every entry is used, by exactly one run or owner, and a builder of values afterwards can
//! neither be led outside of the object nor be made to build more than it holds.

use crate::codes::{elem, kind, limit, make, slot, source, tensor};
use crate::error::{Result, broken};
use crate::sizes::at;
use crate::view::View;

mod parts;

/// An object that obeys every rule.
#[derive(Debug)]
pub struct ValidObject<'a> {
    /// Its tables.
    pub view: Box<View<'a>>,
    /// Whether some slot refers to a node that something else owns.
    pub has_refs: bool,
    /// Whether some class calls something to make its objects.
    pub has_calls: bool,
    /// Nodes that are mentioned more than once.
    pub repeats: Repeats,
}

/// Tables with entries that are mentioned more than once, so that a reader has to keep what it made
/// of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the tables")]
pub struct Repeats {
    pub strs: bool,
    pub bins: bool,
    pub tensors: bool,
    pub exts: bool,
}

impl<'a> ValidObject<'a> {
    /// Finds and checks the object at the front of `bytes`.
    pub fn of(bytes: &'a [u8]) -> Result<Self> {
        check(View::of(bytes)?)
    }
}

/// How far each table was used up.
#[derive(Debug, Default)]
struct TableUsage {
    slots: usize,
    slot_kinds: [usize; slot::COUNT],
    nodes: usize,
    i32: usize,
    i64: usize,
    f64: usize,
    bits: usize,
    strs: usize,
    refs: usize,
    bins: usize,
    classes: usize,
    tensors: usize,
    exts: usize,
}

/// A run of a node, as it is written there.
#[derive(Clone, Copy, Debug)]
struct RunOf {
    elem: u8,
    start: usize,
    length: usize,
}

struct Checker<'v, 'a> {
    view: &'v View<'a>,
    used: TableUsage,
    /// The greatest heap number of the extensions so far.
    heap_before: i64,
    has_refs: bool,
    has_calls: bool,
    repeats: Repeats,
}

/// Checks an object.
pub fn check(view: Box<View<'_>>) -> Result<ValidObject<'_>> {
    let mut checker = Checker {
        view: &view,
        used: TableUsage::default(),
        heap_before: -1,
        has_refs: false,
        has_calls: false,
        repeats: Repeats::default(),
    };
    checker.offsets()?;
    checker.names()?;
    checker.slots(1)?;
    for node in 0..view.count(at::NODES) {
        // A node that nothing owns would be looked at before it was numbered.
        if node >= checker.used.nodes {
            return broken("a node without an owner", node);
        }
        checker.node(node)?;
    }
    checker.all_used()?;
    let Checker { has_refs, has_calls, repeats, .. } = checker;
    Ok(ValidObject { view, has_refs, has_calls, repeats })
}

/// Takes the next `length` entries of a table of `count`.
#[inline]
fn take(used: &mut usize, start: usize, length: usize, count: usize) -> Result<()> {
    if start != *used || length > count - *used {
        return broken("a run that does not start where its table was used up to", start);
    }
    *used += length;
    Ok(())
}

/// Takes note of an entry: one that was met before, or exactly the next.
#[inline]
fn mention(used: &mut usize, index: usize, count: usize) -> Result<bool> {
    if index > *used || index >= count {
        return broken("an index that is neither in use nor the next", index);
    }
    let first = index == *used;
    *used += usize::from(first);
    Ok(first)
}

impl Checker<'_, '_> {
    fn count(&self, number: usize) -> usize {
        self.view.count(number)
    }

    /// Slots of a run: the next ones.
    fn slots(&mut self, length: usize) -> Result<()> {
        let start = self.used.slots;
        take(&mut self.used.slots, start, length, self.view.count(at::SLOTS))?;
        (start..start + length).try_for_each(|number| self.slot(number))
    }

    fn slot(&mut self, number: usize) -> Result<()> {
        let view = self.view;
        let slots = &view.slots;
        let kind = slots.kind.get(number).copied().unwrap_or(u8::MAX);
        let Some(next) = self.used.slot_kinds.get_mut(usize::from(kind)) else {
            return broken("a slot of an unknown type", number);
        };
        let count = view.count(at::SLOT_NULL + usize::from(kind));
        take(next, slots.offset.index(number), 1, count)?;
        match kind {
            slot::STR => self.mention_str(slots.index(number, kind)),
            slot::BYTES => {
                let index = slots.index(number, kind);
                let first = mention(&mut self.used.bins, index, view.count(at::BINS))?;
                self.repeats.bins |= !first;
                Ok(())
            }
            slot::NODE => self.own(slots.index(number, kind), 1),
            slot::REF => self.refer(slots.index(number, kind)),
            slot::TENSOR => self.mention_tensor(slots.index(number, kind), false),
            slot::EXT => self.mention_ext(slots.index(number, kind)),
            _ => Ok(()),
        }
    }

    fn mention_str(&mut self, index: usize) -> Result<()> {
        let first = mention(&mut self.used.strs, index, self.view.count(at::STRS))?;
        self.repeats.strs |= !first;
        Ok(())
    }

    /// Nodes that a run or a slot owns.
    fn own(&mut self, start: usize, length: usize) -> Result<()> {
        take(&mut self.used.nodes, start, length, self.view.count(at::NODES))?;
        let kinds = &self.view.nodes.kind[start..start + length];
        let whole = |kind: &u8| matches!(*kind, 0..=kind::FROZENSET | kind::OBJECT | kind::ARRAY);
        if kinds.iter().all(whole) { Ok(()) } else { broken("a node without a value", start) }
    }

    fn refer(&mut self, node: usize) -> Result<()> {
        self.has_refs = true;
        if node >= self.used.nodes {
            return broken("a reference to a node that was not met before", node);
        }
        match self.view.nodes.kind[node] {
            kind::DICT_ROWS | kind::TUPLE_ROWS | kind::OBJECT_ROWS | kind::FIELD => {
                broken("a reference to rows", node)
            }
            _ => Ok(()),
        }
    }

    /// The rows of a row node: the next node, with its fields after it.
    fn own_rows(&mut self, header: usize, length: usize) -> Result<()> {
        let (count, nodes) = (self.count(at::NODES), &self.view.nodes);
        let fields = nodes.start2.index(header);
        if header >= count || !(1..=limit::ROW_FIELDS_MAX).contains(&fields) {
            return broken("rows without a fitting number of fields", header);
        }
        take(&mut self.used.nodes, header, 1 + fields, count)?;
        if !matches!(nodes.kind[header], kind::DICT_ROWS..=kind::OBJECT_ROWS)
            || nodes.length.index(header) != length
        {
            return broken("rows without a row node of their length", header);
        }
        let range = header + 1..header + 1 + fields;
        let fits = |node| nodes.kind[node] == kind::FIELD && nodes.length.index(node) == length;
        if !range.clone().all(fits) {
            return broken("rows without fields of their length", header);
        }
        // Otherwise one bit could become a whole dict, and one float a thousand nested tuples.
        let weak = |node| matches!(nodes.elem[node], elem::NONE | elem::BITS | elem::ROWS);
        let is_solid = |header: usize| {
            let fields = nodes.start2.index(header).min(limit::ROW_FIELDS_MAX);
            let range = header.saturating_add(1)..header.saturating_add(1 + fields).min(count);
            !range.into_iter().all(weak)
        };
        let below = |node| nodes.elem[node] == elem::ROWS && is_solid(nodes.start.index(node));
        if is_solid(header) || range.into_iter().any(below) {
            Ok(())
        } else {
            broken("rows of nothing but bits and rows", header)
        }
    }

    fn run(&mut self, run: RunOf) -> Result<()> {
        let RunOf { elem, start, length } = run;
        if length == 0 {
            let empty = elem == elem::NONE && start == 0;
            return if empty { Ok(()) } else { broken("an empty run with a place", start) };
        }
        let (view, used) = (self.view, &mut self.used);
        match elem {
            elem::NONE | elem::BITS => take(&mut used.bits, start, length, view.count(at::BITS)),
            elem::I32 => take(&mut used.i32, start, length, view.count(at::I32)),
            elem::I64 => take(&mut used.i64, start, length, view.count(at::I64)),
            elem::F64 => take(&mut used.f64, start, length, view.count(at::F64)),
            elem::STRS => take(&mut used.strs, start, length, view.count(at::STRS)),
            elem::BINS => take(&mut used.bins, start, length, view.count(at::BINS)),
            elem::REFS => {
                take(&mut used.refs, start, length, view.count(at::REFS))?;
                let mut found = view.refs.range(start, length).iter();
                found.try_for_each(|index| self.mention_str(u32::from_le_bytes(*index) as usize))
            }
            elem::NODES => self.own(start, length),
            elem::SLOTS if start == used.slots => self.slots(length),
            elem::ROWS => self.own_rows(start, length),
            elem::TENSORS if start == used.tensors && length <= view.count(at::TENSORS) => {
                (start..start + length).try_for_each(|index| self.mention_tensor(index, false))
            }
            elem::EXTS if start == used.exts && length <= view.count(at::EXTS) => {
                (start..start + length).try_for_each(|index| self.mention_ext(index))
            }
            _ => broken("a run of an unknown kind, or one that skips entries", elem),
        }
    }

    fn node(&mut self, node: usize) -> Result<()> {
        let nodes = &self.view.nodes;
        let (start, start2) = (nodes.start.index(node), nodes.start2.index(node));
        let length = nodes.length.index(node);
        let first = RunOf { elem: nodes.elem[node], start, length };
        let (kind, elem2) = (nodes.kind[node], nodes.elem2[node]);
        if length > i32::MAX as usize {
            return broken("a negative length", node);
        }
        let single = elem2 == 0;
        match kind {
            kind::LIST | kind::TUPLE | kind::SET | kind::FROZENSET if single && start2 == 0 => {
                self.run(first)
            }
            kind::FIELD if single && start2 == 0 => self.run(first),
            kind::DICT => {
                self.run(first)?;
                self.run(RunOf { elem: elem2, start: start2, length })
            }
            kind::DICT_ROWS if single => self.run(RunOf { length: start2, ..first }),
            kind::TUPLE_ROWS if single && first.elem == 0 && start == 0 => Ok(()),
            kind::OBJECT_ROWS if single && first.elem == 0 => self.object(start, start2, true),
            kind::OBJECT if single => {
                self.object(start2, length, false)?;
                if first.elem == elem::ROWS {
                    return broken("an object whose parts are rows", node);
                }
                self.run(first)
            }
            kind::ARRAY if single => {
                self.mention_tensor(start2, true)?;
                if self.elements(start2) != Some(length as u64) {
                    return broken("an array of objects with another number of elements", node);
                }
                self.run(first)
            }
            _ => broken("a node of an unknown kind, or with fields that it does not use", node),
        }
    }

    /// An object, or a row of objects, of a class and with a number of parts.
    fn object(&mut self, class: usize, parts: usize, rows: bool) -> Result<()> {
        if mention(&mut self.used.classes, class, self.view.count(at::CLASSES))? {
            self.class(class)?;
        }
        let classes = &self.view.classes;
        let fields = classes.fields.index(class + 1).wrapping_sub(classes.fields.index(class));
        let fits = match classes.make[class] {
            make::ATTRIBUTES => parts == fields,
            make::STATE => parts == 1,
            make::CALL | make::NEW => (1..=5).contains(&parts),
            make::NEW_EX => (2..=6).contains(&parts),
            _ => parts == 0 && !rows,
        };
        if fits { Ok(()) } else { broken("an object with another number of parts", class) }
    }

    fn class(&mut self, class: usize) -> Result<()> {
        let classes = &self.view.classes;
        let (source, make) = (classes.source[class], classes.make[class]);
        if source > source::PICKLED || make > make::VALUE {
            return broken("a class of an unknown kind", class);
        }
        self.has_calls |= make != make::ATTRIBUTES;
        let fields = classes.fields.index(class + 1).wrapping_sub(classes.fields.index(class));
        if fields > limit::FIELDS_MAX || (fields != 0 && make != make::ATTRIBUTES) {
            return broken("a class with fields that it cannot have", class);
        }
        if classes.name.at(class).len() > limit::NAME_BYTES_MAX {
            return broken("the name of a class past its limit", class);
        }
        if source != source::PICKLED {
            return if classes.ext.at(class) == -1 {
                Ok(())
            } else {
                broken("a class with a name and a pickle", class)
            };
        }
        let ext = classes.ext.index(class);
        self.mention_ext(ext)?;
        match self.view.exts.kind[ext] {
            crate::codes::ext::PICKLE | crate::codes::ext::CLOUDPICKLE => Ok(()),
            _ => broken("a class that is pickled as something else", class),
        }
    }

    fn all_used(&self) -> Result<()> {
        let used = &self.used;
        let tables = [
            (used.slots, at::SLOTS),
            (used.nodes, at::NODES),
            (used.i32, at::I32),
            (used.i64, at::I64),
            (used.f64, at::F64),
            (used.bits, at::BITS),
            (used.strs, at::STRS),
            (used.refs, at::REFS),
            (used.bins, at::BINS),
            (used.classes, at::CLASSES),
            (used.tensors, at::TENSORS),
            (used.exts, at::EXTS),
        ];
        let kinds = used.slot_kinds.iter().enumerate();
        let kinds = kinds.map(|(kind, used)| (*used, at::SLOT_NULL + kind));
        // Without early ends the compiler compares many at once.
        let left = tables.into_iter().chain(kinds).fold(None, |left, (used, number)| {
            if used == self.count(number) { left } else { Some(number) }
        });
        match left {
            None => Ok(()),
            Some(number) => broken("a table with unused entries", number),
        }
    }

    fn mention_tensor(&mut self, index: usize, objects: bool) -> Result<()> {
        if mention(&mut self.used.tensors, index, self.view.count(at::TENSORS))? {
            self.tensor(index)?;
        } else {
            self.repeats.tensors = true;
        }
        if (self.view.tensors.kind[index] == tensor::OBJECTS) != objects {
            return broken("a tensor of the wrong kind", index);
        }
        Ok(())
    }
}
