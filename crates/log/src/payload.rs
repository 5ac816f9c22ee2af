//! The payload of an object on its way into the log.

use std::io;

use plasmon_spill::Place;

use crate::Source;
use crate::buffer::AlignedBuffer;
use crate::device::Device;
use crate::error::LogError;

/// Gives the payload of an object, a chunk at a distance from its start. It may read the device for
/// it.
pub(crate) type Fill<'a> = dyn FnMut(&mut dyn Device, u64, &mut [u8]) -> Result<(), LogError> + 'a;

/// The payload of an object to append.
pub(crate) enum Payload<'a> {
    /// In memory.
    Memory(&'a [u8]),
    /// In a file, which another process may be changing: each byte is read once.
    File(Place<'a>),
    /// So many bytes in a file, and the rest in memory.
    Ended(Place<'a>, u64, &'a [u8]),
    /// Given chunk by chunk.
    Chunks(&'a mut Fill<'a>),
}

impl<'a> From<Source<'a>> for Payload<'a> {
    fn from(source: Source<'a>) -> Self {
        match source {
            Source::Bytes(bytes) => Self::Memory(bytes),
            Source::File(place) => Self::File(place),
            Source::Ended(place, bytes, end) => Self::Ended(place, bytes, end),
            Source::Note => Self::Memory(&[]),
        }
    }
}

impl Payload<'_> {
    /// Copies a chunk of it into memory.
    pub(crate) fn fill(
        &mut self,
        device: &mut dyn Device,
        at: u64,
        into: &mut [u8],
    ) -> Result<(), LogError> {
        match self {
            Self::Memory(bytes) => {
                into.copy_from_slice(part(bytes, at, into.len() as u64)?);
                Ok(())
            }
            Self::File(place) => read(place, at, into).map_err(LogError::Payload),
            Self::Ended(place, bytes, end) => {
                let of_file = bytes.saturating_sub(at).min(into.len() as u64) as usize;
                let (first, rest) = into.split_at_mut(of_file);
                read(place, at, first).map_err(LogError::Payload)?;
                rest.copy_from_slice(part(end, at.saturating_sub(*bytes), rest.len() as u64)?);
                Ok(())
            }
            Self::Chunks(fill) => fill(device, at, into),
        }
    }

    /// A chunk of it, where it is in memory or in the buffer.
    pub(crate) fn chunk<'b>(
        &'b mut self,
        device: &mut dyn Device,
        at: u64,
        bytes: u64,
        buffer: &'b mut AlignedBuffer,
    ) -> Result<&'b [u8], LogError> {
        if let Self::Memory(memory) = *self {
            return part(memory, at, bytes);
        }
        buffer.set_length(bytes as usize);
        self.fill(device, at, buffer)?;
        Ok(buffer)
    }
}

/// Some of the bytes.
fn part(bytes: &[u8], at: u64, count: u64) -> Result<&[u8], LogError> {
    let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
    let count = usize::try_from(count).ok();
    let part = from.zip(count).and_then(|(rest, count)| rest.get(..count));
    part.ok_or_else(|| LogError::Payload(io::ErrorKind::UnexpectedEof.into()))
}

fn read(place: &Place<'_>, at: u64, into: &mut [u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::doubles::SimDevice;

    #[test]
    fn a_payload_may_begin_in_a_file_and_end_in_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"--file and more").unwrap();
        let place = Place { file: file.as_fd(), offset: 2 };
        let mut payload = Payload::from(Source::Ended(place, 4, b"end"));
        let mut device = SimDevice::default();
        for (at, bytes, expected) in [(0, 7, "fileend"), (1, 3, "ile"), (3, 3, "een"), (5, 2, "nd")]
        {
            let mut found = vec![0; bytes];
            payload.fill(&mut device, at, &mut found).unwrap();
            assert_eq!(found, expected.as_bytes());
        }
        assert!(payload.fill(&mut device, 0, &mut [0; 8]).is_err());
        assert!(payload.fill(&mut device, 7, &mut [0; 1]).is_err());
    }
}
