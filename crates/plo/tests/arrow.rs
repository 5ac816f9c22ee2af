//! An object in stream form is a valid Arrow IPC stream of one row, as an ordinary reader sees it.

#![forbid(unsafe_code)]

mod sample;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use plasmon_plo::{Form, FormChoice, Plan, ValidObject, object_bytes};

fn read(bytes: &[u8]) -> RecordBatch {
    let mut reader = StreamReader::try_new(bytes, None).expect("a schema");
    let batch = reader.next().expect("one batch").expect("a valid batch");
    assert!(reader.next().is_none());
    batch
}

/// What the only row of a column holds.
fn table(batch: &RecordBatch, name: &str) -> ArrayRef {
    batch.column_by_name(name).expect("a table").as_list::<i32>().value(0)
}

#[test]
fn an_ordinary_reader_finds_every_table() {
    let (tables, heap) = sample::everything();
    let plan = Plan::of(&tables, FormChoice::Stream).unwrap();
    assert_eq!(plan.form(), Form::Stream);
    let bytes = sample::bytes(&plan, &tables, &heap);
    let batch = read(&bytes);
    batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    assert_eq!(batch.num_rows(), 1);
    assert_eq!(batch.schema().metadata()["plasmon.format"], "plo");

    let checked = ValidObject::of(&bytes).unwrap();
    let slots = table(&batch, "slots");
    let slots = slots.as_union();
    assert_eq!(slots.type_id(0), 6);
    assert_eq!(slots.len(), checked.view.slots.kind.len());
    let nodes = table(&batch, "nodes");
    let nodes = nodes.as_struct();
    let kinds = nodes.column_by_name("kind").unwrap().as_primitive::<UInt8Type>();
    assert_eq!(kinds.values(), checked.view.nodes.kind);
    assert_eq!(table(&batch, "strs").as_string::<i32>().value(1), "two");
    assert_eq!(table(&batch, "i64").as_primitive::<Int64Type>().values(), &[1 << 40, -5]);
    let classes = table(&batch, "classes");
    let fields = classes.as_struct().column_by_name("fields").unwrap().as_list::<i32>().value(0);
    assert_eq!(fields.as_string::<i32>().value(1), "y");
    let tensors = table(&batch, "tensors");
    let shape = tensors.as_struct().column_by_name("shape").unwrap().as_list::<i32>().value(0);
    assert_eq!(shape.as_primitive::<Int64Type>().values(), &[2, 3]);
    let exts = table(&batch, "exts");
    let data = exts.as_struct().column_by_name("data").unwrap().as_binary::<i32>();
    assert_eq!(data.value(0), [1; 9]);
    let heaps = exts.as_struct().column_by_name("heaps").unwrap().as_list::<i32>().value(1);
    assert_eq!(heaps.as_primitive::<Int32Type>().values(), &[0]);
    let entries = table(&batch, "heap");
    assert_eq!(&entries.as_binary::<i64>().value(1)[..6], [1, 2, 3, 4, 5, 6]);
    assert_eq!(entries.as_binary::<i64>().value(1).as_ptr() as usize % 8, 0);
}

#[test]
fn an_object_of_nothing_but_none_is_readable_too() {
    let tables = sample::none();
    let plan = Plan::of(&tables, FormChoice::Stream).unwrap();
    let bytes = plan.front(&tables);
    let bytes = [&bytes, plan.tail()].concat();
    assert_eq!(table(&read(&bytes), "slots").len(), 1);
    for name in ["nodes", "strs", "tensors", "heap"] {
        assert_eq!(table(&read(&bytes), name).len(), 0);
    }
    ValidObject::of(&bytes).unwrap();
}

#[test]
fn both_forms_hold_the_same_tables() {
    let (tables, heap) = sample::everything();
    let both = [FormChoice::Small, FormChoice::Stream].map(|wanted| {
        let plan = Plan::of(&tables, wanted).unwrap();
        sample::bytes(&plan, &tables, &heap)
    });
    let [small, stream] = both.each_ref().map(|bytes| ValidObject::of(bytes).unwrap().view);
    assert_eq!(small.sizes, stream.sizes);
    assert_eq!(small.nodes.start.0, stream.nodes.start.0);
    assert_eq!(small.exts.data.bytes, stream.exts.data.bytes);
    assert_eq!(small.heap, stream.heap);
    assert_eq!(small.heap_at() % 64, 0);
    assert!(small.bytes() < 1500 && stream.bytes() > 6000);
}

#[test]
fn objects_may_follow_one_another() {
    let tables = sample::none();
    let both = [FormChoice::Small, FormChoice::Stream].map(|wanted| {
        let plan = Plan::of(&tables, wanted).unwrap();
        [&plan.front(&tables), plan.tail()].concat()
    });
    let file = both.concat();
    let first = object_bytes(&file).unwrap() as usize;
    assert_eq!(first, both[0].len());
    assert_eq!(object_bytes(&file[first..]).unwrap() as usize, both[1].len());
}
