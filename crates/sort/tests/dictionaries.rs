//! Columns of dictionaries and runs: what they cost, and when their codes become wider.
//!
//! A spilling sort wrote the whole dictionary into every block of its scratch file: a table of
//! 14 MB took 4.8 GB there. And partitions with different dictionaries of codes of 8 bits failed
//! with "dictionary key overflow" as soon as they had more than 128 values together.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int16Array, Int32Array, ListArray, RecordBatch,
    RunArray, StringArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Field};
use plasmon_sort::{Error, External, Heap, Job, Means, Progress, SortKey, Table, sort};

const MEMORY_BYTES: u64 = 1 << 20;

fn batches(stream: &[u8]) -> Vec<RecordBatch> {
    StreamReader::try_new(stream, None).unwrap().map(Result::unwrap).collect()
}

/// Sorts in memory into this many partitions, each of one batch.
fn sorted(given: &[RecordBatch], by: &str, partitions: usize) -> Vec<RecordBatch> {
    let table = Table::new(given[0].schema(), given.to_vec()).unwrap();
    let (order, progress) = ([SortKey::ascending(by)], Progress::default());
    let partitions = Some(partitions);
    let job = Job {
        table: &table,
        order: &order,
        partitions,
        only: None,
        threads: None,
        progress: &progress,
    };
    let made = sort(&job, &mut |bytes| Ok(Heap::new(bytes))).unwrap();
    made.iter().flat_map(|made| batches(&made.memory)).collect()
}

/// Rows with long values of which each is met a few times; `seed` says which values there are.
fn long_values(rows: usize, values: usize, seed: usize) -> RecordBatch {
    let values = (0..values).map(|at| format!("{seed}/{at:0200}"));
    let values = Arc::new(StringArray::from_iter_values(values));
    let count = values.len();
    let places: Vec<usize> = (0..rows).map(|row| row * 7919 % count).collect();
    let codes = Int32Array::from_iter_values(places.iter().map(|at| *at as i32));
    let text: ArrayRef = Arc::new(DictionaryArray::new(codes, values));
    let numbers = (0..rows).map(|row| (row * 104_729 % rows) as i32);
    let number: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("number", number), ("text", text)]).unwrap()
}

fn plain(batch: &RecordBatch, column: &str) -> Vec<String> {
    let array = cast(batch.column_by_name(column).unwrap(), &DataType::Utf8).unwrap();
    array.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
}

#[test]
fn a_scratch_file_is_not_larger_than_the_data() {
    let given = long_values(100_000, 5000, 0);
    let data_bytes = given.get_array_memory_size() as u64;
    for by in ["number", "text"] {
        let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
        let means = Means {
            folder: folder.path(),
            scratch_bytes_max: Some(data_bytes),
            memory_bytes: MEMORY_BYTES,
            threads: Some(2),
            progress: &progress,
        };
        let order = [SortKey::ascending(by)];
        let mut external = External::new(&given.schema(), &order, means).unwrap();
        external.push(&given).unwrap();
        let mut merge = external.finish(None).unwrap();
        assert!(merge.partitions() > 3);
        let mut found = Vec::new();
        while let Some(made) = merge.next_partition(&mut |bytes| Ok(Heap::new(bytes))).unwrap() {
            found.extend(batches(&made.memory));
        }
        let wanted = sorted(std::slice::from_ref(&given), by, 1);
        for column in ["number", "text"] {
            let found: Vec<_> = found.iter().flat_map(|batch| plain(batch, column)).collect();
            assert!(found == plain(&wanted[0], column), "{column} by {by}");
        }
    }
}

#[test]
fn dictionaries_that_are_too_large_for_the_memory_are_named() {
    let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let means = Means {
        folder: folder.path(),
        scratch_bytes_max: None,
        memory_bytes: MEMORY_BYTES,
        threads: Some(2),
        progress: &progress,
    };
    let schema = long_values(1, 1, 0).schema();
    let mut external = External::new(&schema, &[SortKey::ascending("number")], means).unwrap();
    external.push(&long_values(1000, 1000, 1)).unwrap();
    let refused = external.push(&long_values(1000, 1000, 2)).unwrap_err();
    assert!(matches!(&refused, Error::DictionaryBytes { column, .. } if column == "text"));
    assert!(refused.to_string().contains("give more memory"), "{refused}");
}

/// A batch with codes of 8 bits, alone and in a list.
fn small_codes(values: std::ops::Range<usize>) -> RecordBatch {
    let rows = values.len();
    let strings = Arc::new(StringArray::from_iter_values(values.map(|at| format!("{at:04}"))));
    let codes = Int8Array::from_iter_values((0..rows).rev().map(|at| at as i8));
    let alone = DictionaryArray::new(codes, strings);
    let field = Arc::new(Field::new_list_field(alone.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, rows));
    let list = ListArray::new(field, offsets, Arc::new(alone.clone()), None);
    let columns: [(&str, ArrayRef); 2] = [("alone", Arc::new(alone)), ("list", Arc::new(list))];
    RecordBatch::try_from_iter(columns).unwrap()
}

// The ends of runs have 16 bits too, and what fits a batch of the input need not fit a partition.
#[test]
fn a_batch_has_as_many_rows_as_the_ends_of_its_runs_count() {
    let rows = 20_000;
    let ends = Int16Array::from_iter_values((1..=rows / 2).map(|run| 2 * run as i16));
    let values = Int32Array::from_iter_values((0..rows / 2).map(|run| run * 7919 % 1000));
    let runs: ArrayRef = Arc::new(RunArray::try_new(&ends, &values).unwrap());
    let given = RecordBatch::try_from_iter([("runs", runs)]).unwrap();
    let found = sorted(&[given.clone(), given], "runs", 1);
    assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [32_767, 7233]);
    let mut all = Vec::new();
    for batch in &found {
        let plain = cast(batch.column(0), &DataType::Int32).unwrap();
        all.extend_from_slice(plain.as_primitive::<Int32Type>().values());
    }
    assert!(all.is_sorted());
}

/// The values in the lists, each of which has one.
fn listed(batch: &RecordBatch) -> Vec<String> {
    let list = batch.column(1).as_list::<i32>();
    let values = cast(list.values(), &DataType::Utf8).unwrap();
    values.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
}

#[test]
fn codes_are_as_wide_as_all_values_need() {
    for (values, wanted) in [(128, DataType::Int8), (129, DataType::Int16)] {
        let given = [small_codes(0..100), small_codes(100..values), small_codes(0..50)];
        for partitions in [1, 3] {
            let found = sorted(&given, "alone", partitions);
            let index = |batch: &RecordBatch| match batch.column(0).data_type() {
                DataType::Dictionary(index, _) => (**index).clone(),
                other => panic!("{other}"),
            };
            assert!(found.iter().all(|batch| index(batch) == wanted), "{values} values");
            let strings: Vec<_> = found.iter().flat_map(|batch| plain(batch, "alone")).collect();
            assert!(strings.is_sorted());
            assert_eq!(strings.len(), values + 50);
            let listed = found.iter().flat_map(listed);
            assert!(listed.eq(strings.iter().cloned()), "the list moves along");
        }
    }
}

#[test]
fn runs_whose_codes_have_other_widths_are_merged() {
    let given: Vec<_> = (0..80).map(|at| small_codes(at * 3..at * 3 + 100)).collect();
    let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let means = Means {
        folder: folder.path(),
        scratch_bytes_max: None,
        memory_bytes: 128 << 10,
        threads: Some(2),
        progress: &progress,
    };
    let order = [SortKey::descending("alone")];
    let mut external = External::new(&given[0].schema(), &order, means).unwrap();
    given.iter().for_each(|batch| external.push(batch).unwrap());
    let mut merge = external.finish(None).unwrap();
    assert!(merge.partitions() > 1);
    let (schema, mut found) = (merge.schema(), Vec::new());
    while let Some(made) = merge.next_partition(&mut |bytes| Ok(Heap::new(bytes))).unwrap() {
        for batch in batches(&made.memory) {
            assert_eq!(batch.schema(), schema);
            assert_eq!(plain(&batch, "alone"), listed(&batch));
            found.extend(plain(&batch, "alone"));
        }
    }
    let mut wanted: Vec<_> = given.iter().flat_map(|batch| plain(batch, "alone")).collect();
    wanted.sort_by(|one, other| other.cmp(one));
    assert!(found == wanted);
}

#[test]
fn a_dictionary_stays_whole_where_that_costs_little() {
    let given = [long_values(20_000, 40, 0)];
    for batch in sorted(&given, "number", 4) {
        let text = batch.column(1).as_dictionary::<Int32Type>();
        assert_eq!(text.values().len(), 40, "values that no row of the partition uses are there");
        assert_eq!(text.values(), given[0].column(1).as_any_dictionary().values());
    }
    let few = [long_values(400, 300, 0)];
    let found = sorted(&few, "text", 4);
    let counts = found.iter().map(|batch| batch.column(1).as_any_dictionary().values().len());
    assert_eq!(counts.sum::<usize>(), 300, "each partition has its own values only");
}
