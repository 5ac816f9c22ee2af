//! Limits of namespaces of the pool: what is refused, and what the agent is told is here.

use plasmon_proto::pool_adoption::{AdoptionCall, AdoptionTold, NamespaceState};

use super::*;
use crate::adoption::quotas::TELL_EVERY_MS;

/// The pool says that `@prod` is limited, and what the other nodes have of it.
fn limited(bytes_max: u64, elsewhere_bytes: u64) -> [AdoptionTold; 2] {
    let namespace = || "@prod".to_owned();
    let state = NamespaceState::AdoptedElsewhere;
    [
        AdoptionTold::Namespace { namespace: namespace(), state },
        AdoptionTold::Quota { namespace: namespace(), bytes_max, elsewhere_bytes },
    ]
}

fn usage(bytes: u64) -> AdoptionCall {
    AdoptionCall::Usage { namespace: "@prod".to_owned(), bytes }
}

/// A put of a name whose home is this node.
fn homed_put(text: &str, data: u64) -> Put {
    let name = name(text);
    let id = name.id_at(HERE.slot.0);
    let attributes = Attributes { name: Some(name), ..Attributes::default() };
    Put { id, ..Put::new(0, data) }.with(attributes)
}

fn config_with_tier() -> Config {
    Config { spill_bytes_max: Some(u64::MAX), ..config() }
}

impl World {
    /// A client seals an object, and the pool accepts it.
    fn accepted(&mut self, agent: ClientNo, client: ClientNo, put: &Put) {
        let number = self.send_seal(client, put);
        assert_eq!(self.answer_to(client, number), None, "the pool decides");
        self.tell(agent, Told::Committed { id: put.id, serial: OURS, result: Ok(()) });
        assert_eq!(self.answer_to(client, number), Some(Reply::Done));
    }

    /// What the agent is told of usage after a while.
    fn later(&mut self) -> Vec<AdoptionCall> {
        self.pass(TELL_EVERY_MS);
        self.usage_calls()
    }

    fn usage_calls(&mut self) -> Vec<AdoptionCall> {
        let mut calls = self.adoption_calls();
        calls.retain(|call| matches!(call, AdoptionCall::Usage { .. }));
        calls
    }
}

#[test]
fn an_object_is_refused_where_all_nodes_together_would_have_too_much() {
    let mut world = World::new(config_with_tier());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.tell_adoptions(agent, limited(1000, 300));
    world.accepted(agent, client, &put("a", 500));
    let long = put("b", 201);
    let number = world.send_seal(client, &long);
    let failure = world.failure_of(client, number);
    assert_eq!((failure.code, failure.id), (Code::QuotaExceeded, Some(long.id)));
    assert_eq!((failure.wanted, failure.found), (201, 200));
    for words in ["@prod may have 1000 bytes", "500 on this node", "300 on other nodes"] {
        assert!(failure.detail.contains(words), "{failure:?}");
    }
    world.ask(client, Request::Abort { id: long.id });
    world.accepted(agent, client, &put("c", 200));
    assert_eq!(world.put(client, homed_put("d", 1)), Err(Code::QuotaExceeded));
    // Another namespace is not limited.
    let other = Name::new("@other", "x").unwrap();
    let attributes = Attributes { name: Some(other.clone()), ..attributes("x", None) };
    let other = Put { id: other.id(), ..Put::new(0, 5000) }.with(attributes);
    world.accepted(agent, client, &other);

    // The last figures count while no pool daemon is there.
    world.disconnect(agent);
    assert_eq!(world.put(client, homed_put("d", 1)), Err(Code::QuotaExceeded));
    let agent = world.agent(3);
    assert_eq!(world.put(client, homed_put("d", 1)), Err(Code::QuotaExceeded));
    // The others have less, this store has less, the limit is larger, there is none.
    world.tell_adoptions(agent, limited(1000, 200));
    world.put(client, homed_put("d", 100)).unwrap();
    assert_eq!(world.put(client, homed_put("e", 1)), Err(Code::QuotaExceeded));
    world.vouch(agent);
    world.tell(agent, Told::Drop { id: free("c"), birth: ours() });
    world.put(client, homed_put("e", 200)).unwrap();
    assert_eq!(world.put(client, homed_put("f", 1)), Err(Code::QuotaExceeded));
    world.tell_adoptions(agent, limited(2000, 200));
    world.put(client, homed_put("f", 1000)).unwrap();
    assert_eq!(world.put(client, homed_put("g", 1)), Err(Code::QuotaExceeded));
    world.tell_adoptions(agent, [limited(2000, 200)[0].clone()]);
    world.put(client, homed_put("g", 5000)).unwrap();
}

#[test]
fn a_limit_that_no_pool_daemon_names_any_more_is_over() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.tell_adoptions(agent, limited(10, 0));
    let client = world.connect(2);
    assert_eq!(world.put(client, homed_put("a", 11)), Err(Code::QuotaExceeded));
    world.disconnect(agent);
    let agent = world.agent(3);
    world.tell_adoptions(agent, [AdoptionTold::Revision(9)]);
    world.put(client, homed_put("a", 11)).unwrap();
}

#[test]
fn the_agent_is_told_what_is_here_and_caches_are_not_part_of_it() {
    let mut world = World::new(config_with_tier());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.put(client, homed_put("a", 100)).unwrap();
    assert_eq!(world.later(), [], "it is not limited");
    world.tell_adoptions(agent, limited(100_000, 0));
    assert_eq!(world.later(), [usage(100)]);
    // Not more often than that.
    world.put(client, homed_put("b", 200)).unwrap();
    world.pass(TELL_EVERY_MS - 1);
    assert_eq!(world.usage_calls(), []);
    world.pass(1);
    assert_eq!(world.usage_calls(), [usage(300)]);
    assert_eq!(world.later(), [], "nothing has changed");

    // What a read has brought here may be evicted at any time. The pool keeps it, and does not.
    world.tell_adoptions(
        agent,
        [AdoptionTold::Quota {
            namespace: "@prod".to_owned(),
            bytes_max: 1000,
            elsewhere_bytes: 0,
        }],
    );
    world.bring(agent, "x", true, false);
    assert_eq!(world.later(), []);
    world.tell(agent, Told::Keep { id: free("x"), birth: theirs() });
    assert_eq!(world.later(), [usage(310)]);
    world.bring(agent, "y", true, true);
    assert_eq!(world.later(), [usage(320)]);
    world.tell(agent, Told::Release { id: free("x"), birth: theirs() });
    assert_eq!(world.later(), [usage(310)]);
    for id in [homed_put("a", 0).id, homed_put("b", 0).id] {
        world.tell(agent, Told::Drop { id, birth: Birth { serial: 0, ..ours() } });
    }
    assert_eq!(world.later(), [usage(10)]);
    world.tell(agent, Told::Drop { id: free("y"), birth: theirs() });
    assert_eq!(world.later(), [usage(0)]);
    assert_eq!(world.later(), []);

    // Another pool daemon hears it again; while copies are withheld they are not known to be all.
    world.accepted(agent, client, &put("z", 400));
    assert_eq!(world.later(), [usage(400)]);
    world.disconnect(agent);
    let agent = world.agent(3);
    world.pass(60_000);
    world.tell_adoptions(agent, limited(1000, 0));
    assert_eq!(world.later(), []);
    world.vouch(agent);
    assert_eq!(world.later(), [usage(400)]);
}

#[test]
fn a_limit_goes_to_the_pool_with_the_adoption() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let adopt = |bytes_max| Request::Adopt { namespace: "@prod".to_owned(), bytes_max };
    let call = |number, bytes_max| AdoptionCall::adopt(number, "@prod".to_owned(), 2, bytes_max);
    world.adoption_calls();
    world.send(client, adopt(5));
    assert_eq!(world.adoption_calls(), [call(1, 5)]);
    let here = AdoptionTold::Namespace {
        namespace: "@prod".to_owned(),
        state: NamespaceState::AdoptedHere(2),
    };
    world.tell_adoptions(agent, [here, AdoptionTold::Answer { number: 1, result: Ok(()) }]);
    // The session that has it may change it, and takes it away with none.
    world.send(client, adopt(7));
    world.send(client, adopt(0));
    assert_eq!(world.adoption_calls(), [call(2, 7), call(3, 0)]);
    world.disconnect(agent);
    world.agent(3);
    let calls = world.adoption_calls();
    assert!([call(2, 7), call(3, 0)].iter().all(|call| calls.contains(call)), "{calls:?}");
    let other = world.connect(4);
    assert_eq!(world.ask_for_failure(other, adopt(9)).code, Code::Exists);
}
