//! Ring records: any eight words are a record or an error, and a record's sizes keep their limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_proto::ring::{Completion, Record, Submission};

fuzz_target!(|bytes: &[u8]| {
    for chunk in bytes.chunks_exact(64) {
        let record: Record = std::array::from_fn(|word| {
            u64::from_le_bytes(std::array::from_fn(|byte| chunk[word * 8 + byte]))
        });
        if let Ok(submission) = Submission::decode(&record) {
            if let Submission::Put(put) = submission {
                let range = put.range().expect("a decoded put keeps the limits");
                assert!(range.offset.checked_add(range.bytes).is_some());
            }
            assert_eq!(Submission::decode(&submission.encode()), Ok(submission));
        }
        if let Ok(completion) = Completion::decode(&record) {
            assert_eq!(Completion::decode(&completion.encode()), Ok(completion));
        }
    }
});
