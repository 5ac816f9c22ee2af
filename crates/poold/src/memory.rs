//! The memory that content is sent from and received into. It is the store's; the movers see bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Memory of an object that is here, which stays as it is while this value lives.
pub trait Source: Send + Sync {
    /// How many bytes there are: data, metadata and attributes, one after the other.
    fn bytes(&self) -> u64;

    /// So many bytes from there on, of one segment; none if they are not all there.
    fn part(&self, offset: u64, bytes: usize) -> &[u8];

    /// What of its bytes lies in memory in one piece, for as long as it lives; none if they are not
    /// to be read from there again and again.
    fn memory(&self) -> &[u8] {
        self.part(0, usize::try_from(self.bytes()).unwrap_or(usize::MAX))
    }

    /// Puts so many bytes from there on together, where they do not lie in one piece; whether they
    /// are all there.
    fn gather(&self, _offset: u64, _bytes: usize, _into: &mut Vec<u8>) -> bool {
        false
    }

    /// Whether its bytes are in memory: else they are to be gathered, which may wait for a disk.
    fn is_in_memory(&self) -> bool {
        true
    }
}

/// Memory for a copy that is brought here. It is lent to one mover at a time.
pub trait Landing: Send {
    /// Data, metadata and attributes, one after the other.
    fn bytes(&mut self) -> &mut [u8];

    /// The segments that are in it, whole and undamaged. No transfer writes over one of them.
    fn arrived(&mut self) -> &mut BTreeSet<u32>;
}

/// A source that several transfers share.
pub type SharedSource = Arc<dyn Source>;

/// A landing, wherever it is.
pub type BoxedLanding = Box<dyn Landing>;
