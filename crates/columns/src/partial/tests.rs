//! Columns of streams that are read in part, against the same columns of the whole.

use arrow_array::builder::{Int32Builder, StringDictionaryBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, Int64Array, ListArray, RecordBatchOptions, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Schema};
use plasmon_testkit::Random;

use super::*;

/// A stream far away, which counts what is read of it.
#[derive(Debug)]
struct Far {
    bytes: Vec<u8>,
    reads: usize,
    read_bytes: u64,
}

impl StreamSource for Far {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_near(&self) -> bool {
        false
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        self.reads += 1;
        self.read_bytes += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        let piece = |range: &Range<u64>| {
            Buffer::from(&self.bytes[range.start as usize..range.end as usize])
        };
        Ok(ranges.iter().map(piece).collect())
    }
}

fn text(dice: &mut Random, rows: usize) -> ArrayRef {
    let values = (0..rows).map(|_| {
        let length = dice.size_below(30);
        (dice.below(5) > 0).then(|| "abcdefghijklmnopqrstuvwxyzabcdef"[..length].to_owned())
    });
    Arc::new(values.collect::<StringArray>())
}

fn keyed(dice: &mut Random, rows: usize, seen: u64) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    for _ in 0..rows {
        match dice.below(6) {
            0 => builder.append_null(),
            _ => builder.append_value(format!("value {}", dice.below(seen))),
        }
    }
    Arc::new(builder.finish())
}

fn lists(dice: &mut Random, rows: usize) -> ArrayRef {
    let lengths: Vec<usize> = (0..rows).map(|_| dice.size_below(4)).collect();
    let mut values = Int32Builder::new();
    for _ in 0..lengths.iter().sum() {
        values.append_option((dice.below(4) > 0).then(|| dice.below(1000) as i32));
    }
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(field, offsets, Arc::new(values.finish()), None))
}

/// A batch with columns of most kinds.
fn batch(dice: &mut Random, rows: usize, seen: u64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new((0..rows).map(|at| Some(at as i64)).collect::<Int64Array>());
    let pair = StructArray::from(vec![
        (Arc::new(Field::new("n", DataType::Int64, true)), Arc::clone(&numbers)),
        (Arc::new(Field::new("t", DataType::Utf8, true)), text(dice, rows)),
    ]);
    let first = keyed(dice, rows, seen);
    let second = keyed(dice, rows, seen);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("numbers", numbers),
        ("text", text(dice, rows)),
        ("first", first),
        ("lists", lists(dice, rows)),
        ("second", second),
        ("pair", Arc::new(pair)),
    ];
    let fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(schema, arrays).unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn open(bytes: &[u8], first: usize) -> Result<PartialTable<Far>> {
    let source = Far { bytes: bytes.to_vec(), reads: 0, read_bytes: 0 };
    PartialTable::open(source, Buffer::from(&bytes[..first.min(bytes.len())]))
}

fn project(batch: &RecordBatch, columns: &[usize]) -> RecordBatch {
    let schema = Arc::new(batch.schema().project(columns).unwrap());
    let arrays = columns.iter().map(|at| Arc::clone(batch.column(*at))).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, arrays, &options).unwrap()
}

#[test]
fn any_columns_and_rows_are_those_of_the_whole() {
    let mut dice = Random::new(11);
    for round in 0..60 {
        let uniform = dice.size_below(200);
        let batches: Vec<_> = (0..1 + dice.size_below(12))
            .map(|_| {
                let rows = if round % 2 == 0 { uniform } else { dice.size_below(200) };
                batch(&mut dice, rows, 1 + round)
            })
            .collect();
        let bytes = stream(&batches);
        let mut table = open(&bytes, dice.size_below(bytes.len() + 1)).unwrap();
        for _ in 0..4 {
            let columns: Vec<usize> = (0..dice.size_below(4)).map(|_| dice.size_below(6)).collect();
            let (schema, found) = table.read(&columns, None, &mut Checks::all()).unwrap();
            let wanted: Vec<_> = batches.iter().map(|batch| project(batch, &columns)).collect();
            assert_eq!(found, wanted, "round {round}, columns {columns:?}");
            assert_eq!(*schema, batches[0].schema().project(&columns).unwrap());

            let all = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            let from = dice.size_below(all + 1);
            let count = dice.size_below(all - from + 1);
            let rows = Some(from as u64..(from + count) as u64);
            let (schema, found) = table.read(&columns, rows, &mut Checks::all()).unwrap();
            let join = |batches: &[RecordBatch]| {
                if columns.is_empty() {
                    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
                    return project(&batch(&mut Random::new(1), rows, 1), &[]);
                }
                arrow_select::concat::concat_batches(&schema, batches).unwrap()
            };
            let wanted = join(&wanted).slice(from, count);
            assert_eq!(join(&found), wanted, "round {round}, columns {columns:?}");
        }
        assert!(table.read(&[6], None, &mut Checks::all()).is_err());
    }
}

/// However many batches there are, their headers take a few reads where they have one size.
#[test]
fn headers_of_equal_batches_are_read_together() {
    let rows = 2000;
    let one = RecordBatch::try_from_iter((0..20).map(|column| {
        let values = (0..rows).map(|row| Some(row * column)).collect::<Int64Array>();
        (format!("c{column}"), Arc::new(values) as ArrayRef)
    }));
    let batches = vec![one.unwrap(); 100];
    let bytes = stream(&batches);
    let mut table = open(&bytes, 48 << 10).unwrap();
    let (_, found) = table.read(&[7], None, &mut Checks::all()).unwrap();
    assert_eq!(found, batches.iter().map(|batch| project(batch, &[7])).collect::<Vec<_>>());
    let Far { reads, read_bytes, .. } = table.source();
    assert!(*reads <= 3, "{reads} reads");
    let column = 100 * rows as u64 * 8;
    assert!(*read_bytes < column + 110 * (4 << 10), "{read_bytes} bytes for {column}");
    // And once they are known, none.
    table.read(&[3], Some(100..200), &mut Checks::all()).unwrap();
    assert!(table.source().reads <= 4);
}

#[test]
fn broken_streams_end_in_an_error_and_in_no_wrong_place() {
    let mut dice = Random::new(5);
    let batches: Vec<_> = (0..3).map(|_| batch(&mut dice, 40, 5)).collect();
    let bytes = stream(&batches);
    for end in (0..bytes.len()).step_by(37) {
        let Ok(mut table) = open(&bytes[..end], end) else { continue };
        // A stream may end without saying so, after any message.
        if let Ok((_, found)) = table.read(&[0, 2], None, &mut Checks::all()) {
            assert!(found.len() <= batches.len());
        }
    }
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..=dice.size_below(3) {
            let at = dice.size_below(damaged.len());
            damaged[at] = dice.below(256) as u8;
        }
        if let Ok(mut table) = open(&damaged, dice.size_below(damaged.len())) {
            let columns: Vec<usize> = (0..table.schema().fields().len()).step_by(2).collect();
            let _ = table.read(&columns, None, &mut Checks::all());
        }
    }
}
