//! Copies of durable objects: in the log before they are said to be, and out of it before they are
//! said to have ended.

use plasmon_proto::pool::WantedCopies;

use crate::event::LogFailure;

use super::*;

fn durable_config() -> Config {
    Config { durable: true, ..config() }
}

fn durable(text: &str, origin: Option<Origin>) -> Attributes {
    let attributes = attributes(text, origin);
    let pool = attributes.pool.map(|pool| PoolAttributes { class: Durability::Durable, ..pool });
    Attributes { pool, ..attributes }
}

fn durable_put(text: &str) -> Put {
    Put { id: free(text), ..Put::new(0, 10) }.with(durable(text, None))
}

fn durable_content(text: &str, birth: Birth) -> Content {
    let wanted = WantedCopies { copies: 2, copies_min: 1 };
    let content = content_with(10, &durable(text, None).of_copy(birth));
    Content { durable: Some(wanted), ..content }
}

fn log_of(text: &str, birth: Birth) -> Told {
    Told::Log { id: free(text), birth }
}

impl World {
    /// Brings a copy here that is kept, and not in the log yet.
    fn bring_durable(&mut self, agent: ClientNo, text: &str, visible: bool) {
        let attributes = durable(text, Some(ELSEWHERE));
        let bytes = attributes.encode().len() as u64;
        let sizes = plasmon_proto::object::Sizes { attributes: bytes, ..sizes(10) };
        let (id, traits, growing) = (free(text), Traits::default(), false);
        let landing = Landing { id, birth: theirs(), sizes, traits, growing };
        assert!(matches!(self.ask(agent, Request::Land(landing)), Reply::Created(_)));
        let landed = SealLanded { id, birth: theirs(), visible, keep: true };
        self.next_number += 1;
        let number = 4_000_000 + self.next_number;
        self.event(Event::SealLanded(agent, number, landed, Some(attributes)));
        assert_eq!(self.answer_to(agent, number), Some(Reply::Done));
    }

    /// The power goes: what is left is the log.
    fn lose_power(self) -> World {
        let (log, config) = (self.log, self.store.config);
        let mut next = World::over(Store::new(config, crate::doubles::TestDirectory::default()));
        next.log = log;
        next.open_log();
        next
    }
}

#[test]
fn what_is_made_here_goes_to_the_log_when_the_pool_says_so_and_is_seen_when_it_has_accepted_it() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.logs = None;
    let sealing = world.send_seal(client, &durable_put("x"));
    let x = free("x");
    let content = durable_content("x", ours());
    let commit = Call::Commit { id: x, serial: OURS, content, copies: 2, copies_min: 1 };
    assert_eq!(world.calls(), [commit]);
    assert!(world.open.is_empty(), "the pool decides first");

    world.tell(agent, log_of("x", ours()));
    world.tell(agent, log_of("x", ours()));
    assert_eq!(world.open.len(), 1, "it is written once");
    let Effect::Log(_, order) = &world.open[0].1 else { panic!("it is logged") };
    let copy = durable("x", None).of_copy(ours());
    assert_eq!(order.meta.sizes.attributes, copy.encode().len() as u64);
    assert_eq!(order.attributes, copy, "the log names its birth");
    world.settle(true);
    assert_eq!(world.calls(), [Call::Logged { id: x, birth: ours() }]);
    assert_eq!(world.answer_to(client, sealing), None);
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: Ok(()) });
    assert_eq!(world.answer_to(client, sealing), Some(Reply::Done));
    assert_eq!(world.ask(client, Request::States { ids: vec![x] }), Reply::States(vec![Sealed]));
    world.tell(agent, log_of("x", ours()));
    assert_eq!(world.calls(), [Call::Logged { id: x, birth: ours() }], "it is there already");
}

#[test]
fn what_the_pool_refuses_leaves_the_log() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let sealing = world.send_seal(client, &durable_put("x"));
    world.tell(agent, log_of("x", ours()));
    assert!(world.log.get(&free("x")).is_some());
    let result = Err(Refusal::NotEnoughLogs);
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result });
    assert!(world.log.is_empty());
    let Some(Reply::Failed(failure)) = world.answer_to(client, sealing) else { panic!() };
    assert_eq!(failure.code, Code::NotEnoughNodes);
    assert!(failure.detail.contains("--durable-dir"), "{}", failure.detail);
}

#[test]
fn a_log_without_room_or_none_at_all_is_said() {
    for (config, logs) in [(durable_config(), Some(false)), (config(), Some(true))] {
        let mut world = World::new(config);
        let agent = world.agent(1);
        world.vouch(agent);
        world.bring_durable(agent, "x", true);
        world.calls();
        world.logs = logs;
        world.tell(agent, log_of("x", theirs()));
        let is_full = config.durable;
        let not_logged = Call::NotLogged { id: free("x"), birth: theirs(), is_full };
        assert_eq!(world.calls(), [not_logged]);
        let client = world.connect(2);
        let states = world.ask(client, Request::States { ids: vec![free("x")] });
        assert_eq!(states, Reply::States(vec![Sealed]), "the copy is as it was");
    }
}

#[test]
fn a_copy_has_ended_when_that_is_in_the_log() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.bring_durable(agent, "x", false);
    world.tell(agent, log_of("x", theirs()));
    world.calls();
    world.logs = None;
    let (id, birth) = (free("x"), theirs());
    world.tell(agent, Told::Drop { id, birth });
    world.tell(agent, Told::Drop { id, birth });
    assert_eq!(world.calls(), [], "the log has it still");
    world.settle(true);
    assert_eq!(world.calls(), [Call::Ended { id, birth }]);
    assert!(world.log.is_empty());
    world.tell(agent, Told::Drop { id, birth });
    assert_eq!(world.calls(), [Call::Ended { id, birth }]);
}

#[test]
fn a_copy_that_ends_while_it_is_written_ends_in_the_log_too() {
    for done in [true, false] {
        let mut world = World::new(durable_config());
        let agent = world.agent(1);
        world.bring_durable(agent, "x", false);
        world.calls();
        world.logs = None;
        world.tell(agent, log_of("x", theirs()));
        let (id, birth) = (free("x"), theirs());
        world.tell(agent, Told::Drop { id, birth });
        assert_eq!(world.calls(), []);
        world.settle(done);
        if done {
            assert_eq!(world.calls(), [], "the log has it now");
            world.settle(true);
        }
        assert_eq!(world.calls(), [Call::Ended { id, birth }], "{done}");
        assert!(world.log.is_empty());
        world.pass(60_000);
        assert_eq!(world.status().used_bytes, 0);
    }
}

/// The log takes no delete: the copy may be back at the next start, so it is not said to be gone.
#[test]
fn a_copy_whose_end_the_log_does_not_take_has_not_ended() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.bring_durable(agent, "x", false);
    world.tell(agent, log_of("x", theirs()));
    world.calls();
    world.logs = Some(false);
    for _ in 0..2 {
        world.tell(agent, Told::Drop { id: free("x"), birth: theirs() });
        assert_eq!(world.calls(), []);
    }
    world.logs = Some(true);
    let (id, birth) = (free("x"), theirs());
    world.tell(agent, Told::Drop { id, birth });
    assert_eq!(world.calls(), [Call::Ended { id, birth }]);
    assert!(world.log.is_empty());
}

/// A write between puts may be the one that fails.
#[test]
fn a_log_that_fails_in_an_idle_moment_is_said_at_once() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.bring_durable(agent, "x", true);
    world.calls();
    for _ in 0..2 {
        world.event(Event::LogFailed("the disk is gone".to_owned()));
    }
    assert_eq!(world.calls(), [Call::LogFailed]);
    world.tell(agent, log_of("x", theirs()));
    let not_logged = Call::NotLogged { id: free("x"), birth: theirs(), is_full: false };
    assert_eq!(world.calls(), [not_logged]);
}

/// Its copies in the log count no more, and are read as long as the store runs.
#[test]
fn a_log_that_fails_is_said_once_and_to_each_agent_that_comes_later() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.bring_durable(agent, "x", true);
    world.calls();
    world.logs = None;
    world.tell(agent, log_of("x", theirs()));
    let Some((ticket, Effect::Log(..))) = world.open.pop_front() else { panic!("it is logged") };
    let failure = LogFailure { code: Code::Io, detail: "the disk is gone".to_owned() };
    world.event(Event::Logged(ticket, Err(failure)));
    let not_logged = Call::NotLogged { id: free("x"), birth: theirs(), is_full: false };
    assert_eq!(world.calls(), [Call::LogFailed, not_logged]);
    world.tell(agent, log_of("x", theirs()));
    assert_eq!(world.calls(), [not_logged]);
    world.tell(agent, Told::AddTombstone { id: free("y"), birth: theirs() });
    assert_eq!((world.open.len(), world.calls()), (0, vec![]));
    world.disconnect(agent);
    world.agent(2);
    assert_eq!(world.all_calls()[1..], [Call::LogFailed, Call::InventoryEnd]);
}

#[test]
fn a_copy_that_is_released_leaves_the_log() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring_durable(agent, "x", true);
    world.tell(agent, log_of("x", theirs()));
    let client = world.connect(2);
    assert_eq!(world.policy_of(client, free("x")), Policy::Keep);
    world.tell(agent, Told::Release { id: free("x"), birth: theirs() });
    assert_eq!(world.policy_of(client, free("x")), Policy::Cache);
    assert!(world.log.is_empty());
}

#[test]
fn after_a_loss_of_power_a_copy_is_told_with_its_birth_and_shown_when_the_pool_says_so() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let sealing = world.send_seal(client, &durable_put("x"));
    world.tell(agent, log_of("x", ours()));
    let x = free("x");
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: Ok(()) });
    assert_eq!(world.answer_to(client, sealing), Some(Reply::Done));

    let mut next = world.lose_power();
    let agent = next.agent(1);
    next.vouch(agent);
    let content = durable_content("x", ours());
    let (visible, kept, logged) = (false, true, true);
    let has = Call::Has { id: x, birth: ours(), content, visible, kept, logged };
    assert_eq!(next.calls(), [has]);
    let client = next.connect(2);
    let described = next.send(client, Request::Stat { id: x });
    assert_eq!(next.answer_to(client, described), None, "nothing is said of it here");
    let asked = next.send(client, wait(&[x], None));
    assert_eq!(next.answer_to(client, asked), None);
    let sought = |call: &Call| matches!(call, Call::Seek { id, .. } if *id == x);
    assert!(next.calls().iter().any(sought), "the pool is asked");
    next.tell(agent, Told::Publish { id: x, birth: ours() });
    assert_eq!(next.answer_to(client, asked), states(&[Sealed]));
    assert_eq!(next.status().log.unwrap().objects, 1);
}

/// What was made here has shorter attributes in memory than in the log.
#[test]
fn what_was_made_here_leaves_the_memory_and_comes_back_as_a_copy() {
    let mut world = World::new(Config { pool: true, durable: true, ..Config::new(MIB) });
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.send_seal(client, &durable_put("x"));
    let x = free("x");
    world.tell(agent, log_of("x", ours()));
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: Ok(()) });
    world.calls();
    for number in 1..20 {
        world.create_and_seal(client, &Put::new(number, 200_000).durable()).unwrap();
    }
    assert_eq!(world.ask(client, Request::States { ids: vec![x] }), Reply::States(vec![Spilled]));
    let asked = world.send(client, wait(&[x], None));
    assert_eq!(world.answer_to(client, asked), states(&[Sealed]));
    assert_eq!(world.calls(), [], "the pool hears nothing of that");
    world.tell(agent, log_of("x", ours()));
    assert_eq!(world.calls(), [Call::Logged { id: x, birth: ours() }]);
    world.tell(agent, Told::Drop { id: x, birth: ours() });
    assert_eq!(world.calls(), [Call::Ended { id: x, birth: ours() }]);
    assert!(world.log.get(&x).is_none());
}

#[test]
fn a_copy_that_an_earlier_store_made_is_dropped_by_its_birth() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.send_seal(client, &durable_put("x"));
    world.tell(agent, log_of("x", ours()));
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result: Ok(()) });
    // The next life of the store: its memory is gone, and so is the number that the birth has.
    let mut next = world.lose_power();
    let agent = next.agent(1);
    next.tell(agent, Told::Drop { id: free("x"), birth: ours() });
    assert!(next.log.is_empty());
    assert!(next.lose_power().log.is_empty());
}

#[test]
fn an_end_is_noted_until_it_need_not_be() {
    let (id, birth) = (free("x"), theirs());
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.calls();
    world.logs = None;
    world.tell(agent, Told::AddTombstone { id, birth });
    world.tell(agent, Told::AddTombstone { id, birth });
    assert_eq!((world.open.len(), world.calls()), (1, vec![]));
    world.settle(true);
    assert_eq!(world.calls(), [Call::TombstoneAdded { id, birth }]);

    let mut next = world.lose_power();
    let agent = next.agent(1);
    assert_eq!(next.all_calls(), [Call::TombstoneAdded { id, birth }, Call::InventoryEnd]);
    assert_eq!(next.status().objects, 0, "it is no object");
    next.tell(agent, Told::AddTombstone { id, birth });
    assert_eq!(next.calls(), [Call::TombstoneAdded { id, birth }]);
    next.tell(agent, Told::RemoveTombstone { id, birth });
    assert_eq!(next.calls(), [Call::TombstoneRemoved { id, birth }]);
    assert!(next.log.is_empty());
}

#[test]
fn an_end_that_the_log_does_not_take_is_not_said_to_be_noted() {
    let (id, birth) = (free("x"), theirs());
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.calls();
    world.logs = Some(false);
    world.tell(agent, Told::AddTombstone { id, birth });
    assert_eq!(world.calls(), []);
    world.logs = Some(true);
    world.tell(agent, Told::AddTombstone { id, birth });
    assert_eq!(world.calls(), [Call::TombstoneAdded { id, birth }]);
}

#[test]
fn a_composite_of_a_pool_is_not_durable() {
    let mut world = World::new(durable_config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring(agent, "member", true, true);
    let client = world.connect(2);
    let mut attributes = durable("x", None);
    attributes.members = vec![free("member")];
    let put = Put { id: free("x"), ..Put::new(0, 10) }.with(attributes);
    let sealing = world.send_seal(client, &put);
    let Some(Reply::Failed(failure)) = world.answer_to(client, sealing) else { panic!() };
    assert_eq!(failure.code, Code::Unsupported);
}
