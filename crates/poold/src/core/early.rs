//! What the store said before the node began.
//!
//! A store has nothing to say to a client without its seat, which the node takes when it begins.
//! One that says much all the same must not take all memory.

use std::collections::VecDeque;
use std::io;

use crate::store::StoreEvent;

/// How much is kept.
pub(super) const EARLY_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<StoreEvent>);

impl Early {
    pub(super) fn keep(&mut self, event: StoreEvent) -> io::Result<()> {
        if self.0.len() >= EARLY_MAX {
            let text = "the store says too much before the node has taken its seat";
            return Err(io::Error::other(text));
        }
        self.0.push_back(event);
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<StoreEvent> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_kept_in_order_and_no_more() {
        let mut early = Early::default();
        for number in 0..EARLY_MAX as u64 {
            early.keep(StoreEvent::Opened(number, None)).unwrap();
        }
        assert!(early.keep(StoreEvent::Ready).is_err());
        assert!(matches!(early.pop(), Some(StoreEvent::Opened(0, None))));
        early.keep(StoreEvent::Ready).unwrap();
        assert!(matches!(early.pop(), Some(StoreEvent::Opened(1, None))));
    }
}
