//! Spill files: whatever lies in the folder is a file of this store or an error.
//!
//! The first byte says whether the checksums are made right, so that the bytes after them are
//! reached too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_spill::format::{self, BadFile, FIXED_BYTES};

const STORE: u64 = 7;

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let file = if mode % 2 == 0 { bytes.to_vec() } else { repaired(bytes) };
    let mut reader = file.as_slice();
    match format::read_header(STORE, &mut reader) {
        Ok(object) => {
            assert!(object.sizes.total().is_some());
            let header = format::encode_header(STORE, &object).expect("what was read is writable");
            let again = format::read_header(STORE, &mut header.as_slice());
            assert_eq!(again.expect("what was written is readable"), object);
        }
        Err(BadFile::Io(error)) => panic!("bytes in memory cannot fail: {error}"),
        Err(BadFile::Damaged(_) | BadFile::Stranger) => {}
    }
    // A trailer is eight bytes; longer or shorter inputs only show that nothing panics.
    let mut trailer = Vec::new();
    format::write_trailer(u32::from(*mode), &mut trailer).expect("memory can be written");
    let matches = format::check_trailer(u32::from(*mode), &mut { bytes }).is_ok();
    assert_eq!(matches, bytes.starts_with(&trailer));
});

/// A file whose description is these bytes and whose checksums are right.
fn repaired(description: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(FIXED_BYTES + description.len());
    file.extend_from_slice(&format::MAGIC);
    file.extend_from_slice(&format::VERSION.to_le_bytes());
    file.extend_from_slice(&(description.len() as u32).to_le_bytes());
    file.extend_from_slice(&STORE.to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(description).to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    file.extend_from_slice(description);
    file
}
