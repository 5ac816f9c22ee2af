//! Arrays, and their element types.

use std::borrow::Cow;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype<'a> {
    /// NumPy's text, or one letter of Python's `struct`.
    pub text: &'a str,
    /// Bytes of an element.
    pub itemsize: usize,
}

/// An array: a shape and strides over memory that other arrays may share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Its original kind: one of [`crate::codes::tensor`].
    pub kind: u8,
    /// The element type.
    pub dtype: Dtype<'a>,
    /// The extents.
    pub shape: Vec<i64>,
    /// The distance in bytes between neighbours in each dimension.
    pub strides: Vec<i64>,
    /// The memory.
    pub memory: &'a [u8],
    /// Where in the memory the element at index 0 lies.
    pub offset: i64,
}

impl<'a> Tensor<'a> {
    /// The bytes of the element at an index for each dimension, if there is one.
    pub fn element(&self, index: &[i64]) -> Option<&'a [u8]> {
        let inside = index.iter().zip(&self.shape).all(|(at, extent)| (0..*extent).contains(at));
        if index.len() != self.shape.len() || !inside {
            return None;
        }
        let steps = index.iter().zip(&self.strides).map(|(at, stride)| at * stride);
        self.at(self.offset + steps.sum::<i64>())
    }

    fn at(&self, offset: i64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.memory.get(start..start + self.dtype.itemsize)
    }

    /// The elements in C order, each as its bytes.
    pub fn elements(&self) -> Elements<'_, 'a> {
        let empty = self.shape.contains(&0);
        let first = (!empty).then(|| (vec![0; self.shape.len()], self.offset));
        Elements { tensor: self, next: first }
    }

    /// Whether the elements lie in C order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut wanted = self.dtype.itemsize as i64;
        for (extent, stride) in self.shape.iter().zip(&self.strides).rev() {
            if *extent != 1 && *stride != wanted {
                return self.shape.contains(&0);
            }
            wanted = wanted.saturating_mul(*extent);
        }
        true
    }

    /// The bytes of the elements in C order: borrowed where they lie so.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        let extents = self.shape.iter().map(|extent| *extent as usize);
        let bytes = extents.fold(self.dtype.itemsize, usize::saturating_mul);
        let start = self.offset as usize;
        match self.memory.get(start..start.saturating_add(bytes)) {
            Some(bytes) if self.is_contiguous() => Cow::Borrowed(bytes),
            _ => Cow::Owned(self.elements().flatten().copied().collect()),
        }
    }
}

/// The elements of a tensor in C order.
#[derive(Clone, Debug)]
pub struct Elements<'t, 'a> {
    tensor: &'t Tensor<'a>,
    /// The index and the offset of the next one.
    next: Option<(Vec<i64>, i64)>,
}

impl<'a> Iterator for Elements<'_, 'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let Tensor { shape, strides, .. } = self.tensor;
        let (mut index, mut offset) = self.next.take()?;
        let element = self.tensor.at(offset);
        for dimension in (0..shape.len()).rev() {
            index[dimension] += 1;
            offset += strides[dimension];
            if index[dimension] < shape[dimension] {
                self.next = Some((index, offset));
                break;
            }
            offset -= index[dimension] * strides[dimension];
            index[dimension] = 0;
        }
        element
    }
}
