//! The bytes of notes, and what is refused.

use super::*;

fn all() -> Vec<Note> {
    let endpoints = vec![
        NamedEndpoint { provider: 2, name: vec![7; 16] },
        NamedEndpoint { provider: 3, name: b"fi_shm://1\0".to_vec() },
    ];
    let window = TransferWindow { provider: 2, base: 1 << 40, key: u64::MAX, bytes: 3 << 20 };
    let segment = Segment { transfer: 9, number: 2, bytes: 77, offset: 2 << 20, checksum: 5 };
    vec![
        Note::Endpoints(Endpoints { machine: "a machine".to_owned(), endpoints }),
        Note::Endpoints(Endpoints::default()),
        Note::Window { transfer: 9, window },
        Note::NoWindow { transfer: u64::MAX },
        Note::Stop { transfer: 0 },
        Note::Ended { transfer: 9 },
        Note::Written(segment),
    ]
}

#[test]
fn notes_are_read_as_they_were_written() {
    for note in all() {
        assert_eq!(Note::decode(&note.encode()), Ok(note.clone()), "{note:?}");
    }
}

#[test]
fn bytes_are_those_of_the_format_page() {
    let golden = [
        0x50, 0x4c, 0x4e, 0x54, // magic PLNT
        5, 0, 0, 0, // kind
        8, 7, 6, 5, 4, 3, 2, 1, // transfer
        0, 0, 0, 0, // number
        0, 0, 0, 0, // bytes
        0, 0, 0, 0, 0, 0, 0, 0, // offset
        0, 0, 0, 0, // checksum of nothing
    ];
    let raw = Note::Ended { transfer: 0x0102_0304_0506_0708 }.encode();
    assert_eq!(raw[..36], golden);
    assert_eq!(raw[36..], crc32c::crc32c(&golden).to_le_bytes());
    assert_eq!(raw.len(), HEADER_BYTES);
}

/// Each byte is covered by a checksum, but for those of the magic.
#[test]
fn damage_is_seen_wherever_it_is() {
    for note in all() {
        let good = note.encode();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            assert!(Note::decode(&bad).is_err(), "{note:?}, byte {at}");
        }
        for bytes in 0..good.len() {
            assert!(Note::decode(&good[..bytes]).is_err(), "{note:?}, {bytes} bytes");
        }
    }
}

/// A note with these fields and right checksums.
fn made(
    kind: u32,
    transfer: u64,
    (number, bytes, offset): (u32, u32, u64),
    rest: &[u8],
) -> Vec<u8> {
    let mut raw = MAGIC.to_vec();
    raw.extend(kind.to_le_bytes());
    raw.extend(transfer.to_le_bytes());
    raw.extend(number.to_le_bytes());
    raw.extend(bytes.to_le_bytes());
    raw.extend(offset.to_le_bytes());
    raw.extend(crc32c::crc32c(rest).to_le_bytes());
    raw.extend(crc32c::crc32c(&raw).to_le_bytes());
    raw.extend(rest);
    raw
}

#[test]
fn what_a_peer_may_not_say_is_refused() {
    let long = NOTE_BYTES_MAX + 1;
    for (raw, expected) in [
        (made(0, 1, (0, 0, 0), &[]), BadNote::Kind { found: 0 }),
        (made(7, 1, (0, 0, 0), &[]), BadNote::Kind { found: 7 }),
        (made(STOP, 1, (0, 1, 0), &[0]), BadNote::Length { found: 1 }),
        (made(STOP, 1, (1, 0, 0), &[]), BadNote::Length { found: 0 }),
        (made(STOP, 1, (0, 0, 1), &[]), BadNote::Length { found: 0 }),
        (made(WINDOW, 1, (0, 24, 0), &[0; 24]), BadNote::Length { found: 24 }),
        (made(ENDPOINTS, 0, (0, 0, 0), &[]), BadNote::Length { found: 0 }),
        (made(ENDPOINTS, 1, (0, 2, 0), &[0; 2]), BadNote::Length { found: 2 }),
        (made(ENDPOINTS, 0, (0, long, 0), &[0; 9]), BadNote::Length { found: long }),
        (made(WRITTEN, 1, (0, 0, 0), &[]), BadNote::Segment { found: 0 }),
        (
            made(WRITTEN, 1, (0, SEGMENT_BYTES_MAX + 1, 0), &[]),
            BadNote::Segment { found: SEGMENT_BYTES_MAX + 1 },
        ),
        // A machine that is longer than the note, text that is not UTF-8, one endpoint too many, a
        // name that is too long, and something left over.
        (made(ENDPOINTS, 0, (0, 2, 0), &[9, 0]), BadNote::Content),
        (made(ENDPOINTS, 0, (0, 3, 0), &[1, 0xff, 0]), BadNote::Content),
        (made(ENDPOINTS, 0, (0, 2, 0), &[0, 5]), BadNote::Content),
        (made(ENDPOINTS, 0, (0, 5, 0), &[0, 1, 2, 9, 0]), BadNote::Content),
        (made(ENDPOINTS, 0, (0, 3, 0), &[0, 0, 0]), BadNote::Content),
    ] {
        assert_eq!(Note::decode(&raw), Err(expected), "{raw:?}");
    }
    let name = vec![0; ENDPOINT_NAME_BYTES_MAX + 1];
    let bytes = (name.len() as u16).to_le_bytes();
    let raw = [&[0, 1, 2, bytes[0], bytes[1]][..], &name].concat();
    let note = made(ENDPOINTS, 0, (0, raw.len() as u32, 0), &raw);
    assert_eq!(Note::decode(&note), Err(BadNote::Content));
}

/// What exceeds its limit is not said, for the peer would end the lane.
#[test]
fn endpoints_keep_their_limits() {
    let long = NamedEndpoint { provider: 1, name: vec![0; ENDPOINT_NAME_BYTES_MAX + 1] };
    let good = NamedEndpoint { provider: 1, name: vec![0; ENDPOINT_NAME_BYTES_MAX] };
    let mut endpoints = vec![long];
    endpoints.resize(ENDPOINTS_MAX + 2, good.clone());
    let said = Endpoints { machine: "m".repeat(MACHINE_BYTES_MAX + 1), endpoints };
    let read = Note::decode(&Note::Endpoints(said).encode()).unwrap();
    let endpoints = vec![good; ENDPOINTS_MAX];
    assert_eq!(read, Note::Endpoints(Endpoints { machine: String::new(), endpoints }));
}
