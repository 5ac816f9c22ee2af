//! Sorting with less memory than the rows take, beside the same reference as sorting in memory.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod reference;

use std::fs::read_dir;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use plasmon_sort::{Error, External, Heap, Means, Merge, Progress, SortKey};
use plasmon_testkit::Random;
use proptest::prelude::*;

use reference::{SHAPES, Shape, cases, column, reference as wanted, types};

/// Little enough for several runs of several blocks each.
const MEMORY_BYTES: u64 = 192 << 10;

fn means<'a>(folder: &'a Path, progress: &'a Progress) -> Means<'a> {
    Means {
        folder,
        scratch_bytes_max: None,
        memory_bytes: MEMORY_BYTES,
        threads: Some(2),
        progress,
    }
}

/// Batches with these columns and one, "row", that tells rows apart.
fn table(columns: &[(DataType, Shape)], sizes: &[usize], random: &mut Random) -> Vec<RecordBatch> {
    let named = columns.iter().enumerate();
    let fields =
        named.map(|(at, (data_type, _))| Field::new(format!("c{at}"), data_type.clone(), true));
    let fields: Vec<Field> = fields.chain([Field::new("row", DataType::Int32, false)]).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut first = 0;
    let batch = |rows: &usize| {
        let made = columns.iter().map(|(kind, shape)| column(kind, *rows, *shape, true, random));
        let mut arrays: Vec<ArrayRef> = made.collect();
        arrays.push(Arc::new(Int32Array::from_iter_values(first..first + *rows as i32)));
        first += *rows as i32;
        RecordBatch::try_new(schema.clone(), arrays).unwrap()
    };
    sizes.iter().map(batch).collect()
}

fn partitions(merge: &mut Merge<'_>) -> Vec<RecordBatch> {
    let mut found = Vec::new();
    while let Some(made) = merge.next_partition(&mut |bytes| Ok(Heap::new(bytes))).unwrap() {
        let reader = StreamReader::try_new(&made.memory[..], None).unwrap();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        found.push(concat_batches(&merge.schema(), &batches).unwrap());
        assert_eq!(found.last().unwrap().num_rows(), made.rows);
    }
    found
}

/// Sorts and compares; how many partitions there were.
fn check(batches: &[RecordBatch], order: &[SortKey], count: Option<usize>) -> usize {
    let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let schema = batches[0].schema();
    let mut external = External::new(&schema, order, means(folder.path(), &progress)).unwrap();
    external.expect_rows(batches.iter().map(|batch| batch.num_rows() as u64).sum());
    for batch in batches {
        external.push(batch).unwrap();
    }
    let mut merge = external.finish(count).unwrap();
    let found = partitions(&mut merge);
    assert_eq!(found.len(), merge.partitions());
    assert_eq!(read_dir(folder.path()).unwrap().count(), 0, "the scratch file has no name");
    let (done, total) = progress.steps();
    assert!(done >= total, "{done} of {total} steps");
    let whole = concat_batches(&merge.schema(), &found).unwrap();
    let wanted = wanted(&schema, batches, order);
    assert_eq!(whole.num_rows(), wanted.num_rows());
    for (found, wanted) in whole.columns().iter().zip(wanted.columns()) {
        let wanted = arrow_cast::cast(wanted, found.data_type()).unwrap();
        assert!(*found == wanted, "by {order:?}");
    }
    found.len()
}

fn key(at: usize, descending: bool, nulls_first: bool) -> SortKey {
    SortKey { column: format!("c{at}"), descending, nulls_first }
}

#[test]
fn every_type_sorts_through_the_scratch_file() {
    for (at, data_type) in types().into_iter().enumerate() {
        let (descending, nulls_first) = (at % 2 == 0, at % 3 == 0);
        let given =
            table(&[(data_type, Shape::Any)], &[2500, 1, 2500], &mut Random::new(at as u64));
        check(&given, &[key(0, descending, nulls_first)], None);
    }
}

#[test]
fn every_shape_is_cut_into_partitions_that_the_memory_holds() {
    for (at, shape) in SHAPES.into_iter().enumerate() {
        let columns = [(DataType::Int64, shape), (DataType::Utf8, Shape::Any)];
        let given = table(&columns, &[9000, 0, 9000], &mut Random::new(at as u64));
        let bytes: usize = given.iter().map(RecordBatch::get_array_memory_size).sum();
        let count = check(&given, &[key(0, false, false)], None);
        // Also when all rows are one value: bounds are places, not keys.
        assert!(count as u64 >= bytes as u64 / MEMORY_BYTES, "{shape:?}: {count} partitions");
        assert_eq!(check(&given, &[key(0, true, true), key(1, false, false)], Some(40)), 40);
    }
}

#[test]
fn no_rows_and_few_rows_make_as_many_partitions_as_were_asked_for() {
    for rows in [0, 1, 3] {
        let given = table(&[(DataType::Float64, Shape::Any)], &[rows], &mut Random::new(1));
        assert_eq!(check(&given, &[key(0, false, false)], Some(5)), 5);
        assert_eq!(check(&given, &[key(0, false, false)], None), 1);
    }
}

#[test]
fn what_cannot_work_is_refused_with_the_numbers() {
    let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let given = table(&[(DataType::Float64, Shape::Any)], &[60_000], &mut Random::new(1)).remove(0);
    let order = [key(0, false, false)];
    let start = |folder| External::new(&given.schema(), &order, means(folder, &progress));
    let missing = folder.path().join("missing");
    let refused = start(&missing).unwrap_err();
    assert!(matches!(refused, Error::Scratch { .. }), "{refused}");
    assert!(refused.to_string().contains("missing"), "{refused}");

    let mut external = start(folder.path()).unwrap();
    external.push(&given).unwrap();
    let refused = external.finish(Some(2)).unwrap_err();
    let Error::Few { wanted: 2, limit: MEMORY_BYTES, least, .. } = refused else {
        panic!("{refused}")
    };
    assert!(refused.to_string().contains(&format!("ask for {least} partitions")), "{refused}");
    let mut external = start(folder.path()).unwrap();
    external.push(&given).unwrap();
    assert_eq!(
        partitions(&mut external.finish(Some(least as usize)).unwrap()).len(),
        least as usize
    );

    let nothing = External::new(&given.schema(), &[], means(folder.path(), &progress));
    assert!(matches!(nothing.unwrap_err(), Error::NoKeys));
}

#[test]
fn a_scratch_file_ends_at_its_limit() {
    // A table of 18 MB filled the disk of the machine: nothing looked at how large the file was.
    let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let given = table(&[(DataType::Float64, Shape::Any)], &[60_000], &mut Random::new(1)).remove(0);
    let order = [key(0, false, false)];
    let sorted = |scratch_bytes_max| {
        let means = Means { scratch_bytes_max, ..means(folder.path(), &progress) };
        let mut external = External::new(&given.schema(), &order, means)?;
        // More than any file system has is refused beforehand.
        let full = external.expect_bytes(1 << 62).unwrap_err();
        assert_eq!(matches!(full, Error::ScratchFull { .. }), scratch_bytes_max.is_none());
        external.push(&given)?;
        external.finish(None).map(|merge| merge.scratch_bytes())
    };
    let needed = sorted(None).unwrap();
    assert_eq!(sorted(Some(needed)).unwrap(), needed);
    let refused = sorted(Some(needed - 1)).unwrap_err();
    assert!(matches!(refused, Error::ScratchLimit { limit, .. } if limit == needed - 1));
    assert!(refused.to_string().contains(folder.path().to_str().unwrap()), "{refused}");
    assert_eq!(read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_cancelled_sort_ends_at_the_next_step_and_leaves_nothing() {
    let (folder, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let given = table(&[(DataType::Float64, Shape::Any)], &[30_000], &mut Random::new(1)).remove(0);
    let order = [key(0, false, false)];
    let mut external =
        External::new(&given.schema(), &order, means(folder.path(), &progress)).unwrap();
    external.push(&given).unwrap();
    let mut merge = external.finish(None).unwrap();
    let memory = &mut |bytes| Ok(Heap::new(bytes));
    assert!(merge.next_partition(memory).unwrap().is_some());
    progress.cancel();
    assert!(matches!(merge.next_partition(memory).unwrap_err(), Error::Cancelled));
    let mut external =
        External::new(&given.schema(), &order, means(folder.path(), &progress)).unwrap();
    assert!(matches!(external.push(&given).unwrap_err(), Error::Cancelled));
    assert_eq!(read_dir(folder.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(30), ..ProptestConfig::default() })]

    #[test]
    fn any_table_sorts_like_the_reference(
        kinds in proptest::collection::vec((0..types().len(), 0..SHAPES.len()), 1..4),
        keys in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..4),
        sizes in proptest::collection::vec(0usize..3000, 1..4),
        count in proptest::option::of(30usize..60),
        seed in any::<u64>(),
    ) {
        let types = types();
        let columns: Vec<_> =
            kinds.iter().map(|(kind, shape)| (types[*kind].clone(), SHAPES[*shape])).collect();
        let named = keys.iter().take(columns.len()).enumerate();
        let order: Vec<SortKey> = named.map(|(at, (down, first))| key(at, *down, *first)).collect();
        check(&table(&columns, &sizes, &mut Random::new(seed)), &order, count);
    }
}
