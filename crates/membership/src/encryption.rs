//! What a node says of its encryption: the value of the key `encryption/LIFE`
//! (`docs/formats/cluster-map.md`).

const MAGIC: [u8; 6] = *b"PLSENC";
const VERSION: u16 = 1;

/// What a node encrypts. One that has no certificate says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// Whether content is encrypted, too, and not messages alone.
    pub data: bool,
    /// The last second of the node's certificate, since 1970.
    pub not_after: u64,
}

/// The value of the key of a node.
pub fn encode(encryption: Encryption) -> Vec<u8> {
    let mut value = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    value.push(u8::from(encryption.data));
    value.extend_from_slice(&encryption.not_after.to_le_bytes());
    value
}

/// Reads it; `None` for other bytes.
pub fn decode(value: &[u8]) -> Option<Encryption> {
    let rest = value.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (data, rest) = rest.split_first()?;
    let not_after = u64::from_le_bytes(rest.try_into().ok()?);
    (*data <= 1).then_some(Encryption { data: *data == 1, not_after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encrypted_comes_back_and_other_bytes_are_refused() {
        let found = Encryption { data: true, not_after: 0x0102 };
        let bytes = encode(found);
        assert_eq!(bytes, *b"PLSENC\x01\0\x01\x02\x01\0\0\0\0\0\0");
        assert_eq!(decode(&bytes), Some(found));
        assert_eq!(
            decode(&encode(Encryption { data: false, ..found })).map(|it| it.data),
            Some(false)
        );
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        let mut other = bytes;
        other[8] = 2;
        assert_eq!(decode(&other), None);
    }
}
