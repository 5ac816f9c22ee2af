//! A piece of a selection, on the side of the file and on that of the memory.

/// A piece of a selection: elements that follow each other on both sides, a tooth, and more teeth
/// of that size at equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first element in the dataset.
    pub file: u64,
    /// The first element in the memory.
    pub memory: u64,
    /// How many follow each other.
    pub elements: u64,
    /// How often.
    pub teeth: u64,
    /// From one tooth to the next in the dataset, in elements.
    pub file_step: u64,
    /// And in the memory.
    pub memory_step: u64,
}

impl Run {
    /// A run of one tooth.
    #[must_use]
    pub const fn of(file: u64, memory: u64, elements: u64) -> Self {
        Self { file, memory, elements, teeth: 1, file_step: elements, memory_step: elements }
    }

    /// How many elements there are in all teeth.
    #[must_use]
    #[inline]
    pub fn total(&self) -> u64 {
        self.elements * self.teeth
    }

    /// The element of the dataset after the last one.
    #[must_use]
    #[inline]
    pub fn file_end(&self) -> u64 {
        self.file + (self.teeth - 1) * self.file_step + self.elements
    }

    /// The element of the memory after the last one.
    #[must_use]
    #[inline]
    pub fn memory_end(&self) -> u64 {
        self.memory + (self.teeth - 1) * self.memory_step + self.elements
    }

    /// One tooth by itself.
    #[must_use]
    #[inline]
    pub fn tooth(&self, at: u64) -> Self {
        let (file, memory) = (self.file + at * self.file_step, self.memory + at * self.memory_step);
        Self::of(file, memory, self.elements)
    }

    /// The first teeth, and the others if there are more.
    #[inline]
    pub(crate) fn split_teeth(self, teeth: u64) -> (Self, Option<Self>) {
        let rest = (teeth < self.teeth).then(|| Self {
            file: self.file + teeth * self.file_step,
            memory: self.memory + teeth * self.memory_step,
            teeth: self.teeth - teeth,
            ..self
        });
        (Self { teeth: teeth.min(self.teeth), ..self }, rest)
    }

    /// The first elements of a run of one tooth, and the others if there are more.
    #[inline]
    pub(crate) fn split_elements(self, elements: u64) -> (Self, Option<Self>) {
        let rest = (elements < self.elements).then(|| {
            Self::of(self.file + elements, self.memory + elements, self.elements - elements)
        });
        (Self::of(self.file, self.memory, elements.min(self.elements)), rest)
    }
}
