//! An object under construction.

use std::ops::{Deref, DerefMut};

use plasmon_proto::{Code, ObjectId};

use crate::error::{Error, Result};

/// An object under construction: write its bytes, then seal it. Dropped unsealed, it is aborted.
#[derive(Debug)]
pub struct Writer {}

impl Writer {
    /// The id that the object will have.
    pub fn id(&self) -> ObjectId {
        ObjectId::new([0; 20])
    }

    /// Where the data goes, for callers that fill it through a pointer. It stays valid until the
    /// writer is sealed, aborted or dropped.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        std::ptr::null_mut()
    }

    /// Writes the metadata, whose length was fixed by [`crate::PutOptions::metadata`].
    pub fn metadata_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Makes the object immutable and visible to everybody.
    pub fn seal(self) -> Result<ObjectId> {
        Err(Error::new(Code::Unsupported, "sealing"))
    }

    /// Gives the object up; its memory is free again.
    pub fn abort(self) -> Result<()> {
        Err(Error::new(Code::Unsupported, "aborting"))
    }
}

impl Deref for Writer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &[]
    }
}

impl DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}
