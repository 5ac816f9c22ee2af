//! The data of a composite object: a stream of bytes whose parts lie in other objects.
//!
//! Columns that were built in place, and tables whose buffers lie in the store already, become
//! objects without a copy: the stream is an Arrow IPC stream, its headers lie here, its buffers in
//! the members. The byte table is in `docs/formats/composite.md`.
//!
//! A reader must not trust a composite: [`Composite::decode`] checks everything that can be
//! checked without the members, and [`Part::lies_in`] the rest.

use crate::id::ObjectId;
use crate::limits::OBJECT_ALIGN;

/// The first bytes of every composite.
pub const MAGIC: [u8; 8] = *b"PLMCOMP1";

/// Bytes before the table of parts.
const FIXED_BYTES: usize = 64;

/// Bytes of a part in the table.
const PART_BYTES: usize = 32;

/// The member number of parts that lie in the composite itself.
const HERE: u32 = u32::MAX;

const ALIGN: u64 = OBJECT_ALIGN;

/// Where the bytes of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the data of the composite itself, from this offset on.
    Here(u64),
    /// In the data of this member, from this offset on.
    Member(u32, u64),
}

/// One part of the stream. Between parts the stream has zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where in the stream it starts.
    pub at: u64,
    /// How long it is.
    pub bytes: u64,
    /// Where it is.
    pub place: Place,
}

impl Part {
    /// The part as a range of something with `bytes` bytes, if it lies in it.
    pub fn lies_in(&self, bytes: u64) -> Option<std::ops::Range<usize>> {
        let (Place::Here(offset) | Place::Member(_, offset)) = self.place;
        let end = offset.checked_add(self.bytes).filter(|end| *end <= bytes)?;
        Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    }
}

/// Bytes that are no composite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data is not the description of a composite object: {0}")]
pub struct BadComposite(&'static str);

/// A composite being written.
#[derive(Clone, Debug, Default)]
pub struct CompositeWriter {
    parts: Vec<Part>,
    /// Bytes of the parts that lie here; offsets of those are within it for now.
    here: Vec<u8>,
    stream_bytes: u64,
}

impl CompositeWriter {
    /// Appends bytes that are kept in the composite.
    pub fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.stream_bytes;
        self.stream_bytes += bytes.len() as u64;
        let end = self.here.len() as u64;
        if let Some(Part { at: start, bytes: length, place: Place::Here(offset) }) =
            self.parts.last_mut()
            && *start + *length == at
            && *offset + *length == end
        {
            *length += bytes.len() as u64;
        } else {
            // What is aligned in the stream is aligned here.
            let offset = end.next_multiple_of(ALIGN) + at % ALIGN;
            self.here.resize(offset as usize, 0);
            let place = Place::Here(offset);
            self.parts.push(Part { at, bytes: bytes.len() as u64, place });
        }
        self.here.extend_from_slice(bytes);
    }

    /// Appends bytes of a member.
    pub fn push_member(&mut self, member: u32, offset: u64, bytes: u64) {
        if bytes > 0 {
            let place = Place::Member(member, offset);
            self.parts.push(Part { at: self.stream_bytes, bytes, place });
            self.stream_bytes += bytes;
        }
    }

    /// Appends zeroes, which take no memory, up to the next multiple of the objects' alignment.
    pub fn pad(&mut self) {
        self.stream_bytes = self.stream_bytes.next_multiple_of(ALIGN);
    }

    /// Appends zeroes, which take no memory.
    pub fn zeroes(&mut self, bytes: u64) {
        self.stream_bytes += bytes;
    }

    /// How long the stream is so far.
    pub fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }

    /// The composite's data.
    pub fn encode(&self, members: &[ObjectId]) -> Vec<u8> {
        let table_bytes = FIXED_BYTES + PART_BYTES * self.parts.len() + 20 * members.len();
        let here_at = table_bytes.next_multiple_of(ALIGN as usize);
        let mut out = Vec::with_capacity(here_at + self.here.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(members.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.parts.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.stream_bytes.to_le_bytes());
        out.resize(FIXED_BYTES, 0);
        for part in &self.parts {
            let (offset, member) = match part.place {
                Place::Here(offset) => (here_at as u64 + offset, HERE),
                Place::Member(member, offset) => (offset, member),
            };
            for word in [part.at, part.bytes, offset, u64::from(member)] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        for member in members {
            out.extend_from_slice(member.as_bytes());
        }
        out.resize(here_at, 0);
        out.extend_from_slice(&self.here);
        out
    }
}

/// A composite that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// The objects that parts lie in.
    pub members: Vec<ObjectId>,
    /// The parts in their order, none empty, none overlapping another.
    pub parts: Vec<Part>,
    /// How long the stream is.
    pub stream_bytes: u64,
}

impl Composite {
    /// Reads the data of a composite.
    pub fn decode(data: &[u8]) -> Result<Self, BadComposite> {
        let short = BadComposite("it is cut short");
        let (fixed, rest) = data.split_at_checked(FIXED_BYTES).ok_or(short)?;
        if fixed[..8] != MAGIC {
            return Err(BadComposite("its magic is wrong"));
        }
        let count = |at: usize| {
            u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let (members, parts, stream_bytes) =
            (count(8) as usize, count(12) as usize, word(fixed, 16));
        if fixed[24..].iter().any(|byte| *byte != 0) {
            return Err(BadComposite("a field that is reserved is set"));
        }
        let table_bytes = parts.checked_mul(PART_BYTES).ok_or(short)?;
        let (table, rest) = rest.split_at_checked(table_bytes).ok_or(short)?;
        let ids_bytes = members.checked_mul(20).ok_or(short)?;
        let ids = rest.get(..ids_bytes).ok_or(short)?;
        let found = Self {
            members: ids.as_chunks::<20>().0.iter().map(|id| ObjectId::new(*id)).collect(),
            parts: table.as_chunks::<PART_BYTES>().0.iter().map(decode_part).collect(),
            stream_bytes,
        };
        found.check(data.len() as u64)?;
        Ok(found)
    }

    fn check(&self, data_bytes: u64) -> Result<(), BadComposite> {
        let mut end = 0;
        for part in &self.parts {
            if part.bytes == 0 || part.at < end {
                return Err(BadComposite("its parts are not in order"));
            }
            end = part.at.checked_add(part.bytes).ok_or(BadComposite("a part has no end"))?;
            match part.place {
                Place::Here(_) if part.lies_in(data_bytes).is_none() => {
                    return Err(BadComposite("a part lies past its end"));
                }
                Place::Member(member, _) if member as usize >= self.members.len() => {
                    return Err(BadComposite("a part lies outside of every member"));
                }
                _ => {}
            }
        }
        if end > self.stream_bytes {
            return Err(BadComposite("its parts are longer than its stream"));
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn decode_part(part: &[u8; PART_BYTES]) -> Part {
    let (offset, member) = (word(part, 16), word(part, 24));
    let place = match u32::try_from(member) {
        Ok(HERE) => Place::Here(offset),
        Ok(member) => Place::Member(member, offset),
        // No composite has that many members: the check refuses it.
        Err(_) => Place::Member(HERE - 1, offset),
    };
    Part { at: word(part, 0), bytes: word(part, 8), place }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (CompositeWriter, Vec<ObjectId>) {
        let mut writer = CompositeWriter::default();
        writer.push(b"header");
        writer.push(b" one");
        writer.push_member(1, 64, 100);
        writer.pad();
        writer.push_member(0, 0, 5);
        writer.push(b"tail");
        writer.push(b"");
        (writer, vec![ObjectId::new([1; 20]), ObjectId::new([2; 20])])
    }

    #[test]
    fn a_composite_comes_back() {
        let (writer, members) = sample();
        let data = writer.encode(&members);
        let found = Composite::decode(&data).unwrap();
        assert_eq!((found.members, found.stream_bytes), (members, writer.stream_bytes()));
        let of = |part: &Part| match part.place {
            Place::Here(_) => data[part.lies_in(data.len() as u64).unwrap()].to_vec(),
            Place::Member(member, offset) => format!("{member} {offset} {}", part.bytes).into(),
        };
        let parts: Vec<_> = found.parts.iter().map(|part| (part.at, of(part))).collect();
        let expected: [(u64, &[u8]); 4] =
            [(0, b"header one"), (10, b"1 64 100"), (128, b"0 0 5"), (133, b"tail")];
        assert_eq!(parts, expected.map(|(at, bytes)| (at, bytes.to_vec())));
        for part in &found.parts {
            if let Place::Here(offset) = part.place {
                assert_eq!(offset % 64, part.at % 64, "aligned as in the stream");
            }
        }
        assert_eq!(Composite::decode(&CompositeWriter::default().encode(&[])).unwrap().parts, []);
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        let (writer, members) = sample();
        let data = writer.encode(&members);
        for bytes in 0..data.len() {
            assert!(Composite::decode(&data[..bytes]).is_err(), "{bytes} bytes of it");
        }
        let broken = |at: usize, byte: u8| {
            let mut data = data.clone();
            data[at] = byte;
            Composite::decode(&data).unwrap_err().to_string()
        };
        assert!(broken(0, 0).contains("magic"));
        assert!(broken(63, 1).contains("reserved"));
        assert!(broken(15, 255).contains("cut short"));
        assert!(broken(16, 1).contains("longer than its stream"));
        let part = |number: usize, field: usize| 64 + 32 * number + 8 * field;
        assert!(broken(part(1, 0), 9).contains("order"));
        assert!(broken(part(1, 1), 0).contains("order"), "an empty part");
        assert!(
            broken(part(0, 1) + 7, 255).contains("order")
                || broken(part(0, 1) + 7, 255).contains("end")
        );
        assert!(broken(part(0, 2) + 7, 255).contains("past its end"));
        assert!(broken(part(1, 3), 2).contains("outside of every member"));
        assert!(broken(part(1, 3) + 5, 1).contains("outside of every member"));
    }

    #[test]
    fn a_part_lies_in_its_member_or_not() {
        let part = |offset, bytes| Part { at: 0, bytes, place: Place::Member(0, offset) };
        assert_eq!(part(10, 20).lies_in(30), Some(10..30));
        assert_eq!(part(10, 20).lies_in(29), None);
        assert_eq!(part(u64::MAX, 20).lies_in(30), None);
    }
}
