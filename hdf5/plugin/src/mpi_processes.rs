//! The processes of an MPI program that have one file open together.
//!
//! HDF5 lets only all of them together make, delete or link objects, so all request a dataset's
//! file of data at the same point. The first makes it and tells the others its name; from then on
//! everyone writes its own rows into the same file, which needs no agreement.
//!
//! ```text
//! first    H5Dcreate ─► file of data made ─┬─► skeleton ─► own rows ─┐
//! others   H5Dcreate ─► ........ waits ....┴─► skeleton ─► own rows ─┴─► H5Fclose, all together
//! ```

use std::ffi::c_int;

use plasmon_hdf5_sys::mpi::Handle;
use plasmon_hdf5_sys::{Hid, Mpi};

use crate::host::Host;

/// The process that does what only one may do.
const FIRST: c_int = 0;
/// The header of an answer: whether the work was done, and how many bytes follow.
const HEAD_BYTES: usize = 8;
/// The most bytes of an answer; names of files are shorter.
const ANSWER_BYTES_MAX: usize = 1 << 16;

/// The processes, in a communicator of our own.
pub(crate) struct Ranks {
    mpi: Mpi,
    communicator: Handle,
    rank: c_int,
}

impl Ranks {
    /// The processes that open a file together; `None` when it is opened by one.
    pub(crate) fn of_list(host: &Host, fapl: Hid) -> Option<Self> {
        let mpi = *host.mpi()?;
        // SAFETY: the list is one for opening files; the program has started MPI if the list names
        // MPI's driver, and the communicator that is made is ours; the info is not asked for.
        unsafe {
            if (host.api.H5Pget_driver)(fapl) != (mpi.driver)() {
                return None;
            }
            let (mut communicator, mut rank) = (0, 0);
            if (mpi.of_list)(fapl, &raw mut communicator, std::ptr::null_mut()) < 0 {
                return None;
            }
            if (mpi.rank)(communicator, &raw mut rank) != 0 {
                return None;
            }
            Some(Self { mpi, communicator, rank })
        }
    }

    /// Whether this process does what only one may do.
    pub(crate) fn is_first(&self) -> bool {
        self.rank == FIRST
    }

    /// Lets the first process do something, and gives all of them the outcome.
    pub(crate) fn once(
        &self,
        work: impl FnOnce() -> Result<String, String>,
    ) -> Result<String, String> {
        let answer = self.is_first().then(|| pack(&work()));
        let mut head = [0; HEAD_BYTES];
        if let Some(answer) = &answer {
            head.copy_from_slice(&answer[..HEAD_BYTES]);
        }
        self.broadcast(&mut head)?;
        let (done, bytes) = unpack_head(head);
        let mut text = answer.map_or_else(|| vec![0; bytes], |all| all[HEAD_BYTES..].to_vec());
        self.broadcast(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if done { Ok(text) } else { Err(text) }
    }

    fn broadcast(&self, bytes: &mut [u8]) -> Result<(), String> {
        let count = c_int::try_from(bytes.len()).map_err(|error| error.to_string())?;
        let (place, byte) = (bytes.as_mut_ptr(), self.mpi.byte);
        // SAFETY: the communicator is ours; there is room for as many bytes as are said.
        let done = unsafe { (self.mpi.broadcast)(place, count, byte, FIRST, self.communicator) };
        if done == 0 { Ok(()) } else { Err(format!("MPI_Bcast failed with {done}")) }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        let mut is_over = 0;
        // SAFETY: MPI may be asked this at any time; the communicator is ours and not used
        // elsewhere. After MPI's end there is nothing to free.
        unsafe {
            (self.mpi.is_over)(&raw mut is_over);
            if is_over == 0 {
                (self.mpi.free_communicator)(&raw mut self.communicator);
            }
        }
    }
}

/// The outcome of work, as bytes.
fn pack(done: &Result<String, String>) -> Vec<u8> {
    let (good, text) = match done {
        Ok(text) => (true, text),
        Err(text) => (false, text),
    };
    let text = &text.as_bytes()[..text.len().min(ANSWER_BYTES_MAX)];
    let head = (text.len() as u64) << 1 | u64::from(good);
    [&head.to_le_bytes(), text].concat()
}

fn unpack_head(head: [u8; HEAD_BYTES]) -> (bool, usize) {
    let head = u64::from_le_bytes(head);
    (head & 1 == 1, usize::try_from(head >> 1).unwrap_or(0).min(ANSWER_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_arrive_as_they_were() {
        for (answer, good, text) in
            [(Ok("x~1.arrow".to_owned()), true, "x~1.arrow"), (Err(String::new()), false, "")]
        {
            let bytes = pack(&answer);
            let head = bytes[..HEAD_BYTES].try_into().expect("a head");
            assert_eq!(unpack_head(head), (good, text.len()));
            assert_eq!(&bytes[HEAD_BYTES..], text.as_bytes());
        }
    }

    #[test]
    fn long_answers_are_cut_off() {
        let bytes = pack(&Err("x".repeat(ANSWER_BYTES_MAX + 1)));
        assert_eq!(bytes.len(), HEAD_BYTES + ANSWER_BYTES_MAX);
    }
}
