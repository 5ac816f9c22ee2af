//! The payload of an object on its way into the log.

use std::io;

use crate::Source;

/// Copies bytes of a payload, from `at` on, into memory.
pub(crate) fn fill(source: &Source<'_>, at: u64, into: &mut [u8]) -> io::Result<()> {
    match source {
        Source::Bytes(bytes) => {
            let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
            let from = from.and_then(|rest| rest.get(..into.len()));
            into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
        Source::File(place) => {
            let mut done = 0;
            while done < into.len() {
                let offset = place.offset + at + done as u64;
                match rustix::io::pread(place.file, &mut into[done..], offset) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => done += count,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }
    }
}
