//! Objects whose nodes and runs break the rules of sections 3 and 4.

use plasmon_plo::codes::{elem, kind, slot};
use plasmon_plo::tables::{Node, Run, Tables};

use crate::sample::{node, run};
use crate::{Vector, rooted, small};

const SKIPS: &str = "a run that does not start where its table was used up to";
const UNUSED: &str = "a table with unused entries";
const UNKNOWN_INDEX: &str = "an index that is neither in use nor the next";
const ODD_NODE: &str = "a node of an unknown kind, or with fields that it does not use";
const ODD_RUN: &str = "a run of an unknown kind, or one that skips entries";

pub(crate) fn vectors() -> Vec<Vector> {
    let mut all = runs();
    all.extend(mentions());
    all.extend(nodes());
    all.extend(references());
    all.extend(row_nodes());
    all.extend(orders());
    all
}

/// A vector of tables with a node at the root.
fn vector(
    name: &'static str,
    rule: &'static str,
    says: &'static str,
    build: impl FnOnce(&mut Tables),
) -> Vector {
    Vector { name, section: 4, rule, says, bytes: small(&rooted(build)) }
}

/// A list at the root with a run of `length` from `start`.
fn list(tables: &mut Tables, elem: u8, start: usize, length: usize) {
    tables.nodes.set(0, node(kind::LIST, run(elem, start), length));
}

fn numbers(tables: &mut Tables, count: usize) {
    tables.i32.extend(vec![[0; 4]; count]);
}

fn runs() -> Vec<Vector> {
    let next = "a run starts where its table was used up to, and lies in it";
    let all = "at the end every table is used up";
    let empty = "an empty run is elem 0, start 0";
    let of = |start, length| {
        move |t: &mut Tables| {
            numbers(t, 3);
            list(t, elem::I32, start, length);
        }
    };
    vec![
        vector("a_run_past_its_table", next, SKIPS, of(0, 4)),
        vector("a_run_that_skips_an_entry", next, SKIPS, of(1, 2)),
        vector("a_run_from_below_0", next, SKIPS, of(usize::MAX, 2)),
        vector("a_run_that_leaves_entries", all, UNUSED, of(0, 2)),
        vector("an_empty_run_with_a_place", empty, "an empty run with a place", of(1, 0)),
        vector("an_empty_run_of_numbers", empty, "an empty run with a place", |t| {
            list(t, elem::I32, 0, 0);
        }),
        vector("one_run_twice", next, SKIPS, |t| {
            t.f64.extend([[0; 8]; 4]);
            let pairs = node(kind::DICT, run(elem::F64, 0), 4);
            t.nodes.set(0, Node { values: run(elem::F64, 0), ..pairs });
        }),
        vector("two_thousand_million_none", next, SKIPS, |t| list(t, elem::NONE, 0, 0x7fff_ffff)),
        vector("a_negative_length", "a length is not negative", "a negative length", |t| {
            list(t, elem::NONE, 0, 0xffff_ffff);
        }),
        vector("a_run_of_an_unknown_kind", "elem is 0 to 12", ODD_RUN, |t| list(t, 13, 0, 1)),
        vector("tensors_that_are_not_there", next, ODD_RUN, |t| list(t, elem::TENSORS, 0, 1)),
        vector("extensions_that_are_not_there", next, ODD_RUN, |t| list(t, elem::EXTS, 0, 1)),
        vector("slots_from_before", next, ODD_RUN, |t| list(t, elem::SLOTS, 0, 1)),
    ]
}

fn mentions() -> Vec<Vector> {
    let rule = "an index is one that was met before, or exactly the next";
    let slot = |kind| {
        move |t: &mut Tables| {
            let start = t.slots.len();
            t.strs.push(b"a");
            t.strs.push(b"b");
            t.bins.push(b"a");
            t.bins.push(b"b");
            t.slots.push_index(kind, 1);
            list(t, elem::SLOTS, start, 1);
        }
    };
    vec![
        vector("a_text_before_its_turn", rule, UNKNOWN_INDEX, slot(slot::STR)),
        vector("bytes_before_their_turn", rule, UNKNOWN_INDEX, slot(slot::BYTES)),
        vector("a_tensor_that_is_not_there", rule, UNKNOWN_INDEX, slot(slot::TENSOR)),
        vector("an_extension_that_is_not_there", rule, UNKNOWN_INDEX, slot(slot::EXT)),
        vector("a_reference_to_a_text_before_its_turn", rule, UNKNOWN_INDEX, |t| {
            t.strs.push(b"a");
            t.strs.push(b"b");
            t.refs.extend([1u32.to_le_bytes(), 0u32.to_le_bytes()]);
            list(t, elem::REFS, 0, 2);
        }),
        vector("a_reference_to_a_text_below_0", rule, UNKNOWN_INDEX, |t| {
            t.strs.push(b"a");
            t.refs.extend([0u32.to_le_bytes(), u32::MAX.to_le_bytes()]);
            list(t, elem::REFS, 0, 2);
        }),
    ]
}

fn nodes() -> Vec<Vector> {
    let unused = "fields that a kind of node doesn't use are 0";
    let once = "a node is owned once, by one with a smaller number";
    let value = "row nodes and fields stand for no value";
    let no_value = "a node without a value";
    vec![
        vector("a_node_of_an_unknown_kind", "kind is 0 to 10", no_value, |t| {
            t.nodes.reserve();
            list(t, elem::NODES, 1, 1);
            t.nodes.set(1, node(11, Run::default(), 0));
        }),
        vector("a_list_with_a_second_length", unused, ODD_NODE, |t| {
            numbers(t, 1);
            t.nodes.set(0, Node { extra: 1, ..node(kind::LIST, run(elem::I32, 0), 1) });
        }),
        vector("a_list_with_values", unused, ODD_NODE, |t| {
            numbers(t, 1);
            let values = run(elem::I32, 0);
            t.nodes.set(0, Node { values, ..node(kind::LIST, run(elem::I32, 0), 1) });
        }),
        vector("a_node_that_two_own", once, SKIPS, |t| {
            let start = t.slots.len();
            let child = t.nodes.reserve();
            t.slots.push_index(slot::NODE, child);
            t.slots.push_index(slot::NODE, child);
            list(t, elem::SLOTS, start, 2);
        }),
        vector("a_node_that_owns_itself", once, SKIPS, |t| list(t, elem::NODES, 0, 1)),
        vector("a_node_that_nothing_owns", once, "a node without an owner", |t| {
            list(t, elem::NONE, 0, 0);
            t.nodes.reserve();
        }),
        vector("two_nodes_that_own_each_other", once, "a node without an owner", |t| {
            list(t, elem::NONE, 0, 0);
            let first = t.nodes.reserve_many(2);
            t.nodes.set(first, node(kind::LIST, run(elem::NODES, first + 1), 1));
            t.nodes.set(first + 1, node(kind::LIST, run(elem::NODES, first), 1));
        }),
        vector("a_field_as_a_value", value, no_value, |t| {
            let child = t.nodes.reserve();
            t.nodes.set(child, node(kind::FIELD, Run::default(), 0));
            list(t, elem::NODES, child, 1);
        }),
        vector("rows_as_a_value", value, no_value, |t| {
            t.nodes.reserve_many(2);
            numbers(t, 8);
            t.nodes.set(1, Node { extra: 1, ..node(kind::TUPLE_ROWS, Run::default(), 8) });
            t.nodes.set(2, node(kind::FIELD, run(elem::I32, 0), 8));
            list(t, elem::NODES, 1, 1);
        }),
    ]
}

fn references() -> Vec<Vector> {
    let before = "a reference is to a node that was met before";
    let whole = "a reference is to no row node and no field";
    let not_met = "a reference to a node that was not met before";
    vec![
        vector("a_reference_forward", before, not_met, |t| {
            let start = t.slots.len();
            t.slots.push_index(slot::REF, 1);
            let child = t.nodes.reserve();
            t.slots.push_index(slot::NODE, child);
            list(t, elem::SLOTS, start, 2);
        }),
        vector("a_reference_below_0", before, not_met, |t| {
            let start = t.slots.len();
            t.slots.push_index(slot::REF, usize::MAX);
            list(t, elem::SLOTS, start, 1);
        }),
        Vector {
            name: "a_root_that_refers",
            section: 4,
            rule: before,
            says: not_met,
            bytes: small(&{
                let mut tables = Tables::default();
                tables.slots.push_index(slot::REF, 0);
                tables
            }),
        },
        vector("a_reference_to_rows", whole, "a reference to rows", |t| {
            let (start, first) = (t.slots.len(), t.nodes.reserve_many(2));
            t.slots.push_index(slot::NODE, first);
            t.slots.push_index(slot::NODE, first + 1);
            list(t, elem::SLOTS, start, 2);
            let header = rows(t, first, 1, elem::I32);
            let start = t.slots.len();
            t.slots.push_index(slot::REF, header);
            t.nodes.set(first + 1, node(kind::LIST, run(elem::SLOTS, start), 1));
        }),
    ]
}

/// Eight rows of tuples with a number of fields in the list `owner`; the row node's number.
fn rows(tables: &mut Tables, owner: usize, fields: usize, elem: u8) -> usize {
    let header = tables.nodes.reserve_many(1 + fields);
    tables.nodes.set(owner, node(kind::LIST, run(elem::ROWS, header), 8));
    let head = node(kind::TUPLE_ROWS, Run::default(), 8);
    tables.nodes.set(header, Node { extra: fields, ..head });
    for field in 0..fields {
        let start = if elem == elem::BITS { tables.bits.len() } else { tables.i32.len() };
        match elem {
            elem::BITS => tables.bits.extend_zeros(8),
            _ => numbers(tables, 8),
        }
        tables.nodes.set(header + 1 + field, node(kind::FIELD, run(elem, start), 8));
    }
    header
}

fn row_nodes() -> Vec<Vector> {
    let number = "a row node is followed by its fields, 1 to 64 of them";
    let length = "a row node and its fields are as long as the run";
    let solid = "a row takes at least 4 bytes of its own";
    let wrong_number = "rows without a fitting number of fields";
    let weak = "rows of nothing but bits and rows";
    vec![
        vector("rows_without_fields", number, wrong_number, |t| {
            rows(t, 0, 0, elem::I32);
        }),
        vector("rows_of_65_fields", number, wrong_number, |t| {
            rows(t, 0, 65, elem::I32);
        }),
        vector("rows_of_fields_that_are_not_there", number, SKIPS, |t| {
            let header = rows(t, 0, 1, elem::I32);
            let head = node(kind::TUPLE_ROWS, Run::default(), 8);
            t.nodes.set(header, Node { extra: 2, ..head });
        }),
        vector("rows_that_are_not_there", number, wrong_number, |t| list(t, elem::ROWS, 1, 8)),
        vector(
            "rows_of_a_list",
            "rows are a row node's",
            "rows without a row node of their length",
            |t| {
                let header = rows(t, 0, 1, elem::I32);
                t.nodes.set(header, Node { extra: 1, ..node(kind::LIST, Run::default(), 8) });
            },
        ),
        vector(
            "more_rows_than_fields_have",
            length,
            "rows without a row node of their length",
            |t| {
                let header = rows(t, 0, 1, elem::I32);
                list(t, elem::ROWS, header, 9);
            },
        ),
        vector("a_field_that_is_too_short", length, "rows without fields of their length", |t| {
            let header = rows(t, 0, 1, elem::I32);
            t.nodes.set(header + 1, node(kind::FIELD, run(elem::I32, 0), 7));
        }),
        vector("a_field_that_is_a_list", number, "rows without fields of their length", |t| {
            let header = rows(t, 0, 1, elem::I32);
            t.nodes.set(header + 1, node(kind::LIST, run(elem::I32, 0), 8));
        }),
        vector("dicts_made_of_bits", solid, weak, |t| {
            rows(t, 0, 1, elem::BITS);
        }),
        vector("tuples_in_tuples_without_end", solid, weak, |t| {
            let mut outer = t.nodes.reserve_many(2);
            list(t, elem::ROWS, outer, 8);
            let head = Node { extra: 1, ..node(kind::TUPLE_ROWS, Run::default(), 8) };
            for _ in 0..3 {
                let inner = t.nodes.reserve_many(2);
                t.nodes.set(outer, head);
                t.nodes.set(outer + 1, node(kind::FIELD, run(elem::ROWS, inner), 8));
                outer = inner;
            }
            t.nodes.set(outer, head);
            t.nodes.set(outer + 1, node(kind::FIELD, run(elem::I32, 0), 8));
            numbers(t, 8);
        }),
    ]
}

fn orders() -> Vec<Vector> {
    let rule = "no immutable is needed for itself";
    let itself = |kind| {
        move |t: &mut Tables| {
            let start = t.slots.len();
            t.slots.push_index(slot::REF, 0);
            t.nodes.set(0, node(kind, run(elem::SLOTS, start), 1));
        }
    };
    let says = "an immutable that contains itself";
    vec![
        vector("a_tuple_of_itself", rule, says, itself(kind::TUPLE)),
        vector("a_frozenset_of_itself", rule, says, itself(kind::FROZENSET)),
        vector("a_tuple_in_a_tuple_of_itself", rule, says, |t| {
            t.nodes.reserve();
            t.nodes.set(0, node(kind::TUPLE, run(elem::NODES, 1), 1));
            let start = t.slots.len();
            t.slots.push_index(slot::REF, 0);
            t.nodes.set(1, node(kind::TUPLE, run(elem::SLOTS, start), 1));
        }),
    ]
}
