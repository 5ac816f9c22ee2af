//! What is in a namespace, for the pool daemon and for others.

use plasmon_proto::limits::LIST_PAGE_MAX;
use plasmon_proto::message::Filter;
use plasmon_proto::pool_listing::{ListQuery, ListedObject, ListedPage};

use super::*;

fn query(namespace: &str, prefix: &str, after: Option<ObjectId>) -> Request {
    let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
    Request::ListNamespace(ListQuery { namespace, prefix, after })
}

impl World {
    fn page(&mut self, client: ClientNo, request: Request) -> ListedPage {
        match self.ask(client, request) {
            Reply::Listed(page) => page,
            other => panic!("{other:?}"),
        }
    }

    /// What is in a namespace of the pool, and how many pages that took.
    fn list(&mut self, client: ClientNo, prefix: &str) -> (Vec<ListedObject>, usize) {
        let (mut objects, mut after) = (Vec::new(), None);
        for pages in 1.. {
            let ListedPage { objects: page, next } =
                self.page(client, query("@prod", prefix, after));
            assert!(page.len() <= LIST_PAGE_MAX);
            objects.extend(page);
            match next {
                Some(next) => assert!(after.replace(next).is_none_or(|before| before < next)),
                None => return (objects, pages),
            }
        }
        unreachable!("a page of them is the last")
    }

    fn texts(&mut self, client: ClientNo, prefix: &str) -> Vec<String> {
        let mut texts: Vec<_> =
            self.list(client, prefix).0.into_iter().map(|object| object.text).collect();
        texts.sort();
        texts
    }
}

#[test]
fn what_clients_see_of_a_namespace_is_listed_and_nothing_else() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.bring(agent, "kept", true, true);
    world.bring(agent, "cached", true, false);
    world.bring(agent, "held", false, true);
    world.bring(agent, "dropped", true, true);
    world.tell(agent, Told::Drop { id: free("dropped"), birth: theirs() });
    world.send_seal(client, &put("being-committed", 10));
    let local = Name::new("local", "kept").unwrap();
    let named = Attributes { name: Some(local.clone()), ..Attributes::default() };
    world.create_and_seal(client, &Put { id: local.id(), ..Put::new(0, 7) }.with(named)).unwrap();

    assert_eq!(world.texts(client, ""), ["cached", "kept"]);
    assert_eq!(world.texts(agent, "k"), ["kept"]);
    assert_eq!(world.texts(agent, "x"), [""; 0]);
    let (objects, _) = world.list(agent, "");
    for object in objects {
        assert_eq!(object.id, free(&object.text));
        let copies = u16::from(object.text == "kept");
        assert_eq!((object.data_bytes, object.copies), (10, copies), "{}", object.text);
    }
    world
        .tell(agent, Told::Committed { id: free("being-committed"), serial: OURS, result: Ok(()) });
    world.tell(agent, Told::Publish { id: free("held"), birth: theirs() });
    assert_eq!(world.texts(client, ""), ["being-committed", "cached", "held", "kept"]);

    let page = world.page(client, query("local", "", None));
    assert_eq!((page.objects.len(), page.objects[0].id, page.next), (1, local.id(), None));
    assert_eq!(world.page(client, query("other", "", None)), ListedPage::default());
}

#[test]
fn pages_follow_one_another_and_a_page_of_the_longest_size_may_be_the_last() {
    for count in [LIST_PAGE_MAX - 1, LIST_PAGE_MAX, LIST_PAGE_MAX + 1, 3 * LIST_PAGE_MAX] {
        let mut world = World::new(config());
        let agent = world.agent(1);
        world.vouch(agent);
        for number in 0..count {
            world.bring(agent, &number.to_string(), true, true);
        }
        let (objects, pages) = world.list(agent, "");
        assert!(objects.is_sorted_by(|one, other| one.id < other.id));
        assert_eq!((objects.len(), pages), (count, count.div_ceil(LIST_PAGE_MAX)));
    }
}

/// While copies are not shown a page would have none of them, and the pool would take that for all
/// that there is.
#[test]
fn a_store_whose_copies_are_not_shown_says_so() {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..config() });
    let agent = world.agent(1);
    assert_eq!(world.ask_for_failure(agent, query("@prod", "", None)).code, Code::Unreachable);
    world.vouch(agent);
    world.bring(agent, "x", true, true);
    let client = world.connect(2);
    assert_eq!(world.texts(client, ""), ["x"]);
    // One in the spill tier as well.
    world.create_and_seal(client, &Put::new(1, 16 * MIB)).unwrap();
    assert_eq!(world.store.state_of(&free("x")), Spilled);
    assert_eq!(world.texts(client, ""), ["x"]);
    world.pass(60_000);
    assert_eq!(world.ask_for_failure(client, query("@prod", "", None)).code, Code::Unreachable);
    world.vouch(agent);
    assert_eq!(world.texts(client, ""), ["x"]);
}

#[test]
fn a_store_of_no_pool_lists_no_namespace_of_one() {
    let mut world = World::with_capacity(MIB);
    let client = world.connect(1);
    assert_eq!(world.ask_for_failure(client, query("@prod", "", None)).code, Code::Unsupported);
    let filter = Filter { namespace: Some("@prod".to_owned()), prefix: None };
    let list = Request::List { filter, cursor: 0, limit: 1 };
    assert_eq!(world.ask_for_failure(client, list).code, Code::Unsupported);
    assert_eq!(world.page(client, query("local", "", None)), ListedPage::default());
}
