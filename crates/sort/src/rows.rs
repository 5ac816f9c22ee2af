//! Rows whose buckets are known.

use crate::splitters::BucketId;
use crate::table::{Piece, Run};

/// The rows of a piece, or some of them, and their buckets.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, I> {
    pub(crate) piece: &'a Piece,
    pub(crate) selected: Option<&'a [Vec<u32>]>,
    pub(crate) ids: &'a [I],
}

impl<I: BucketId> Rows<'_, I> {
    /// Calls `with` for each run, with the rows of it that are meant, and their buckets.
    #[inline(always)]
    pub(crate) fn each_run(&self, mut with: impl FnMut(&Run, Option<&[u32]>, &[I])) {
        let mut left = self.ids;
        for (at, run) in self.piece.runs.iter().enumerate() {
            let selected = self.selected.map(|selected| selected[at].as_slice());
            let count = selected.map_or(run.rows.len(), <[u32]>::len);
            let (now, later) = left.split_at(count);
            with(run, selected, now);
            left = later;
        }
    }
}
