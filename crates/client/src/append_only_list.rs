//! A list that only grows, whose newest entry is found without a lock.
//!
//! A reader of the hot path borrows the newest entry for as long as it borrows the store, so an
//! entry may never go away before the list does. Growth is rare: a fork, or a daemon that came back
//! with another memory.

use std::sync::OnceLock;

/// The list. It has at least one entry.
#[derive(Debug)]
pub(crate) struct AppendOnlyList<T> {
    entry: T,
    next: OnceLock<Box<AppendOnlyList<T>>>,
}

impl<T> AppendOnlyList<T> {
    /// A list of one entry.
    pub(crate) const fn new(entry: T) -> Self {
        Self { entry, next: OnceLock::new() }
    }

    /// The newest entry.
    #[inline]
    pub(crate) fn newest(&self) -> &T {
        &self.end().entry
    }

    /// Appends an entry unless another thread did since the caller looked at `seen`.
    /// Returns the newest entry either way.
    pub(crate) fn append_after(&self, seen: &T, entry: T) -> &T {
        let end = self.end();
        if std::ptr::eq(&raw const end.entry, seen) {
            end.next.get_or_init(|| Box::new(Self::new(entry)));
        }
        self.newest()
    }

    /// All entries, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let links = std::iter::successors(Some(self), |link| link.next.get().map(|next| &**next));
        links.map(|link| &link.entry)
    }

    #[inline]
    fn end(&self) -> &Self {
        let mut link = self;
        while let Some(next) = link.next.get() {
            link = next;
        }
        link
    }
}

impl<T> Drop for AppendOnlyList<T> {
    fn drop(&mut self) {
        // Link by link: a long list dropped recursively would exhaust the stack.
        let mut next = self.next.take();
        while let Some(mut link) = next {
            next = link.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_two_racing_appends_counts() {
        let chain = AppendOnlyList::new(1);
        let seen = chain.newest();
        assert_eq!(*chain.append_after(seen, 2), 2);
        assert_eq!(*chain.append_after(seen, 3), 2, "another thread appended since this was seen");
        let seen = chain.newest();
        chain.append_after(seen, 4);
        assert_eq!((chain.entry, *chain.newest()), (1, 4));
        assert!(chain.iter().eq(&[1, 2, 4]));
    }

    #[test]
    fn a_long_list_is_dropped_without_recursion() {
        let chain = AppendOnlyList::new(0);
        for number in 1..2_000 {
            chain.append_after(chain.newest(), number);
        }
        assert_eq!(*chain.newest(), 1_999);
    }
}
