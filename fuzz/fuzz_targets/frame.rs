//! Frames: any bytes are a message or an error, and a message survives being written and read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_proto::frame::{self, BadFrame, FromDaemon};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((number, request)) = frame::decode_request(bytes) {
        match frame::encode_request(number, &request) {
            Ok(again) => assert_eq!(frame::decode_request(&again), Ok((number, request))),
            // Only a list that shrinks on the wire could grow past the limit when written again.
            Err(error) => assert!(matches!(error, BadFrame::Long { .. })),
        }
    }
    let again = match frame::decode_from_daemon(bytes) {
        Ok(FromDaemon::Reply(number, ref reply)) => frame::encode_reply(number, reply),
        Ok(FromDaemon::Push(ref push)) => frame::encode_push(push),
        Err(_) => return,
    };
    match again {
        Ok(again) => {
            let (first, second) =
                (frame::decode_from_daemon(bytes), frame::decode_from_daemon(&again));
            match (first, second) {
                // A push carries no number, so whatever stood there is not kept.
                (Ok(first), Ok(second)) => assert_eq!(first, second),
                (first, second) => panic!("{first:?} became {second:?}"),
            }
        }
        Err(error) => assert!(matches!(error, BadFrame::Long { .. })),
    }
});
