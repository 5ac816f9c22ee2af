//! Creations of names of which a copy is here.
//!
//! A name that was deleted on another node was refused with *exists* on a node whose pool daemon
//! had not dropped its copy yet, because it had been killed: the store refused by itself what the
//! pool would have accepted.

use super::*;
use crate::seat::ABSENCE_MS;
use crate::seat::creations::{CREATION_MS, CREATIONS_MAX};

fn create_of(text: &str) -> Request {
    let Put { id, sizes, traits, .. } = put(text, 20);
    Request::Create { id, sizes, traits, strict: false }
}

fn verify_of(text: &str, number: u64) -> Call {
    Call::Verify { id: free(text), number }
}

fn verified(text: &str, number: u64, known: bool) -> Told {
    Told::Verified { id: free(text), number, known }
}

fn code_of(reply: Option<Reply>) -> Option<Code> {
    match reply {
        Some(Reply::Failed(failure)) => Some(failure.code),
        _ => None,
    }
}

#[test]
fn a_name_whose_copy_here_is_of_a_deleted_object_can_be_put_again() {
    for keep in [false, true] {
        let mut world = World::new(config());
        let agent = world.agent(1);
        world.vouch(agent);
        world.bring(agent, "x", true, keep);
        let client = world.connect(2);
        world.calls();
        let number = world.send(client, create_of("x"));
        assert_eq!(world.calls(), [verify_of("x", 1)]);
        assert_eq!(world.answer_to(client, number), None);

        let told = vec![Told::Drop { id: free("x"), birth: theirs() }, verified("x", 1, true)];
        assert_eq!(world.ask(agent, Request::Tell { told }), Reply::Done);
        assert!(matches!(world.answer_to(client, number), Some(Reply::Created(_))));
        assert_eq!(world.calls(), [Call::Ended { id: free("x"), birth: theirs() }]);
    }
}

#[test]
fn a_name_whose_object_exists_is_refused_once_the_pool_has_said_so() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring(agent, "x", true, false);
    let (one, two) = (world.connect(2), world.connect(3));
    world.calls();
    let first = world.send(one, create_of("x"));
    let second = world.send(two, create_of("x"));
    assert_eq!(world.calls(), [verify_of("x", 1), verify_of("x", 2)]);
    // An answer to another id, or to an earlier call, says nothing.
    world.tell(agent, verified("y", 2, true));
    assert_eq!(world.answer_to(one, first), None);
    world.tell(agent, verified("x", 1, true));
    assert_eq!(code_of(world.answer_to(one, first)), Some(Code::Exists));
    assert_eq!(world.answer_to(two, second), None);
    world.tell(agent, verified("x", 2, false));
    assert_eq!(code_of(world.answer_to(two, second)), Some(Code::Unreachable));
    // Names without a copy here are created as before.
    world.create(one, &put("z", 10)).unwrap();
    assert_eq!(world.calls(), []);
    assert_eq!(world.create(two, &put("z", 10)).unwrap_err().code, Code::Exists);
}

#[test]
fn the_next_pool_daemon_is_asked_again_and_without_one_the_creator_does_not_wait_for_ever() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring(agent, "x", true, false);
    let client = world.connect(2);
    let first = world.send(client, create_of("x"));
    world.disconnect(agent);
    world.pass(ABSENCE_MS - 1);
    assert_eq!(world.answer_to(client, first), None);
    world.calls();
    let agent = world.agent(3);
    assert!(world.calls().contains(&verify_of("x", 1)));
    world.tell(agent, verified("x", 1, true));
    assert_eq!(code_of(world.answer_to(client, first)), Some(Code::Exists));

    world.disconnect(agent);
    let second = world.send(client, create_of("x"));
    world.pass(ABSENCE_MS - 1);
    assert_eq!(world.answer_to(client, second), None);
    world.pass(1);
    assert_eq!(code_of(world.answer_to(client, second)), Some(Code::Unreachable));
    // A creator that is gone is not answered.
    let third = world.send(client, create_of("x"));
    world.disconnect(client);
    let agent = world.agent(4);
    world.tell(agent, verified("x", 3, true));
    assert_eq!(world.answer_to(client, third), None);
}

#[test]
fn so_many_creations_wait_and_the_next_one_is_refused_at_once() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring(agent, "x", true, false);
    let client = world.connect(2);
    let waiting: Vec<_> = (0..CREATIONS_MAX).map(|_| world.send(client, create_of("x"))).collect();
    assert!(waiting.iter().all(|number| world.answer_to(client, *number).is_none()));
    assert_eq!(code_of(Some(world.ask(client, create_of("x")))), Some(Code::Exists));
    world.tell(agent, verified("x", CREATIONS_MAX as u64, true));
    let is_refused = |number: &u64| code_of(world.answer_to(client, *number)) == Some(Code::Exists);
    assert!(waiting.iter().all(is_refused));
}

fn exists(text: &str, number: u64) -> Told {
    Told::Exists { id: free(text), number }
}

/// A name of which a copy was on its way here, or hidden because its put was not decided, was
/// refused with *exists* at once. The put could be refused later, so that no object existed.
#[test]
fn a_name_whose_put_is_not_decided_is_refused_once_the_pool_has_said_that_it_exists() {
    for (is_sealed, is_taken) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut world = World::new(config());
        let agent = world.agent(1);
        world.vouch(agent);
        let id = free("x");
        if is_sealed {
            world.bring(agent, "x", false, true);
        } else {
            assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Created(_)));
        }
        let client = world.connect(2);
        world.calls();
        let number = world.send(client, create_of("x"));
        assert_eq!(world.calls(), [verify_of("x", 1)]);
        assert_eq!(world.answer_to(client, number), None);
        if is_taken {
            world.tell(agent, exists("x", 1));
            assert_eq!(code_of(world.answer_to(client, number)), Some(Code::Exists));
            continue;
        }
        // The next copy of another put came meanwhile: the pool is asked again.
        world.tell(agent, verified("x", 1, true));
        assert_eq!(world.answer_to(client, number), None);
        assert_eq!(world.calls(), [verify_of("x", 2)]);
        if is_sealed {
            world.tell(agent, Told::Drop { id, birth: theirs() });
        } else {
            assert_eq!(world.ask(agent, Request::Abort { id }), Reply::Done);
        }
        world.tell(agent, verified("x", 2, true));
        assert!(matches!(world.answer_to(client, number), Some(Reply::Created(_))));
    }
}

/// The same for the put of another client of this node, once that is complete.
#[test]
fn a_name_that_another_client_puts_waits_until_the_pool_has_decided() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (one, two) = (world.connect(2), world.connect(3));
    world.send_seal(one, &put("x", 20));
    let number = world.send(two, create_of("x"));
    assert!(world.calls().contains(&verify_of("x", 1)));
    let (id, result) = (free("x"), Err(Refusal::NotEnoughNodes));
    world.tell(agent, Told::Committed { id, serial: OURS, result });
    assert_eq!(world.answer_to(two, number), None);
    world.tell(agent, verified("x", 1, true));
    assert!(matches!(world.answer_to(two, number), Some(Reply::Created(_))));
}

#[test]
fn a_creation_does_not_wait_for_ever_while_others_put_the_same_name() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring(agent, "x", false, true);
    let client = world.connect(2);
    let number = world.send(client, create_of("x"));
    world.pass(CREATION_MS - 1);
    world.tell(agent, verified("x", 1, true));
    assert_eq!(world.answer_to(client, number), None);
    world.pass(1);
    world.tell(agent, verified("x", 2, true));
    assert_eq!(code_of(world.answer_to(client, number)), Some(Code::Unreachable));
}
