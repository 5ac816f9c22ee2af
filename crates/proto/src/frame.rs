//! How a message becomes bytes and back.
//!
//! ```text
//! offset  bytes  meaning
//! 0       4      magic, the letters PLSM
//! 4       2      version of the framing, 1
//! 6       1      kind: 1 request, 2 reply, 3 push
//! 7       1      zero
//! 8       8      number of the request that this is or answers; 0 in a push
//! 16      ..     the message in postcard encoding
//! ```
//!
//! Integers are little-endian. A frame is one SEQPACKET message of at most
//! [`FRAME_BYTES_MAX`] bytes; bytes left over after the message make it malformed.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::FRAME_BYTES_MAX;
use crate::message::{Push, Reply, Request};
use crate::pool_admin;

const MAGIC: [u8; 4] = *b"PLSM";
const FRAMING_VERSION: u16 = 1;

/// Bytes before the message.
pub const HEADER_BYTES: usize = 16;

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Fewer bytes than a header.
    #[error("a frame of {found} bytes is shorter than its header of {HEADER_BYTES}")]
    Short {
        /// The bytes found.
        found: usize,
    },
    /// More bytes than a frame may have.
    #[error("a frame of {found} bytes exceeds the limit of {FRAME_BYTES_MAX}")]
    Long {
        /// The bytes found.
        found: usize,
    },
    /// Not this protocol.
    #[error("not a Plasmon frame")]
    Magic,
    /// Another version of the framing.
    #[error("framing version {found} instead of {FRAMING_VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// A kind of message that does not belong here.
    #[error("unexpected kind of message {found}")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// A message that cannot be read.
    #[error("malformed message")]
    Body,
}

/// What a daemon sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromDaemon {
    /// The answer to the request with this number.
    Reply(u64, Reply),
    /// An unasked message.
    Push(Push),
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Request = 1,
    Reply = 2,
    Push = 3,
}

/// The frame of a request.
pub fn encode_request(number: u64, request: &Request) -> Result<Vec<u8>, BadFrame> {
    encode(Kind::Request, number, request)
}

/// The frame of a reply.
pub fn encode_reply(number: u64, reply: &Reply) -> Result<Vec<u8>, BadFrame> {
    encode(Kind::Reply, number, reply)
}

/// The frame of a push.
pub fn encode_push(push: &Push) -> Result<Vec<u8>, BadFrame> {
    encode(Kind::Push, 0, push)
}

/// Reads a request and its number from a client's frame.
pub fn decode_request(frame: &[u8]) -> Result<(u64, Request), BadFrame> {
    decode_of(Kind::Request, frame)
}

/// Reads what the daemon sent.
pub fn decode_from_daemon(frame: &[u8]) -> Result<FromDaemon, BadFrame> {
    let (kind, number, body) = split(frame)?;
    if kind == Kind::Reply as u8 {
        Ok(FromDaemon::Reply(number, decode(body)?))
    } else if kind == Kind::Push as u8 {
        Ok(FromDaemon::Push(decode(body)?))
    } else {
        Err(BadFrame::Kind { found: kind })
    }
}

/// The frame of a request to a pool daemon.
pub fn encode_admin_request(
    number: u64,
    request: &pool_admin::Request,
) -> Result<Vec<u8>, BadFrame> {
    encode(Kind::Request, number, request)
}

/// The frame of a pool daemon's reply.
pub fn encode_admin_reply(number: u64, reply: &pool_admin::Reply) -> Result<Vec<u8>, BadFrame> {
    encode(Kind::Reply, number, reply)
}

/// Reads a request to a pool daemon and its number.
pub fn decode_admin_request(frame: &[u8]) -> Result<(u64, pool_admin::Request), BadFrame> {
    decode_of(Kind::Request, frame)
}

/// Reads a pool daemon's reply and the number of its request.
pub fn decode_admin_reply(frame: &[u8]) -> Result<(u64, pool_admin::Reply), BadFrame> {
    decode_of(Kind::Reply, frame)
}

fn decode_of<T: DeserializeOwned>(wanted: Kind, frame: &[u8]) -> Result<(u64, T), BadFrame> {
    let (kind, number, body) = split(frame)?;
    if kind != wanted as u8 {
        return Err(BadFrame::Kind { found: kind });
    }
    Ok((number, decode(body)?))
}

fn encode(kind: Kind, number: u64, message: &impl Serialize) -> Result<Vec<u8>, BadFrame> {
    let mut frame = Vec::with_capacity(128);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&FRAMING_VERSION.to_le_bytes());
    frame.extend_from_slice(&[kind as u8, 0]);
    frame.extend_from_slice(&number.to_le_bytes());
    let frame = postcard::to_extend(message, frame).map_err(|_| BadFrame::Body)?;
    if frame.len() > FRAME_BYTES_MAX {
        return Err(BadFrame::Long { found: frame.len() });
    }
    Ok(frame)
}

fn split(frame: &[u8]) -> Result<(u8, u64, &[u8]), BadFrame> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(BadFrame::Long { found: frame.len() });
    }
    let Some((header, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
        return Err(BadFrame::Short { found: frame.len() });
    };
    let [m0, m1, m2, m3, v0, v1, kind, zero, number @ ..] = *header;
    if [m0, m1, m2, m3] != MAGIC || zero != 0 {
        return Err(BadFrame::Magic);
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != FRAMING_VERSION {
        return Err(BadFrame::Version { found: version });
    }
    Ok((kind, u64::from_le_bytes(number), body))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, BadFrame> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(BadFrame::Body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ObjectId;
    use crate::limits::REQUEST_IDS_MAX;
    use proptest::prelude::*;

    fn delete(count: usize) -> Request {
        Request::Delete { ids: vec![ObjectId::new([3; 20]); count] }
    }

    #[test]
    fn the_largest_request_fits_and_a_larger_one_is_refused() {
        let frame = encode_request(7, &delete(REQUEST_IDS_MAX)).unwrap();
        assert_eq!(decode_request(&frame), Ok((7, delete(REQUEST_IDS_MAX))));
        assert!(matches!(encode_request(7, &delete(5000)), Err(BadFrame::Long { .. })));
    }

    #[test]
    fn every_damage_to_a_frame_is_named() {
        let frame = encode_request(1, &delete(2)).unwrap();
        for cut in 0..HEADER_BYTES {
            assert_eq!(decode_request(&frame[..cut]), Err(BadFrame::Short { found: cut }));
        }
        for cut in HEADER_BYTES..frame.len() {
            assert_eq!(decode_request(&frame[..cut]), Err(BadFrame::Body), "{cut}");
        }
        let damaged = |at: usize, byte: u8| {
            let mut frame = frame.clone();
            frame[at] = byte;
            decode_request(&frame)
        };
        assert_eq!(damaged(0, b'X'), Err(BadFrame::Magic));
        assert_eq!(damaged(7, 1), Err(BadFrame::Magic));
        assert_eq!(damaged(4, 9), Err(BadFrame::Version { found: 9 }));
        assert_eq!(damaged(6, 2), Err(BadFrame::Kind { found: 2 }));
        assert_eq!(damaged(16, 200), Err(BadFrame::Body));
        let mut longer = frame.clone();
        longer.push(0);
        assert_eq!(decode_request(&longer), Err(BadFrame::Body));
        let oversized = vec![0; FRAME_BYTES_MAX + 1];
        assert!(matches!(decode_request(&oversized), Err(BadFrame::Long { .. })));
    }

    #[test]
    fn a_length_that_promises_too_much_allocates_nothing_much() {
        // A list that claims 2^63 ids: the reader must fail, not reserve memory for them.
        let mut frame = encode_request(1, &delete(0)).unwrap();
        frame.pop();
        frame.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(decode_request(&frame), Err(BadFrame::Body));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let mut frame = encode_request(1, &Request::Status).unwrap();
            frame.truncate(HEADER_BYTES);
            frame.extend_from_slice(&bytes);
            let _ = decode_request(&frame);
            frame[6] = 2;
            let _ = decode_from_daemon(&frame);
            let _ = decode_from_daemon(&bytes);
        }
    }
}
