//! Listings of random runs: no object is left out silently, and in quiet times every node lists
//! everything.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::pool_listing::{ListQuery, ListedObject, ListedPage};
use plasmon_testkit::Random;

use crate::event::Event;
use crate::message::QuestionNo;
use crate::record::Birth;
use crate::time::Mono;

use super::machine::Machine;
use super::store::Store;
use super::world::{TTL_MS, What, World};

/// Of so many operations of clients one is a listing.
const LIST_ONE_OF: u64 = 20;

/// How long a listing may take in quiet times.
const QUIET_LIST_MS: u64 = 10_000;

/// A copy that a machine keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptCopy {
    id: ObjectId,
    birth: Birth,
    at: usize,
    incarnation: u64,
    boot: u64,
}

/// A listing that a client asked for.
#[derive(Debug)]
struct Listing {
    at: usize,
    after: Option<ObjectId>,
    found: BTreeMap<ObjectId, u16>,
    missing: BTreeSet<Slot>,
    is_over: bool,
    /// What was kept when it began, and the oldest map that a node may have had then.
    kept: Vec<KeptCopy>,
    map: usize,
}

/// The listings of a run. They have dice of their own.
#[derive(Debug)]
pub(super) struct Listings {
    dice: Random,
    /// Every other run has them.
    are_made: bool,
    by_number: BTreeMap<u64, Listing>,
}

impl Listings {
    pub(super) fn new(seed: u64) -> Self {
        let dice = Random::new(seed ^ 0x6c69_7374);
        Self { dice, are_made: seed.is_multiple_of(2), by_number: BTreeMap::new() }
    }

    /// Whether this is one of so many times, in a run that has listings and subscriptions.
    pub(super) fn is_one_of(&mut self, count: u64) -> bool {
        self.are_made && self.dice.below(count) == 0
    }
}

impl Store {
    /// A page of what clients see, under names that say the id; `None` while copies are not shown.
    fn list(&self, now: Mono, query: &ListQuery, length: usize) -> Option<ListedPage> {
        if now >= self.vouched_until {
            return None;
        }
        let after = |id: &&ObjectId| Some(**id) > query.after;
        let mut ids = self.objects.keys().filter(after).peekable();
        let mut page = ListedPage::default();
        for id in ids.by_ref().take(length) {
            page.next = Some(*id);
            if self.visible(now, id).is_none() {
                continue;
            }
            let object = &self.objects[id];
            page.objects.push(ListedObject {
                id: *id,
                text: id.to_string(),
                data_bytes: object.content.data_bytes,
                metadata_bytes: 0,
                tag: 0,
                created_ms: 0,
                copies: object.keep.into(),
            });
        }
        if ids.peek().is_none() {
            page.next = None;
        }
        Some(page)
    }
}

fn query(after: Option<ObjectId>) -> ListQuery {
    ListQuery { namespace: "all".to_owned(), prefix: String::new(), after }
}

impl World {
    /// A client lists everything now and then.
    pub(super) fn list_at_random(&mut self, at: usize) -> Result<(), String> {
        let is_time = self.listings.is_one_of(LIST_ONE_OF);
        if is_time { self.begin_listing(at).map(|_| ()) } else { Ok(()) }
    }

    fn begin_listing(&mut self, at: usize) -> Result<u64, String> {
        // A node has a map at the latest when a lease has passed since it was made.
        let is_old = |(made, _): &(Mono, _)| made.after_ms(TTL_MS) <= self.now;
        let map = self.maps.iter().rposition(is_old).unwrap_or_default();
        let kept = self.kept_copies();
        let (found, missing) = (BTreeMap::new(), BTreeSet::new());
        let listing = Listing { at, after: None, found, missing, is_over: false, kept, map };
        let number = self.listings.by_number.len() as u64 + 1;
        self.listings.by_number.insert(number, listing);
        self.give(at, Event::List { number, query: query(None), without: Vec::new() })?;
        Ok(number)
    }

    /// The copies that are kept on machines that show them.
    fn kept_copies(&self) -> Vec<KeptCopy> {
        let of_machine = |machine: &Machine| -> Vec<KeptCopy> {
            let Machine { index: at, incarnation, boot, .. } = *machine;
            let kept = machine.store.objects.iter().filter(|(_, object)| object.keep);
            let shown = kept.filter(|(id, _)| machine.store.visible(self.now, id).is_some());
            let copy = |(id, object): (&ObjectId, &super::store::Object)| KeptCopy {
                id: *id,
                birth: object.birth,
                at,
                incarnation,
                boot,
            };
            shown.map(copy).collect()
        };
        self.machines.iter().filter(|m| m.node.is_some()).flat_map(of_machine).collect()
    }

    /// A machine's store is asked; it answers in a moment.
    pub(super) fn list_here(
        &mut self,
        at: usize,
        (peer, question): (Slot, QuestionNo),
        query: &ListQuery,
    ) {
        let length = 1 + self.listings.dice.size_below(8);
        let page = self.machines[at].store.list(self.now, query, length);
        let incarnation = self.machines[at].incarnation;
        let due = Mono(self.now.0 + 50 + self.listings.dice.below(3_000));
        self.at(
            due,
            What::Node { at, incarnation, event: Event::ListedHere { peer, question, page } },
        );
    }

    /// A page of a listing came.
    pub(super) fn listed(
        &mut self,
        number: u64,
        page: ListedPage,
        missing: Vec<Slot>,
    ) -> Result<(), String> {
        let now = self.now;
        let Some(listing) = self.listings.by_number.get_mut(&number) else {
            return Err(format!("a listing {number} that no client asked for"));
        };
        if !query(listing.after).is_answered_by(&page) {
            return Err(format!("{page:?} does not follow {:?}", listing.after));
        }
        for object in page.objects {
            if listing.found.insert(object.id, object.copies).is_some() {
                return Err(format!("{} is listed twice", object.id));
            }
        }
        listing.missing.extend(missing);
        listing.after = page.next;
        listing.is_over = page.next.is_none();
        if listing.is_over {
            return self.check_listing(number);
        }
        let (at, without) = (listing.at, listing.missing.iter().copied().collect());
        let incarnation = self.machines[at].incarnation;
        let event = Event::List { number, query: query(page.next), without };
        self.at(Mono(now.0 + 1), What::Node { at, incarnation, event });
        Ok(())
    }

    /// A copy that was kept and shown all the time, on a node that was live all the time, is in a
    /// listing that no node is missing from.
    fn check_listing(&self, number: u64) -> Result<(), String> {
        let listing = &self.listings.by_number[&number];
        if !listing.missing.is_empty() {
            return Ok(());
        }
        let now_kept = self.kept_copies();
        for copy in listing.kept.iter().filter(|copy| now_kept.contains(copy)) {
            let slot = self.machines[copy.at].slot();
            let mut maps = self.maps[listing.map..].iter();
            let was_live = maps.all(|(_, map)| map.is_live(slot));
            if was_live && !listing.found.contains_key(&copy.id) {
                return Err(format!("listing {number} is complete and has no {copy:?}"));
            }
        }
        Ok(())
    }

    /// In quiet times each node lists what there is, with all copies. A copy for which there was no
    /// room may be made just then.
    pub(super) fn check_listings(&mut self) -> Result<(), String> {
        let before = self.shown_copies();
        let mut numbers = Vec::new();
        for at in 0..self.machines.len() {
            numbers.push(self.begin_listing(at)?);
        }
        self.run_until(self.now.after_ms(QUIET_LIST_MS), false)?;
        let after = self.shown_copies();
        for number in numbers {
            let listing = &self.listings.by_number[&number];
            let is_right = |(id, copies): (&ObjectId, &u16)| {
                before.get(id) == Some(copies) || after.get(id) == Some(copies)
            };
            let is_whole = listing.found.keys().eq(after.keys());
            if !listing.is_over
                || !listing.missing.is_empty()
                || !is_whole
                || !listing.found.iter().all(is_right)
            {
                return Err(format!("in quiet times {listing:?} is not {after:?}"));
            }
        }
        Ok(())
    }

    /// What clients see on any machine, with the number of copies that are kept.
    fn shown_copies(&self) -> BTreeMap<ObjectId, u16> {
        let mut shown: BTreeMap<ObjectId, u16> = BTreeMap::new();
        for machine in &self.machines {
            for (id, object) in &machine.store.objects {
                if machine.store.visible(self.now, id).is_some() {
                    *shown.entry(*id).or_default() += u16::from(object.keep);
                }
            }
        }
        shown
    }
}
