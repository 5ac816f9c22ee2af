//! Which copies of an object count as those that were asked for.
//!
//! A node that drains serves what it has, and its copies do not count; so for a node of weight 0.
//! Of an object that is spread the copy of its creator's node does not count either: it is let go
//! once enough others are there, and is asked for again only when no other node is left to ask. Of
//! a cache that copy alone counts, whatever becomes of its node. Of a durable object the copies on
//! nodes with a log count.

use plasmon_cluster::Slot;
use plasmon_proto::pool::Keeping;

use crate::record::Record;
use crate::view::Context;

/// Whether the copy of a node counts.
pub(super) fn counts(cx: &Context<'_>, record: &Record, slot: Slot) -> bool {
    if record.content.durable.is_some() && !cx.view.has_log(slot) {
        return false;
    }
    match record.content.keeping {
        Keeping::Local => cx.view.counts(slot),
        Keeping::Spread => cx.view.counts(slot) && slot != record.birth.slot,
        Keeping::Cache => slot == record.birth.slot,
    }
}

/// Whether no node keeps a copy of an object: it lives as long as that of its creator's node.
pub(super) fn is_cache(record: &Record) -> bool {
    record.content.keeping == Keeping::Cache
}

/// The node where an object was made, if its copy there does not count.
pub(super) fn uncounted_origin(record: &Record) -> Option<Slot> {
    let is_spread = record.content.keeping == Keeping::Spread;
    is_spread.then_some(record.birth.slot)
}

/// The holders that count.
pub(super) fn counted(cx: &Context<'_>, record: &Record) -> Vec<Slot> {
    record.holders.iter().copied().filter(|slot| counts(cx, record, *slot)).collect()
}

/// How many holders count and are there.
pub(super) fn counted_live(cx: &Context<'_>, record: &Record) -> usize {
    counted(cx, record).into_iter().filter(|slot| cx.view.is_live(*slot)).count()
}

/// Whether an object has so many copies that count.
pub(super) fn is_enough(cx: &Context<'_>, record: &Record, copies: u8) -> bool {
    counted(cx, record).len() >= usize::from(copies)
}
