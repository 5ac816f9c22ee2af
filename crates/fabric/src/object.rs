//! One object of libfabric, which is closed when it is dropped.

use std::ptr::{self, NonNull};

use crate::abi::{FI_ENABLE, Fid};
use crate::error::Error;
use crate::library::Library;

/// The error of an entry that a table does not have.
pub(crate) const FI_ENOSYS: i32 = libc::ENOSYS;

/// An object of libfabric. `T` begins with a [`Fid`].
pub(crate) struct Object<T> {
    pointer: NonNull<T>,
    library: &'static Library,
}

// SAFETY: domains are opened with FI_THREAD_SAFE, with which the provider lets any thread use their
// objects, several at a time.
unsafe impl<T> Send for Object<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Object<T> {}

impl<T> Object<T> {
    /// The object that a call has made.
    pub(crate) fn new(
        library: &'static Library,
        call: &'static str,
        made: *mut T,
    ) -> Result<Self, Error> {
        let pointer = NonNull::new(made).ok_or_else(|| library.error(call, FI_ENOSYS))?;
        Ok(Self { pointer, library })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    pub(crate) fn fid(&self) -> *mut Fid {
        self.pointer.as_ptr().cast()
    }

    /// Closes the object, and says whether it is closed.
    pub(crate) fn close(self) -> Result<(), Error> {
        let closed = self.close_once();
        std::mem::forget(self);
        closed
    }

    fn close_once(&self) -> Result<(), Error> {
        // SAFETY: every object begins with a fid whose table lives as long as the object.
        let close = unsafe { (*(*self.fid()).ops).close };
        let Some(close) = close else { return Ok(()) };
        // SAFETY: the object is open, and is not used after this.
        self.library.check("fi_close", unsafe { close(self.fid()) })
    }

    pub(crate) fn bind<U>(&self, other: &Object<U>, flags: u64) -> Result<(), Error> {
        // SAFETY: see `close_once`.
        let bind = unsafe { (*(*self.fid()).ops).bind };
        let bind = bind.ok_or_else(|| self.library.error("fi_bind", FI_ENOSYS))?;
        // SAFETY: both objects are open.
        self.library.check("fi_bind", unsafe { bind(self.fid(), other.fid(), flags) })
    }

    pub(crate) fn enable(&self) -> Result<(), Error> {
        // SAFETY: see `close_once`.
        let control = unsafe { (*(*self.fid()).ops).control };
        let control = control.ok_or_else(|| self.library.error("fi_enable", FI_ENOSYS))?;
        // SAFETY: the object is open, and this command has no argument.
        self.library.check("fi_enable", unsafe { control(self.fid(), FI_ENABLE, ptr::null_mut()) })
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        // What cannot be closed stays open; nothing that matters depends on it, see `close`.
        let _ = self.close_once();
    }
}
