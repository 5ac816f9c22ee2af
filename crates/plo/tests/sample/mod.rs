//! Objects for the tests.

#![allow(dead_code, reason = "each test uses some of it")]

use plasmon_plo::Plan;
use plasmon_plo::codes::{elem, ext, kind, make, slot, source, tensor};
use plasmon_plo::tables::{Class, Node, Run, Tables};

pub(crate) fn run(elem: u8, start: usize) -> Run {
    Run { elem, start }
}

pub(crate) fn node(kind: u8, run: Run, length: usize) -> Node {
    Node { kind, run, length, ..Node::default() }
}

/// An object of nothing but None.
pub(crate) fn none() -> Tables {
    let mut tables = Tables::default();
    tables.slots.push_null();
    tables
}

/// An object with entries in every table, and the bytes of its heap.
pub(crate) fn everything() -> (Tables, Vec<u8>) {
    let mut tables = Tables::default();
    let root = tables.nodes.reserve();
    tables.slots.push_index(slot::NODE, root);

    // Node 0: a list of mixed values.
    let start = tables.slots.len();
    tables.slots.push_null();
    tables.slots.push_bool(true);
    tables.slots.push_int(7);
    tables.slots.push_float(1.5);
    tables.strs.push(b"one");
    tables.slots.push_index(slot::STR, 0);
    tables.bins.push(b"\x00\xff");
    tables.slots.push_index(slot::BYTES, 0);
    let (i32s, i64s, floats, flags) = (
        tables.nodes.reserve(),
        tables.nodes.reserve(),
        tables.nodes.reserve(),
        tables.nodes.reserve(),
    );
    for number in [i32s, i64s, floats, flags] {
        tables.slots.push_index(slot::NODE, number);
    }
    let (dict, object, rows) =
        (tables.nodes.reserve(), tables.nodes.reserve(), tables.nodes.reserve());
    for number in [dict, object, rows] {
        tables.slots.push_index(slot::NODE, number);
    }
    tables.slots.push_index(slot::REF, i32s);
    let dtype = tables.dtypes.push(b"|u1", 1);
    tables.tensors.shape.values.extend([2i64.to_le_bytes(), 3i64.to_le_bytes()]);
    let array = tables.tensors.push(tensor::NUMPY, dtype);
    tables.slots.push_index(slot::TENSOR, array);
    tables.exts.data.bytes.extend_from_slice(&[1; 9]);
    let big = tables.exts.push(ext::INT);
    tables.slots.push_index(slot::EXT, big);
    let entry = tables.heap.push(70);
    tables.exts.data.bytes.extend_from_slice(&70u64.to_le_bytes());
    tables.exts.heaps.values.push((entry as u32).to_le_bytes());
    let long = tables.exts.push(ext::LONG_BYTES);
    tables.slots.push_index(slot::EXT, long);
    let length = tables.slots.len() - start;
    tables.nodes.set(root, node(kind::LIST, run(elem::SLOTS, start), length));

    typed(&mut tables, [i32s, i64s, floats, flags]);
    keyed(&mut tables, dict, object, rows);

    let entry = tables.heap.push(6);
    tables.tensors.place(array, entry, 0);
    tables.tensors.strides.end();
    let mut heap = vec![9; 70];
    heap.resize(128, 0);
    heap.extend([1, 2, 3, 4, 5, 6]);
    heap.resize(192, 0);
    (tables, heap)
}

/// The object's bytes.
pub(crate) fn bytes(plan: &Plan, tables: &Tables, heap: &[u8]) -> Vec<u8> {
    assert_eq!(heap.len() as u64, plan.heap_bytes());
    let bytes = [&plan.front(tables), heap, plan.tail()].concat();
    let mut glue = Vec::new();
    assert_eq!(plan.parts(tables, &mut glue).concat(), bytes[..plan.heap_at() as usize]);
    let mut front = vec![0xee; plan.heap_at() as usize];
    plan.write_front(tables, &mut front);
    assert_eq!(front, bytes[..front.len()]);
    assert_eq!(bytes.len() as u64, plan.bytes());
    bytes
}

/// Runs of one type each.
fn typed(tables: &mut Tables, [i32s, i64s, floats, flags]: [usize; 4]) {
    tables.i32.extend([1i32.to_le_bytes(), (-2i32).to_le_bytes()]);
    tables.nodes.set(i32s, node(kind::LIST, run(elem::I32, 0), 2));
    tables.i64.extend([(1i64 << 40).to_le_bytes(), (-5i64).to_le_bytes()]);
    tables.nodes.set(i64s, node(kind::TUPLE, run(elem::I64, 0), 2));
    tables.f64.push(2.5f64.to_le_bytes());
    tables.nodes.set(floats, node(kind::SET, run(elem::F64, 0), 1));
    tables.bits.push(true);
    tables.bits.push(false);
    tables.nodes.set(flags, node(kind::LIST, run(elem::BITS, 0), 2));
}

/// A dict, an object of a registered class, and a list of rows.
fn keyed(tables: &mut Tables, dict: usize, object: usize, rows: usize) {
    tables.strs.push(b"two");
    tables.strs.push(b"three");
    tables.refs.extend([0u32.to_le_bytes(), 1u32.to_le_bytes()]);
    let pairs = node(kind::DICT, run(elem::STRS, 1), 2);
    tables.nodes.set(dict, Node { values: run(elem::REFS, 0), ..pairs });
    let class = Class { source: source::REGISTERED, make: make::ATTRIBUTES, ..Class::default() };
    let class = tables.classes.push(Class { name: "Point", ..class }, [&b"x"[..], b"y"]);
    tables.bins.push(b"x");
    tables.bins.push(b"y");
    let point = node(kind::OBJECT, run(elem::BINS, 1), 2);
    tables.nodes.set(object, Node { extra: class, ..point });
    // The rows are items of a list that is node 7, and themselves node 8.
    let header = tables.nodes.reserve_many(2);
    tables.nodes.set(rows, node(kind::LIST, run(elem::ROWS, header), 8));
    let head = node(kind::TUPLE_ROWS, Run::default(), 8);
    tables.nodes.set(header, Node { extra: 1, ..head });
    tables.i32.extend((0..8i32).map(i32::to_le_bytes));
    tables.nodes.set(header + 1, node(kind::FIELD, run(elem::I32, 2), 8));
}
