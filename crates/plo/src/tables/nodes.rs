//! Nodes, each with the runs that it holds.

use crate::columns::{Word, word};

/// A run: where its values lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The table, one of [`crate::codes::elem`].
    pub elem: u8,
    /// The first entry.
    pub start: usize,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// One of [`crate::codes::kind`].
    pub kind: u8,
    /// The items, the keys, the parts.
    pub run: Run,
    /// How many items.
    pub length: usize,
    /// The values of a dict.
    pub values: Run,
    /// The number of fields, of the class or of the tensor.
    pub extra: usize,
}

/// The nodes, by column.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    pub(super) kinds: Vec<u8>,
    pub(super) elems: Vec<u8>,
    pub(super) elems2: Vec<u8>,
    pub(super) starts: Vec<Word>,
    pub(super) lengths: Vec<Word>,
    pub(super) starts2: Vec<Word>,
}

impl Nodes {
    /// Takes the next number for a node that is set later.
    #[inline]
    pub fn reserve(&mut self) -> usize {
        self.reserve_many(1)
    }

    /// Takes the next numbers for nodes that are set later; the first of them.
    #[inline]
    pub fn reserve_many(&mut self, count: usize) -> usize {
        let first = self.kinds.len();
        let len = first + count;
        self.kinds.resize(len, 0);
        self.elems.resize(len, 0);
        self.elems2.resize(len, 0);
        self.starts.resize(len, [0; 4]);
        self.lengths.resize(len, [0; 4]);
        self.starts2.resize(len, [0; 4]);
        first
    }

    /// Sets a node. `node.values.start` and `node.extra` share a column: one of them is 0.
    #[inline]
    pub fn set(&mut self, number: usize, node: Node) {
        self.kinds[number] = node.kind;
        self.elems[number] = node.run.elem;
        self.elems2[number] = node.values.elem;
        self.starts[number] = word(node.run.start);
        self.lengths[number] = word(node.length);
        self.starts2[number] = word(node.values.start | node.extra);
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}
