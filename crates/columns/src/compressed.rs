//! Compressed buffers of Arrow IPC messages.
//!
//! A buffer starts with its length before compression. A reader that trusted it would allocate any
//! size that a hostile writer names, and a failed allocation ends the process, so the length is
//! checked against the bytes that are there.

use std::io::Read;

use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use arrow_schema::ArrowError;

use crate::parts::{Stream, cut_short};

/// The length before each compressed buffer.
const LENGTH_BYTES: usize = 8;

/// In place of the length: the buffer is not compressed.
const NOT_COMPRESSED: i64 = -1;

/// LZ4 decompresses one byte to at most this many.
const LZ4_RATIO_MAX: usize = 255;

/// The uncompressed bytes of a buffer. `bytes` must not change meanwhile.
pub(crate) fn decompress(
    stream: &Stream,
    codec: CompressionType,
    bytes: &Buffer,
) -> Result<Buffer, ArrowError> {
    let Some((length, packed)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(cut_short());
    };
    let length = i64::from_le_bytes(*length);
    if length == NOT_COMPRESSED {
        return Ok(bytes.slice(LENGTH_BYTES));
    }
    let length = usize::try_from(length).map_err(|_| wrong_length(length, packed.len()))?;
    let wrong = || wrong_length(length, packed.len());
    if codec == CompressionType::LZ4_FRAME && length > packed.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err(wrong());
    }
    stream.count_own(length)?;
    let unpacked = match codec {
        CompressionType::LZ4_FRAME => lz4(packed, length)?,
        CompressionType::ZSTD => zstd::bulk::decompress(packed, length)?,
        other => {
            let text = format!("buffers have an unknown compression: {other:?}");
            return Err(ArrowError::NotYetImplemented(text));
        }
    };
    if unpacked.len() == length { Ok(Buffer::from_vec(unpacked)) } else { Err(wrong()) }
}

/// At most one byte more than `length`.
fn lz4(packed: &[u8], length: usize) -> Result<Vec<u8>, ArrowError> {
    let mut unpacked = Vec::with_capacity(length + 1);
    let decoder = lz4_flex::frame::FrameDecoder::new(packed);
    decoder.take(length as u64 + 1).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

fn wrong_length(length: impl std::fmt::Display, packed: usize) -> ArrowError {
    let text = format!("a buffer of {packed} compressed bytes cannot hold the {length} it claims");
    ArrowError::IpcError(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(codec: CompressionType, bytes: &[u8], claimed: i64) -> Buffer {
        let mut out = claimed.to_le_bytes().to_vec();
        if codec == CompressionType::ZSTD {
            out.extend(zstd::bulk::compress(bytes, 1).unwrap());
        } else {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut out);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap();
        }
        Buffer::from_vec(out)
    }

    fn read(codec: CompressionType, bytes: &Buffer) -> Result<Buffer, ArrowError> {
        decompress(&Stream::whole(bytes.clone()), codec, bytes)
    }

    /// A length of 2^60 before an LZ4 buffer was allocated unchecked, which ended the process.
    #[test]
    fn a_claimed_length_is_held_against_the_bytes() {
        let bytes = vec![7_u8; 1 << 20];
        for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
            let length = bytes.len() as i64;
            let found = read(codec, &packed(codec, &bytes, length)).unwrap();
            assert_eq!(found.as_slice(), bytes);
            for wrong in [length - 1, length + 1, 0, -2, 1 << 40, 1 << 60, i64::MAX, i64::MIN] {
                assert!(read(codec, &packed(codec, &bytes, wrong)).is_err(), "{codec:?} {wrong}");
            }
            assert!(read(codec, &Buffer::from_vec(vec![0_u8; 7])).is_err());
        }
        let plain = [&NOT_COMPRESSED.to_le_bytes()[..], b"abc"].concat();
        let found = read(CompressionType::ZSTD, &Buffer::from_vec(plain)).unwrap();
        assert_eq!(found.as_slice(), b"abc");
    }

    #[test]
    fn an_unknown_compression_is_refused() {
        assert!(read(CompressionType(77), &Buffer::from_vec(vec![0_u8; 16])).is_err());
    }
}
