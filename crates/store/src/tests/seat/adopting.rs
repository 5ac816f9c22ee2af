//! Namespaces of the pool that clients adopt.

use plasmon_proto::limits::ADOPTIONS_TOLD_MAX;
use plasmon_proto::message::Failure;
use plasmon_proto::pool_adoption::{AdoptionCall, AdoptionRefusal, AdoptionTold, NamespaceState};

use super::*;
use crate::adoption::ADOPTED_PER_CLIENT_MAX;
use crate::seat::namespaces::{ADOPTION_MS, UNKNOWN_SESSION_MS};

fn adopt(namespace: &str) -> Request {
    Request::Adopt { namespace: namespace.to_owned(), bytes_max: 0 }
}

fn is(namespace: &str, state: NamespaceState) -> AdoptionTold {
    AdoptionTold::Namespace { namespace: namespace.to_owned(), state }
}

fn ended() -> [AdoptionTold; 2] {
    [is("@prod", NamespaceState::Ended), AdoptionTold::Revision(7)]
}

/// The session of [`World::connect`].
fn here(session: u64) -> NamespaceState {
    NamespaceState::AdoptedHere(session)
}

fn orphaned(session: u64) -> AdoptionCall {
    AdoptionCall::Orphaned { namespace: "@prod".to_owned(), session }
}

impl World {
    pub(super) fn tell_adoptions(&mut self, agent: ClientNo, told: impl Into<Vec<AdoptionTold>>) {
        let told = told.into();
        assert_eq!(self.ask(agent, Request::TellAdoptions { told }), Reply::Done);
    }

    /// What the agent was told of namespaces since the last look.
    pub(super) fn adoption_calls(&mut self) -> Vec<AdoptionCall> {
        let mut calls = Vec::new();
        self.effects.retain(|effect| match effect {
            Effect::CallAdoption(_, call) => {
                calls.push(call.clone());
                false
            }
            _ => true,
        });
        calls
    }

    /// A client adopts `@prod`, and the pool accepts that.
    fn adopted(&mut self, agent: ClientNo, client: ClientNo) {
        self.adoption_calls();
        let asked = self.send(client, adopt("@prod"));
        let session = client.0.into();
        let calls = self.adoption_calls();
        let [AdoptionCall::Adopt { number, .. }] = calls[..] else { panic!("{calls:?}") };
        assert_eq!(self.answer_to(client, asked), None, "the pool decides");
        let answer = AdoptionTold::Answer { number, result: Ok(()) };
        self.tell_adoptions(agent, [is("@prod", here(session)), answer]);
        assert_eq!(self.answer_to(client, asked), Some(Reply::Done));
    }

    /// A put is refused because its namespace has ended, and says so.
    fn is_refused(&mut self, client: ClientNo, text: &str) {
        let put = put(text, 10);
        let number = self.send_seal(client, &put);
        let failure = self.failure_of(client, number);
        assert_eq!((failure.code, failure.id), (Code::Cancelled, Some(put.id)));
        assert!(failure.detail.contains("adopted its namespace"), "{failure:?}");
        self.ask(client, Request::Abort { id: put.id });
    }

    pub(super) fn failure_of(&mut self, client: ClientNo, number: u64) -> Failure {
        match self.answer_to(client, number) {
            Some(Reply::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_namespace_is_adopted_by_one_session_and_ends_with_it() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let (one, two) = (world.connect(2), world.connect(3));
    world.adopted(agent, one);
    world.adopted(agent, one);
    assert_eq!(world.ask_for_failure(two, adopt("@prod")).code, Code::Exists);
    assert!(world.store.is_lent_to(one) && !world.store.is_lent_to(two));
    assert_eq!(world.adoption_calls(), []);
    // A broken connection ends nothing.
    world.event(Event::Part(one));
    assert_eq!(world.adoption_calls(), []);
    world.disconnect(one);
    assert_eq!(world.adoption_calls(), [orphaned(2)]);
    // One that comes before etcd knows is told so again.
    world.disconnect(agent);
    let agent = world.agent(4);
    world.tell_adoptions(agent, [is("@prod", here(2)), AdoptionTold::Revision(1)]);
    assert!(world.adoption_calls().contains(&orphaned(2)));
    world.tell_adoptions(agent, ended());
    world.adopted(agent, two);
}

#[test]
fn an_adoption_is_ended_on_request_and_that_is_answered_when_the_pool_knows() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let (one, two) = (world.connect(2), world.connect(3));
    world.adopted(agent, one);
    let end = || Request::EndAdoption { namespace: "@prod".to_owned() };
    assert_eq!(world.ask_for_failure(two, end()).code, Code::Absent);
    let asked = world.send(one, end());
    assert_eq!(world.adoption_calls(), [orphaned(2)]);
    assert_eq!(world.answer_to(one, asked), None);
    world.tell_adoptions(agent, ended());
    assert_eq!(world.answer_to(one, asked), Some(Reply::Done));
    assert_eq!(world.ask_for_failure(one, end()).code, Code::Absent);

    // A local one ends at once.
    let local = || Request::EndAdoption { namespace: "local".to_owned() };
    assert_eq!(world.ask_for_failure(one, local()).code, Code::Absent);
    assert_eq!(world.ask(one, adopt("local")), Reply::Done);
    assert_eq!(world.ask_for_failure(two, local()).code, Code::Absent);
    assert_eq!(world.ask(one, local()), Reply::Done);
    assert_eq!(world.ask(two, adopt("local")), Reply::Done);
}

#[test]
fn what_the_pool_refuses_is_told_and_no_wait_is_for_ever() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let cases = [
        (AdoptionRefusal::Exists, Code::Exists, "another client"),
        (AdoptionRefusal::NotSwept("n7".to_owned()), Code::InUse, "n7"),
        (AdoptionRefusal::LimitReached(1024), Code::LimitReached, "maximum"),
        (AdoptionRefusal::Unreachable, Code::Unreachable, "adopt it again"),
    ];
    for (number, (refusal, code, word)) in (1..).zip(cases) {
        let asked = world.send(client, adopt("@prod"));
        world.tell_adoptions(agent, [AdoptionTold::Answer { number, result: Err(refusal) }]);
        let failure = world.failure_of(client, asked);
        assert_eq!(failure.code, code);
        assert!(failure.detail.contains(word), "{failure:?}");
    }
    // A pool daemon that does not answer.
    let asked = world.send(client, adopt("@prod"));
    world.pass(ADOPTION_MS - 1);
    assert_eq!(world.answer_to(client, asked), None);
    world.pass(1);
    assert_eq!(world.failure_of(client, asked).code, Code::Unreachable);
    // None at all.
    world.disconnect(agent);
    let asked = world.send(client, adopt("@prod"));
    world.pass(10_000);
    assert_eq!(world.failure_of(client, asked).code, Code::Unreachable);
    // What was asked before is told to the one that comes.
    world.send(client, adopt("@prod"));
    world.adoption_calls();
    world.agent(4);
    let call = AdoptionCall::Adopt { number: 7, namespace: "@prod".to_owned(), session: 2 };
    assert!(world.adoption_calls().contains(&call));
}

#[test]
fn requests_that_no_pool_can_serve_are_refused_at_once() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    assert_eq!(world.ask_for_failure(client, adopt("@")).code, Code::BadRequest);
    let told = vec![AdoptionTold::Revision(1)];
    let tell = Request::TellAdoptions { told };
    assert_eq!(world.ask_for_failure(client, tell).code, Code::NotPermitted);
    for number in 0..ADOPTED_PER_CLIENT_MAX {
        world.send(client, adopt(&format!("@{number}")));
    }
    assert_eq!(world.ask_for_failure(client, adopt("@more")).code, Code::LimitReached);
    let many = vec![is("@x", NamespaceState::Free); ADOPTIONS_TOLD_MAX];
    world.tell_adoptions(agent, many);

    let mut alone = World::new(Config::new(16 * MIB));
    let client = alone.connect(2);
    let limited = Request::Adopt { namespace: "@prod".to_owned(), bytes_max: 1 };
    for request in [adopt("@prod"), limited] {
        assert_eq!(alone.ask_for_failure(client, request).code, Code::Unsupported);
    }
}

#[test]
fn of_a_namespace_that_has_ended_everything_here_is_deleted_and_nothing_comes_in() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.bring(agent, "x", true, true);
    world.bring(agent, "y", true, false);
    world.send_seal(client, &put("z", 10));
    world.calls();
    world.adoption_calls();
    world.tell_adoptions(agent, ended());
    let (x, y, z) = (free("x"), free("y"), free("z"));
    let mut calls = world.calls();
    calls.sort_by_key(|call| *call != delete_of(x, 1) && *call != delete_of(x, 2));
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls.iter().all(|it| matches!(it, Call::Delete { id, .. } if [x, y].contains(id))));
    assert_eq!(world.adoption_calls(), [AdoptionCall::Progress { seen: 7, swept: 0 }]);
    // A late put is refused, and one that the pool was deciding about goes when it is accepted.
    world.is_refused(client, "late");
    world.tell(agent, Told::Committed { id: z, serial: OURS, result: Ok(()) });
    assert!(matches!(world.calls()[..], [Call::Delete { id, .. }] if id == z));
    // So does a copy that another node brings.
    world.bring(agent, "w", true, false);
    let w = free("w");
    assert!(matches!(world.calls()[..], [Call::Delete { id, .. }] if id == w));

    // What could not be deleted is deleted again.
    world.tell(agent, Told::DeleteUnreachable { id: x, number: u64::MAX });
    world.pass(1_000);
    assert!(matches!(world.calls()[..], [Call::Delete { id, .. }] if id == x));
    for id in [x, y, w] {
        world.tell(agent, Told::Drop { id, birth: theirs() });
        world.tell(agent, Told::Deleted { id, number: u64::MAX });
    }
    world.pass(1_000);
    assert_eq!(world.adoption_calls(), [], "one is left");
    world.tell(agent, Told::Drop { id: z, birth: ours() });
    world.tell(agent, Told::Deleted { id: z, number: u64::MAX });
    world.pass(1_000);
    assert_eq!(world.adoption_calls(), [AdoptionCall::Progress { seen: 7, swept: 7 }]);

    // Adopted again, it is as any other.
    world.adopted(agent, client);
    world.bring(agent, "x", true, false);
    world.calls();
    world.pass(5_000);
    assert_eq!(world.calls(), []);
    // One of which nothing is known any more, too.
    world.tell_adoptions(agent, ended());
    world.is_refused(client, "late");
    world.disconnect(agent);
    let agent = world.agent(4);
    world.tell_adoptions(agent, [AdoptionTold::Revision(9)]);
    world.vouch(agent);
    world.send_seal(client, &put("late", 10));
    assert!(world.calls().iter().any(|call| matches!(call, Call::Commit { .. })));
}

#[test]
fn a_namespace_of_many_objects_is_deleted_in_pieces() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    for number in 0..1200 {
        world.bring(agent, &number.to_string(), true, true);
    }
    world.calls();
    world.tell_adoptions(agent, ended());
    let mut deleted = 0;
    while deleted < 1200 {
        world.pass(0);
        let calls = world.calls();
        assert!(!calls.is_empty(), "{deleted} of them");
        for call in calls {
            let Call::Delete { id, number } = call else { continue };
            deleted += 1;
            world.tell(agent, Told::Drop { id, birth: theirs() });
            world.tell(agent, Told::Deleted { id, number });
        }
    }
    world.adoption_calls();
    world.pass(1_000);
    assert_eq!(world.adoption_calls(), [AdoptionCall::Progress { seen: 7, swept: 7 }]);
    assert_eq!(world.store.next_deadline().filter(|at| *at < world.now_ms + 10_000), None);
}

#[test]
fn a_session_that_the_store_does_not_know_may_come_back_for_a_while() {
    for comes_back in [false, true] {
        let mut world = World::new(config());
        let agent = world.agent(1);
        world.tell_adoptions(agent, [is("@prod", here(2)), AdoptionTold::Revision(1)]);
        world.pass(UNKNOWN_SESSION_MS - 1);
        world.adoption_calls();
        if comes_back {
            world.connect(2);
        }
        world.pass(1);
        let expected = if comes_back { vec![] } else { vec![orphaned(2)] };
        assert_eq!(world.adoption_calls(), expected);
        if comes_back {
            world.disconnect(ClientNo(2));
            assert_eq!(world.adoption_calls(), [orphaned(2)]);
        }
    }
}
