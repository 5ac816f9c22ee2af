use proptest::prelude::*;

use super::*;
use crate::DataFile;
use crate::image::Image;
use crate::table::{Column as TableColumn, Number, Table};

/// A conversion between i32 in the file and i64 in memory, to have one that changes the size.
struct Widen {
    reading: bool,
}

impl Convert for Widen {
    fn convert(&mut self, _: usize, elements: usize, buffer: &mut [u8]) -> Result<(), String> {
        if self.reading {
            for at in (0..elements).rev() {
                let mut from = [0; 4];
                from.copy_from_slice(&buffer[at * 4..][..4]);
                let wide = i64::from(i32::from_le_bytes(from));
                buffer[at * 8..][..8].copy_from_slice(&wide.to_le_bytes());
            }
        } else {
            for at in 0..elements {
                let from: Vec<u8> = buffer[at * 8..][..4].to_vec();
                buffer[at * 4..][..4].copy_from_slice(&from);
            }
        }
        Ok(())
    }
}

/// Bytes, one behind the other.
const PACKED: Records = Records { first: 0, stride: 1 };

fn made(elements: u64, numbers: &[Number]) -> (tempfile::TempDir, DataFile) {
    let columns = numbers.iter().enumerate();
    let columns: Vec<TableColumn> = columns
        .map(|(at, number)| TableColumn { name: format!("c{at}"), number: *number })
        .collect();
    let table = Table::new(vec![elements], columns).expect("a table");
    let folder = tempfile::tempdir().expect("a folder");
    let image = Image::of(&table, &[]);
    let (file, _) = DataFile::create(folder.path(), b"x", &table, &image).expect("a file");
    (folder, file)
}

fn member(column: usize, bytes: usize, offset: usize) -> Member {
    Member { column, file_bytes: bytes, memory_bytes: bytes, offset, converts: false }
}

/// Runs upwards with gaps in the file, some of them long.
fn runs_upwards() -> impl Strategy<Value = Vec<Run>> {
    let step = (0_u64..40, prop_oneof![1_u64..20, 5000_u64..40_000]);
    proptest::collection::vec(step, 1..12).prop_map(|steps| {
        let (mut file, mut memory) = (0, 0);
        let mut runs = Vec::new();
        for (gap, elements) in steps {
            file += gap;
            runs.push(Run { file, memory, elements });
            file += elements;
            memory += elements + gap % 3;
        }
        runs
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// What is written by runs is read back by the same runs, and nothing beside them changes.
    #[test]
    fn what_is_written_is_read(runs in runs_upwards(), converts in any::<bool>()) {
        let last = runs[runs.len() - 1];
        let (elements, records) = (last.file + last.elements, last.memory + last.elements);
        let (_folder, file) = made(elements, &[Number::I32, Number::U8]);
        let wide = if converts { 8 } else { 4 };
        let stride = wide + 4;
        let members = [
            Member { column: 0, file_bytes: 4, memory_bytes: wide, offset: 0, converts },
            member(1, 1, wide),
        ];
        let mut memory = vec![0_u8; usize::try_from(records).expect("small") * stride];
        for (at, record) in memory.chunks_mut(stride).enumerate() {
            let value = i32::try_from(at).expect("small") + 1;
            record[..4].copy_from_slice(&value.to_le_bytes());
            record[wide] = (at % 250) as u8 + 1;
        }
        let written = memory.clone();
        let records = Records { first: 0, stride };
        write(file.columns(), &members, &runs, &memory, records, &mut Widen { reading: false })
            .expect("written");
        let mut back = vec![0_u8; memory.len()];
        read(file.columns(), &members, &runs, &mut back, records, &mut Widen { reading: true })
            .expect("read");
        for run in &runs {
            for at in run.memory..run.memory + run.elements {
                let at = usize::try_from(at).expect("small") * stride;
                prop_assert_eq!(&back[at..=at + wide], &written[at..=at + wide]);
            }
        }
        // Gaps were never written.
        let all = [Run { file: 0, memory: 0, elements }];
        let mut column = vec![0_u8; usize::try_from(elements).expect("small")];
        read(file.columns(), &[member(1, 1, 0)], &all, &mut column, PACKED, &mut Widen { reading: true })
            .expect("read");
        let filled = column.iter().filter(|byte| **byte != 0).count() as u64;
        prop_assert_eq!(filled, runs.iter().map(|run| run.elements).sum::<u64>());
    }
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let (_folder, file) = made(100, &[Number::F64]);
    let run = [Run { file: 0, memory: 0, elements: 100 }];
    let mut memory = vec![0; 799];
    let short = Records { first: 0, stride: 8 };
    let none = &mut Widen { reading: true };
    let refused = read(file.columns(), &[member(0, 8, 0)], &run, &mut memory, short, none);
    assert!(matches!(refused, Err(TransferError::Outside)), "{refused:?}");
}

#[test]
fn runs_against_the_order_of_the_file_are_single() {
    let (_folder, file) = made(4, &[Number::U8]);
    let members = [member(0, 1, 0)];
    let runs = [3_u64, 1, 0, 2].iter().enumerate();
    let runs: Vec<Run> =
        runs.map(|(at, file)| Run { file: *file, memory: at as u64, elements: 1 }).collect();
    let none = &mut Widen { reading: true };
    write(file.columns(), &members, &runs, &[30, 10, 0, 20], PACKED, none).expect("written");
    let mut memory = [9; 4];
    let all = [Run { file: 0, memory: 0, elements: 4 }];
    read(file.columns(), &members, &all, &mut memory, PACKED, none).expect("read");
    assert_eq!(memory, [0, 10, 20, 30]);
}

#[test]
fn a_file_that_was_cut_off_is_an_error() {
    let (folder, file) = made(100, &[Number::F64]);
    let path = folder.path().join("x.arrow");
    let bytes = std::fs::read(&path).expect("the file");
    std::fs::write(&path, &bytes[..400]).expect("cut");
    let run = [Run { file: 0, memory: 0, elements: 100 }];
    let mut memory = vec![0; 800];
    let records = Records { first: 0, stride: 8 };
    let none = &mut Widen { reading: true };
    let refused = read(file.columns(), &[member(0, 8, 0)], &run, &mut memory, records, none);
    assert!(matches!(refused, Err(TransferError::System(_))), "{refused:?}");
}
