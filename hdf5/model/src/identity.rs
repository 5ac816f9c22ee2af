//! Which data a skeleton belongs to, and in which generation.
//!
//! A skeleton and its data are separate on the disk, and programs unaware of that copy,
//! move and replace one of them. So both have an identity: the skeleton in a comment on its root
//! group, which lies in the file and goes wherever its bytes go, the data in its manifest
//! ([`crate::manifest`]).
//!
//! ```text
//! plasmon data out.h5.arrow/3f2a91c07b5de412 generation 9a01c7d2e65f0b38
//! ```

use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::data_id::Mark;
use crate::file_names::ENDING;

/// The start of the text.
const DATA: &str = "plasmon data ";
/// The text before the generation.
const GENERATION: &str = " generation ";

/// Which data a skeleton belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the folder that has the data's folder, when the data was made: a file that was
    /// renamed since has its data there still.
    pub folder: String,
    /// The data, and the name of its folder.
    pub data: Mark,
    /// Its value when the skeleton was written last.
    pub generation: Mark,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = escaped(self.folder.as_bytes());
        write!(f, "{DATA}{folder}/{}{GENERATION}{}", self.data, self.generation)
    }
}

impl Identity {
    /// Takes the comment of a root group apart: what a program put there, and the identity, if
    /// there is one.
    #[must_use]
    pub fn of_comment(comment: &str) -> (&str, Option<Self>) {
        let (others, line) = comment.rsplit_once('\n').unwrap_or(("", comment));
        match Self::of_line(line) {
            Some(found) => (others, Some(found)),
            None => (comment, None),
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        let (data, generation) = line.strip_prefix(DATA)?.split_once(GENERATION)?;
        let (folder, data) = data.split_once('/')?;
        let folder = String::from_utf8(unescaped(folder)?).ok()?;
        let plain = !folder.contains('/') && folder != ".." && folder.ends_with(ENDING);
        let (data, generation) = (Mark::of_text(data)?, Mark::of_text(generation)?);
        plain.then_some(Self { folder, data, generation })
    }

    /// The folder of the data, from that of the skeleton.
    #[must_use]
    pub fn within(&self) -> PathBuf {
        Path::new(&self.folder).join(self.data.to_string())
    }

    /// The comment of a root group that a program commented on.
    #[must_use]
    pub fn to_comment(&self, others: &str) -> String {
        if others.is_empty() { self.to_string() } else { format!("{others}\n{self}") }
    }
}

/// A name as part of a line: what is no plain letter is written in hexadecimal.
pub(crate) fn escaped(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        if byte.is_ascii_graphic() && *byte != b'%' {
            out.push(char::from(*byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The name that [`escaped`] wrote.
pub(crate) fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_keep_what_programs_say() {
        let folder = "a b\n.h5.arrow".to_owned();
        let identity = Identity { folder, data: Mark(0x3f2a), generation: Mark(u64::MAX) };
        for others in ["", "a run", "two\nlines", "plasmon data x generation y"] {
            let comment = identity.to_comment(others);
            assert_eq!(Identity::of_comment(&comment), (others, Some(identity.clone())));
            assert_eq!(Identity::of_comment(others), (others, None));
        }
        let text = identity.to_string();
        for wrong in [
            "plasmon data x.arrow/1 generation 2".to_owned(),
            text.to_uppercase(),
            // It leads out of the skeleton's folder, or is not one that the connector makes.
            text.replace("a%20b", "../x"),
            text.replace("a%20b", "%2E%2E%2Fx"),
            text.replace(".arrow/", "/"),
        ] {
            assert_eq!(Identity::of_comment(&wrong).1, None, "{wrong}");
        }
    }
}
