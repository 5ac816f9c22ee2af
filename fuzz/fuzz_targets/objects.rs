//! Objects: any bytes are an object or an error, and one that was checked can be walked to its end
//! without leaving it, in an order in which everything exists when it is needed.
//!
//! An input is read as it is, and, because hardly any bytes have sizes that fit together, once more
//! as tables after a header whose sizes are made to fit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_plo::codes::{elem, kind, slot};
use plasmon_plo::layout::Layout;
use plasmon_plo::natural::Document;
use plasmon_plo::sizes::{self, Sizes, at};
use plasmon_plo::{Form, Order, SMALL_MAGIC, ValidObject, object_bytes};

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    if let Some(fitted) = with_header(bytes) {
        assert_eq!(object_bytes(&fitted), Ok(fitted.len() as u64));
        read(&fitted);
    }
});

/// An object in the small form with sizes below 16 from the start of the input and the rest of it
/// as tables.
fn with_header(bytes: &[u8]) -> Option<Vec<u8>> {
    let (numbers, rest) = bytes.split_at_checked(sizes::COUNT)?;
    let mut sizes = Sizes::default();
    for (number, byte) in numbers.iter().enumerate() {
        let unit = if number == at::HEAP_BYTES { 64 } else { 1 };
        sizes.set(number, unit * u64::from(byte % 16));
    }
    let layout = Layout::of(&sizes, Form::Small);
    let mut fitted = SMALL_MAGIC.to_vec();
    fitted.extend((layout.bytes as u32).to_le_bytes());
    fitted.extend(sizes.present().to_le_bytes());
    let present = (0..sizes::COUNT).map(|number| sizes.get(number)).filter(|size| *size != 0);
    present.for_each(|size| fitted.extend((size as u32).to_le_bytes()));
    fitted.extend(rest);
    fitted.resize(layout.bytes as usize, 0);
    Some(fitted)
}

fn read(bytes: &[u8]) {
    let Ok(object) = ValidObject::of(bytes) else {
        assert!(Document::of(bytes).is_err());
        return;
    };
    assert_eq!(object_bytes(bytes), Ok(object.view.bytes()));
    let _ = Document::of(bytes);
    match Order::of(&object) {
        Ok(Order::Backwards) => assert!(!object.has_refs && !object.has_calls),
        Ok(Order::Listed { nodes, .. }) => walk(&object, &nodes),
        Err(_) => assert!(object.has_refs),
    }
    for ext in 0..object.view.exts.kind.len() {
        assert!(!object.locate_ext(ext).is_empty());
    }
    for class in 0..object.view.classes.make.len() {
        assert!(object.locate_class(class).contains("root"));
    }
}

/// Each node is listed once, and after what it owns, unless that can be made empty.
fn walk(object: &ValidObject<'_>, order: &[u32]) {
    let kinds = object.view.nodes.kind;
    let mut listed = vec![false; kinds.len()];
    for node in order {
        let node = *node as usize;
        assert!(!std::mem::replace(&mut listed[node], true), "a node is listed twice");
        for child in immutables(object, node) {
            assert!(listed[child], "an immutable is needed before it is there");
        }
    }
    let fields = kinds.iter().filter(|found| **found == kind::FIELD).count();
    assert_eq!(order.len(), kinds.len() - fields);
}

/// The tuples and frozensets among the values of a node.
fn immutables(object: &ValidObject<'_>, node: usize) -> Vec<usize> {
    let nodes = &object.view.nodes;
    let (start, start2) = (nodes.start.index(node), nodes.start2.index(node));
    let length = nodes.length.index(node);
    let mut found = values(object, nodes.elem[node], start, length);
    match nodes.kind[node] {
        kind::DICT => found.extend(values(object, nodes.elem2[node], start2, length)),
        kind::DICT_ROWS | kind::TUPLE_ROWS | kind::OBJECT_ROWS => found.clear(),
        _ => {}
    }
    found.retain(|child| matches!(nodes.kind[*child], kind::TUPLE | kind::FROZENSET));
    found
}

fn values(object: &ValidObject<'_>, table: u8, start: usize, length: usize) -> Vec<usize> {
    let slots = &object.view.slots;
    match table {
        elem::NODES => (start..start + length).collect(),
        elem::SLOTS => (start..start + length)
            .filter(|number| matches!(slots.kind[*number], slot::NODE | slot::REF))
            .map(|number| slots.index(number, slots.kind[number]))
            .collect(),
        _ => Vec::new(),
    }
}
