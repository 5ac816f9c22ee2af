//! Structures that a producer made wrong, at random: each is refused with an error, or is an array
//! that can be read as a whole. None is a panic, and none is read beyond its memory.
//!
//! Only false claims are made that can be detected: a length that is longer than its memory, but
//! otherwise plausible, cannot be checked. `PLASMON_ARROW_SEED` repeats one case and
//! `PLASMON_ARROW_CASES` makes the test longer.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use plasmon_testkit::Random;

use super::*;
use crate::raw::RawArray;

/// One array of each kind, with some missing values.
fn samples() -> Vec<ArrayRef> {
    let words = ["one", "", "a text that is longer than a view", "four", "five", "six"];
    let words = || words.iter().enumerate().map(|(at, word)| (at % 3 != 1).then_some(*word));
    let numbers = || Int32Array::from_iter((0..6).map(|n| (n != 2).then_some(n)));
    let lists = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(4)])];
    let field = |name: &str, data_type: DataType| Arc::new(Field::new(name, data_type, true));
    let pair: ArrayRef = Arc::new(StructArray::from(vec![
        (field("n", DataType::Int32), Arc::new(numbers()) as ArrayRef),
        (field("t", DataType::Utf8), Arc::new(StringArray::from_iter(words())) as ArrayRef),
    ]));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..4 {
        for key in 0..row {
            map.keys().append_value(format!("key {key}"));
            map.values().append_value(key);
        }
        map.append(true).expect("keys and values are as many");
    }
    let keyed: DictionaryArray<Int8Type> = words().collect();
    let runs = Int32Array::from(vec![2, 3, 6]);
    let runs = RunArray::<Int32Type>::try_new(&runs, &StringArray::from(vec!["a", "b", "c"]));
    let binary = FixedSizeBinaryArray::try_from_iter([b"abc", b"def"].into_iter());
    vec![
        Arc::new(numbers()),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(NullArray::new(5)),
        Arc::new(StringArray::from_iter(words())),
        Arc::new(LargeStringArray::from_iter(words())),
        // Not text: the UTF-8 is not checked.
        Arc::new(BinaryViewArray::from_iter(words().map(|word| word.map(str::as_bytes)))),
        Arc::new(binary.expect("all are of one length")),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists.clone())),
        Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        Arc::new(FixedSizeListArray::new(
            field("item", DataType::Int32),
            2,
            Arc::new(numbers()),
            None,
        )),
        Arc::new(FixedSizeListArray::new(
            field("item", pair.data_type().clone()),
            3,
            pair.clone(),
            None,
        )),
        pair,
        Arc::new(map.finish()),
        Arc::new(keyed),
        Arc::new(runs.expect("the runs are in order")),
    ]
}

/// Changes one number of an array, or of one in it, to what it cannot be; what was changed.
fn lie(random: &mut Random, array: &mut RawArray, data_type: &DataType) -> String {
    if random.size_below(4) == 0
        && let Some(told) = lie_in_memory(random, array, data_type)
    {
        return told;
    }
    let mut types = crate::structure::children(data_type);
    if let DataType::Dictionary(_, values) = data_type {
        types.push(values);
    }
    if !types.is_empty() && random.size_below(2) == 0 {
        let at = random.size_below(types.len());
        // SAFETY: the array was exported from a good one, whose children are all there.
        let child = unsafe {
            match array.dictionary.as_mut() {
                Some(dictionary) => dictionary,
                None => &mut **array.children.add(at),
            }
        };
        return format!("child {at}: {}", lie(random, child, types[at]));
    }
    let nonsense = [-1, -2, i64::MIN, i64::MAX, i64::MAX / 2, i64::MAX / 33];
    match random.size_below(10) {
        0 => {
            array.length = random.pick(&nonsense);
            format!("length {}", array.length)
        }
        1 => {
            array.length = random.size_below(array.length as usize + 1) as i64;
            format!("length {}", array.length)
        }
        2 => {
            array.offset = random.pick(&nonsense);
            format!("offset {}", array.offset)
        }
        3 => {
            array.null_count = random.pick(&[-1, -2, 0, 1, 2, 100, i64::MIN, i64::MAX]);
            format!("null count {}", array.null_count)
        }
        4 => {
            let fewer = random.size_below(array.n_buffers as usize + 1) as i64;
            array.n_buffers = random.pick(&[-1, i64::MIN, i64::MAX, fewer]);
            format!("{} buffers", array.n_buffers)
        }
        5 => {
            let fewer = random.size_below(array.n_children as usize + 1) as i64;
            array.n_children = random.pick(&[-1, i64::MIN, i64::MAX, fewer]);
            format!("{} children", array.n_children)
        }
        6 => {
            array.buffers = std::ptr::null_mut();
            "no list of buffers".to_owned()
        }
        7 => {
            array.children = std::ptr::null_mut();
            "no list of children".to_owned()
        }
        8 if array.n_buffers > 0 => {
            let at = random.size_below(array.n_buffers as usize);
            // SAFETY: as above, for the buffers.
            unsafe { *array.buffers.add(at) = std::ptr::null() };
            format!("no buffer {at}")
        }
        _ => {
            array.dictionary = std::ptr::null_mut();
            "no dictionary".to_owned()
        }
    }
}

/// Changes one byte of what refers to something else: offsets, keys, views, the ends of runs. Not
/// those offsets that say how long a buffer is.
fn lie_in_memory(random: &mut Random, array: &RawArray, data_type: &DataType) -> Option<String> {
    let rows = (array.offset + array.length) as usize;
    let (array, bytes) = match data_type {
        DataType::List(_) | DataType::Map(..) => (array, 4 * (rows + 1)),
        DataType::LargeList(_) => (array, 8 * (rows + 1)),
        DataType::Dictionary(..) => (array, rows),
        DataType::BinaryView => (array, 16 * rows),
        // SAFETY: the ends are the first child of a good array.
        DataType::RunEndEncoded(..) => unsafe {
            let ends = &**array.children;
            (ends, 4 * ends.length as usize)
        },
        _ => return None,
    };
    let at = random.size_below(bytes.max(1));
    // SAFETY: the buffer of a good array has that many bytes, and nothing else reads it by now.
    unsafe {
        let buffer = (*array.buffers.add(1)).cast_mut().cast::<u8>();
        if bytes == 0 || buffer.is_null() {
            return None;
        }
        *buffer.add(at) = random.word() as u8;
    }
    Some(format!("byte {at} of its references"))
}

/// Reads everything of an array: as the store would publish it.
fn read(array: &ArrayRef) {
    let schema = Arc::new(Schema::new(vec![Field::new("x", array.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).expect("one column");
    let pieces = plasmon_columns::pieces(&schema, &[batch]).expect("it can be written");
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect();
    let read = plasmon_columns::read_stream(arrow_buffer::Buffer::from_vec(bytes));
    assert_eq!(read.expect("it can be read").1[0].num_rows(), array.len());
}

/// One case; whether the array was taken.
fn case(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let samples = samples();
    let sample = &samples[random.size_below(samples.len())];
    let start = random.size_below(sample.len());
    let sample = sample.slice(start, random.size_below(sample.len() - start + 1));
    let mut exported = FFI_ArrowArray::new(&sample.to_data());
    // What the exporter frees it by must be as it was: the structure itself is a copy, and the
    // exported one is let go of. A few bytes for each case are leaked.
    let data_type = sample.data_type().clone();
    // SAFETY: the structure of the C data interface, by its definition.
    let raw = unsafe { &mut *(&raw mut exported).cast::<RawArray>() };
    raw.release = Some(leak);
    let told = lie(&mut random, raw, &data_type);
    // SAFETY: the memory is there; the numbers are what is tested.
    let imported = catch_unwind(AssertUnwindSafe(|| unsafe { import_array(exported, &data_type) }));
    let Ok(imported) = imported else {
        panic!("seed {seed}: {data_type} with {told}: a panic");
    };
    match imported {
        Ok(array) => {
            let read = catch_unwind(AssertUnwindSafe(|| read(&array)));
            assert!(read.is_ok(), "seed {seed}: {data_type} with {told}: it was taken");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Marks the array as released and frees nothing.
unsafe extern "C" fn leak(array: *mut RawArray) {
    // SAFETY: the interface calls it with the array that it belongs to.
    unsafe { (*array).release = None };
}

#[test]
fn structures_that_are_wrong_are_refused() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("PLASMON_ARROW_SEED") {
        case(seed);
        return;
    }
    let cases = number("PLASMON_ARROW_CASES").unwrap_or(4000);
    let taken = (0..cases).filter(|seed| case(*seed)).count() as u64;
    assert!(taken > cases / 20 && taken < cases, "{taken} of {cases} were taken");
}

/// A list whose children were nowhere was read through a null pointer, and a negative length was
/// computed with as if it were half of all memory.
#[test]
fn what_arrow_rs_believes_is_checked_before() {
    let lists = || {
        let rows = [Some(vec![Some(1)]), None];
        ListArray::from_iter_primitive::<Int32Type, _, _>(rows).to_data()
    };
    let refused = |change: &dyn Fn(&mut RawArray)| {
        let mut exported = FFI_ArrowArray::new(&lists());
        // SAFETY: as above.
        let raw = unsafe { &mut *(&raw mut exported).cast::<RawArray>() };
        raw.release = Some(leak);
        change(raw);
        // SAFETY: as above.
        unsafe { import_array(exported, lists().data_type()) }.unwrap_err().to_string()
    };
    assert!(refused(&|raw| raw.children = std::ptr::null_mut()).contains("children of its type"));
    assert!(refused(&|raw| raw.length = -5).contains("an impossible length"));
    assert!(refused(&|raw| raw.n_buffers = -1).contains("buffers of its type"));
    assert!(refused(&|raw| raw.null_count = 3).contains("more missing values"));
}

/// The only offset of an empty slice may be any number: text without a value was refused ("First
/// offset 3 of Utf8 is larger than values length 0"), also within a list, and so were tables with
/// an empty chunk that another library had cut.
#[test]
fn empty_slices_are_taken_wherever_they_begin() {
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["abc", "d"]));
    let lists = {
        let rows = [Some(vec![Some(1), None]), None];
        ListArray::from_iter_primitive::<Int32Type, _, _>(rows)
    };
    for (array, offset) in [(strings, 1_i32), (Arc::new(lists) as ArrayRef, 2)] {
        let offsets = [offset];
        let data_type = array.data_type().clone();
        let exported = FFI_ArrowArray::new(&array.to_data());
        let mut buffers = [std::ptr::null(), offsets.as_ptr().cast(), std::ptr::null()];
        let mut items = FFI_ArrowArray::new(&Int32Array::from(Vec::<i32>::new()).to_data());
        let mut children = [(&raw mut items).cast::<RawArray>()];
        let mut empty = exported;
        // SAFETY: the structures are the same; the buffers live as long as the import.
        let raw = unsafe { &mut *(&raw mut empty).cast::<RawArray>() };
        raw.length = 0;
        raw.null_count = 0;
        raw.buffers = buffers.as_mut_ptr();
        raw.release = Some(leak);
        if raw.n_children > 0 {
            raw.children = children.as_mut_ptr();
        }
        // SAFETY: as above.
        let found = unsafe { import_array(empty, &data_type) }.unwrap();
        assert!(found.is_empty() && found.data_type() == &data_type);
    }
}
