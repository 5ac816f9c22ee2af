//! Value headers: a header that is read is written back to the very same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_proto::value::{DIMENSIONS_MAX, TEXT_BYTES_MAX, ValueHeader};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, own_metadata)) = ValueHeader::decode(bytes) {
        assert!(header.shape.len() <= DIMENSIONS_MAX && header.text.len() <= TEXT_BYTES_MAX);
        let elements = header.elements();
        assert!(elements != Some(0) || header.shape.contains(&0));
        assert_eq!(header.encode(own_metadata).as_deref(), Some(bytes));
    }
});
