//! A document: the containers of an object, and its root. Nodes that stand for values and the rows
//! of row nodes are numbered again in the order of the nodes; so every reference to one has its
//! number before it is made.

use super::leaves::Leaves;
use super::values::{Container, NodeId, Object, Value};
use crate::check::ValidObject;
use crate::codes::{elem, kind, slot};
use crate::error::Result;
use crate::order::Order;
use crate::sizes::at;

/// An object: its root, and the containers that are in it.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    /// The value.
    pub root: Value<'a>,
    /// The containers, which values name by number.
    pub nodes: Vec<Container<'a>>,
}

impl<'a> Document<'a> {
    /// Reads the object at the front of `bytes`.
    pub fn of(bytes: &'a [u8]) -> Result<Self> {
        document(&ValidObject::of(bytes)?)
    }

    /// The container that a value names, if it is one.
    pub fn container(&self, value: &Value<'a>) -> Option<&Container<'a>> {
        match value {
            Value::Node(id) => self.nodes.get(id.0),
            _ => None,
        }
    }
}

/// A run of a node.
#[derive(Clone, Copy, Debug)]
struct RunOf {
    elem: u8,
    start: usize,
    length: usize,
}

struct Build<'o, 'a> {
    object: &'o ValidObject<'a>,
    leaves: Leaves<'a>,
    /// The new number of each node, the first row's for row nodes.
    ids: Vec<usize>,
}

/// The values of an object.
fn document<'a>(object: &ValidObject<'a>) -> Result<Document<'a>> {
    // A graph that cannot be made in any order is not a value.
    Order::of(object)?;
    let count = object.view.count(at::NODES);
    let mut ids = Vec::with_capacity(count);
    let mut next = 0;
    for node in 0..count {
        ids.push(next);
        next += match object.view.nodes.kind[node] {
            kind::FIELD => 0,
            kind::DICT_ROWS..=kind::OBJECT_ROWS => object.view.nodes.length.index(node),
            _ => 1,
        };
    }
    let build = Build { object, leaves: Leaves::of(&object.view)?, ids };
    let mut nodes = Vec::with_capacity(next);
    for node in 0..count {
        build.node(node, &mut nodes);
    }
    Ok(Document { root: build.slot(0), nodes })
}

impl<'a> Build<'_, 'a> {
    /// The first run of a node.
    fn run(&self, node: usize) -> RunOf {
        let nodes = &self.object.view.nodes;
        let rows = nodes.kind[node] == kind::DICT_ROWS;
        let length = if rows { nodes.start2.index(node) } else { nodes.length.index(node) };
        RunOf { elem: nodes.elem[node], start: nodes.start.index(node), length }
    }

    /// Appends what a node stands for.
    fn node(&self, node: usize, made: &mut Vec<Container<'a>>) {
        let nodes = &self.object.view.nodes;
        let items = || self.values(self.run(node));
        made.push(match nodes.kind[node] {
            kind::LIST => Container::List(items()),
            kind::TUPLE => Container::Tuple(items()),
            kind::SET => Container::Set(items()),
            kind::FROZENSET => Container::FrozenSet(items()),
            kind::DICT => {
                let values = RunOf {
                    elem: nodes.elem2[node],
                    start: nodes.start2.index(node),
                    length: nodes.length.index(node),
                };
                Container::Dict(items().into_iter().zip(self.values(values)).collect())
            }
            kind::OBJECT => {
                let class = self.leaves.classes[nodes.start2.index(node)].clone();
                Container::Object(Object { class, parts: items() })
            }
            kind::ARRAY => {
                let shape = self.leaves.tensors[nodes.start2.index(node)].shape.clone();
                Container::Array { shape, items: items() }
            }
            kind::FIELD => return,
            _ => return self.rows(node, made),
        });
    }

    /// Appends the rows of a row node.
    fn rows(&self, node: usize, made: &mut Vec<Container<'a>>) {
        let nodes = &self.object.view.nodes;
        let fields = nodes.start2.index(node);
        let mut columns: Vec<_> =
            (0..fields).map(|field| self.values(self.run(node + 1 + field)).into_iter()).collect();
        let is_dicts = nodes.kind[node] == kind::DICT_ROWS;
        let keys = if is_dicts { self.values(self.run(node)) } else { Vec::new() };
        for _ in 0..nodes.length.index(node) {
            let row = columns.iter_mut().filter_map(Iterator::next);
            made.push(match nodes.kind[node] {
                kind::DICT_ROWS => Container::Dict(keys.iter().cloned().zip(row).collect()),
                kind::TUPLE_ROWS => Container::Tuple(row.collect()),
                _ => {
                    let class = self.leaves.classes[nodes.start.index(node)].clone();
                    Container::Object(Object { class, parts: row.collect() })
                }
            });
        }
    }

    /// The values of a run.
    fn values(&self, run: RunOf) -> Vec<Value<'a>> {
        let (view, leaves) = (&self.object.view, &self.leaves);
        let RunOf { elem, start, length } = run;
        let range = start..start + length;
        let str_at = |index: usize| Value::Str(leaves.strs[index]);
        match elem {
            elem::NONE => vec![Value::None; length],
            elem::BITS => range.map(|at| Value::Bool(view.bits.at(at))).collect(),
            elem::I32 => range.map(|at| Value::Int(i64::from(view.i32.at(at)))).collect(),
            elem::I64 => range.map(|at| Value::Int(view.i64.at(at))).collect(),
            elem::F64 => range.map(|at| Value::Float(float(view.f64.at(at)))).collect(),
            elem::STRS => range.map(str_at).collect(),
            elem::REFS => range.map(|at| str_at(view.refs.index(at))).collect(),
            elem::BINS => range.map(|at| Value::Bytes(view.bins.at(at))).collect(),
            elem::NODES => range.map(|at| self.node_value(at)).collect(),
            elem::SLOTS => range.map(|at| self.slot(at)).collect(),
            elem::ROWS => {
                let first = self.ids[start];
                (first..first + length).map(|id| Value::Node(NodeId(id))).collect()
            }
            elem::TENSORS => range.map(|at| Value::Tensor(leaves.tensors[at].clone())).collect(),
            _ => leaves.exts[range].to_vec(),
        }
    }

    fn node_value(&self, node: usize) -> Value<'a> {
        Value::Node(NodeId(self.ids[node]))
    }

    fn slot(&self, number: usize) -> Value<'a> {
        let (view, leaves) = (&self.object.view, &self.leaves);
        let slots = &view.slots;
        let (kind, at) = (slots.kind[number], slots.offset.index(number));
        let index = || slots.index(number, kind);
        match kind {
            slot::NULL => Value::None,
            slot::BOOL => Value::Bool(slots.bool.at(at)),
            slot::INT => Value::Int(slots.int.at(at)),
            slot::FLOAT => Value::Float(float(slots.float.at(at))),
            slot::STR => Value::Str(leaves.strs[index()]),
            slot::BYTES => Value::Bytes(view.bins.at(index())),
            slot::NODE | slot::REF => self.node_value(index()),
            slot::TENSOR => Value::Tensor(leaves.tensors[index()].clone()),
            _ => leaves.exts[index()].clone(),
        }
    }
}

/// A float from where it lies among integers.
fn float(bits: i64) -> f64 {
    f64::from_bits(bits as u64)
}
