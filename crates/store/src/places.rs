//! Where the objects of an earlier daemon lie: which of them can be there, and what is free between
//! them. Everything is found with one sort over small entries, because a restarted store serves
//! only when this is done for all of its objects, which may be millions.

use plasmon_proto::extent::{ExtentId, Range};

use crate::event::{RecoveredExtent, RecoveredObject};
use crate::memory::Memory;

/// What was found about the objects, by their places in the list.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// What of the extents is in none of the objects.
    pub(crate) gaps: Vec<Range>,
    /// Objects that cannot be where they say. Of two that overlap, the one that starts first is
    /// believed.
    pub(crate) broken: Vec<usize>,
    /// For each object: whether no other one lies in its extent.
    pub(crate) alone: Vec<bool>,
}

/// One object in memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    extent: ExtentId,
    offset: u64,
    object: u32,
}

/// Looks at all objects; those without a range are spilled, and passed by.
pub(crate) fn look_at(
    objects: &[RecoveredObject],
    extents: &[RecoveredExtent],
    memory: &Memory,
) -> Places {
    let mut order: Vec<Place> = objects
        .iter()
        .zip(0..)
        .filter_map(|(found, object)| {
            let Range { extent, offset, .. } = found.range?;
            Some(Place { extent, offset, object })
        })
        .collect();
    let tie = |at: u32| {
        let found = &objects[at as usize];
        (found.range.map_or(0, |range| range.bytes), found.serial)
    };
    order.sort_unstable_by(|one, other| {
        let by_place = (one.extent, one.offset).cmp(&(other.extent, other.offset));
        by_place.then_with(|| tie(one.object).cmp(&tie(other.object)))
    });
    let mut places = Places { alone: vec![false; objects.len()], ..Places::default() };
    let mut ends: Vec<&RecoveredExtent> = extents.iter().collect();
    ends.sort_unstable_by_key(|extent| extent.extent);
    let mut ends = ends.into_iter().peekable();
    for group in order.chunk_by(|one, other| one.extent == other.extent) {
        let extent = group[0].extent;
        // Extents without objects come before it.
        while let Some(empty) = ends.next_if(|it| it.extent < extent) {
            places.gaps.extend(gap(empty.extent, 0, empty.bytes));
        }
        match ends.next_if(|it| it.extent == extent) {
            Some(found) => places.add(found, group, objects, memory),
            None => places.broken.extend(group.iter().map(|place| place.object as usize)),
        }
    }
    for empty in ends {
        places.gaps.extend(gap(empty.extent, 0, empty.bytes));
    }
    places
}

impl Places {
    /// The objects of one extent, in the order of their places.
    fn add(
        &mut self,
        extent: &RecoveredExtent,
        group: &[Place],
        objects: &[RecoveredObject],
        memory: &Memory,
    ) {
        let (mut end, mut sound, mut last) = (0, 0, 0);
        for place in group {
            let at = place.object as usize;
            let found = &objects[at];
            let range = found
                .range
                .filter(|range| range.offset >= end && memory.could_hold(range, &found.meta.sizes));
            let Some(range) = range else {
                self.broken.push(at);
                continue;
            };
            self.gaps.extend(gap(extent.extent, end, range.offset));
            end = range.offset + range.bytes;
            (sound, last) = (sound + 1, at);
        }
        self.gaps.extend(gap(extent.extent, end, extent.bytes));
        if sound == 1 {
            self.alone[last] = true;
        }
    }
}

fn gap(extent: ExtentId, from: u64, to: u64) -> Option<Range> {
    (from < to).then(|| Range { extent, offset: from, bytes: to - from })
}
