//! Copying: into warm memory and into untouched memory, with one thread and with many.

use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};
use rustix::fd::{AsFd, OwnedFd};
use serde::Deserialize;

use crate::protocol::Samples;
use crate::source::{Mapping, Pages, Payload};
use crate::timing::nanoseconds;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    /// The C library's memcpy.
    Plain,
    /// Stores that go past the caches.
    Streaming,
    /// `pwrite` into the file, which maps nothing.
    Write,
}

/// A series of copies of a source into a memfd.
#[derive(Debug, Deserialize)]
pub(crate) struct CopySeries {
    object_bytes: usize,
    count: u64,
    threads: usize,
    way: Way,
    /// Whether each copy goes into a new memfd.
    fresh: bool,
    source: Option<String>,
}

impl CopySeries {
    pub(crate) fn run(self) -> Result<Samples> {
        ensure!(self.threads > 0, "a copy takes a thread");
        let payload = Payload::new(self.object_bytes, self.source.as_deref())?;
        let from = payload.as_slice();
        let mut samples = Vec::new();
        if self.fresh {
            for _ in 0..self.count {
                let (mut target, file) = Mapping::anonymous(self.object_bytes, Pages::Absent)?;
                samples.push(self.copy(from, &mut target, &file)?);
            }
        } else {
            let (mut target, file) = Mapping::anonymous(self.object_bytes, Pages::Present)?;
            for turn in 0..=self.count {
                let taken = self.copy(from, &mut target, &file)?;
                if turn > 0 {
                    samples.push(taken);
                }
            }
        }
        Ok(Samples { samples, batch: 1 })
    }

    /// One copy; the nanoseconds it took.
    fn copy(&self, from: &[u8], target: &mut Mapping, file: &OwnedFd) -> Result<f64> {
        let part = from.len().div_ceil(self.threads).next_multiple_of(4096).max(4096);
        let begin = Instant::now();
        if self.threads == 1 {
            move_part(self.way, from, target.as_mut_slice(), file, 0)?;
        } else {
            thread::scope(|scope| -> Result<()> {
                let parts = from.chunks(part).zip(target.as_mut_slice().chunks_mut(part));
                let running: Vec<_> = parts
                    .enumerate()
                    .map(|(number, (from, to))| {
                        scope.spawn(move || move_part(self.way, from, to, file, number * part))
                    })
                    .collect();
                running.into_iter().try_for_each(|one| one.join().expect("a copy cannot panic"))
            })?;
        }
        Ok(nanoseconds(begin.elapsed()))
    }
}

fn move_part(way: Way, from: &[u8], to: &mut [u8], file: impl AsFd, offset: usize) -> Result<()> {
    match way {
        Way::Plain => to.copy_from_slice(from),
        Way::Streaming => streaming(from, to)?,
        Way::Write => {
            let mut done = 0;
            while done < from.len() {
                done += rustix::io::pwrite(&file, &from[done..], (offset + done) as u64)?;
            }
        }
    }
    Ok(())
}

/// A copy by stores past the caches, fenced.
#[cfg(target_arch = "x86_64")]
pub(super) fn streaming(from: &[u8], to: &mut [u8]) -> Result<()> {
    ensure!(is_x86_feature_detected!("avx2"), "this processor has no AVX2");
    ensure!(from.len() == to.len(), "a copy between equal lengths");
    ensure!(to.as_ptr().addr().is_multiple_of(32), "streaming stores are aligned");
    // SAFETY: AVX2 is there, the lengths are equal and the target is aligned, as just checked.
    unsafe { streaming_avx2(from, to) };
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn streaming(_: &[u8], _: &mut [u8]) -> Result<()> {
    anyhow::bail!("streaming stores are measured on x86-64 only")
}

/// # Safety
///
/// The processor has AVX2, both slices have one length, and `to` begins at a multiple of 32.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn streaming_avx2(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    let whole = from.len() / 32 * 32;
    for at in (0..whole).step_by(32) {
        // SAFETY: `at + 32` is at most the length of both; the target's alignment is the caller's.
        unsafe {
            let value = _mm256_loadu_si256(from.as_ptr().add(at).cast::<__m256i>());
            _mm256_stream_si256(to.as_mut_ptr().add(at).cast::<__m256i>(), value);
        }
    }
    to[whole..].copy_from_slice(&from[whole..]);
    _mm_sfence();
}
