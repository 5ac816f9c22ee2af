//! The innermost sort: numbers of 64 bits, in place.
//!
//! Numbers that lie evenly between two bounds, as a bucket's mostly do, are sorted by their upper
//! bits in two digits, on every processor. What is few or uneven is a quicksort's: on x86-64 one
//! whose partition moves a vector of numbers at a time and whose leaves are sorting networks, with
//! AVX-512 or with AVX2, whichever the processor has; elsewhere the standard library's.

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

    /// Sorts numbers between two bounds, both included. Those are what is sorted by, so the nearer
    /// they are to what there is, the better.
    pub(crate) fn sort(self, numbers: &mut [u64], spare: &mut Vec<u64>, bounds: (u64, u64)) {
        let bits = 64 - (bounds.1 - bounds.0).leading_zeros();
        if bits != 0 && !radix::sort(numbers, spare, bounds.0, bits) {
            self.compare(numbers);
        }
    }

    /// Sorts any numbers by comparisons.
    fn compare(self, numbers: &mut [u64]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(features) => avx512::sort(features, numbers),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(features) => avx2::sort(features, numbers),
            Self::Portable => numbers.sort_unstable(),
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

/// What this processor's sort is called, for reports.
pub fn kernel_name() -> &'static str {
    Kernel::best().name()
}

#[cfg(test)]
mod tests;
