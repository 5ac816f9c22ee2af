//! What an HDF5 file that another program wrote says, and the Arrow file beside it: any name is a
//! place or none, any bytes are the data of a table or an error, and data can be read to its end.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use plasmon_fuzz::Input;
use plasmon_hdf5_model::{
    Column, DataFile, DataFolder, Image, Marker, Member, Memory, NoConversion, Number, Place,
    Records, Run, Table, transfer,
};

fuzz_target!(|bytes: &[u8]| {
    let name = String::from_utf8_lossy(bytes);
    if let Some(marker) = Marker::of_name(&name) {
        assert_eq!(Marker::of_name(&marker.to_name()), Some(marker.clone()));
        if let Place::File(path) = &marker.place {
            assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
        }
    }
    file(Input::new(bytes));
});

/// Opens and reads a file that was good and was changed, as a table that the skeleton says.
fn file(mut input: Input<'_>) {
    let Some(table) = table(&mut input) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let data = DataFolder { root: folder.path(), name: Path::new("x.h5.arrow") };
    // Only small tables have a file; of others it is too short.
    let small = if table.body_bytes() < 1 << 16 {
        table.clone()
    } else {
        table.with_rows(3).expect("a table")
    };
    if small.body_bytes() > 1 << 20 {
        return;
    }
    let image = Image::of(&small, &[]);
    let (made, within) = DataFile::create(data, b"x", &small, &image, &|_| Ok(())).expect("made");
    let path = folder.path().join(&within);
    drop(made);
    let mut bytes = std::fs::read(&path).expect("read");
    let body_offset = image.body_offset();
    while !input.is_empty() {
        let at = (usize::from(input.byte()) << 8 | usize::from(input.byte())) % bytes.len().max(1);
        let word = input.word().to_le_bytes();
        let end = (at + 8).min(bytes.len());
        bytes[at..end].copy_from_slice(&word[..end - at]);
    }
    std::fs::write(&path, &bytes).expect("written");
    let Ok(found) = DataFile::open((folder.path(), &within), &table, body_offset, true) else {
        return;
    };
    let _ = found.chunk();
    let _ = found.first_column();
    let column = &table.columns()[0];
    let member = Member {
        column: 0,
        file_bytes: column.bytes(),
        memory_bytes: column.bytes(),
        offset: 0,
        converts: false,
    };
    let elements = table.elements().min(64);
    if elements > 0 {
        let records = Records { first: 0, stride: column.bytes() };
        let mut memory = vec![0; column.bytes() * elements as usize];
        for first in [0, table.elements() - elements] {
            let memory = Memory::Target(&mut memory);
            let runs = [Run::of(first, 0, elements)];
            let _ = transfer(
                (found.columns(), &table),
                &[member],
                &runs,
                memory,
                records,
                &mut NoConversion,
            );
        }
    }
    // Rows of terabytes make files of terabytes, which are holes and still take their time.
    let more = table.with_rows(table.rows().min(1000) + 1);
    if table.grows() && more.is_some_and(|more| more.body_bytes() < 1 << 20) {
        let _ = found.resize(&table, table.rows().min(1000) + 1, &[]);
        let _ = found.settle(&table);
    }
}

/// A table as a skeleton could say it: any dimensions.
fn table(input: &mut Input<'_>) -> Option<Table> {
    let count = 1 + input.below(3);
    let numbers = [Number::U8, Number::I32, Number::F64];
    let column = |at: usize, input: &mut Input<'_>| {
        Column::of_number(&format!("c{at}"), numbers[input.below(3)])
    };
    let columns = (0..count).map(|at| column(at, input)).collect();
    let shape = (0..1 + input.below(2)).map(|_| input.word()).collect();
    let table = Table::new(shape, columns)?;
    let grows = input.byte() & 1 == 1;
    Some(table.chunked(if grows { vec![4] } else { Vec::new() }, grows))
}
