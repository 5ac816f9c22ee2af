//! Copies that are damaged: the agent is told, and what it says is done.

use plasmon_proto::message::LogCheck;

use super::*;

fn durable_config(capacity_bytes: u64) -> Config {
    Config { pool: true, durable: true, ..Config::new(capacity_bytes) }
}

fn durable_put(text: &str) -> Put {
    let attributes = attributes(text, None);
    let pool = attributes.pool.map(|pool| PoolAttributes { class: Durability::Durable, ..pool });
    Put { id: free(text), ..Put::new(0, 10) }.with(Attributes { pool, ..attributes })
}

impl World {
    /// An object of this node is in its log and exists.
    fn put_logged(&mut self, agent: ClientNo, client: ClientNo, text: &str) {
        let id = free(text);
        self.send_seal(client, &durable_put(text));
        self.tell(agent, Told::Log { id, birth: ours() });
        self.tell(agent, Told::Committed { id, serial: OURS, result: Ok(()) });
        self.calls();
    }

    /// The memory is filled until this one is in the log alone.
    fn drive_out(&mut self, client: ClientNo, id: ObjectId) {
        for number in 1..20 {
            self.create_and_seal(client, &Put::new(number, 200_000).durable()).unwrap();
        }
        assert_eq!(
            self.ask(client, Request::States { ids: vec![id] }),
            states(&[Spilled]).unwrap()
        );
    }
}

fn check(world: &mut World, agent: ClientNo, text: &str) -> (LogCheck, Option<Name>) {
    let request = Request::CheckLogged { id: free(text), birth: ours() };
    match world.ask(agent, request) {
        Reply::LogChecked(check, name) => (check, name),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_said_and_stays_until_it_is_discarded() {
    let mut world = World::new(durable_config(MIB));
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.put_logged(agent, client, "x");
    let (x, birth) = (free("x"), ours());
    world.drive_out(client, x);
    world.logs = Some(false);
    let asked = world.send(client, wait(&[x], None));
    assert_eq!(world.answer_to(client, asked), states(&[ObjectState::Corrupt]));
    assert_eq!(world.calls(), [Call::Damaged { id: x, birth }]);
    // It is said again to an agent that is new.
    world.event(Event::Disconnect(agent));
    world.logs = Some(true);
    let agent = world.agent(3);
    world.vouch(agent);
    let calls = world.calls();
    assert!(matches!(calls[0], Call::Has { id, .. } if id == x), "{calls:?}");
    assert_eq!(calls[1..], [Call::Damaged { id: x, birth }]);
    assert_eq!(check(&mut world, agent, "x"), (LogCheck::Damaged { away: true }, Some(name("x"))));
    assert!(world.log.get(&x).is_some(), "it is there still");

    world.tell(agent, Told::Discard { id: x, birth });
    assert_eq!(world.calls(), [Call::Ended { id: x, birth }]);
    assert!(world.log.get(&x).is_none());
    assert_eq!(world.status().log.unwrap().corrupt, 0);
    let asked = world.send(client, wait(&[x], None));
    assert_eq!(world.answer_to(client, asked), None, "the pool is asked");
}

/// A copy in memory is discarded because its bytes are not those of other nodes: its readers keep
/// it, another one may come, and no subscriber hears that the object was deleted.
#[test]
fn a_copy_in_memory_is_discarded_without_an_end_of_the_object() {
    let mut world = World::new(durable_config(16 * MIB));
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.put_logged(agent, client, "x");
    let (x, birth) = (free("x"), ours());
    let filter = plasmon_proto::message::Filter::default();
    assert_eq!(world.ask(client, Request::Subscribe { filter }), Reply::Done);
    let pin = world.store.objects.directory.pin(&x);
    world.logs = None;
    world.tell(agent, Told::Discard { id: x, birth });
    assert_eq!(world.calls(), [], "its end is not in the log yet");
    world.settle(true);
    assert_eq!(world.calls(), [Call::Ended { id: x, birth }]);
    world.logs = Some(true);
    let is_notice = |effect: &&Effect| matches!(effect, Effect::Notify(..));
    assert_eq!(world.effects.iter().filter(is_notice).count(), 0);
    assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Created(_)), "another one comes");
    world.store.objects.directory.unpin(pin);
    world.tell(agent, Told::Discard { id: x, birth });
    assert_eq!(world.calls(), [Call::Ended { id: x, birth }], "it is not here");
}

#[test]
fn the_agent_learns_what_the_log_has_and_may_have_it_written_again() {
    let mut world = World::new(durable_config(16 * MIB));
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.put_logged(agent, client, "x");
    let (x, birth) = (free("x"), ours());
    let right = (LogCheck::Right { crc: 7, away: false }, Some(name("x")));
    assert_eq!(check(&mut world, agent, "x"), right);
    assert_eq!(check(&mut world, agent, "other"), (LogCheck::Absent, None));
    let refused = world.ask(client, Request::CheckLogged { id: x, birth });
    assert!(matches!(refused, Reply::Failed(_)), "it is not the agent");

    let lsn = world.log.get(&x).unwrap().0;
    world.logs = Some(false);
    assert_eq!(check(&mut world, agent, "x").0, LogCheck::Damaged { away: false });
    // Memory that is not what was logged is not written.
    world.tell(agent, Told::Relog { id: x, birth });
    assert_eq!(world.calls(), [Call::Damaged { id: x, birth }]);
    world.logs = Some(true);
    world.tell(agent, Told::Relog { id: x, birth });
    assert_eq!(world.calls(), []);
    assert!(world.log.get(&x).unwrap().0 > lsn);
    let copy = durable_put("x").attributes.of_copy(birth);
    assert_eq!(world.log.get(&x).unwrap().1.attributes, copy);
}
