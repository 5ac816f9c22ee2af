//! The word by which a client learns that the daemon has closed its connection.
//!
//! ```text
//! daemon: say so ─ fence ─ look at the ledger: empty ──► forget the ledger
//! client: pin ─ look at the word: set ──► give the pin up, ask the daemon
//! ```
//!
//! A connection can break without the client noticing, because a get sends no request. The daemon
//! must not scan the ledgers of such connections without end, and must not overlook a pin. Of the
//! client's pin and the daemon's word one comes first: either the daemon finds the pin, or the
//! client finds the word.

use crate::sync::{AtomicU64, Ordering, fence};

/// Says whether the daemon has closed the connection. Looks at the ledger that follow see every pin
/// whose holder did not see the word.
pub(crate) fn set(word: &AtomicU64, parted: bool) {
    word.store(u64::from(parted), Ordering::SeqCst);
    // Pairs with the exchange in `Ledger::claim`, as the fence in `hide` does.
    fence(Ordering::SeqCst);
}

/// Whether the daemon has closed the connection; to be asked after a pin.
#[inline]
pub(crate) fn is_set(word: &AtomicU64) -> bool {
    word.load(Ordering::SeqCst) != 0
}
