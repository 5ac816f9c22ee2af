//! A piece of a selection, on the side of the file and on that of the memory.

/// A piece of a selection: a block of elements that follow each other on both sides, and more
/// blocks of that size at equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first element in the dataset.
    pub file: u64,
    /// The first element in the memory.
    pub memory: u64,
    /// How many elements a block has.
    pub elements: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// From one block to the next in the dataset, in elements.
    pub file_step: u64,
    /// From one block to the next in the memory, in elements.
    pub memory_step: u64,
}

impl Run {
    /// A run of one block.
    #[must_use]
    pub const fn of(file: u64, memory: u64, elements: u64) -> Self {
        Self { file, memory, elements, blocks: 1, file_step: elements, memory_step: elements }
    }

    /// How many elements there are in all blocks.
    #[must_use]
    #[inline]
    pub fn total(&self) -> u64 {
        self.elements * self.blocks
    }

    /// The element of the dataset after the last one.
    #[must_use]
    #[inline]
    pub fn file_end(&self) -> u64 {
        self.file + (self.blocks - 1) * self.file_step + self.elements
    }

    /// The element of the memory after the last one.
    #[must_use]
    #[inline]
    pub fn memory_end(&self) -> u64 {
        self.memory + (self.blocks - 1) * self.memory_step + self.elements
    }

    /// One block as a run of its own.
    #[must_use]
    #[inline]
    pub fn block(&self, at: u64) -> Self {
        let (file, memory) = (self.file + at * self.file_step, self.memory + at * self.memory_step);
        Self::of(file, memory, self.elements)
    }

    /// The first blocks, and the others if there are more.
    #[inline]
    pub(crate) fn split_blocks(self, blocks: u64) -> (Self, Option<Self>) {
        let rest = (blocks < self.blocks).then(|| Self {
            file: self.file + blocks * self.file_step,
            memory: self.memory + blocks * self.memory_step,
            blocks: self.blocks - blocks,
            ..self
        });
        (Self { blocks: blocks.min(self.blocks), ..self }, rest)
    }

    /// The first elements of a run of one block, and the others if there are more.
    #[inline]
    pub(crate) fn split_elements(self, elements: u64) -> (Self, Option<Self>) {
        let rest = (elements < self.elements).then(|| {
            Self::of(self.file + elements, self.memory + elements, self.elements - elements)
        });
        (Self::of(self.file, self.memory, elements.min(self.elements)), rest)
    }
}
