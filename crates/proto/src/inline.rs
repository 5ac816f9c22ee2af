//! Bytes within a message, as one string.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that a message carries: of a small object, or a piece of a region.
#[derive(Clone, PartialEq, Eq)]
pub struct InlineBytes(pub Vec<u8>);

impl fmt::Debug for InlineBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

// As a sequence of numbers each byte would be encoded by itself.
impl Serialize for InlineBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for InlineBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = InlineBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<InlineBytes, E> {
                Ok(InlineBytes(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_a_length_and_themselves() {
        let bytes = InlineBytes(vec![0, 200, 3]);
        let encoded = postcard::to_allocvec(&bytes).unwrap();
        assert_eq!(encoded, [3, 0, 200, 3]);
        assert_eq!(postcard::from_bytes::<InlineBytes>(&encoded), Ok(bytes));
        assert!(postcard::from_bytes::<InlineBytes>(&encoded[..3]).is_err());
    }
}
