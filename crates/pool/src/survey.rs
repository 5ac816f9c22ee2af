//! What a node answers a primary: the pages of its inventory, and that it leads no more.

use std::collections::BTreeMap;

use plasmon_cluster::{Epoch, GroupNo, Map, Slot};

use crate::copies::{Copies, Copy};
use crate::limits::INVENTORY_ENTRIES_MAX;
use crate::message::{CopyEntry, Message, Standing};
use crate::origin::Requests;
use crate::pull::{Pulls, Wish};
use crate::record::Content;
use crate::view::{Context, View};

/// The copies of a node, and those that are on their way to it.
pub(crate) fn entries<'a>(
    view: &'a View,
    copies: &'a Copies,
    pulls: &'a Pulls,
    requests: &'a Requests,
) -> impl Iterator<Item = CopyEntry> + 'a {
    let copies_to_be = pulls.iter().filter(|wish| wish.parts.is_none());
    let pulls = copies_to_be.map(|wish| {
        let Wish { id, birth, content, hold: kept, .. } = *wish;
        CopyEntry { id, birth, content, standing: Standing::Arriving, kept }
    });
    let copies = copies.iter().map(move |(id, copy)| {
        let Copy { birth, content, visible, .. } = *copy;
        let kept = copy.is_lasting(view) && !copies.is_damaged(id);
        // Clients see a free id after it was committed alone, if the answer is here or not.
        let is_seen = visible && id.home().is_none();
        let standing = match (requests.has_commit(id), visible) {
            _ if copies.is_sealing(id) => Standing::Arriving,
            (true, _) if !is_seen => Standing::Unanswered,
            (_, true) => Standing::Committed,
            (_, false) => Standing::Held,
        };
        CopyEntry { id: *id, birth, content, standing, kept }
    });
    copies.chain(pulls)
}

/// The tombstones in the log of the node.
pub(crate) fn tombstones(view: &View) -> impl Iterator<Item = CopyEntry> + '_ {
    let content = Content::default();
    let (standing, kept) = (Standing::Dead, false);
    view.tombstones().map(move |(id, birth)| CopyEntry { id, birth, content, standing, kept })
}

/// Answers a primary. What an earlier one asked is not answered.
pub(crate) fn answer(
    cx: &mut Context<'_>,
    primary: Slot,
    groups: &[(GroupNo, Epoch)],
    entries: impl Iterator<Item = CopyEntry>,
) {
    let known = groups.iter().filter(|(no, since)| cx.view.group(*no).since == *since);
    for page in pages(known.copied(), entries) {
        cx.send(primary, page);
    }
}

/// Another node asks whether this one knows that it leads these groups no more.
pub(crate) fn yielded(cx: &mut Context<'_>, from: Slot, groups: &[(GroupNo, Epoch)]) {
    let groups = cx.view.not_led(groups);
    if !groups.is_empty() {
        cx.send(from, Message::Yielded { groups });
    }
}

/// The copies in these groups, each page with whole groups; a group of more copies than fit has
/// pages of its own.
pub(crate) fn pages(
    groups: impl Iterator<Item = (GroupNo, Epoch)>,
    copies: impl Iterator<Item = CopyEntry>,
) -> Vec<Message> {
    let mut by_group: BTreeMap<GroupNo, (Epoch, Vec<CopyEntry>)> =
        groups.map(|(no, since)| (no, (since, Vec::new()))).collect();
    for copy in copies {
        if let Some((_, copies)) = by_group.get_mut(&Map::group_of(&copy.id)) {
            copies.push(copy);
        }
    }
    let mut pages = Vec::new();
    let (mut groups, mut copies) = (Vec::new(), Vec::new());
    for (no, (since, of_group)) in by_group {
        let is_full = copies.len() + of_group.len() > INVENTORY_ENTRIES_MAX;
        if is_full || groups.len() == INVENTORY_ENTRIES_MAX {
            let (groups, copies) = (std::mem::take(&mut groups), std::mem::take(&mut copies));
            pages.push(Message::Inventory { groups, copies, more: false });
        }
        let (whole, rest) = of_group.as_chunks::<INVENTORY_ENTRIES_MAX>();
        for page in whole {
            let (groups, copies) = (vec![(no, since)], page.to_vec());
            pages.push(Message::Inventory { groups, copies, more: true });
        }
        groups.push((no, since));
        copies.extend_from_slice(rest);
    }
    if !groups.is_empty() {
        pages.push(Message::Inventory { groups, copies, more: false });
    }
    pages.retain(|page| !matches!(page, Message::Inventory { groups, .. } if groups.is_empty()));
    pages
}

#[cfg(test)]
mod tests {
    use plasmon_proto::ObjectId;

    use super::*;
    use crate::record::Birth;

    fn copy(number: u32) -> CopyEntry {
        let mut identity = [0; 12];
        identity[..4].copy_from_slice(&number.to_le_bytes());
        let birth = Birth { slot: Slot(0), boot: 1, serial: u64::from(number) };
        let (content, standing) = (Content::default(), Standing::Committed);
        let (id, kept) = (ObjectId::pooled(identity, None), true);
        CopyEntry { id, birth, content, standing, kept }
    }

    #[test]
    fn every_copy_and_every_group_is_in_one_page() {
        for count in [0, 1, 1023, 1024, 1025, 5000] {
            let groups = GroupNo::all().map(|no| (no, Epoch(1)));
            let pages = pages(groups, (0..count).map(copy));
            let (mut ended, mut found) = (0, 0);
            for page in pages {
                let Message::Inventory { groups, copies, more } = page else { panic!("{page:?}") };
                assert!(groups.len() <= INVENTORY_ENTRIES_MAX);
                assert!(copies.len() <= INVENTORY_ENTRIES_MAX);
                ended += if more { 0 } else { groups.len() };
                found += copies.len();
            }
            assert_eq!((ended, found), (1024, count as usize));
        }
    }

    #[test]
    fn a_group_of_many_copies_has_pages_of_its_own() {
        let no = Map::group_of(&copy(0).id);
        let copies = (0..INVENTORY_ENTRIES_MAX as u32 + 3).map(|_| copy(0));
        let pages = pages([(no, Epoch(1))].into_iter(), copies);
        let sizes = pages.iter().map(|page| match page {
            Message::Inventory { copies, more, .. } => (copies.len(), *more),
            other => panic!("{other:?}"),
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [(INVENTORY_ENTRIES_MAX, true), (3, false)]);
    }
}
