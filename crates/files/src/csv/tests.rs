use std::io::Cursor;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampSecondType};
use arrow_array::{Array, BooleanArray};
use arrow_schema::{DataType, TimeUnit};

use super::*;

fn text(bytes: &[u8]) -> Box<dyn BufRead + Send> {
    Box::new(Cursor::new(bytes.to_vec()))
}

fn rows(bytes: &[u8], batch_rows: usize) -> Result<Vec<RecordBatch>> {
    let schema = Arc::new(Columns::of(text(bytes), b',')?.schema());
    Rows::new(text(bytes), b',', schema, batch_rows)?.collect()
}

/// A column that was empty in the first 10,000 lines had type null, and what came later was
/// dropped silently.
#[test]
fn a_value_that_comes_late_is_there() {
    let mut file = b"early,late\n".to_vec();
    (0..30_000).for_each(|row| file.extend(format!("{row},\n").bytes()));
    file.extend(b"1,2.5\n");
    let batches = rows(&file, 8192).unwrap();
    assert_eq!(batches[0].schema().field(1).data_type(), &DataType::Float64);
    let last = batches.last().unwrap();
    assert_eq!(last.column(1).as_primitive::<Float64Type>().value(last.num_rows() - 1), 2.5);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 30_001);
    assert_eq!(batches.iter().map(|batch| batch.column(1).null_count()).sum::<usize>(), 30_000);
}

#[test]
fn fields_become_values_of_their_column() {
    let file = b"n,b,t,s,z\n 1 ,TRUE,2024-01-01,,\"\"\n\"\",NA,1970-01-01T00:00:01Z,\"\",x\n";
    let found = rows(file, 10).unwrap();
    let batch = &found[0];
    assert_eq!(batch.column(0).as_primitive::<Int64Type>(), &Int64::from(vec![Some(1), None]));
    assert_eq!(batch.column(1).as_boolean(), &BooleanArray::from(vec![Some(true), None]));
    assert_eq!(batch.column(2).data_type(), &DataType::Utf8, "a date has no zone");
    let strings = |at: usize| batch.column(at).as_string::<i32>().iter().collect::<Vec<_>>();
    assert_eq!(strings(3), [None, Some("")], "quotes tell an empty text from none");
    assert_eq!(strings(4), [Some(""), Some("x")]);
    let moments = rows(b"t\n2024-01-01\n1970-01-01 00:00:01\n", 10).unwrap();
    let moments = moments[0].column(0);
    assert_eq!(moments.data_type(), &DataType::Timestamp(TimeUnit::Second, None));
    assert_eq!(moments.as_primitive::<TimestampSecondType>().values(), &[1_704_067_200, 1]);
}

type Int64 = arrow_array::Int64Array;

#[test]
fn what_is_wrong_is_reported_with_its_line() {
    for (file, wanted) in [
        (&b""[..], "it is empty"),
        (b"\n\n", "blank"),
        (b"\na\n1\n", "blank"),
        (b"  \n1\n", "blank"),
        (b"a;b;c\n", "2 semicolons and no comma"),
        (b"a\tb", "--delimiter tab"),
        (b"\"a\";\"b\"\n", "1 semicolon and no comma"),
        (b"a,b\n1,2\n1\n", "line 3 has 1 fields, and the first line names 2 columns"),
        (b"a,b\n\"1\n\",2\n1,2,3\n", "line 4 has 3 fields"),
        (b"a\n\"b\n", "line 2 has a quote that is not closed"),
        (b"a,b\nx,y\nz,\xFF\n", "line 3, column \"b\": the string is not UTF-8"),
        (b"a,\xFF\n", "its first line is not UTF-8"),
    ] {
        let found = rows(file, 10).map(|_| ()).unwrap_err().to_string();
        assert!(found.contains(wanted), "{}: {found}", String::from_utf8_lossy(file));
    }
    for good in [&b"a\n"[..], b"a,b;c\n", b"\"a;b\"\n1\n"] {
        assert!(rows(good, 10).is_ok(), "{}", String::from_utf8_lossy(good));
    }
}

/// A value that does not fit, because the file is another one by now, is an error with its line.
#[test]
fn a_file_that_changes_between_the_two_readings_is_reported() {
    let schema = Arc::new(Columns::of(text(b"a,b\n1,2\n"), b',').unwrap().schema());
    let read =
        |bytes| -> Result<Vec<_>> { Rows::new(text(bytes), b',', schema.clone(), 9)?.collect() };
    let found = read(b"a,b\n1,2\n3,x\n").unwrap_err().to_string();
    assert!(found.starts_with("line 3, column \"b\": \"x\" is not Int64"), "{found}");
    assert!(matches!(read(b"a,c\n1,2\n"), Err(Error::OtherColumns)));
}

#[test]
fn files_of_one_table_have_types_that_hold_the_values_of_all() {
    let mut one = Columns::of(text(b"a,b\n1,\n"), b',').unwrap();
    assert!(one.merge(&Columns::of(text(b"a,b\n1.5,x\n"), b',').unwrap()));
    let types: Vec<_> = one.schema().fields().iter().map(|it| it.data_type().clone()).collect();
    assert_eq!(types, [DataType::Float64, DataType::Utf8]);
    assert!(!one.merge(&Columns::of(text(b"a,c\n"), b',').unwrap()));
}
