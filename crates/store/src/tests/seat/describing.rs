//! What the pool daemon is told of a copy, to tell other nodes of it.

use super::*;

fn describe(text: &str, birth: Birth) -> Request {
    Request::Describe { id: free(text), birth }
}

impl World {
    /// The name and the bytes of a copy.
    fn described(&mut self, agent: ClientNo, text: &str, birth: Birth) -> Option<(Name, u64)> {
        let Reply::Info(info) = self.ask(agent, describe(text, birth)) else { panic!() };
        info.map(|info| (info.name.unwrap(), info.sizes.data))
    }
}

#[test]
fn every_copy_of_the_incarnation_is_described_whether_clients_see_it_or_not() {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..config() });
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.bring(agent, "shown", true, true);
    world.bring(agent, "held", false, true);
    world.send_seal(client, &put("committing", 10));
    for (text, birth) in [("shown", theirs()), ("held", theirs()), ("committing", ours())] {
        assert_eq!(world.described(agent, text, birth), Some((name(text), 10)), "{text}");
        let other = Birth { serial: birth.serial + 1, ..birth };
        assert_eq!(world.described(agent, text, other), None, "{text}");
    }
    assert_eq!(world.described(agent, "absent", ours()), None);
    // What is asked before the copy is dropped is answered before.
    world.calls();
    world.tell(agent, Told::Drop { id: free("held"), birth: theirs() });
    assert_eq!(world.described(agent, "held", theirs()), None);
    // One that is being committed would not make room.
    world.tell(agent, Told::Committed { id: free("committing"), serial: OURS, result: Ok(()) });
    world.create_and_seal(client, &Put::new(1, 16 * MIB)).unwrap();
    assert_eq!(world.store.state_of(&free("shown")), Spilled);
    assert_eq!(world.described(agent, "shown", theirs()), Some((name("shown"), 10)));
    assert_eq!(world.calls(), [Call::Ended { id: free("held"), birth: theirs() }]);
    let refused = world.ask_for_failure(client, describe("shown", theirs()));
    assert_eq!(refused.code, Code::NotPermitted);
}
