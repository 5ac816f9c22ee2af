//! The conversion of elements between the types of a file and those of a program.

/// Changes elements of the file into those of the memory, or the other way.
pub trait Convert {
    /// Converts the first `elements` of a buffer in place. The buffer has room for that many of the
    /// larger kind.
    ///
    /// # Errors
    ///
    /// HDF5's error.
    fn convert(&mut self, member: usize, elements: usize, buffer: &mut [u8]) -> Result<(), String>;
}

/// Conversions where there are none.
#[derive(Clone, Copy, Debug)]
pub struct NoConversion;

impl Convert for NoConversion {
    fn convert(&mut self, _: usize, _: usize, _: &mut [u8]) -> Result<(), String> {
        Err("there is nothing to convert".to_owned())
    }
}
