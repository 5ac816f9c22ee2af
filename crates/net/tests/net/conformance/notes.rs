//! Notes of bulk lanes: between segments, whole, limited.

use plasmon_net::note::{BadNote, Endpoints, NamedEndpoint, Note, TransferWindow};
use plasmon_net::transport::{Received, Sent, Source};
use plasmon_net::{BulkLane, Error, FramedBulk, NOTES_BYTES_MAX, Stream};
use plasmon_testkit::pattern;

use super::Fixture;
use super::bulk::{Memory, segments};
use super::hostile::{end_of, send_all};

fn endpoints() -> Note {
    let endpoints = vec![NamedEndpoint { provider: 2, name: pattern(1, 200) }];
    Note::Endpoints(Endpoints { machine: "here".to_owned(), endpoints })
}

fn window(transfer: u64) -> Note {
    let window = TransferWindow { provider: 2, base: 0, key: 7, bytes: 1 << 30 };
    Note::Window { transfer, window }
}

pub(crate) fn notes_arrive_in_their_place_between_segments(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.bulk();
    let content = pattern(3, 900_000);
    let parts = segments(&content, 450_000);
    let mut memory = Memory::of(content.len());
    let notes = [endpoints(), window(4), Note::Stop { transfer: 5 }, Note::Written(parts[1])];
    let expected = [
        Received::Note(notes[0].clone()),
        Received::Segment(parts[0]),
        Received::Note(notes[1].clone()),
        Received::Note(notes[2].clone()),
        Received::Segment(parts[1]),
        Received::Note(notes[3].clone()),
    ];
    one.queue_note(&notes[0]).unwrap();
    let (mut outcomes, mut sent) = (Vec::new(), 0);
    while outcomes.len() < expected.len() {
        if let Some(part) = parts.get(sent) {
            let bytes = &content[part.offset as usize..][..part.bytes as usize];
            if one.send(part, Source::Memory(bytes)).unwrap() == Sent::Whole {
                let after = [&notes[1..3], &notes[3..]][sent];
                after.iter().for_each(|note| one.queue_note(note).unwrap());
                sent += 1;
            }
        } else {
            one.send_notes().unwrap();
        }
        match two.receive(&mut memory).unwrap() {
            Received::Blocked => fixture.wait(),
            outcome => outcomes.push(outcome),
        }
    }
    assert_eq!(outcomes, expected);
    assert!(memory.transfers[&1] == content && !one.has_notes());
}

pub(crate) fn a_peer_that_does_not_read_its_notes_loses_its_lane(fixture: &mut impl Fixture) {
    let (mut one, _two) = fixture.bulk();
    let error = (0..)
        .find_map(|transfer| {
            let queued = one.queue_note(&window(transfer));
            queued.and_then(|()| one.send_notes()).err()
        })
        .unwrap();
    let Error::Note(BadNote::Full { queued_bytes }) = error else { panic!("{error}") };
    assert!((NOTES_BYTES_MAX..NOTES_BYTES_MAX + 100).contains(&queued_bytes));
}

pub(crate) fn a_bad_note_ends_the_lane(fixture: &mut impl Fixture) {
    let good = endpoints().encode();
    for (at, expected) in [
        (20, BadNote::HeaderChecksum),
        (37, BadNote::HeaderChecksum),
        (41, BadNote::Checksum),
        (good.len() - 1, BadNote::Checksum),
    ] {
        let (mut hostile, victim) = fixture.streams();
        let mut victim = FramedBulk::new(victim);
        let mut bad = good.clone();
        bad[at] ^= 1;
        send_all(fixture, &mut hostile, &bad);
        let mut memory = Memory::of(10);
        let error = end_of(fixture, || Ok(victim.receive(&mut memory)? != Received::Blocked));
        let Error::Note(found) = error else { panic!("{error}") };
        assert_eq!(found, expected, "byte {at}");
    }
}

pub(crate) fn a_close_within_a_note_is_seen(fixture: &mut impl Fixture) {
    let good = endpoints().encode();
    for bytes in [1, 39, 40, good.len() - 1] {
        let (mut near, far) = fixture.streams();
        let mut far = FramedBulk::new(far);
        send_all(fixture, &mut near, &good[..bytes]);
        near.close();
        let mut memory = Memory::of(10);
        let error = end_of(fixture, || Ok(far.receive(&mut memory)? != Received::Blocked));
        assert!(matches!(error, Error::Closed { midway: true }), "{bytes}: {error}");
    }
}
