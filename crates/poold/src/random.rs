//! Random bytes of the kernel.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// So many random bytes.
pub(crate) fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        let count =
            rustix::io::retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()))?;
        filled += count;
    }
    Ok(bytes)
}
