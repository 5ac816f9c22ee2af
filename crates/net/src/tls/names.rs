//! The names in certificates: `plasmon://CLUSTER/NODE`, one for each node that a certificate is
//! for.

use std::fmt::Write as _;

/// What the names of nodes begin with.
const SCHEME: &str = "plasmon://";

/// The name of a node of a cluster, as a certificate has it among its alternative names. Bytes that
/// a URI does not have are escaped.
pub fn uri_of(cluster: &str, node: &str) -> String {
    format!("{SCHEME}{}/{}", escaped(cluster), escaped(node))
}

/// The cluster and the node that such a name is for; `None` for other names.
pub fn parse_uri(uri: &str) -> Option<(String, String)> {
    let (cluster, node) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    Some((unescaped(cluster)?, unescaped(node)?))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// The text; `None` where it is not written as [`escaped`] does.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    let found = String::from_utf8(bytes).ok()?;
    (!found.is_empty() && escaped(&found) == text).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_each_has_one_spelling() {
        for (cluster, node, uri) in [
            ("prod", "a", "plasmon://prod/a"),
            ("p.1_x-y", "rack 1:ä", "plasmon://p.1_x-y/rack%201%3A%C3%A4"),
            ("p", "a%b", "plasmon://p/a%25b"),
        ] {
            assert_eq!(uri_of(cluster, node), uri);
            assert_eq!(parse_uri(uri), Some((cluster.to_owned(), node.to_owned())));
        }
        for other in [
            "https://localhost/a",
            "plasmon://prod",
            "plasmon://prod/",
            "plasmon:///a",
            "plasmon://prod/a/b",
            "plasmon://prod/%61",
            "plasmon://prod/%c3%a4",
            "plasmon://prod/%+1",
            "plasmon://prod/%C3",
            "plasmon://prod/a%2",
            "plasmon://prod/a b",
        ] {
            assert_eq!(parse_uri(other), None, "{other}");
        }
    }
}
