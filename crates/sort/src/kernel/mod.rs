//! The innermost sort: numbers of 64 bits, in place.
//!
//! On x86-64 it is a quicksort whose partition moves a vector of numbers at a time and whose leaves
//! are sorting networks, with AVX-512 or with AVX2, whichever the processor has; elsewhere a radix
//! sort of the upper bits. All were measured against the sort of the standard library.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod quicksort;
mod radix;

/// Which code runs on this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    Portable,
}

impl Kernel {
    /// The best that this processor runs.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(features) = pulp::x86::V4::try_new() {
                return Self::Avx512(features);
            }
            if let Some(features) = pulp::x86::V3::try_new() {
                return Self::Avx2(features);
            }
        }
        Self::Portable
    }

    /// Sorts numbers of which only the lower `bits` are used.
    pub(crate) fn sort(self, numbers: &mut [u64], spare: &mut Vec<u64>, bits: u32) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(features) => avx512::sort(features, numbers),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(features) => avx2::sort(features, numbers),
            Self::Portable => radix::sort(numbers, spare, bits),
        }
    }

    fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            Self::Portable => "portable",
        }
    }
}

/// Whether this processor's sort is as fast on buckets that leave the nearer caches: a radix sort
/// goes through all of a bucket for each digit, a quicksort does so once or twice.
pub(crate) fn kernel_takes_large_buckets() -> bool {
    !matches!(Kernel::best(), Kernel::Portable)
}

/// What this processor's sort is called, for reports.
pub fn kernel_name() -> &'static str {
    Kernel::best().name()
}

#[cfg(test)]
mod tests;
