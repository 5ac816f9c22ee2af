//! Every type, option and shape of data, beside a reference.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod reference;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use plasmon_sort::{Error, Job, Partition, Progress, SortKey, Table, sort};
use plasmon_testkit::Random;
use proptest::prelude::*;

use reference::{SHAPES, Shape, cases, column, reference as wanted, types};

/// Batches of these columns; the last column, "row", tells rows apart.
fn batches(
    columns: &[(DataType, Shape, bool)],
    sizes: &[usize],
    random: &mut Random,
) -> (SchemaRef, Vec<RecordBatch>) {
    let mut fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(at, (data_type, _, _))| Field::new(format!("c{at}"), data_type.clone(), true))
        .collect();
    fields.push(Field::new("row", DataType::Int32, false));
    let schema = Arc::new(Schema::new(fields));
    let mut first = 0;
    let batches = sizes.iter().map(|rows| {
        let mut arrays: Vec<ArrayRef> = columns
            .iter()
            .map(|(data_type, shape, nulls)| column(data_type, *rows, *shape, *nulls, random))
            .collect();
        arrays.push(Arc::new(Int32Array::from_iter_values(first..first + *rows as i32)));
        first += *rows as i32;
        RecordBatch::try_new(schema.clone(), arrays).unwrap()
    });
    let batches = batches.collect();
    (schema, batches)
}

/// Sorts into plain memory, and again each partition on its own, as processes do that share the
/// work.
fn sorted(table: &Table, order: &[SortKey], partitions: usize, threads: usize) -> Vec<RecordBatch> {
    let progress = Progress::default();
    let mut job = Job {
        table,
        order,
        partitions: Some(partitions),
        only: None,
        threads: Some(threads),
        progress: &progress,
    };
    let make = |job: &Job<'_>| {
        let found = sort(job, &mut |bytes| Ok(Memory::new(bytes as usize))).unwrap();
        let schema = table.sorted_schema();
        found.iter().map(|partition| read(&schema, partition)).collect::<Vec<_>>()
    };
    let all = make(&job);
    assert_eq!(all.len(), partitions);
    let (done, total) = progress.steps();
    assert!(done >= total, "{done} of {total} steps");
    for (at, wanted) in all.iter().enumerate().filter(|_| partitions > 1) {
        job.only = Some(at..at + 1);
        assert_eq!(&make(&job)[..], std::slice::from_ref(wanted), "partition {at} on its own");
    }
    all
}

fn read(schema: &SchemaRef, partition: &Partition<Memory>) -> RecordBatch {
    let reader = arrow_ipc::reader::StreamReader::try_new(&partition.memory[..], None).unwrap();
    assert_eq!(&reader.schema(), schema);
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    for batch in &batches {
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    }
    let batch = concat_batches(schema, &batches).unwrap();
    assert_eq!(batch.num_rows(), partition.rows);
    batch
}

/// Memory that starts at a multiple of 64 and holds what an earlier use left there.
struct Memory(Vec<[u64; 8]>, usize);

impl Memory {
    fn new(bytes: usize) -> Self {
        let mut lines = vec![[0xA5A5_A5A5_A5A5_A5A5; 8]; bytes.div_ceil(64) + 1];
        // The allocator aligns to 8 only; nothing here needs more than that.
        lines.shrink_to_fit();
        Self(lines, bytes)
    }
}

impl std::ops::Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[..self.1]
    }
}

fn check(
    (schema, batches): (SchemaRef, Vec<RecordBatch>),
    order: &[SortKey],
    partitions: usize,
    threads: usize,
) {
    let wanted = wanted(&schema, &batches, order);
    let table = Table::new(schema.clone(), batches).unwrap();
    let found = concat_batches(&table.sorted_schema(), &sorted(&table, order, partitions, threads))
        .unwrap();
    assert_eq!(found.num_rows(), wanted.num_rows());
    for (name, (found, wanted)) in
        schema.fields().iter().map(|f| f.name()).zip(found.columns().iter().zip(wanted.columns()))
    {
        let wanted = &arrow_cast::cast(wanted, found.data_type()).unwrap();
        assert!(found == wanted, "column {name} by {order:?}\n{found:?}\n{wanted:?}");
    }
}

/// Like [`check`], without making each partition on its own again.
fn check_whole(
    (schema, batches): (SchemaRef, Vec<RecordBatch>),
    order: &[SortKey],
    partitions: usize,
    threads: usize,
) {
    let wanted = wanted(&schema, &batches, order);
    let table = Table::new(schema.clone(), batches).unwrap();
    let progress = Progress::default();
    let partitions = Some(partitions);
    let job = Job {
        table: &table,
        order,
        partitions,
        only: None,
        threads: Some(threads),
        progress: &progress,
    };
    let made = sort(&job, &mut |bytes| Ok(Memory::new(bytes as usize))).unwrap();
    let found: Vec<_> = made.iter().map(|made| read(&table.sorted_schema(), made)).collect();
    let found = concat_batches(&table.sorted_schema(), &found).unwrap();
    for (found, wanted) in found.columns().iter().zip(wanted.columns()) {
        let wanted = &arrow_cast::cast(wanted, found.data_type()).unwrap();
        assert!(found == wanted, "by {order:?}");
    }
}

fn key(at: usize, descending: bool, nulls_first: bool) -> SortKey {
    SortKey { column: format!("c{at}"), descending, nulls_first }
}

#[test]
fn every_type_sorts_alone_in_both_directions_with_and_without_nulls() {
    for (at, data_type) in types().into_iter().enumerate() {
        for option in 0..8u64 {
            let (descending, nulls_first, nulls) =
                (option & 1 != 0, option & 2 != 0, option & 4 != 0);
            let mut random = Random::new(at as u64 * 8 + option);
            let given =
                batches(&[(data_type.clone(), Shape::Any, nulls)], &[130, 1, 70], &mut random);
            let order = [key(0, descending, nulls_first)];
            check(given.clone(), &order, 1, 1);
            check(given, &order, 7, 2);
        }
    }
}

#[test]
fn every_shape_sorts_in_many_buckets_and_threads() {
    let kinds = [DataType::Float64, DataType::Int64, DataType::Utf8, DataType::Int8];
    for (at, data_type) in kinds.into_iter().enumerate() {
        for (shape_at, shape) in SHAPES.into_iter().enumerate() {
            let mut random = Random::new((at * 10 + shape_at) as u64);
            let nulls = at % 2 == 1;
            let columns = [
                (data_type.clone(), shape, nulls),
                (DataType::Float32, Shape::Any, true),
                (DataType::Boolean, Shape::Any, false),
                (DataType::LargeUtf8, Shape::Any, true),
            ];
            let given = batches(&columns, &[30_000, 5, 41_000], &mut random);
            check(given.clone(), &[key(0, false, false)], 3, 3);
            check(given, &[key(0, true, true), key(1, false, false)], 1, 2);
        }
    }
}

#[test]
fn a_column_alone_keeps_every_bit_of_its_values() {
    for data_type in [DataType::Float64, DataType::Float32, DataType::Float16, DataType::Int32] {
        for shape in SHAPES {
            let mut random = Random::new(3);
            let values = column(&data_type, 50_000, shape, false, &mut random);
            let batch = RecordBatch::try_from_iter([("c0", values)]).unwrap();
            check((batch.schema(), vec![batch.clone()]), &[key(0, false, false)], 1, 2);
            check((batch.schema(), vec![batch]), &[key(0, true, false)], 4, 2);
        }
    }
}

#[test]
fn slices_sort_like_what_they_show() {
    let mut random = Random::new(11);
    for data_type in types() {
        let (schema, given) = batches(&[(data_type, Shape::Any, true)], &[300], &mut random);
        let sliced = vec![given[0].slice(13, 101), given[0].slice(200, 77)];
        check((schema, sliced), &[key(0, false, false)], 2, 1);
    }
}

#[test]
fn no_rows_make_empty_partitions() {
    let mut random = Random::new(1);
    for data_type in types() {
        let given = batches(&[(data_type, Shape::Any, true)], &[0, 0], &mut random);
        check(given, &[key(0, false, false)], 3, 2);
    }
}

#[test]
fn what_cannot_be_sorted_is_refused_with_a_name() {
    let batch =
        batches(&[(DataType::Int32, Shape::Any, false)], &[5], &mut Random::new(1)).1.remove(0);
    let table = Table::new(batch.schema(), vec![batch]).unwrap();
    let attempt = |order: &[SortKey], partitions: Option<usize>| {
        let progress = Progress::default();
        let job = Job {
            table: &table,
            order,
            partitions,
            only: None,
            threads: None,
            progress: &progress,
        };
        sort(&job, &mut |bytes| Ok(vec![0; bytes as usize])).unwrap_err()
    };
    assert!(matches!(attempt(&[], None), Error::NoKeys));
    let unknown = attempt(&[SortKey::ascending("prize")], None).to_string();
    assert!(unknown.contains("\"prize\"") && unknown.contains("\"c0\", \"row\""), "{unknown}");
    let order = [SortKey::ascending("c0")];
    assert!(matches!(attempt(&order, Some(0)), Error::Partitions { wanted: 0, .. }));
    assert!(matches!(attempt(&order, Some(4097)), Error::Partitions { wanted: 4097, .. }));
}

#[test]
fn memory_that_is_refused_and_a_cancelled_sort_are_errors() {
    let (schema, given) =
        batches(&[(DataType::Float64, Shape::Any, false)], &[100_000], &mut Random::new(1));
    let table = Table::new(schema, given).unwrap();
    let (order, progress) = ([key(0, false, false)], Progress::default());
    let job = Job {
        table: &table,
        order: &order,
        partitions: None,
        only: None,
        threads: None,
        progress: &progress,
    };
    let refused = sort::<Vec<u8>>(&job, &mut |_| Err("the store is full".into())).unwrap_err();
    assert!(refused.to_string().ends_with("the store is full"), "{refused}");
    progress.cancel();
    let cancelled = sort(&job, &mut |bytes| Ok(vec![0; bytes as usize])).unwrap_err();
    assert!(matches!(cancelled, Error::Cancelled));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), ..ProptestConfig::default() })]

    #[test]
    fn any_table_sorts_like_the_reference(
        kinds in proptest::collection::vec(
            (0..types().len(), 0..SHAPES.len(), any::<bool>()), 1..5
        ),
        keys in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..4),
        sizes in proptest::collection::vec(0usize..200, 0..4),
        partitions in 1usize..9,
        threads in 1usize..4,
        seed in any::<u64>(),
    ) {
        let types = types();
        let columns: Vec<_> = kinds
            .iter()
            .map(|(data_type, shape, nulls)| (types[*data_type].clone(), SHAPES[*shape], *nulls))
            .collect();
        let order: Vec<SortKey> = keys
            .iter()
            .take(columns.len())
            .enumerate()
            .map(|(at, (descending, nulls_first))| key(at, *descending, *nulls_first))
            .collect();
        check(batches(&columns, &sizes, &mut Random::new(seed)), &order, partitions, threads);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(8), ..ProptestConfig::default() })]

    // Enough rows for several buckets, batches of any size, and more partitions than buckets.
    #[test]
    fn any_large_table_sorts_like_the_reference(
        kinds in proptest::collection::vec(
            (0..types().len(), 0..SHAPES.len(), any::<bool>()), 1..4
        ),
        keys in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..4),
        sizes in proptest::collection::vec(
            prop_oneof![0usize..3, 0usize..300, 20_000usize..50_000], 1..6
        ),
        partitions in prop_oneof![1usize..4, 1usize..100],
        threads in 1usize..4,
        seed in any::<u64>(),
    ) {
        let types = types();
        let columns: Vec<_> = kinds
            .iter()
            .map(|(data_type, shape, nulls)| (types[*data_type].clone(), SHAPES[*shape], *nulls))
            .collect();
        let named = keys.iter().take(columns.len()).enumerate();
        let order: Vec<SortKey> = named.map(|(at, (down, first))| key(at, *down, *first)).collect();
        let (schema, given) = batches(&columns, &sizes, &mut Random::new(seed));
        check_whole((schema, given), &order, partitions, threads);
    }
}
