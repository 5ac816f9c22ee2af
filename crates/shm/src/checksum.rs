//! CRC-32C of bytes in memory.
//!
//! ```text
//!   64 bytes x 4 ── multiplied by x^2048 without carries ──+──> ... ──> 16 bytes ── crc32 ──> sum
//!                                   the next 64 bytes x 4 ─┘
//! ```
//!
//! Of processors with AVX-512 and VPCLMULQDQ the vector units do it (Gopal and others, *Fast CRC
//! Computation for Generic Polynomials Using PCLMULQDQ Instruction*): four lines are multiplied by
//! what moves them over the next four, and added to these. What is left in the end has the same
//! checksum as all. That takes about as long as reading the bytes from memory, and the same loop
//! can store them ([`crate::dax`]). Other processors have the `crc32c` crate's instructions.

#[cfg(target_arch = "x86_64")]
use std::ptr;

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

/// Shorter ones are not worth the last steps of the vector units.
#[cfg(target_arch = "x86_64")]
const FOLDED_BYTES_MIN: usize = 1024;

/// The CRC-32C of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The CRC-32C of bytes with the checksum `crc` and those after them.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= FOLDED_BYTES_MIN && x86::is_available() {
        let (lines, rest) = bytes.split_at(bytes.len() - bytes.len() % x86::LINE_BYTES);
        // SAFETY: the processor has what the kernel needs; the lines are borrowed, and nothing is
        // stored.
        let crc =
            unsafe { x86::fold_lines::<false>(crc, lines.as_ptr(), lines.len(), ptr::null_mut()) };
        return ::crc32c::crc32c_append(crc, rest);
    }
    ::crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    #[test]
    fn it_has_the_check_value_of_its_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[]), 0);
    }

    #[test]
    fn every_length_and_address_has_the_checksum_that_the_instructions_compute() {
        let bytes = pattern(70_000);
        let around = [64, 256, 512, 1024, 1280, 4096, 65_536];
        let lengths = around.into_iter().flat_map(|length: usize| length - 2..length + 67);
        for length in (0..300).chain(lengths) {
            for start in [0, 1, 8, 63] {
                let part = &bytes[start..start + length];
                assert_eq!(crc32c(part), ::crc32c::crc32c(part), "{length} bytes from {start} on");
            }
        }
    }

    #[test]
    fn parts_that_follow_each_other_have_the_checksum_of_all() {
        let bytes = pattern(20_000);
        let whole = crc32c(&bytes);
        for cut in [0, 1, 64, 1000, 1024, 4096, 10_001, 19_999, 20_000] {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(crc32c_append(crc32c(first), second), whole, "cut at {cut}");
        }
    }
}
