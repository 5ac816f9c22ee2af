use super::*;

const SERVER: [u8; 16] = [2; 16];

fn local(node: u8, change: impl FnOnce(&mut Local)) -> Arc<Local> {
    let mut local = Local {
        cluster: Cluster::new("prod", [9; 16]).unwrap(),
        node: NodeIdentity {
            uuid: [node; 16],
            slot: node.into(),
            boot: u64::from(node) << 40,
            incarnation: 1,
        },
        protocols: ProtocolRange::new(1, 3).unwrap(),
        token: Token::new(b"the token of a pool").unwrap(),
        encryption: Encryption::Nothing,
        peers: KnownPeers::default(),
    };
    change(&mut local);
    Arc::new(local)
}

fn purpose(lane: Lane) -> Purpose {
    Purpose { lane, node: Some(SERVER) }
}

/// What both sides of a handshake end with.
type Outcome = Result<Peer, Failure>;

/// Runs a handshake between these two; the outcomes of the connecting and the accepting side.
fn run(connecting: Arc<Local>, accepting: Arc<Local>, purpose: Purpose) -> (Outcome, Outcome) {
    let (mut client, hello) = Handshake::connect(connecting, purpose, [1; 32]);
    let mut server = Handshake::accept(accepting, [2; 32]);
    let (mut kind, mut payload) = (Kind::Hello, hello);
    let mut opened = None;
    for round in 0.. {
        let is_server = round % 2 == 0;
        let (side, other) =
            if is_server { (&mut server, &mut client) } else { (&mut client, &mut server) };
        match side.receive(kind, &payload) {
            Err(failure) => {
                let told = match failure {
                    Failure::Refused(why) => other.receive(Kind::Refused, &why.encode()),
                    _ => Err(Failure::Malformed),
                };
                let told = told.map(|_| unreachable!("a refusal ends a handshake"));
                return if is_server { (told, Err(failure)) } else { (Err(failure), told) };
            }
            Ok(Step { reply: None, peer, .. }) => return (Ok(peer.unwrap()), Ok(opened.unwrap())),
            Ok(Step { reply: Some(reply), peer, .. }) => {
                (kind, payload) = reply;
                opened = opened.or(peer);
            }
        }
    }
    unreachable!("a handshake has an end")
}

#[test]
fn both_sides_learn_the_other_one_and_the_newest_common_version() {
    let older = local(2, |local| local.protocols = ProtocolRange::new(1, 2).unwrap());
    for lane in [Lane::Control, Lane::Bulk(0), Lane::Bulk(BULK_LANES_MAX - 1)] {
        let newer = local(1, |_| ());
        let (client, server) = run(newer.clone(), older.clone(), purpose(lane));
        assert_eq!(client, Ok(Peer { node: older.node, lane, protocol: 2 }));
        assert_eq!(server, Ok(Peer { node: newer.node, lane, protocol: 2 }));
    }
    let anywhere = Purpose { lane: Lane::Control, node: None };
    assert!(run(local(1, |_| ()), older, anywhere).0.is_ok());
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason_told() {
    let range = ProtocolRange::new(1, 3).unwrap();
    let told = |why| (Err(Failure::RefusedByPeer(why)), Err(Failure::Refused(why)));
    let names = local(1, |local| local.cluster = Cluster::new("test", [9; 16]).unwrap());
    let ids = local(1, |local| local.cluster = Cluster::new("prod", [8; 16]).unwrap());
    let newer = local(1, |local| local.protocols = ProtocolRange::new(4, 5).unwrap());
    let stranger = local(1, |local| local.token = Token::new(&[0; 32]).unwrap());
    let itself = local(2, |_| ());
    for (client, expected) in [
        (names, told(Refusal::Cluster)),
        (ids, told(Refusal::Cluster)),
        (newer, told(Refusal::Protocol(range))),
        (stranger, told(Refusal::Token)),
        (itself, told(Refusal::Node)),
    ] {
        let found = run(client.clone(), local(2, |_| ()), purpose(Lane::Control));
        assert_eq!(found, expected, "{client:?}");
    }
    let (client, server) = run(local(1, |_| ()), local(3, |_| ()), purpose(Lane::Control));
    assert_eq!(client, Err(Failure::Refused(Refusal::Node)), "another node has the address");
    assert_eq!(server, Err(Failure::RefusedByPeer(Refusal::Node)));
}

/// An accepting side that has another token, and does not check ours, cannot welcome us.
#[test]
fn the_accepting_side_proves_the_token_too() {
    let (mut client, hello) = Handshake::connect(local(1, |_| ()), purpose(Lane::Control), [1; 32]);
    let impostor = local(2, |local| local.token = Token::new(&[0; 32]).unwrap());
    let challenge = impostor.introduce(Lane::Control, [7; 32]).encode();
    let proof = client.receive(Kind::Challenge, &challenge).unwrap().reply.unwrap().1;
    let transcript = Transcript { hello, challenge };
    let forged = impostor.token.proof(Role::Acceptor, &transcript);
    for welcome in [forged.to_vec(), proof, vec![0; PROOF_BYTES], Vec::new()] {
        let (mut client, _) = Handshake::connect(local(1, |_| ()), purpose(Lane::Control), [1; 32]);
        client.receive(Kind::Challenge, &transcript.challenge).unwrap();
        let refused = client.receive(Kind::Welcome, &welcome);
        assert_eq!(refused, Err(Failure::Refused(Refusal::Token)), "also its own proof echoed");
    }
}

/// A recorded handshake is sent again: the accepting side's random number is another one.
#[test]
fn a_replayed_handshake_is_refused() {
    let (mut client, hello) = Handshake::connect(local(1, |_| ()), purpose(Lane::Control), [1; 32]);
    let mut server = Handshake::accept(local(2, |_| ()), [2; 32]);
    let challenge = server.receive(Kind::Hello, &hello).unwrap().reply.unwrap().1;
    let proof = client.receive(Kind::Challenge, &challenge).unwrap().reply.unwrap().1;
    assert!(server.receive(Kind::Proof, &proof).unwrap().peer.is_some(), "it was right once");
    assert_eq!(server.receive(Kind::Proof, &proof), Err(Failure::Malformed), "and only once");

    let mut later = Handshake::accept(local(2, |_| ()), [3; 32]);
    later.receive(Kind::Hello, &hello).unwrap();
    assert_eq!(later.receive(Kind::Proof, &proof), Err(Failure::Refused(Refusal::Token)));
}

/// A machine without the token has a node connect to it, and opens a second connection to that
/// node, to have it answer its own challenge.
#[test]
fn a_reflected_handshake_is_refused() {
    let node = local(1, |_| ());
    let anywhere = Purpose { lane: Lane::Control, node: None };
    let (mut out, hello) = Handshake::connect(node.clone(), anywhere, [1; 32]);
    let echoed = out.receive(Kind::Challenge, &hello);
    assert_eq!(echoed, Err(Failure::Malformed), "the echo of our own hello");
    let mut back = Handshake::accept(node.clone(), [2; 32]);
    let own = back.receive(Kind::Hello, &hello);
    assert_eq!(own, Err(Failure::Refused(Refusal::Node)), "our own hello comes back to us");

    // With another name on it, both connections go as far as the proofs; these are for other
    // introductions.
    let mut renamed = Introduction::decode(&hello).unwrap();
    renamed.node.uuid = [5; 16];
    let challenge = back_challenge(&node, &renamed.encode());
    let mut forged = Introduction::decode(&challenge).unwrap();
    forged.node.uuid = [5; 16];
    let (mut out, _) = Handshake::connect(node.clone(), anywhere, [1; 32]);
    let proof = out.receive(Kind::Challenge, &forged.encode()).unwrap().reply.unwrap().1;
    let mut back = Handshake::accept(node, [2; 32]);
    back.receive(Kind::Hello, &renamed.encode()).unwrap();
    assert_eq!(back.receive(Kind::Proof, &proof), Err(Failure::Refused(Refusal::Token)));
}

fn back_challenge(node: &Arc<Local>, hello: &[u8]) -> Vec<u8> {
    let mut back = Handshake::accept(node.clone(), [2; 32]);
    back.receive(Kind::Hello, hello).unwrap().reply.unwrap().1
}

/// What a machine in the middle changes of the introductions makes the proofs wrong.
#[test]
fn introductions_that_were_changed_on_the_way_are_refused() {
    let (_, hello) = Handshake::connect(local(1, |_| ()), purpose(Lane::Control), [1; 32]);
    for at in 0..hello.len() {
        let mut changed = hello.clone();
        changed[at] ^= 1;
        let (mut client, _) = Handshake::connect(local(1, |_| ()), purpose(Lane::Control), [1; 32]);
        let mut server = Handshake::accept(local(2, |_| ()), [2; 32]);
        let Ok(step) = server.receive(Kind::Hello, &changed) else { continue };
        let Ok(step) = client.receive(Kind::Challenge, &step.reply.unwrap().1) else { continue };
        let refused = server.receive(Kind::Proof, &step.reply.unwrap().1);
        assert_eq!(refused, Err(Failure::Refused(Refusal::Token)), "byte {at} was changed");
    }
}

#[test]
fn steps_out_of_order_and_other_bytes_are_malformed() {
    let kinds = [Kind::Challenge, Kind::Proof, Kind::Welcome, Kind::Message, Kind::Beat];
    for kind in kinds {
        let mut server = Handshake::accept(local(2, |_| ()), [2; 32]);
        assert_eq!(server.receive(kind, &[0; 32]), Err(Failure::Malformed), "{kind:?}");
        assert_eq!(server.receive(Kind::Hello, &[0; 32]), Err(Failure::Malformed), "it is over");
    }
    for kind in [Kind::Hello, Kind::Proof, Kind::Welcome, Kind::Message, Kind::Challenge] {
        let (mut client, _) = Handshake::connect(local(1, |_| ()), purpose(Lane::Control), [1; 32]);
        assert_eq!(client.receive(kind, b"nonsense"), Err(Failure::Malformed), "{kind:?}");
    }
    let mut server = Handshake::accept(local(2, |_| ()), [2; 32]);
    assert_eq!(server.receive(Kind::Refused, &[]), Err(Failure::Malformed));
    let (mut client, _) = Handshake::connect(local(1, |_| ()), purpose(Lane::Bulk(1)), [1; 32]);
    let other_lane = local(2, |_| ()).introduce(Lane::Bulk(2), [2; 32]).encode();
    assert_eq!(client.receive(Kind::Challenge, &other_lane), Err(Failure::Malformed));
}
