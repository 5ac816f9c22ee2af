//! The state of an encoder, of a value that is being taken apart.
//!
//! How it goes from one container to the next is in [`super::encode`], what holds the objects in
//! [`super::hold`].

use std::collections::HashMap;

use plasmon_cpython::memo::{Memo, Place};
use plasmon_plo::tables::Tables;
use pyo3::prelude::*;

use super::array_reuse::HeapArrays;
use super::array_types::Arrays;
use super::class_key::Classes;
use super::context::{Context, Strategy};
use super::heap::Piece;
use super::owned::OwnedReferences;
use super::raw::{NoCollection, Ptr};
use super::reduced::ReduceResult;
use super::work::Work;

/// Strings and byte strings by the type of slot and their content.
type Contents = HashMap<(u8, Box<[u8]>), u32>;

/// Items to be written as a run.
#[derive(Clone, Copy)]
pub(super) struct Items<'i> {
    pub(super) all: &'i [Ptr],
    /// How many references there are to an item that only its owner refers to.
    pub(super) base: isize,
    /// Objects that must stay alive as well when code runs: the values, while keys are written.
    pub(super) also: &'i [Ptr],
    /// Whether the encoder holds the items, in memory that is its own.
    pub(super) held: bool,
}

/// A value in tables.
pub(super) struct ValueTables {
    pub(super) tables: Box<Tables>,
    /// The entries of the heap.
    pub(super) heap: Vec<Piece>,
    /// The arrays that the heap's entries lie in.
    pub(super) placed: HeapArrays,
}

pub(super) struct Encoder<'py> {
    pub(super) py: Python<'py>,
    pub(super) context: &'py Bound<'py, Context>,
    pub(super) tables: Box<Tables>,
    pub(super) heap: Vec<Piece>,
    pub(super) arrays: Arrays,
    pub(super) memo: Memo,
    pub(super) classes: Classes,
    pub(super) canonical: bool,
    /// Strings and byte strings by their content, for canonical objects.
    pub(super) contents: Option<Contents>,
    pub(super) work: Vec<Work>,
    pub(super) next: usize,
    /// References that are dropped at the end.
    pub(super) kept: OwnedReferences,
    pub(super) pinned: bool,
    /// Whether there are items in hand that their container alone holds.
    pub(super) in_hand: bool,
    /// Keeps the collector off while the encoder is quiet.
    pub(super) quiet: Option<NoCollection>,
    /// Whether holding the items of a run has kept what belongs to them.
    pub(super) also_kept: bool,
    /// How objects of classes without a version are taken apart: known for this encoder only.
    pub(super) unversioned: Vec<(Ptr, Bound<'py, Strategy>)>,
    /// The class that was asked for last, its version, and how its objects are taken apart.
    pub(super) last_strategy: Option<(Ptr, u32, Bound<'py, Strategy>)>,
    /// The reductions of objects whose turn has not come yet.
    pub(super) taken: HashMap<Ptr, ReduceResult<'py>>,
    pub(super) scratch: [Vec<Ptr>; 2],
}

/// Memory that one encoder leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) tables: Option<Box<Tables>>,
    memo: Memo,
    work: Vec<Work>,
    scratch: [Vec<Ptr>; 2],
}

// SAFETY: between encoders there are no pointers in it; see `Encoder::finish`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What more items a vector has room for than this is not kept for the next encoder.
const ITEMS_KEPT: usize = 256;

fn emptied<T>(mut items: Vec<T>) -> Vec<T> {
    items.clear();
    if items.capacity() > ITEMS_KEPT { Vec::new() } else { items }
}

impl<'py> Encoder<'py> {
    /// An encoder with the memory of the one before.
    #[inline]
    pub(super) fn new(context: &'py Bound<'py, Context>, memory: Memory) -> Self {
        let Memory { tables, memo, work, scratch } = memory;
        Self {
            py: context.py(),
            context,
            tables: tables.unwrap_or_default(),
            heap: Vec::new(),
            arrays: Arrays::known(context.py()),
            memo,
            classes: Classes::default(),
            canonical: context.get().is_canonical(),
            contents: None,
            work,
            next: 0,
            kept: OwnedReferences::default(),
            pinned: false,
            in_hand: false,
            quiet: None,
            also_kept: false,
            unversioned: Vec::new(),
            last_strategy: None,
            taken: HashMap::new(),
            scratch,
        }
    }

    /// The tables, and what the next encoder is left.
    #[inline]
    pub(super) fn finish(self) -> (ValueTables, Memory) {
        let Self { tables, heap, arrays, mut memo, work, scratch: [first, second], .. } = self;
        memo.clear();
        let scratch = [emptied(first), emptied(second)];
        let memory = Memory { tables: None, memo, work: emptied(work), scratch };
        (ValueTables { tables, heap, placed: arrays.placed }, memory)
    }

    /// Notes a node that is gone through later. Its number is the next one.
    #[inline]
    pub(super) fn later(&mut self, work: Work) {
        if self.pinned {
            self.hold_work(&work);
        }
        self.work.push(work);
    }

    /// The memo's answer for an object that may be referred to elsewhere.
    #[inline]
    pub(super) fn meet(&mut self, object: Ptr, kind: u8, index: usize) -> Option<Place> {
        let found = self.memo.meet(object, Place { kind, index: index as u32 });
        if found.is_none() && self.pinned {
            self.keep_all(&[object]);
        }
        found
    }
}
