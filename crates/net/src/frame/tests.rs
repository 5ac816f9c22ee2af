use plasmon_testkit::{Random, pattern};
use proptest::prelude::*;

use super::*;

fn message(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let info = FrameInfo { kind: Kind::Message, class: Class::Background, sequence };
    encode(info, payload, &mut bytes);
    bytes
}

/// Gives the decoder bytes in pieces of this many, and takes every frame.
fn feed(decoder: &mut Decoder, mut bytes: &[u8], piece: usize) -> Result<Vec<Frame>, BadFrame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let space = decoder.space();
        let count = piece.min(space.len()).min(bytes.len());
        assert!(count > 0, "a decoder whose frames are taken has space");
        space[..count].copy_from_slice(&bytes[..count]);
        decoder.filled(count);
        bytes = &bytes[count..];
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn decode(bytes: &[u8]) -> Result<Vec<Frame>, BadFrame> {
    feed(&mut Decoder::new(Phase::Open, FIRST_SEQUENCE), bytes, usize::MAX)
}

/// The frame with one byte changed, and the checksum of its header made right again.
fn changed(at: usize, byte: u8) -> Vec<u8> {
    let mut frame = message(FIRST_SEQUENCE, b"abc");
    frame[at] = byte;
    let checksum = crc32c::crc32c(&frame[..CHECKED_BYTES]);
    frame[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    frame
}

#[test]
fn bytes_are_those_of_the_format_page() {
    let golden = [
        0x50, 0x4c, 0x4e, 0x46, // magic PLNF
        0x01, 0x10, 0x02, 0x00, // version, message, background, flags
        0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // number
        0x03, 0x00, 0x00, 0x00, // bytes of payload
        0xb7, 0x3f, 0x4b, 0x36, // checksum of the payload
        0x6c, 0xd4, 0xa3, 0x36, // checksum of the header
        b'a', b'b', b'c',
    ];
    assert_eq!(message(FIRST_SEQUENCE, b"abc"), golden);
    let frames = decode(&golden).unwrap();
    let info = FrameInfo { kind: Kind::Message, class: Class::Background, sequence: 2 };
    assert_eq!(frames, [Frame { info, payload: b"abc".to_vec() }]);
}

#[test]
fn frames_come_whole_whatever_pieces_they_arrive_in() {
    let lengths = [0, 1, READ_BYTES, 0, READ_LARGE_BYTES * 2 + 7, 5, MESSAGE_BYTES_MAX, 3];
    let payloads: Vec<Vec<u8>> =
        lengths.iter().enumerate().map(|(seed, length)| pattern(seed as u64, *length)).collect();
    let mut stream = Vec::new();
    for (sequence, payload) in (FIRST_SEQUENCE..).zip(&payloads) {
        stream.extend_from_slice(&message(sequence, payload));
    }
    for piece in [1021, READ_BYTES - 1, READ_BYTES, READ_LARGE_BYTES, usize::MAX] {
        let mut decoder = Decoder::new(Phase::Open, FIRST_SEQUENCE);
        let frames = feed(&mut decoder, &stream, piece).unwrap();
        let found: Vec<&Vec<u8>> = frames.iter().map(|frame| &frame.payload).collect();
        assert_eq!(found, payloads.iter().collect::<Vec<_>>(), "in pieces of {piece}");
        assert!(!decoder.has_part());
    }
    let small = message(FIRST_SEQUENCE, b"abc");
    let mut decoder = Decoder::new(Phase::Open, FIRST_SEQUENCE);
    assert_eq!(feed(&mut decoder, &small, 1).unwrap().len(), 1, "in single bytes");
}

#[test]
fn a_frame_that_is_not_whole_says_what_is_missing() {
    let frame = message(FIRST_SEQUENCE, b"abc");
    for cut in 0..frame.len() {
        let mut decoder = Decoder::new(Phase::Open, FIRST_SEQUENCE);
        assert_eq!(feed(&mut decoder, &frame[..cut], usize::MAX), Ok(Vec::new()));
        let whole = if cut < HEADER_BYTES { HEADER_BYTES } else { frame.len() };
        assert_eq!((decoder.wanted(), decoder.has_part()), (whole - cut, cut > 0));
    }
}

#[test]
fn every_damage_is_named_and_stays() {
    for (frame, bad) in [
        (changed(0, b'X'), BadFrame::Magic),
        (changed(4, 2), BadFrame::Version { found: 2 }),
        (changed(5, 99), BadFrame::Kind { found: 99 }),
        (changed(5, Kind::Hello as u8), BadFrame::Kind { found: 1 }),
        (changed(6, 3), BadFrame::Class { found: 3 }),
        (changed(7, 1), BadFrame::Flags { found: 1 }),
        (changed(8, 1), BadFrame::Sequence { wanted: 2, found: 1 }),
        (changed(8, 3), BadFrame::Sequence { wanted: 2, found: 3 }),
        (changed(20, 0), BadFrame::PayloadChecksum { sequence: 2 }),
    ] {
        let mut decoder = Decoder::new(Phase::Open, FIRST_SEQUENCE);
        assert_eq!(feed(&mut decoder, &frame, usize::MAX), Err(bad.clone()));
        assert_eq!(decoder.next_frame(), Err(bad), "it stays at its error");
    }
    for at in 4..HEADER_BYTES {
        let mut frame = message(FIRST_SEQUENCE, b"abc");
        frame[at] ^= 0x10;
        assert_eq!(decode(&frame), Err(BadFrame::HeaderChecksum), "byte {at}");
    }
    let mut frame = message(FIRST_SEQUENCE, b"abc");
    frame[HEADER_BYTES + 1] ^= 1;
    assert_eq!(decode(&frame), Err(BadFrame::PayloadChecksum { sequence: 2 }));
}

#[test]
fn a_number_that_repeats_or_skips_is_refused() {
    let twice = [message(2, b"a"), message(2, b"a")].concat();
    assert_eq!(decode(&twice), Err(BadFrame::Sequence { wanted: 3, found: 2 }));
    let skipped = [message(2, b"a"), message(4, b"a")].concat();
    assert_eq!(decode(&skipped), Err(BadFrame::Sequence { wanted: 3, found: 4 }));
}

#[test]
fn lengths_are_taken_at_the_limit_of_their_phase_and_refused_past_it() {
    for (phase, kind, limit) in [
        (Phase::Open, Kind::Message, MESSAGE_BYTES_MAX),
        (Phase::Handshake, Kind::Hello, HANDSHAKE_BYTES_MAX),
    ] {
        let mut frame = Vec::new();
        encode(FrameInfo { kind, class: Class::Urgent, sequence: 0 }, &vec![7; limit], &mut frame);
        let mut decoder = Decoder::new(phase, 0);
        assert_eq!(feed(&mut decoder, &frame, usize::MAX).unwrap()[0].payload.len(), limit);
        let past = (limit as u32 + 1).to_le_bytes();
        frame[16..20].copy_from_slice(&past);
        let checksum = crc32c::crc32c(&frame[..CHECKED_BYTES]);
        frame[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let mut decoder = Decoder::new(phase, 0);
        let refused = feed(&mut decoder, &frame[..HEADER_BYTES], usize::MAX);
        assert_eq!(refused, Err(BadFrame::Long { found: limit + 1, limit }), "by its header alone");
    }
}

#[test]
fn a_header_that_promises_much_reserves_little() {
    let mut decoder = Decoder::new(Phase::Open, FIRST_SEQUENCE);
    let frame = message(FIRST_SEQUENCE, &vec![0; MESSAGE_BYTES_MAX]);
    feed(&mut decoder, &frame[..HEADER_BYTES], usize::MAX).unwrap();
    assert!(decoder.space().len() <= READ_LARGE_BYTES);
    feed(&mut decoder, &frame[HEADER_BYTES..], usize::MAX).unwrap();
    assert!(decoder.buffer.len() > MESSAGE_BYTES_MAX);
    decoder.space();
    assert!(decoder.buffer.len() <= READ_LARGE_BYTES, "memory of a large frame is given back");
}

#[test]
fn frames_that_are_not_taken_end_the_space() {
    let mut decoder = Decoder::new(Phase::Handshake, 0);
    let mut put = 0;
    loop {
        let count = decoder.space().len();
        if count == 0 {
            break;
        }
        decoder.filled(count);
        put += count;
    }
    assert_eq!(put, HEADER_BYTES + HANDSHAKE_BYTES_MAX + READ_BYTES);
}

proptest! {
    #[test]
    fn garbage_never_panics(seed: u64, cut in 1_usize..64) {
        let mut random = Random::new(seed);
        let mut stream = [message(2, b"abc"), message(3, b""), message(4, b"defgh")].concat();
        for _ in 0..random.below(4) {
            let at = random.size_below(stream.len());
            stream[at] = random.word() as u8;
        }
        stream.extend(pattern(seed, random.size_below(100)));
        let _ = feed(&mut Decoder::new(Phase::Open, 2), &stream, cut);
        let _ = feed(&mut Decoder::new(Phase::Handshake, 2), &stream, cut);
    }
}
