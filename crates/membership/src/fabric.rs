//! What a node says of the providers by which others write into its memory: the value of the key
//! `fabric/LIFE` (`docs/formats/cluster-map.md`).

const MAGIC: [u8; 6] = *b"PLSFAB";
const VERSION: u16 = 1;

/// Bytes of each of the texts at most; what is longer is cut.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The providers of a node that was asked to use some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Those in use, as libfabric calls them, separated by commas; empty where all content comes
    /// over TCP.
    pub providers: String,
    /// Why others are not used; empty where all of them are.
    pub refused: String,
    /// Endpoints that had to be closed since its start, because a peer was lost or did not answer.
    pub closed: u32,
}

/// The value of the key of a node.
pub fn encode(fabric: &Fabric) -> Vec<u8> {
    let mut value = [&MAGIC[..], &VERSION.to_le_bytes(), &fabric.closed.to_le_bytes()].concat();
    for text in [&fabric.providers, &fabric.refused] {
        let text = cut(text);
        value.extend_from_slice(&(text.len() as u16).to_le_bytes());
        value.extend_from_slice(text.as_bytes());
    }
    value
}

/// Reads it; `None` for other bytes.
pub fn decode(value: &[u8]) -> Option<Fabric> {
    let rest = value.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (closed, rest) = rest.split_first_chunk()?;
    let (providers, rest) = text_of(rest)?;
    let (refused, rest) = text_of(rest)?;
    let closed = u32::from_le_bytes(*closed);
    rest.is_empty().then_some(Fabric { providers, refused, closed })
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text and what follows it.
fn text_of(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let (text, rest) = rest.split_at_checked(length).filter(|_| length <= TEXT_BYTES_MAX)?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_comes_back_and_other_bytes_are_refused() {
        let found = Fabric { providers: "net".to_owned(), refused: "é".to_owned(), closed: 258 };
        let bytes = encode(&found);
        assert_eq!(bytes, *b"PLSFAB\x01\0\x02\x01\0\0\x03\0net\x02\0\xc3\xa9");
        assert_eq!(decode(&bytes), Some(found));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(decode(b"PLSFAB\x01\0\0\0\0\0\x01\0\xff\0\0"), None, "it is not UTF-8");
        let long = Fabric { refused: "é".repeat(513), ..Fabric::default() };
        assert_eq!(decode(&encode(&long)).map(|found| found.refused), Some("é".repeat(512)));
        let odd = Fabric { refused: format!("a{}", "é".repeat(513)), ..Fabric::default() };
        assert_eq!(decode(&encode(&odd)).map(|found| found.refused.len()), Some(1023));
    }
}
