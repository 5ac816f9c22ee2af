//! The memory of a program: records, and the columns that lie in them as members.

use std::ops::Range;

/// How a column is seen from the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which column.
    pub column: usize,
    /// How many bytes an element has in the file.
    pub file_bytes: usize,
    /// And in memory.
    pub memory_bytes: usize,
    /// Where it lies within a record in memory.
    pub offset: usize,
    /// Whether the bytes are other ones.
    pub converts: bool,
}

/// The memory of a program: records of `stride` bytes. Its first byte belongs to the element
/// `first`.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The element that the memory begins with.
    pub first: u64,
    /// From one record to the next.
    pub stride: usize,
}

impl Records {
    /// Where elements of a member lie in the memory, from the first byte of the first to the last
    /// byte of the last.
    #[inline]
    pub(crate) fn range(self, member: &Member, from: u64, elements: u64) -> Option<Range<usize>> {
        let records = usize::try_from(from.checked_sub(self.first)?).ok()?;
        let start = records.checked_mul(self.stride)?.checked_add(member.offset)?;
        let last = usize::try_from(elements.checked_sub(1)?).ok()?.checked_mul(self.stride)?;
        Some(start..start.checked_add(last)?.checked_add(member.memory_bytes)?)
    }
}

/// The memory of a program, and which way the elements go.
#[derive(Debug)]
pub enum Memory<'m> {
    /// Is read into.
    Target(&'m mut [u8]),
    /// Is written from.
    Source(&'m [u8]),
}

impl<'m> Memory<'m> {
    /// The same memory for a shorter time.
    #[inline]
    pub(crate) fn again(&mut self) -> Memory<'_> {
        match self {
            Self::Target(memory) => Memory::Target(memory),
            Self::Source(memory) => Memory::Source(memory),
        }
    }

    /// The memory before and after a byte.
    #[inline]
    pub(crate) fn split(self, at: usize) -> Option<(Memory<'m>, Memory<'m>)> {
        Some(match self {
            Self::Target(memory) => {
                let (before, after) = memory.split_at_mut_checked(at)?;
                (Memory::Target(before), Memory::Target(after))
            }
            Self::Source(memory) => {
                let (before, after) = memory.split_at_checked(at)?;
                (Memory::Source(before), Memory::Source(after))
            }
        })
    }
}
