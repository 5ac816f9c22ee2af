//! Attributes: the bytes after an object's metadata are the creator's, so they may be anything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_proto::Attributes;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(attributes) = Attributes::decode(bytes) {
        assert!(attributes.check().is_ok());
        assert_eq!(Attributes::decode(&attributes.encode()), Ok(attributes));
    }
});
