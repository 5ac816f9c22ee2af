use proptest::prelude::*;

use super::*;
use crate::column::{Column, Number};
use crate::image::Image;
use crate::table::Table;
use crate::{DataFile, DataFolder};

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

/// Bytes, one after the other.
const PACKED: Records = Records { first: 0, stride: 1 };

fn made(elements: u64, numbers: &[Number]) -> Fixture {
    let columns = numbers.iter().enumerate();
    let columns = columns.map(|(at, number)| Column::of_number(&format!("c{at}"), *number));
    let table = Table::new(vec![elements], columns.collect()).expect("a table");
    of_table(table)
}

fn of_table(table: Table) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Image::of(&table, &[]);
    let within = DataFolder { root: folder.path(), name: "x.h5.arrow".as_ref() };
    let (file, _) = DataFile::create(within, b"x", &table, &image, &|_| Ok(())).expect("a file");
    Fixture { folder, file, table }
}

/// A file with its table.
struct Fixture {
    folder: tempfile::TempDir,
    file: DataFile,
    table: Table,
}

impl Fixture {
    fn read(
        &self,
        members: &[Member],
        runs: &[Run],
        memory: &mut [u8],
        records: Records,
    ) -> Result<(), TransferError> {
        let (file, memory) = ((self.file.columns(), &self.table), Memory::Target(memory));
        transfer(file, members, runs, memory, records, &mut Widen { reading: true })
    }

    fn write(
        &self,
        members: &[Member],
        runs: &[Run],
        memory: &[u8],
        records: Records,
    ) -> Result<(), TransferError> {
        let (file, memory) = ((self.file.columns(), &self.table), Memory::Source(memory));
        transfer(file, members, runs, memory, records, &mut Widen { reading: false })
    }
}

fn member(column: usize, bytes: usize, offset: usize) -> Member {
    Member { column, file_bytes: bytes, memory_bytes: bytes, offset, converts: false }
}

/// Runs upwards with gaps in the file, some of them long, some with many blocks.
fn runs_upwards() -> impl Strategy<Value = Vec<Run>> {
    let elements = prop_oneof![1_u64..20, 5000_u64..40_000];
    let step = (0_u64..40, elements, 1_u64..200, 0_u64..9);
    proptest::collection::vec(step, 1..12).prop_map(|steps| {
        let (mut file, mut memory) = (0, 0);
        let mut runs = Vec::new();
        for (gap, elements, blocks, between) in steps {
            file += gap * gap;
            let blocks = if elements < 20 { blocks } else { 1 + blocks % 2 };
            let file_step = elements + between * between * between;
            let memory_step = elements + between % 2;
            let run = Run { blocks, file_step, memory_step, ..Run::of(file, memory, elements) };
            runs.push(run);
            file = run.file_end();
            memory = run.memory_end() + gap % 3;
        }
        runs
    })
}

/// The elements of memory that runs touch.
fn touched(runs: &[Run]) -> impl Iterator<Item = u64> {
    runs.iter().flat_map(|run| {
        let block = |block| run.memory + block * run.memory_step;
        (0..run.blocks).flat_map(move |at| block(at)..block(at) + run.elements)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Values written by runs are read back by the same runs, and nothing beside them changes.
    #[test]
    fn what_is_written_is_read(
        runs in runs_upwards(),
        converts in any::<bool>(),
        grows in any::<bool>(),
    ) {
        let last = runs[runs.len() - 1];
        let (elements, records) = (last.file_end(), last.memory_end());
        let columns =
            vec![Column::of_number("a", Number::I32), Column::of_number("b", Number::U8)];
        let table = Table::new(vec![elements], columns).expect("a table");
        let made = of_table(if grows { table.chunked(vec![9], true) } else { table });
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
        // The second column is never converted, whatever `Widen` does.
        let records = Records { first: 0, stride };
        made.write(&members, &runs, &memory, records).expect("written");
        let mut back = vec![0_u8; memory.len()];
        made.read(&members, &runs, &mut back, records).expect("read");
        for at in touched(&runs) {
            let at = usize::try_from(at).expect("small") * stride;
            prop_assert_eq!(&back[at..=at + wide], &written[at..=at + wide]);
        }
        // Gaps were never written.
        let all = [Run::of(0, 0, elements)];
        let mut column = vec![0_u8; usize::try_from(elements).expect("small")];
        made.read(&[member(1, 1, 0)], &all, &mut column, PACKED).expect("read");
        let filled = column.iter().filter(|byte| **byte != 0).count() as u64;
        prop_assert_eq!(filled, runs.iter().map(Run::total).sum::<u64>());
    }
}

#[test]
fn much_is_divided_between_threads() {
    let elements = 3_000_001;
    let made = made(elements, &[Number::I32, Number::I32, Number::U16]);
    let members = [member(0, 4, 0), member(1, 4, 4), member(2, 2, 9)];
    let records = Records { first: 5, stride: 11 };
    let random = |at: usize| (at as u32).wrapping_mul(2_654_435_761) as u8;
    let bytes = usize::try_from(elements).expect("small") * records.stride;
    let memory: Vec<u8> = (0..bytes).map(random).collect();
    let run = [Run::of(0, 5, elements)];
    made.write(&members, &run, &memory, records).expect("written");
    let mut back = memory.clone();
    back.chunks_mut(records.stride).for_each(|record| record[..8].fill(0));
    made.read(&members, &run, &mut back, records).expect("read");
    assert!(back == memory, "every record came back");
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let made = made(100, &[Number::F64]);
    let mut memory = vec![0; 799];
    let short = Records { first: 0, stride: 8 };
    let refused = made.read(&[member(0, 8, 0)], &[Run::of(0, 0, 100)], &mut memory, short);
    assert!(matches!(refused, Err(TransferError::Outside)), "{refused:?}");
}

#[test]
fn runs_against_the_order_of_the_file_are_single() {
    let made = made(4, &[Number::U8]);
    let members = [member(0, 1, 0)];
    let runs = [3_u64, 1, 0, 2].iter().enumerate();
    let runs: Vec<Run> = runs.map(|(at, file)| Run::of(*file, at as u64, 1)).collect();
    made.write(&members, &runs, &[30, 10, 0, 20], PACKED).expect("written");
    let mut memory = [9; 4];
    made.read(&members, &[Run::of(0, 0, 4)], &mut memory, PACKED).expect("read");
    assert_eq!(memory, [0, 10, 20, 30]);
}

#[test]
fn a_file_that_was_cut_off_is_an_error() {
    let made = made(100, &[Number::F64]);
    let path = made.folder.path().join("x.h5.arrow/x.arrow");
    let bytes = std::fs::read(&path).expect("the file");
    std::fs::write(&path, &bytes[..400]).expect("cut");
    let mut memory = vec![0; 800];
    let records = Records { first: 0, stride: 8 };
    let refused = made.read(&[member(0, 8, 0)], &[Run::of(0, 0, 100)], &mut memory, records);
    assert!(matches!(refused, Err(TransferError::System(_))), "{refused:?}");
}
