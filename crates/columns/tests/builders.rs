//! Columns and tables built in a real store and read by another client.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{
    FixedSizeListBuilder, Int64Builder, ListBuilder, MapBuilder, StringBuilder,
};
use arrow_array::types::{
    Date32Type, Float64Type, Int8Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::*;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use plasmon_client::{Client, Code, Name, ObjectState, PutOptions};
use plasmon_columns::{BuilderOptions, ColumnBuilder, Error, TableBuilder, read};
use plasmon_testkit::{TestStore, until};

const NOW: Option<Duration> = Some(Duration::ZERO);

fn builder(store: &Client, data_type: &DataType) -> ColumnBuilder {
    ColumnBuilder::new(store, data_type, &BuilderOptions::default()).unwrap()
}

fn fetch(store: &Client, id: &plasmon_client::ObjectId) -> ArrayRef {
    let (schema, batches) = read(&store.get(id, NOW).unwrap()).unwrap();
    assert_eq!((schema.fields().len(), batches.len()), (1, 1));
    Arc::clone(batches[0].column(0))
}

/// One array of each type that builders are made for, with nulls.
fn samples() -> Vec<ArrayRef> {
    let nulls = || NullBuffer::from(vec![true, false, true, true, false]);
    let numbers = Int64Array::new(vec![1, 2, 3, 4, 5].into(), Some(nulls()));
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(5)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), None])),
        Arc::new(Int8Array::from(vec![Some(1), None, Some(-1), Some(0), None])),
        Arc::new(UInt16Array::from(vec![Some(1), None, Some(7), Some(0), None])),
        Arc::new(Int32Array::from(vec![Some(1), None, Some(-1), Some(0), None])),
        Arc::new(Float32Array::from(vec![Some(1.5), None, Some(f32::NAN), Some(-0.0), None])),
        Arc::new(Float64Array::from(vec![Some(1.5), None, Some(2.5), Some(-0.0), None])),
        Arc::new(Date32Array::from(vec![Some(1), None, Some(2), Some(3), None])),
        Arc::new(Time64NanosecondArray::from(vec![Some(1), None, Some(2), Some(3), None])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(1), None, Some(2), Some(3), None])
                .with_timezone("Europe/Berlin"),
        ),
        Arc::new(DurationSecondArray::from(vec![Some(1), None, Some(2), Some(3), None])),
        Arc::new(IntervalYearMonthArray::from(vec![Some(1), None, Some(2), Some(3), None])),
        Arc::new(
            Decimal128Array::from(vec![Some(1), None, Some(i128::MAX / 10), Some(3), None])
                .with_precision_and_scale(38, 3)
                .unwrap(),
        ),
        Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("ünï"), None])),
        Arc::new(LargeStringArray::from(vec![Some("a"), None, Some(""), Some("long er"), None])),
        Arc::new(BinaryArray::from(vec![Some(&b"a"[..]), None, Some(b""), Some(b"\xff\0"), None])),
        Arc::new(LargeBinaryArray::from(vec![Some(&b"a"[..]), None, Some(b""), Some(b"x"), None])),
    ];
    let fixed = vec![Some(*b"abc"), None, Some(*b"def"), Some([0; 3]), None].into_iter();
    all.push(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 3).unwrap()));
    let keys = Int8Array::from(vec![Some(1), None, Some(0), Some(1), None]);
    let words = Arc::new(StringArray::from(vec!["zero", "one", "unused"]));
    all.push(Arc::new(DictionaryArray::new(keys, words)));
    let field = Arc::new(Field::new("number", DataType::Int64, true));
    let fields = Fields::from(vec![field, Arc::new(Field::new("text", DataType::Utf8, true))]);
    let strings = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("d"), None]));
    let columns: Vec<ArrayRef> = vec![Arc::new(numbers), strings];
    all.push(Arc::new(StructArray::new(fields, columns, Some(nulls()))));
    let mut lists = ListBuilder::new(Int64Builder::new());
    let mut pairs = FixedSizeListBuilder::new(StringBuilder::new(), 2);
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for n in 0..5_i64 {
        let valid = n % 3 != 1;
        for at in 0..if valid { n } else { 0 } {
            lists.values().append_option((at != 2).then_some(at));
            maps.keys().append_value(format!("key {at}"));
            maps.values().append_option((at != 1).then_some(n));
        }
        lists.append(valid);
        maps.append(valid).unwrap();
        for at in 0..2 {
            pairs.values().append_option((valid && at == 0).then(|| n.to_string()));
        }
        pairs.append(valid);
    }
    let lists = lists.finish();
    all.push(arrow_cast::cast(&lists, &DataType::new_large_list(DataType::Int64, true)).unwrap());
    all.extend([Arc::new(lists) as ArrayRef, Arc::new(pairs.finish())]);
    all.push(Arc::new(maps.finish()));
    all.extend(numbers_of_every_width());
    let outer = lists_of_lists();
    all.push(outer);
    all
}

/// The types of fixed width that are told apart by their width alone, or by their unit.
fn numbers_of_every_width() -> Vec<ArrayRef> {
    let numbers = Int32Array::from(vec![Some(1), None, Some(100), Some(0), None]);
    let mut all: Vec<ArrayRef> = [
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float16,
        DataType::Date64,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Duration(TimeUnit::Nanosecond),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 2),
        DataType::Decimal256(76, 2),
    ]
    .iter()
    .map(|data_type| {
        let wide = arrow_cast::cast(&numbers, &DataType::Int64).unwrap();
        arrow_cast::cast(&numbers, data_type)
            .or_else(|_| arrow_cast::cast(&wide, data_type))
            .unwrap()
    })
    .collect();
    let days = [(1, 2), (3, -4)].map(|(days, ms)| IntervalDayTime::new(days, ms));
    let [first, second] = days;
    let days = vec![Some(first), None, Some(second), None, None];
    all.push(Arc::new(IntervalDayTimeArray::from(days)));
    let [first, second] = [1, -2].map(|n| IntervalMonthDayNano::new(n, n, i64::from(n)));
    let months = vec![Some(first), None, Some(second), None, None];
    all.push(Arc::new(IntervalMonthDayNanoArray::from(months)));
    all
}

fn lists_of_lists() -> ArrayRef {
    let mut outer = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for n in 0..5 {
        for inner in 0..n {
            outer.values().values().append_value(format!("{n}.{inner}"));
            outer.values().append(inner != 1);
        }
        outer.append(n != 3);
    }
    Arc::new(outer.finish())
}

/// Arrays are equal by value, dictionaries by what their keys stand for.
fn assert_same(found: &dyn Array, expected: &dyn Array, what: &str) {
    let plain = |array: &dyn Array| match array.data_type() {
        DataType::Dictionary(..) => {
            let array = array.as_any().downcast_ref::<DictionaryArray<Int8Type>>().unwrap();
            let strings = array.downcast_dict::<StringArray>().unwrap();
            let strings: StringArray = strings.into_iter().collect();
            strings.to_data()
        }
        _ => array.to_data(),
    };
    let (found, expected) = (plain(found), plain(expected));
    found.validate_full().unwrap();
    // NaN is not equal to itself, but its text is.
    let text = |data: &arrow_data::ArrayData| format!("{:?}", make_array(data.clone()));
    assert!(found == expected || text(&found) == text(&expected), "{what}: {}", text(&found));
}

#[test]
fn every_type_comes_back_with_its_nulls_sliced_or_whole() {
    let node = TestStore::new(64 << 20);
    let (store, other) = (node.connect(), node.connect());
    for array in samples() {
        let what = array.data_type().to_string();
        let mut building = builder(&store, array.data_type());
        let parts = [array.clone(), array.slice(1, 3), array.slice(0, 0), array.slice(4, 1)];
        for part in &parts {
            building.append_array(part).unwrap();
        }
        building.append_nulls(3).unwrap();
        building.append_array(&array.slice(2, 2)).unwrap();
        let nothing = new_null_array(array.data_type(), 3);
        let last = array.slice(2, 2);
        let expected: Vec<&dyn Array> =
            parts.iter().chain([&nothing, &last]).map(|part| &**part).collect();
        let expected = arrow_select::concat::concat(&expected).unwrap();
        assert_eq!((building.len(), building.null_count()), (14, expected.logical_null_count_of()));
        assert_same(&building.snapshot().unwrap(), &expected, &what);
        let id = building.finish(&PutOptions::default()).unwrap();
        let found = fetch(&other, &id);
        assert_eq!(found.data_type(), array.data_type());
        assert_same(&found, &expected, &what);
        other.delete(&[id]).unwrap();
    }
    until("owned members go with their column", || {
        let status = store.status().unwrap();
        status.objects == 0 && status.used_bytes == status.leased_bytes.min(status.used_bytes)
    });
}

trait NullCount {
    fn logical_null_count_of(&self) -> usize;
}

impl NullCount for ArrayRef {
    fn logical_null_count_of(&self) -> usize {
        if self.data_type() == &DataType::Null { self.len() } else { self.null_count() }
    }
}

#[test]
fn empty_columns_of_every_type() {
    let node = TestStore::new(64 << 20);
    let (store, other) = (node.connect(), node.connect());
    for array in samples() {
        let mut building = builder(&store, array.data_type());
        assert!(building.is_empty() && building.snapshot().unwrap().is_empty());
        building.append_array(&array.slice(2, 0)).unwrap();
        let id = building.finish(&PutOptions::default()).unwrap();
        let found = fetch(&other, &id);
        assert_eq!((found.len(), found.data_type()), (0, array.data_type()));
        found.to_data().validate_full().unwrap();
    }
}

#[test]
fn values_one_by_one_and_in_slices() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut numbers = builder(&store, &DataType::Int64);
    numbers.append_values::<Int64Type>(&[1, 2, 3]).unwrap();
    numbers.append_null().unwrap();
    numbers.append_raw(&7_i64.to_le_bytes()).unwrap();
    let error = numbers.append_values::<Int32Type>(&[1]).unwrap_err();
    assert!(matches!(error, Error::Type { .. }), "{error}");
    assert!(matches!(numbers.append_raw(&[1]), Err(Error::Type { .. })));
    assert!(matches!(numbers.append_str("x"), Err(Error::Type { .. })));
    let found = fetch(&store, &numbers.finish(&PutOptions::default()).unwrap());
    let expected = Int64Array::from(vec![Some(1), Some(2), Some(3), None, Some(7)]);
    assert_same(&found, &expected, "numbers");

    let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    let mut times = builder(&store, &stamp);
    times.append_values::<TimestampMicrosecondType>(&[5]).unwrap();
    times.append_values::<Int64Type>(&[6]).unwrap();
    assert!(times.append_values::<Float64Type>(&[1.0]).is_err());
    assert_eq!(times.len(), 2);
    let mut days = builder(&store, &DataType::Date32);
    days.append_values::<Date32Type>(&[5]).unwrap();
    days.append_values::<Int32Type>(&[6]).unwrap();

    let mut strings = builder(&store, &DataType::Utf8);
    ["a", "", "ünï"].iter().for_each(|text| strings.append_str(text).unwrap());
    strings.append_null().unwrap();
    assert!(matches!(strings.append_bytes(b"\xff"), Err(Error::Type { .. })), "not text");
    let found = fetch(&store, &strings.finish(&PutOptions::default()).unwrap());
    let expected = StringArray::from(vec![Some("a"), Some(""), Some("ünï"), None]);
    assert_same(&found, &expected, "strings");

    let mut truths = builder(&store, &DataType::Boolean);
    for n in 0..100 {
        if n % 7 == 0 { truths.append_null() } else { truths.append_bool(n % 3 == 0) }.unwrap();
    }
    let expected: BooleanArray = (0..100).map(|n| (n % 7 != 0).then_some(n % 3 == 0)).collect();
    assert_same(&fetch(&store, &truths.finish(&PutOptions::default()).unwrap()), &expected, "bits");
}

#[test]
fn a_builder_is_ready_for_the_next_column() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut building = builder(&store, &DataType::Int64);
    for n in 0..3 {
        building.append_values::<Int64Type>(&[n]).unwrap();
        let id = building.finish(&PutOptions::default()).unwrap();
        assert_same(&fetch(&store, &id), &Int64Array::from(vec![n]), "one number");
    }
}

#[test]
fn types_without_a_builder_are_named() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let element = || Arc::new(Field::new_list_field(DataType::Int64, true));
    for (data_type, told) in [
        (DataType::Utf8View, "Utf8View; use utf8 or large_utf8"),
        (DataType::new_list(DataType::BinaryView, true), "BinaryView; use binary or large_binary"),
        (DataType::ListView(element()), "use list"),
        (DataType::LargeListView(element()), "use large_list"),
    ] {
        let outcome = ColumnBuilder::new(&store, &data_type, &BuilderOptions::default());
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn buffers_keep_their_addresses() {
    let node = TestStore::new(256 << 20);
    let store = node.connect();
    let mut words = builder(&store, &DataType::Utf8);
    assert!(words.addresses().is_empty(), "nothing was appended");
    words.append_null().unwrap();
    words.append_str("a").unwrap();
    let before = words.addresses();
    assert_eq!(before.len(), 3, "validity, offsets and bytes");
    assert!(before.iter().all(|address| address % 64 == 0));
    let many = StringArray::from(vec!["some text that is not short"; 10_000]);
    for _ in 0..100 {
        words.append_array(&many).unwrap();
        assert_eq!(words.addresses(), before);
    }
}

#[test]
fn arrays_of_another_type_change_nothing() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    for array in samples() {
        let mut building = builder(&store, array.data_type());
        building.append_array(&array).unwrap();
        for other in samples().iter().filter(|it| it.data_type() != array.data_type()) {
            let error = building.append_array(other).unwrap_err();
            assert!(matches!(error, Error::Type { .. }), "{error}");
        }
        assert_same(&building.snapshot().unwrap(), &array, &array.data_type().to_string());
    }
}

#[test]
fn a_dictionary_has_each_value_once_and_keys_that_fit() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let of = |strings: &[&str]| -> DictionaryArray<Int8Type> { strings.iter().copied().collect() };
    let data_type = of(&["a"]).data_type().clone();
    let mut building = builder(&store, &data_type);
    for strings in [&["b", "a", "b"][..], &["c", "a"], &["b", "c"]] {
        building.append_array(&of(strings)).unwrap();
    }
    let many: Vec<String> = (0..200).map(|n| format!("value {n}")).collect();
    for part in many.chunks(100) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        if let Err(error) = building.append_array(&of(&part)) {
            assert!(matches!(error, Error::Overflow { .. }), "{error}");
        }
    }
    building.append_array(&of(&["a", "value 7"])).unwrap();
    let found = fetch(&store, &building.finish(&PutOptions::default()).unwrap());
    let found = found.as_any().downcast_ref::<DictionaryArray<Int8Type>>().unwrap();
    let strings = found.downcast_dict::<StringArray>().unwrap();
    let strings: Vec<_> = strings.into_iter().flatten().collect();
    assert_eq!(strings[..7], ["b", "a", "b", "c", "a", "b", "c"]);
    assert_eq!((strings.len(), &strings[107..]), (109, &["a", "value 7"][..]));
    assert_eq!(found.values().len(), 103, "the second hundred was taken back");
}

#[test]
fn a_full_store_is_an_error_in_the_middle_and_leaves_what_was_there() {
    let node = TestStore::new(16 << 20);
    let (store, other) = (node.connect(), node.connect());
    let text = "x".repeat(1000);
    let array: ArrayRef = Arc::new(StringArray::from(vec![Some(text.as_str()); 1000]));
    let with_nulls: ArrayRef = Arc::new(StringArray::from(vec![None, Some(text.as_str())]));
    let mut building = builder(&store, &DataType::Utf8);
    let error = loop {
        if let Err(error) = building.append_array(&array) {
            break error;
        }
    };
    assert!(matches!(error.code(), Code::StoreFull | Code::TooLarge), "{error}");
    let rows = building.len();
    assert!(rows > 10_000 && rows.is_multiple_of(1000), "{rows}");
    let kept = building.snapshot().unwrap();
    kept.to_data().validate_full().unwrap();
    assert_eq!(kept.len(), rows);
    // Room is made, and building goes on where it was.
    let freed = building.len();
    let mut second = builder(&other, &DataType::Int64);
    assert!(second.append_values::<Int64Type>(&[1; 1 << 19]).is_err(), "it is full for all");
    drop(second);
    building.append_array(&with_nulls.slice(0, 1)).unwrap();
    assert_eq!(building.len(), freed + 1);
    building.abort();
    until("nothing leaks", || {
        let status = store.status().unwrap();
        status.used_bytes == 0 && status.creating == 0
    });
    let mut after = builder(&other, &DataType::Utf8);
    (0..10).for_each(|_| after.append_array(&array).unwrap());
}

#[test]
fn what_fills_the_store_to_its_last_byte_can_be_finished() {
    // The guide says that what was appended before the store was full can be finished. The object
    // that names the columns had no room then, and they were deleted with it.
    for (capacity, values) in [(16 << 20, 1 << 20), (16 << 20, 100), (17 << 20, 4096)] {
        let node = TestStore::new(capacity);
        let (store, other) = (node.connect(), node.connect());
        let mut building = builder(&store, &DataType::Int64);
        let error = loop {
            if let Err(error) = building.append_values::<Int64Type>(&vec![7; values]) {
                break error;
            }
        };
        assert!(matches!(error.code(), Code::StoreFull | Code::TooLarge), "{error}");
        let rows = building.len();
        let id = building.finish(&PutOptions::default()).unwrap();
        assert_eq!(fetch(&other, &id).len(), rows, "of {capacity} bytes");
    }
}

#[test]
fn a_table_is_one_object_and_is_read_in_place() {
    let node = TestStore::new(256 << 20);
    let (store, other) = (node.connect(), node.connect());
    let arrays = samples();
    let named = |(at, array): (usize, &ArrayRef)| {
        Field::new(format!("{at}"), array.data_type().clone(), true)
    };
    let fields: Vec<_> = arrays.iter().enumerate().map(named).collect();
    let metadata: std::collections::HashMap<_, _> =
        [("made".to_owned(), "by a test".to_owned())].into();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batch = RecordBatch::try_new(schema.clone(), arrays.clone()).unwrap();
    let mut table = TableBuilder::new(&store, &schema, &BuilderOptions::default()).unwrap();
    for _ in 0..100 {
        table.append_batch(&batch).unwrap();
    }
    assert_eq!((table.rows(), table.snapshot().unwrap()[0].num_rows()), (500, 500));
    let name = Name::new("test", "table").unwrap();
    let options = PutOptions { name: Some(name.clone()), ..PutOptions::default() };
    let id = table.finish(&options).unwrap();
    let object = other.get_named(&name, NOW).unwrap();
    assert_eq!(object.id(), id);
    let (found_schema, batches) = read(&object).unwrap();
    assert_eq!(found_schema, schema);
    assert_eq!((batches.len(), batches[0].num_rows()), (1, 500));
    for (at, array) in arrays.iter().enumerate() {
        let found = batches[0].column(at);
        assert_same(&found.slice(495, 5), array, &array.data_type().to_string());
    }
    // The arrays hold what they need, whatever happens to everything else.
    drop(object);
    other.delete(&[id]).unwrap();
    drop((table, store));
    assert_same(&batches[0].column(13).slice(5, 5), &arrays[13], "after the delete");
}

#[test]
fn what_is_read_lies_where_it_was_built() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut building = builder(&store, &DataType::Int64);
    building.append_values::<Int64Type>(&(0..100_000).collect::<Vec<_>>()).unwrap();
    let id = building.finish(&PutOptions::default()).unwrap();
    let one = fetch(&store, &id);
    let two = fetch(&store, &id);
    let address = |array: &ArrayRef| array.to_data().buffers()[0].as_ptr();
    assert_eq!(address(&one), address(&two), "both are the object's memory");
    assert_eq!(address(&one).addr() % 64, 0);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let inside = |line: &&str| {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let range =
            usize::from_str_radix(from, 16).unwrap()..usize::from_str_radix(to, 16).unwrap();
        range.contains(&address(&one).addr())
    };
    let line = maps.lines().find(inside).unwrap();
    assert!(line.contains("plasmon-extent") && line.contains("r--s"), "{line}");
}

#[test]
fn tables_with_columns_of_different_lengths_are_refused() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let fields =
        vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Utf8, true)];
    let schema = Arc::new(Schema::new(fields));
    let mut table = TableBuilder::new(&store, &schema, &BuilderOptions::default()).unwrap();
    table.column("a").unwrap().append_values::<Int64Type>(&[1, 2]).unwrap();
    table.column("b").unwrap().append_str("one").unwrap();
    assert!(table.column("c").is_none());
    let error = table.finish(&PutOptions::default()).unwrap_err();
    assert!(error.to_string().contains("\"a\" has 2"), "{error}");
    table.column("b").unwrap().append_str("two").unwrap();
    table.column("a").unwrap().append_null().unwrap();
    table.column("b").unwrap().append_null().unwrap();
    let error = table.finish(&PutOptions::default()).unwrap_err();
    assert!(error.to_string().contains("\"a\" may have no nulls and has 1"), "{error}");
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let wrong =
        vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)];
    let wrong = RecordBatch::try_new(Arc::new(Schema::new(wrong)), vec![numbers.clone(), numbers]);
    let error = table.append_batch(&wrong.unwrap()).unwrap_err();
    assert!(error.to_string().contains("column \"b\""), "{error}");
    assert_eq!(table.rows(), 3, "neither column has got a row");
}

#[test]
fn a_table_longer_than_its_types_can_count_has_several_batches() {
    let node = TestStore::new(64 << 20);
    let (store, other) = (node.connect(), node.connect());
    let strings: Vec<String> = (0..300).map(|n| format!("text {n}")).collect();
    let of = |strings: &[String]| -> ArrayRef {
        let words: DictionaryArray<Int8Type> = strings.iter().map(String::as_str).collect();
        Arc::new(words)
    };
    let data_type = of(&strings[..1]).data_type().clone();
    let schema = Arc::new(Schema::new(vec![Field::new("t", data_type, true)]));
    let mut table = TableBuilder::new(&store, &schema, &BuilderOptions::default()).unwrap();
    for part in strings.chunks(50) {
        table.append_batch(&RecordBatch::try_new(schema.clone(), vec![of(part)]).unwrap()).unwrap();
    }
    assert_eq!((table.rows(), table.snapshot().unwrap().len()), (300, 3));
    let id = table.finish(&PutOptions::default()).unwrap();
    let (_, batches) = read(&other.get(&id, NOW).unwrap()).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [100, 100, 100]);
    let words = batches.iter().flat_map(|batch| {
        let words = batch.column(0).as_any().downcast_ref::<DictionaryArray<Int8Type>>().unwrap();
        let strings = words.downcast_dict::<StringArray>().unwrap();
        strings.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(words.collect::<Vec<_>>(), strings);
    assert_eq!(table.rows(), 0, "and it is ready for the next");
}

#[test]
fn a_name_that_is_taken_is_reported_before_anything_is_sealed() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let name = Name::new("", "taken").unwrap();
    let options = PutOptions { name: Some(name), ..PutOptions::default() };
    store.put(b"x", &options).unwrap();
    let mut building = builder(&store, &DataType::Int64);
    building.append_values::<Int64Type>(&[1, 2]).unwrap();
    let error = building.finish(&options).unwrap_err();
    assert_eq!(error.code(), Code::Exists, "{error}");
    assert_eq!(building.len(), 2, "it can be finished under another name");
    building.finish(&PutOptions::default()).unwrap();
}

#[test]
fn a_table_of_more_buffers_than_one_composite_may_hold() {
    let node = TestStore::new(256 << 20);
    let (store, other) = (node.connect(), node.connect());
    let fields: Vec<_> =
        (0..1100).map(|at| Field::new(format!("{at}"), DataType::Int64, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut table = TableBuilder::new(&store, &schema, &BuilderOptions::default()).unwrap();
    for at in 0..1100 {
        table.column_at(at).unwrap().append_values::<Int64Type>(&[at as i64]).unwrap();
    }
    let id = table.finish(&PutOptions::default()).unwrap();
    let (_, batches) = read(&other.get(&id, NOW).unwrap()).unwrap();
    for (at, column) in batches[0].columns().iter().enumerate() {
        assert_same(column, &Int64Array::from(vec![at as i64]), "one number");
    }
    drop(batches);
    other.delete(&[id]).unwrap();
    until("members and groups are gone", || store.status().unwrap().objects == 0);
}

#[test]
fn a_daemon_that_comes_back_costs_a_copy_and_no_data() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut building = builder(&store, &DataType::Utf8);
    building.append_str("before").unwrap();
    node.kill_daemon(&store.status().unwrap());
    store.status().unwrap();
    building.append_null().unwrap_or_else(|error| {
        assert_eq!(error.code(), Code::Disconnected, "{error}");
    });
    let rows = building.len();
    let id = building.finish(&PutOptions::default()).unwrap();
    let found = fetch(&store, &id);
    assert_eq!(
        (found.len(), found.as_any().downcast_ref::<StringArray>().unwrap().value(0)),
        (rows, "before")
    );
}

#[test]
fn threads_build_beside_each_other() {
    let node = TestStore::new(256 << 20);
    let store = node.connect();
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..10 {
                    let mut building = builder(store, &DataType::Int64);
                    let values = vec![thread * 100 + round; 10_000];
                    (0..20).for_each(|_| building.append_values::<Int64Type>(&values).unwrap());
                    let id = building.finish(&PutOptions::default()).unwrap();
                    let found = fetch(store, &id);
                    let found = found.as_any().downcast_ref::<Int64Array>().unwrap();
                    assert_eq!(found.len(), 200_000);
                    assert!(found.values().iter().all(|value| *value == values[0]));
                    assert_eq!(store.delete(&[id]).unwrap(), [None]);
                }
            });
        }
    });
    until("all is given back", || store.status().unwrap().objects == 0);
}

#[test]
fn a_builder_of_a_client_that_leaves_leaves_nothing() {
    let node = TestStore::new(64 << 20);
    let (store, other) = (node.connect(), node.connect());
    let mut building = builder(&store, &DataType::Int64);
    building.append_values::<Int64Type>(&vec![1; 1 << 20]).unwrap();
    assert!(other.status().unwrap().used_bytes >= 8 << 20);
    store.disconnect();
    assert_eq!(building.snapshot().unwrap().len(), 1 << 20, "what was appended stays readable");
    // The builder could still write there, so its memory is no other's yet.
    assert!(other.status().unwrap().used_bytes >= 8 << 20);
    assert!(building.finish(&PutOptions::default()).is_err());
    let id = store.new_id();
    drop((building, store));
    until("its memory is back", || other.status().unwrap().used_bytes == 0);
    assert_eq!(other.states(&[id]).unwrap(), [ObjectState::Absent]);
}
