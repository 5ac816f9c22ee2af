use std::fs;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::ipc::reader::StreamReader;
use plasmon_proto::value::{Order, ValueHeader, array_kind};
use tempfile::tempdir;

use super::*;

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None, Some(-3.0)]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc", ""]));
    RecordBatch::try_from_iter_with_nullable([("x", numbers, true), ("s", words, true)]).unwrap()
}

fn object(loaded: Loaded) -> (u8, Vec<u8>, Vec<u8>) {
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
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut out, &schema).unwrap();
    writer.write(&batch()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    out
}

#[test]
fn tables_survive_every_format() {
    let directory = tempdir().unwrap();
    for (file, format) in
        [("t.arrow", Format::Arrow), ("t.parquet", Format::Parquet), ("t.csv", Format::Csv)]
    {
        let path = directory.path().join(file);
        let mut out = fs::File::create(&path).unwrap();
        save(format, tag::ARROW_STREAM, &stream(), &[], &mut out).unwrap();
        assert_eq!(of_path(&path), format);
        let (tag_found, _, data) = object(load(&path, format).unwrap());
        assert_eq!(tag_found, tag::ARROW_STREAM);
        let read: Vec<_> = StreamReader::try_new(data.as_slice(), None).unwrap().collect();
        let read = read.into_iter().next().unwrap().unwrap();
        assert_eq!(read.column(0), batch().column(0), "{file}");
        assert_eq!(read.num_rows(), 3);
    }
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
    save(Format::Npy, tag::NDARRAY, &data, &metadata, &mut file).unwrap();
    let (tag_found, back, bytes) = object(load(&path, Format::Npy).unwrap());
    assert_eq!((tag_found, bytes), (tag::NDARRAY, data.clone()));
    assert_eq!(ValueHeader::decode(&back), Ok((header, &[][..])));
    let raw = directory.path().join("raw.bin");
    fs::write(&raw, &data).unwrap();
    assert_eq!(object(load(&raw, of_path(&raw)).unwrap()), (tag::RAW, Vec::new(), data));
}

#[test]
fn wrong_files_are_named() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    fs::write(&path, b"not parquet").unwrap();
    for format in [Format::Parquet, Format::Arrow, Format::Npy] {
        let error = format!("{:#}", load(&path, format).err().unwrap());
        assert!(error.contains("x.parquet"), "{error}");
    }
    assert!(load(directory.path(), Format::Raw).is_err());
    assert!(load(&directory.path().join("none"), Format::Raw).is_err());
    assert!(save(Format::Parquet, tag::RAW, b"", b"", &mut Vec::new()).is_err());
}
