//! Listings of one node that knows a map: which nodes it asks, what it makes of their pages, and
//! that each listing ends.

use std::sync::Arc;

use plasmon_cluster::Map;
use plasmon_proto::Name;
use plasmon_testkit::Random;

use super::*;
use crate::config::Config;
use crate::outbox::Outbox;

fn object(number: u64, copies: u16) -> ListedObject {
    let text = number.to_string();
    let id = Name::new("@ns", text.clone()).unwrap().id();
    ListedObject { id, text, data_bytes: 1, metadata_bytes: 0, tag: 0, created_ms: 5, copies }
}

fn query(after: Option<ObjectId>) -> ListQuery {
    ListQuery { namespace: "@ns".to_owned(), prefix: String::new(), after }
}

/// What a node says that has these objects, with pages of this length.
fn page_of(objects: &[ListedObject], after: Option<ObjectId>, length: usize) -> ListedPage {
    let mut objects: Vec<_> =
        objects.iter().filter(|object| Some(object.id) > after).cloned().collect();
    objects.sort_by_key(|object| object.id);
    let is_last = objects.len() <= length;
    objects.truncate(length);
    let next = objects.last().map(|object| object.id).filter(|_| !is_last);
    ListedPage { objects, next }
}

#[test]
fn merged_pages_have_every_object_once_with_the_copies_of_all_nodes() {
    let mut dice = Random::new(7);
    for _ in 0..200 {
        let nodes = 1 + dice.size_below(5);
        let count = dice.below(400);
        let mut on: Vec<Vec<ListedObject>> = vec![Vec::new(); nodes];
        let mut wanted: BTreeMap<ObjectId, u16> = BTreeMap::new();
        for number in 0..count {
            let first = dice.size_below(nodes);
            for (at, objects) in on.iter_mut().enumerate() {
                if at == first || dice.percent(30) {
                    let copies = u16::from(dice.percent(70));
                    objects.push(object(number, copies));
                    *wanted.entry(object(number, 0).id).or_default() += copies;
                }
            }
        }
        let (mut after, mut found) = (None, BTreeMap::new());
        loop {
            let length = 1 + dice.size_below(LIST_PAGE_MAX);
            let pages = on.iter().map(|objects| page_of(objects, after, length)).collect();
            let page = merge(pages);
            assert!(query(after).is_answered_by(&page), "{page:?}");
            for object in page.objects {
                assert!(found.insert(object.id, object.copies).is_none(), "it is listed twice");
            }
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        assert_eq!(found, wanted);
    }
}

/// A node with nothing of a namespace that it looks through slowly holds the others' pages up.
#[test]
fn a_page_ends_where_the_first_of_the_nodes_pages_ends() {
    let mut objects: Vec<_> = (0..10).map(|number| object(number, 1)).collect();
    objects.sort_by_key(|object| object.id);
    let end = Some(objects[3].id);
    let slow = ListedPage { objects: Vec::new(), next: end };
    let page = merge(vec![page_of(&objects, None, 100), slow]);
    assert_eq!((page.objects.len(), page.next), (4, end));
}

struct Asking {
    view: View,
    out: Outbox,
    listings: Listings,
}

impl Asking {
    fn new() -> Self {
        let mut view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        view.set_map(Mono(0), Arc::new(Map::default()));
        Self { view, out: Outbox::default(), listings: Listings::new(7) }
    }

    fn with<T>(&mut self, now: Mono, act: impl FnOnce(&mut Listings, &mut Context<'_>) -> T) -> T {
        let cx = &mut Context { now, view: &self.view, out: &mut self.out };
        act(&mut self.listings, cx)
    }
}

#[test]
fn without_a_lease_a_listing_ends_with_this_node_missing_and_too_many_end_at_once() {
    let mut asking = Asking::new();
    let ended = |number| {
        let (page, missing) = (ListedPage::default(), vec![Slot(0)]);
        Effect::Listed { number, page, missing }
    };
    for number in 0..LISTS_MAX as u64 {
        asking.with(Mono(0), |listings, cx| listings.ask(cx, number, query(None), &[]));
    }
    assert_eq!(asking.out.effects, []);
    asking.with(Mono(0), |listings, cx| listings.ask(cx, 99, query(None), &[]));
    assert_eq!(asking.out.effects, [ended(99)]);
    asking.out.effects.clear();
    while let Some(at) = asking.listings.next_deadline() {
        assert!(at <= Mono(0).after_ms(LIST_MS + RETRY_MS));
        asking.with(at, |listings, cx| listings.time_passed(cx));
    }
    let all: Vec<_> = (0..LISTS_MAX as u64).map(ended).collect();
    assert_eq!(asking.out.effects, all);
}

#[test]
fn one_peer_has_so_many_questions_at_a_time_and_each_is_asked_of_the_store_once() {
    let mut asking = Asking::new();
    for number in 0..2 * LISTS_PER_PEER_MAX as u64 {
        for _ in 0..2 {
            let serve = |listings: &mut Listings, cx: &mut Context<'_>| {
                listings.serve(cx, Slot(3), QuestionNo(number), query(None));
            };
            asking.with(Mono(0), serve);
        }
    }
    assert_eq!(asking.out.effects.len(), LISTS_PER_PEER_MAX);
    asking.out.effects.clear();
    // A store that cannot say leaves the question open: it is asked again.
    asking.with(Mono(0), |listings, cx| listings.served(cx, Slot(3), QuestionNo(0), None));
    assert!(asking.out.remote.is_empty());
    asking.with(Mono(0), |listings, cx| listings.serve(cx, Slot(3), QuestionNo(0), query(None)));
    assert_eq!(asking.out.effects.len(), 1);
    for _ in 0..2 {
        let page = Some(ListedPage::default());
        asking.with(Mono(0), |listings, cx| listings.served(cx, Slot(3), QuestionNo(0), page));
    }
    assert_eq!(asking.out.remote[&Slot(3)].len(), 1, "one answer each");
}
