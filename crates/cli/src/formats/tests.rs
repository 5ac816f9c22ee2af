use std::fs;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_schema::DataType;
use plasmon_proto::value::{Order, ValueHeader, array_kind};
use tempfile::tempdir;

use super::*;

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None, Some(-3.0)]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc", ""]));
    RecordBatch::try_from_iter_with_nullable([("x", numbers, true), ("s", words, true)]).unwrap()
}

fn object(loaded: InputFile) -> (u8, Vec<u8>, Vec<u8>) {
    let (tag_found, metadata) = (loaded.tag, loaded.metadata.clone());
    let mut data = vec![0xEE; loaded.data_bytes as usize];
    let written = std::cell::Cell::new(0);
    loaded.write(&mut data, &|done| written.set(written.get() + done)).unwrap();
    assert_eq!(written.get(), data.len() as u64, "progress ends at the end");
    (tag_found, metadata, data)
}

fn stream() -> Vec<u8> {
    let mut out = Vec::new();
    let schema = batch().schema();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, &schema).unwrap();
    writer.write(&batch()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    out
}

fn written(directory: &Path, name: &str, stream: &[u8]) -> std::path::PathBuf {
    let path = directory.join(name);
    let kind = FileType::of(&path, None).unwrap();
    save(kind, tag::ARROW_STREAM, stream, &[], &mut fs::File::create(&path).unwrap()).unwrap();
    path
}

fn read_back(path: &Path) -> RecordBatch {
    let loaded = load(path, FileType::of(path, None).unwrap()).unwrap();
    let (tag_found, _, data) = object(loaded);
    assert_eq!(tag_found, tag::ARROW_STREAM);
    let read: Vec<_> = StreamReader::try_new(data.as_slice(), None).unwrap().collect();
    read.into_iter().next().unwrap().unwrap()
}

/// `-o x.arrow`, `.feather` and `.ipc` wrote a stream, which the programs that read files of these
/// endings refuse; `.json` and `.csv.gz` wrote the bytes of the object and said "written".
#[test]
fn tables_survive_every_format_and_each_file_begins_as_its_ending_says() {
    let directory = tempdir().unwrap();
    for (file, start) in [
        ("t.arrow", &b"ARROW1"[..]),
        ("t.feather", b"ARROW1"),
        ("t.ipc", b"ARROW1"),
        ("t.arrows", b"\xFF\xFF\xFF\xFF"),
        ("t.parquet", b"PAR1"),
        ("t.csv", b"x,s\n1.5,a\n,bc\n"),
        ("t.tsv", b"x\ts\n1.5\ta\n"),
        ("t.csv.gz", b"\x1F\x8B"),
        ("t.tsv.zst", b"\x28\xB5\x2F\xFD"),
        ("t.json", b"[{\"x\":1.5,\"s\":\"a\"},{\"x\":null"),
        ("t.json.gz", b"\x1F\x8B"),
        ("t.jsonl", b"{\"x\":1.5,\"s\":\"a\"}\n{\"x\":null"),
        ("t.ndjson.zst", b"\x28\xB5\x2F\xFD"),
    ] {
        let path = written(directory.path(), file, &stream());
        assert!(fs::read(&path).unwrap().starts_with(start), "{file}");
        let read = read_back(&path);
        assert_eq!(read.column(0), batch().column(0), "{file}");
        assert_eq!(read.num_rows(), 3);
        assert!(read.schema().field(1).name() == "s", "{file}");
    }
}

/// An Arrow file has one dictionary for each column; the batches of a stream may have one each.
#[test]
fn dictionaries_of_several_batches_become_one_in_an_arrow_file() {
    let directory = tempdir().unwrap();
    let part = |words: [&'static str; 2]| {
        let words: DictionaryArray<Int32Type> = words.into_iter().collect();
        RecordBatch::try_from_iter([("d", Arc::new(words) as ArrayRef)]).unwrap()
    };
    let (one, two) = (part(["a", "b"]), part(["c", "a"]));
    let mut out = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, &one.schema()).unwrap();
    writer.write(&one).unwrap();
    writer.write(&two).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let read = read_back(&written(directory.path(), "d.arrow", &out));
    let words = arrow_cast::cast(read.column(0), &DataType::Utf8).unwrap();
    assert_eq!(words.as_string::<i32>(), &StringArray::from(vec!["a", "b", "c", "a"]));
}

#[test]
fn a_table_without_rows_keeps_its_columns_in_csv() {
    let directory = tempdir().unwrap();
    let mut out = Vec::new();
    let schema = batch().schema();
    arrow_ipc::writer::StreamWriter::try_new(&mut out, &schema).unwrap().finish().unwrap();
    let path = written(directory.path(), "none.csv", &out);
    assert_eq!(fs::read_to_string(path).unwrap(), "x,s\n");
    let path = written(directory.path(), "none.json", &out);
    assert_eq!(fs::read_to_string(path).unwrap(), "[]");
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_name() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("excel.csv");
    fs::write(&path, "\u{FEFF}x,y\r\n1,2\r\n").unwrap();
    assert_eq!(read_back(&path).schema().field(0).name(), "x");
}

#[test]
fn arrays_and_bytes_survive() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("a.npy");
    let shape = vec![2, 2];
    let header = ValueHeader { kind: array_kind::NUMPY, order: Order::C, shape, text: "<i4" };
    let metadata = header.encode(b"dropped").unwrap();
    let data: Vec<u8> = (0..16).collect();
    let mut file = fs::File::create(&path).unwrap();
    save(FileType::plain(Format::Npy), tag::NDARRAY, &data, &metadata, &mut file).unwrap();
    let (tag_found, back, bytes) = object(load(&path, FileType::plain(Format::Npy)).unwrap());
    assert_eq!((tag_found, bytes), (tag::NDARRAY, data.clone()));
    assert_eq!(ValueHeader::decode(&back), Ok((header, &[][..])));
    let raw = directory.path().join("raw.bin");
    fs::write(&raw, &data).unwrap();
    assert_eq!(
        object(load(&raw, FileType::of(&raw, None).unwrap()).unwrap()),
        (tag::RAW, Vec::new(), data)
    );
}

#[test]
fn wrong_files_are_named() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    fs::write(&path, b"not parquet").unwrap();
    for format in [Format::Parquet, Format::Arrow, Format::Npy] {
        let error = format!("{:#}", load(&path, FileType::plain(format)).err().unwrap());
        assert!(error.contains("x.parquet"), "{error}");
    }
    assert!(load(directory.path(), FileType::plain(Format::Raw)).is_err());
    assert!(load(&directory.path().join("none"), FileType::plain(Format::Raw)).is_err());
    assert!(save(FileType::plain(Format::Parquet), tag::RAW, b"", b"", &mut Vec::new()).is_err());
}
