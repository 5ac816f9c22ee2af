//! Keys of nested types, beside a reference that compares value by value.
//!
//! NaN with the sign bit (what x86 gives for 0.0/0.0) sorted before all numbers, and -0.0 before
//! 0.0, as soon as the float lay in a structure, a list, a map, a dictionary or a run: only the
//! type of the column itself was looked at. So they were not equal either, later keys were not
//! looked at, and equal rows did not stay in their order.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod compare;
mod made;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use plasmon_sort::{External, Heap, Job, Means, Partition, Progress, SortKey, Table, sort};
use plasmon_testkit::Random;

use compare::compare;
use made::{any_type, array, float_types};

/// Tables that are sorted, unless `PROPTEST_CASES` says more or fewer.
fn cases(usual: u64) -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Batches of these columns, "c0" and on, and one, "row", that tells rows apart. Each batch is a
/// slice of a longer one, so that nothing begins at 0.
fn table(types: &[DataType], sizes: &[usize], random: &mut Random) -> Vec<RecordBatch> {
    let named = types.iter().enumerate();
    let fields = named.map(|(at, kind)| Field::new(format!("c{at}"), kind.clone(), true));
    let fields: Vec<Field> = fields.chain([Field::new("row", DataType::Int32, false)]).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut first = 0;
    let mut batch = |rows: &usize| {
        let (before, after) = (random.size_below(4), random.size_below(4));
        let slice = |made: ArrayRef| made.slice(before, *rows);
        let made = types.iter().map(|kind| slice(array(kind, before + rows + after, random)));
        let mut arrays: Vec<ArrayRef> = made.collect();
        arrays.push(Arc::new(Int32Array::from_iter_values(first..first + *rows as i32)));
        first += *rows as i32;
        RecordBatch::try_new(schema.clone(), arrays).unwrap()
    };
    sizes.iter().map(&mut batch).collect()
}

fn read(stream: &[u8]) -> RecordBatch {
    let reader = StreamReader::try_new(stream, None).unwrap();
    let schema = reader.schema();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// What a sort gives, in memory and through a scratch file.
fn sorted(batches: &[RecordBatch], order: &[SortKey], partitions: usize) -> [Vec<RecordBatch>; 2] {
    let (schema, progress) = (batches[0].schema(), Progress::default());
    let table = Table::new(schema.clone(), batches.to_vec()).unwrap();
    let (wanted, threads) = (Some(partitions), Some(2));
    let job =
        Job { table: &table, order, partitions: wanted, only: None, threads, progress: &progress };
    let made = sort(&job, &mut |bytes| Ok(Heap::new(bytes))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let means = Means {
        folder: folder.path(),
        scratch_bytes_max: None,
        memory_bytes: 1 << 20,
        threads,
        progress: &progress,
    };
    let mut external = External::new(&schema, order, means).unwrap();
    batches.iter().for_each(|batch| external.push(batch).unwrap());
    let mut merge = external.finish(wanted).unwrap();
    let mut next = || merge.next_partition(&mut |bytes| Ok(Heap::new(bytes))).unwrap();
    let spilled: Vec<_> = std::iter::from_fn(&mut next).collect();
    let read = |made: &Partition<Heap>| read(&made.memory);
    [made.iter().map(read).collect(), spilled.iter().map(read).collect()]
}

/// The bytes of a column's values, whatever the indexes of their dictionaries.
fn bits(column: &ArrayRef) -> Vec<Vec<u8>> {
    let fields = vec![SortField::new(column.data_type().clone())];
    let converter = RowConverter::new(fields).unwrap();
    let rows = converter.convert_columns(std::slice::from_ref(column)).unwrap();
    rows.iter().map(|row| row.data().to_vec()).collect()
}

fn check(batches: &[RecordBatch], order: &[SortKey], partitions: usize, story: &str) {
    let parts = batches.iter().enumerate();
    let mut places: Vec<(usize, usize)> =
        parts.flat_map(|(at, batch)| (0..batch.num_rows()).map(move |row| (at, row))).collect();
    places.sort_by(|one, other| {
        let keys = order.iter().map(|key| {
            let column = |at: usize| batches[at].column_by_name(&key.column).unwrap();
            compare((column(one.0), one.1), (column(other.0), other.1), key)
        });
        keys.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    let rows = |batch: &RecordBatch| {
        batch.column_by_name("row").unwrap().as_primitive::<Int32Type>().values().to_vec()
    };
    let wanted: Vec<i32> = places.iter().map(|(at, row)| rows(&batches[*at])[*row]).collect();
    for (found, way) in sorted(batches, order, partitions).iter().zip(["in memory", "spilling"]) {
        assert_eq!(found.len(), partitions, "{story}");
        let found_rows: Vec<i32> = found.iter().flat_map(rows).collect();
        assert_eq!(found_rows, wanted, "{way}, {story}");
        for at in 0..batches[0].num_columns() {
            let given: Vec<_> = batches.iter().map(|batch| bits(batch.column(at))).collect();
            let moved = places.iter().map(|(batch, row)| given[*batch][*row].clone());
            let found = found.iter().flat_map(|batch| bits(batch.column(at)));
            assert!(found.eq(moved), "column {at}, {way}, {story}");
        }
    }
}

fn key(at: usize, bits: usize) -> SortKey {
    SortKey { column: format!("c{at}"), descending: bits & 1 != 0, nulls_first: bits & 2 != 0 }
}

#[test]
fn floats_are_ordered_alike_at_any_depth() {
    for (at, data_type) in float_types().into_iter().enumerate() {
        for options in 0..4 {
            let story = format!("{data_type} with options {options}");
            let random = &mut Random::new((at * 4 + options) as u64);
            let given = table(&[data_type.clone(), DataType::Int32], &[60, 1, 40], random);
            check(&given, &[key(0, options), key(1, options >> 1)], 1 + at % 3, &story);
        }
    }
}

#[test]
fn any_nested_keys_sort_like_the_reference() {
    for seed in 0..cases(60) {
        let random = &mut Random::new(seed);
        let types: Vec<DataType> =
            (0..1 + random.size_below(3)).map(|_| any_type(3, random)).collect();
        let order: Vec<SortKey> =
            (0..types.len()).map(|at| key(at, random.size_below(4))).collect();
        let sizes: Vec<usize> =
            (0..1 + random.size_below(4)).map(|_| random.size_below(50)).collect();
        let given = table(&types, &sizes, random);
        check(
            &given,
            &order,
            1 + random.size_below(4),
            &format!("seed {seed}: {types:?} by {order:?}"),
        );
    }
}
