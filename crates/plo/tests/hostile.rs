//! Where the rules end: tensors at the edges of their memory, objects cut anywhere, every graph of
//! references. What breaks one rule each is in `vectors`.

#![forbid(unsafe_code)]

mod sample;

use plasmon_plo::codes::{elem, kind, slot, source, tensor};
use plasmon_plo::tables::{Class, Node, Run, Tables};
use plasmon_plo::{Error, FormChoice, Order, Plan, ValidObject};
use proptest::prelude::*;
use sample::{node, run};

/// The bytes of tables, whatever they say.
fn bytes_of(tables: &Tables) -> Vec<u8> {
    let plan = Plan::of(tables, FormChoice::Small).expect("within the limits");
    let heap = vec![0; plan.heap_bytes() as usize];
    [plan.front(tables), heap].concat()
}

/// Tables with a node at the root.
fn rooted() -> Tables {
    let mut tables = Tables::default();
    let root = tables.nodes.reserve();
    tables.slots.push_index(slot::NODE, root);
    tables
}

/// Why the tables are refused.
fn reason(build: impl FnOnce(&mut Tables)) -> &'static str {
    let mut tables = rooted();
    build(&mut tables);
    match ValidObject::of(&bytes_of(&tables)) {
        Ok(_) => "accepted",
        Err(Error::Broken { what, .. }) => what,
        Err(_) => "another error",
    }
}

#[test]
fn what_just_keeps_the_rules_is_accepted() {
    let whole = reason(|t| {
        t.i32.extend([[0; 4]; 3]);
        t.nodes.set(0, node(kind::LIST, run(elem::I32, 0), 3));
    });
    assert_eq!(whole, "accepted");
    // A column of numbers makes rows solid; one of bits does not: "dicts_made_of_bits".
    let rows = reason(|t| {
        let header = t.nodes.reserve_many(2);
        t.nodes.set(0, node(kind::LIST, run(elem::ROWS, header), 8));
        let head = node(kind::TUPLE_ROWS, Run::default(), 8);
        t.nodes.set(header, Node { extra: 1, ..head });
        t.nodes.set(header + 1, node(kind::FIELD, run(elem::I32, 0), 8));
        t.i32.extend([[0; 4]; 8]);
    });
    assert_eq!(rows, "accepted");
    let object = reason(|t| {
        let class = Class { source: source::REGISTERED, ..Class::default() };
        let extra = t.classes.push(class, [&b"x"[..]]);
        t.i32.push([0; 4]);
        t.nodes.set(0, Node { extra, ..node(kind::OBJECT, run(elem::I32, 0), 1) });
    });
    assert_eq!(object, "accepted");
}

/// A tensor of bytes with this shape, these strides and a place in a heap entry of 64 bytes.
fn tensor_of(shape: &[i64], strides: &[i64], offset: u64) -> &'static str {
    reason(|t| {
        let dtype = t.dtypes.push(b"|u1", 1);
        t.tensors.shape.values.extend(shape.iter().map(|extent| extent.to_le_bytes()));
        t.tensors.push(tensor::NUMPY, dtype);
        t.tensors.strides.values.extend(strides.iter().map(|stride| stride.to_le_bytes()));
        t.tensors.strides.end();
        let entry = t.heap.push(64);
        t.tensors.place(0, entry, offset);
        t.nodes.set(0, node(kind::LIST, run(elem::TENSORS, 0), 1));
    })
}

#[test]
fn tensors_stay_within_their_heap_entry() {
    const OUTSIDE: &str = "a tensor that reaches outside of the heap";
    assert_eq!(tensor_of(&[8, 8], &[], 0), "accepted");
    assert_eq!(tensor_of(&[8, 8], &[-8, 1], 56), "accepted");
    assert_eq!(tensor_of(&[1 << 40, 2], &[0, 1], 62), "accepted");
    for (shape, strides, offset) in [
        (&[65][..], &[][..], 0),
        (&[8, 8], &[], 1),
        (&[8, 8], &[-8, 1], 55),
        (&[8, 8], &[9, 1], 0),
        (&[2], &[1], u64::MAX),
        (&[1], &[1], 64),
    ] {
        assert_eq!(tensor_of(shape, strides, offset), OUTSIDE, "{shape:?} {strides:?} {offset}");
    }
    let huge = "a tensor larger than any memory";
    assert_eq!(tensor_of(&[1 << 62, 4], &[], 0), huge);
    assert_eq!(tensor_of(&[3], &[i64::MAX], 0), huge);
    assert_eq!(tensor_of(&[-1], &[], 0), "a tensor with a negative extent");
    let parts = "a tensor of an unknown kind, or with parts that don't fit";
    assert_eq!(tensor_of(&[4, 4], &[1], 0), parts);
}

#[test]
fn truncated_objects_are_refused() {
    let (tables, heap) = sample::everything();
    for wanted in [FormChoice::Small, FormChoice::Stream] {
        let plan = Plan::of(&tables, wanted).unwrap();
        let whole = sample::bytes(&plan, &tables, &heap);
        for cut in 0..whole.len() {
            assert!(ValidObject::of(&whole[..cut]).is_err(), "{cut} of {}", whole.len());
        }
        let longer = [&whole[..], b"and more"].concat();
        assert_eq!(ValidObject::of(&longer).unwrap().view.bytes(), whole.len() as u64);
    }
}

/// Tables of a tree of lists and tuples: `(tuple, children)` for each node, breadth-first, with a
/// reference to another node at the end of each.
fn graph(nodes: &[(bool, usize)], refs: &[usize]) -> Vec<u8> {
    let mut tables = rooted();
    for (number, (tuple, children)) in nodes.iter().enumerate() {
        let start = tables.slots.len();
        let met = tables.nodes.len();
        for _ in 0..*children {
            let child = tables.nodes.reserve();
            tables.slots.push_index(slot::NODE, child);
        }
        let target = refs[number] % met.max(1);
        tables.slots.push_index(slot::REF, target);
        let kind = if *tuple { kind::TUPLE } else { kind::LIST };
        tables.nodes.set(number, node(kind, run(elem::SLOTS, start), children + 1));
    }
    bytes_of(&tables)
}

/// A tree of this many nodes, out of random numbers of children.
fn tree(shapes: &[(bool, usize)]) -> Vec<(bool, usize)> {
    let (mut nodes, mut met) = (Vec::new(), 1);
    for (tuple, children) in shapes {
        if nodes.len() == met {
            break;
        }
        nodes.push((*tuple, *children));
        met += children;
    }
    nodes.resize(met, (false, 0));
    nodes
}

/// Whether some tuple is in itself, with nothing but tuples in between.
fn tuples_need_themselves(object: &ValidObject<'_>) -> bool {
    let view = &object.view;
    let inner = |number: usize| -> Vec<usize> {
        let start = view.nodes.start.index(number);
        let slots = start..start + view.nodes.length.index(number);
        let children = slots.map(|slot| view.slots.index(slot, view.slots.kind[slot]));
        children.filter(|child| view.nodes.kind[*child] == kind::TUPLE).collect()
    };
    let mut left: Vec<usize> =
        (0..view.nodes.kind.len()).filter(|node| view.nodes.kind[*node] == kind::TUPLE).collect();
    // Take away what only needs what was taken away already.
    loop {
        let before = left.len();
        let still = left.clone();
        left.retain(|node| inner(*node).iter().any(|child| still.contains(child)));
        if left.len() == before {
            return before != 0;
        }
    }
}

proptest! {
    /// What is listed exists when it is needed, or can be made empty; what is refused needs itself.
    #[test]
    fn every_graph_has_an_order_or_needs_itself(
        shapes in proptest::collection::vec((any::<bool>(), 0usize..4), 1..40),
        refs in proptest::collection::vec(any::<usize>(), 200),
    ) {
        let nodes = tree(&shapes);
        let bytes = graph(&nodes, &refs);
        let object = ValidObject::of(&bytes).unwrap();
        let kinds = object.view.nodes.kind;
        let Ok(order) = Order::of(&object) else {
            prop_assert!(tuples_need_themselves(&object));
            return Ok(());
        };
        let Order::Listed { nodes: order, .. } = order else { panic!("there are references") };
        let mut place = vec![usize::MAX; nodes.len()];
        for (at, number) in order.iter().enumerate() {
            prop_assert_eq!(place[*number as usize], usize::MAX);
            place[*number as usize] = at;
        }
        prop_assert_eq!(order.len(), nodes.len());
        for (number, at) in place.iter().enumerate() {
            let start = object.view.nodes.start.index(number);
            let length = object.view.nodes.length.index(number);
            for slot in start..start + length {
                let child = object.view.slots.index(slot, object.view.slots.kind[slot]);
                prop_assert!(
                    kinds[child] == kind::LIST || place[child] < *at,
                    "{} needs {}: {:?}", number, child, order
                );
            }
        }
    }
}
