//! An allocator of ours as a table of C functions, for code that is built elsewhere.
//!
//! The table is `plasmon_pool_api` in `plasmon_pool.h`. Its holder has a reference to the
//! allocator; panics are caught here, because they must not unwind into C.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The operations of the table's functions. Addresses are numbers here: this side never
/// dereferences them.
pub trait Allocator: Send + Sync + 'static {
    /// The address of a new buffer, or the number of an error.
    fn allocate(&self, bytes: usize) -> Result<usize, i32>;
    /// The address of a buffer after its size changed, or the number of an error.
    fn reallocate(&self, address: usize, bytes: usize) -> Result<usize, i32>;
    /// A buffer is not used any more.
    fn release(&self, address: usize);
    /// Gives idle memory back.
    fn release_unused(&self);
    /// What was done so far.
    fn figures(&self) -> Figures;
}

/// `plasmon_pool_figures` in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Figures {
    /// Bytes of buffers in use.
    pub allocated_bytes: i64,
    /// The most that it ever was.
    pub allocated_bytes_max: i64,
    /// Bytes ever allocated, growth included.
    pub total_bytes: i64,
    /// Buffers ever allocated.
    pub allocations: i64,
}

/// `plasmon_pool_api` in the header: plain data, whose copies are one reference together.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocatorTable {
    size: usize,
    pool: *mut c_void,
    allocate: unsafe extern "C" fn(*mut c_void, i64, *mut *mut u8) -> c_int,
    reallocate: unsafe extern "C" fn(*mut c_void, i64, *mut *mut u8) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, *mut u8),
    release_unused: unsafe extern "C" fn(*mut c_void),
    figures: unsafe extern "C" fn(*mut c_void, *mut Figures),
    retain: unsafe extern "C" fn(*mut c_void),
    close: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the table is immutable, and what it points to is shared by all threads (`Allocator`).
unsafe impl Send for AllocatorTable {}

/// A table whose reference ends with it.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnedTable(AllocatorTable);

impl Drop for OwnedTable {
    fn drop(&mut self) {
        // SAFETY: the table has its own reference, which ends here, once.
        unsafe { (self.0.close)(self.0.pool) };
    }
}

impl AllocatorTable {
    /// The table of an allocator, with one reference that its holder gives up with `close`.
    pub fn of<T: Allocator>(allocator: Arc<T>) -> Self {
        Self {
            size: size_of::<Self>(),
            pool: Arc::into_raw(allocator).cast_mut().cast(),
            allocate: allocate::<T>,
            reallocate: reallocate::<T>,
            release: release::<T>,
            release_unused: release_unused::<T>,
            figures: figures::<T>,
            retain: retain::<T>,
            close: close::<T>,
        }
    }

    /// The allocator of the table.
    ///
    /// # Safety
    ///
    /// The table was made for a `T`, and its reference was not given up yet.
    pub unsafe fn allocator<'a, T: Allocator>(&self) -> &'a T {
        // SAFETY: by this function's contract.
        unsafe { allocator(self.pool) }
    }

    /// The same, as something that gives its reference up by itself.
    pub fn owned<T: Allocator>(allocator: Arc<T>) -> OwnedTable {
        OwnedTable(Self::of(allocator))
    }
}

/// The number that a caught panic is to C: an input or output error.
const PANIC: c_int = 22;

fn number(run: impl FnOnce() -> Result<(), i32>) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => 0,
        Ok(Err(number)) => number,
        Err(_) => PANIC,
    }
}

/// # Safety
///
/// `pool` comes from [`AllocatorTable::of`] for a `T`, and a reference to it is held.
unsafe fn allocator<'a, T: Allocator>(pool: *mut c_void) -> &'a T {
    // SAFETY: by this function's contract.
    unsafe { &*pool.cast_const().cast() }
}

/// # Safety
///
/// As for [`allocator`]; `out` is writable.
unsafe extern "C" fn allocate<T: Allocator>(
    pool: *mut c_void,
    bytes: i64,
    out: *mut *mut u8,
) -> c_int {
    // SAFETY: by this function's contract.
    let allocator = unsafe { allocator::<T>(pool) };
    number(|| {
        let address = allocator.allocate(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        // SAFETY: by this function's contract.
        unsafe { *out = std::ptr::with_exposed_provenance_mut(address) };
        Ok(())
    })
}

/// # Safety
///
/// As for [`allocator`]; `inout` points to an address that was given out and not released.
unsafe extern "C" fn reallocate<T: Allocator>(
    pool: *mut c_void,
    bytes: i64,
    inout: *mut *mut u8,
) -> c_int {
    // SAFETY: by this function's contract.
    let (allocator, before) = unsafe { (allocator::<T>(pool), (*inout).addr()) };
    number(|| {
        let address = allocator.reallocate(before, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        // SAFETY: by this function's contract.
        unsafe { *inout = std::ptr::with_exposed_provenance_mut(address) };
        Ok(())
    })
}

/// # Safety
///
/// As for [`allocator`]; the address was given out.
unsafe extern "C" fn release<T: Allocator>(pool: *mut c_void, address: *mut u8) {
    // SAFETY: by this function's contract.
    let allocator = unsafe { allocator::<T>(pool) };
    number(|| {
        allocator.release(address.addr());
        Ok(())
    });
}

/// # Safety
///
/// As for [`allocator`].
unsafe extern "C" fn release_unused<T: Allocator>(pool: *mut c_void) {
    // SAFETY: by this function's contract.
    let allocator = unsafe { allocator::<T>(pool) };
    number(|| {
        allocator.release_unused();
        Ok(())
    });
}

/// # Safety
///
/// As for [`allocator`]; `out` is writable.
unsafe extern "C" fn figures<T: Allocator>(pool: *mut c_void, out: *mut Figures) {
    // SAFETY: by this function's contract.
    let allocator = unsafe { allocator::<T>(pool) };
    number(|| {
        // SAFETY: by this function's contract.
        unsafe { *out = allocator.figures() };
        Ok(())
    });
}

/// # Safety
///
/// As for [`allocator`].
unsafe extern "C" fn retain<T: Allocator>(pool: *mut c_void) {
    // SAFETY: the pointer came from `Arc::into_raw`, and the Arc is alive by the contract.
    unsafe { Arc::increment_strong_count(pool.cast_const().cast::<T>()) };
}

/// # Safety
///
/// As for [`allocator`]; the caller's reference ends.
unsafe extern "C" fn close<T: Allocator>(pool: *mut c_void) {
    number(|| {
        // SAFETY: as for `retain`; the reference is the caller's to give up.
        unsafe { Arc::decrement_strong_count(pool.cast_const().cast::<T>()) };
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Fake(Mutex<Vec<String>>);

    impl Allocator for Fake {
        fn allocate(&self, bytes: usize) -> Result<usize, i32> {
            assert_ne!(bytes, 13, "an unlucky number");
            if bytes > 1000 { Err(3) } else { Ok(bytes * 64) }
        }

        fn reallocate(&self, address: usize, bytes: usize) -> Result<usize, i32> {
            self.allocate(bytes).map(|found| found + address)
        }

        fn release(&self, address: usize) {
            self.0.lock().unwrap().push(format!("release {address}"));
        }

        fn release_unused(&self) {
            self.0.lock().unwrap().push("unused".to_owned());
        }

        fn figures(&self) -> Figures {
            Figures { allocations: 7, ..Figures::default() }
        }
    }

    #[test]
    fn the_table_calls_the_allocator_and_counts_its_references() {
        let fake = Arc::new(Fake::default());
        let table = AllocatorTable::of(Arc::clone(&fake));
        let mut out = std::ptr::null_mut();
        let mut found = Figures::default();
        // SAFETY: the table is alive, and the places are writable.
        unsafe {
            assert_eq!((table.allocate)(table.pool, 2, &raw mut out), 0);
            assert_eq!(out.addr(), 128);
            assert_eq!((table.reallocate)(table.pool, 1, &raw mut out), 0);
            assert_eq!(out.addr(), 192);
            assert_eq!((table.allocate)(table.pool, 2000, &raw mut out), 3);
            assert_eq!((table.allocate)(table.pool, -1, &raw mut out), 3);
            assert_eq!((table.allocate)(table.pool, 13, &raw mut out), PANIC);
            assert_eq!(out.addr(), 192, "what failed wrote nothing");
            (table.release)(table.pool, out);
            (table.release_unused)(table.pool);
            (table.figures)(table.pool, &raw mut found);
            (table.retain)(table.pool);
            (table.close)(table.pool);
        }
        assert_eq!((found.allocations, table.size), (7, size_of::<AllocatorTable>()));
        assert_eq!(*fake.0.lock().unwrap(), ["release 192", "unused"]);
        assert_eq!(Arc::strong_count(&fake), 2);
        drop(OwnedTable(table));
        assert_eq!(Arc::strong_count(&fake), 1);
    }
}
