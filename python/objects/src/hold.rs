//! References to objects while a value is taken apart.
//!
//! The encoder is quiet or open. While it is quiet no code but its own runs: the thread stays
//! attached to the interpreter, the garbage collector is off, and only exact types are looked at.
//! Then nothing changes, and borrowed pointers are all that is needed: the value holds its parts.
//!
//! ```text
//!  quiet: items in hand lie in their container ──── hold(items), or no items in hand ───► open
//!    ▲                                                                                      │
//!    └────────── in_hand(): the next container's items are looked at, collector off ────────┘
//! ```
//!
//! Before code of others may run (a `__reduce_ex__`, a registered serializer, a descriptor, a
//! handler in `plasmon.objects`, a finalizer) the encoder is opened. The first time it takes
//! references to everything that it still needs ([`Encoder::pin`]), and from then on to whatever it
//! meets. The items in hand are copied and held first ([`Encoder::hold`]): [`Encoder::open`]
//! refuses while some are not. The number of references that it holds itself is known everywhere
//! (`base`), because an object that only its owner refers to cannot be met twice and stays out of
//! the memo.

use pyo3::ffi;
use pyo3::prelude::*;

use super::encoder::{Encoder, Items};
use super::raw::{NoCollection, Ptr};
use super::work::Work;

impl<'py> Encoder<'py> {
    /// Says that items are in hand that only their container holds: nothing but the encoder's own
    /// code runs until they are held, or done.
    #[inline]
    pub(super) fn in_hand(&mut self) {
        self.in_hand = true;
        if self.quiet.is_none() {
            self.quiet = Some(NoCollection::new(self.py));
        }
    }

    /// Says that the items in hand are done.
    #[inline]
    pub(super) fn done(&mut self) {
        self.in_hand = false;
    }

    /// Makes sure that code of others may run.
    pub(super) fn open(&mut self) {
        assert!(!self.in_hand, "items are held before code of others runs");
        self.pin();
        self.quiet = None;
    }

    /// Holds the items of a run, and what must stay alive with them, until the end; from here on
    /// code of others may run. The items are copied to where nothing moves them.
    pub(super) fn hold<'c>(&mut self, items: Items<'_>, copies: &'c mut Vec<Ptr>) -> Items<'c> {
        copies.extend_from_slice(items.all);
        let base = items.base + isize::from(!items.held);
        if !items.held {
            self.keep_all(copies);
        }
        self.keep_all(items.also);
        self.also_kept |= !items.also.is_empty();
        self.in_hand = false;
        self.open();
        Items { all: copies, base, also: &[], held: true }
    }

    /// Takes references to everything that is still needed, because code is about to run.
    fn pin(&mut self) {
        if self.pinned {
            return;
        }
        self.pinned = true;
        let kept = &mut self.kept.0;
        let mut keep = |object: Ptr| {
            // SAFETY: no code of others ran so far, so what was met is alive.
            unsafe { ffi::Py_INCREF(object) };
            kept.push(object);
        };
        self.memo.objects().for_each(&mut keep);
        self.classes.objects().for_each(&mut keep);
        for work in self.work.iter().skip(self.next) {
            match work {
                Work::Value(object) => keep(*object),
                Work::Rows(rows) => rows.objects().into_iter().for_each(&mut keep),
                Work::Field(column) => column.values.iter().copied().for_each(&mut keep),
                Work::Done => {}
            }
        }
    }

    /// Holds on to an object until the end.
    pub(super) fn keep(&mut self, object: &Bound<'py, PyAny>) -> Ptr {
        self.kept.0.push(object.clone().into_ptr());
        object.as_ptr()
    }

    /// Holds on to objects until the end, before code runs that could drop them.
    pub(super) fn keep_all(&mut self, objects: &[Ptr]) {
        self.pin();
        self.kept.0.reserve(objects.len());
        for object in objects {
            // SAFETY: they are alive: code was not run since they were met, or they are held.
            unsafe { ffi::Py_INCREF(*object) };
        }
        self.kept.0.extend_from_slice(objects);
    }

    /// Holds on to what is to be done later.
    #[cold]
    pub(super) fn hold_work(&mut self, work: &Work) {
        match work {
            Work::Value(object) => self.keep_all(&[*object]),
            Work::Rows(rows) => self.keep_all(&rows.objects()),
            Work::Field(column) if !column.held => self.keep_all(&column.values),
            Work::Field(_) | Work::Done => {}
        }
    }

    /// Whether references are taken to everything.
    pub(super) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Items that a row or the encoder itself refers to.
    pub(super) fn own_items<'i>(&mut self, all: &'i [Ptr]) -> Items<'i> {
        // What was to be done later is held since code of others may run.
        if !self.pinned {
            self.in_hand();
        }
        Items { all, base: 1 + isize::from(self.pinned), also: &[], held: self.pinned }
    }
}
