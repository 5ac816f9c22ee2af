//! What a node of a pool reads from another machine: frames, handshakes, segments, notes.
//!
//! The first byte says what the bytes are given to, and whether checksums are made right, so that
//! what lies after them is reached too.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use plasmon_net::frame::{self, Decoder, FIRST_SEQUENCE, Frame, HEADER_BYTES, Kind, Phase};
use plasmon_net::handshake::{
    Cluster, Encryption, Handshake, Introduction, KnownPeers, Lane, Local, NodeIdentity,
    ProtocolRange, Purpose, Refusal, Token,
};
use plasmon_net::note::Note;
use plasmon_net::segment::{self, Segment};

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let repair = mode & 0x80 != 0;
    match mode & 7 {
        0 => frames(Phase::Open, FIRST_SEQUENCE, bytes, repair),
        1 => frames(Phase::Handshake, 0, bytes, repair),
        2 => handshakes(bytes),
        3 => segments(bytes, repair),
        _ => notes(bytes, repair),
    }
});

/// Frames come out as they went in, whatever pieces they arrive in.
fn frames(phase: Phase, sequence: u64, bytes: &[u8], repair: bool) {
    let stream = if repair { repaired(bytes) } else { bytes.to_vec() };
    let whole = decode(&mut Decoder::new(phase, sequence), &stream, usize::MAX);
    let in_pieces = decode(&mut Decoder::new(phase, sequence), &stream, 7);
    assert_eq!(whole, in_pieces);
    let mut again = Vec::new();
    for Frame { info, payload } in &whole {
        frame::encode(*info, payload, &mut again);
    }
    assert!(stream.starts_with(&again));
}

fn decode(decoder: &mut Decoder, mut bytes: &[u8], piece: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let space = decoder.space();
        let count = piece.min(space.len()).min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        decoder.filled(count);
        bytes = &bytes[count..];
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return frames,
            }
        }
    }
    frames
}

/// Frames with these headers and payloads, whose checksums are right.
fn repaired(mut bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while bytes.len() >= HEADER_BYTES {
        let (header, rest) = bytes.split_at(HEADER_BYTES);
        let mut header = header.to_vec();
        let length = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
        let (payload, rest) = rest.split_at((length as usize).min(rest.len()));
        header[20..24].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let checksum = crc32c::crc32c(&header[..24]);
        header[24..].copy_from_slice(&checksum.to_le_bytes());
        stream.extend_from_slice(&header);
        stream.extend_from_slice(payload);
        bytes = rest;
    }
    stream
}

fn local(uuid: u8) -> Arc<Local> {
    Arc::new(Local {
        cluster: Cluster::new("prod", [9; 16]).expect("the name is short"),
        node: NodeIdentity { uuid: [uuid; 16], slot: 1, boot: 1, incarnation: 1 },
        protocols: ProtocolRange::new(1, 3).expect("the range is in order"),
        token: Token::new(&[1; 32]).expect("the token is long enough"),
        encryption: Encryption::Nothing,
        peers: KnownPeers::default(),
    })
}

/// Without the token no bytes open a lane.
fn handshakes(bytes: &[u8]) {
    if let Some(introduction) = Introduction::decode(bytes) {
        assert_eq!(introduction.encode(), bytes);
    }
    if let Some(refusal) = Refusal::decode(bytes) {
        assert_eq!(Refusal::decode(&refusal.encode()), Some(refusal));
    }
    let purpose = Purpose { lane: Lane::Control, node: None };
    for steps in [[Kind::Challenge, Kind::Welcome], [Kind::Hello, Kind::Proof]] {
        let mut side = match steps[0] {
            Kind::Challenge => Handshake::connect(local(1), purpose, [3; 32]).0,
            _ => Handshake::accept(local(2), [4; 32]),
        };
        let (first, second) = bytes.split_at(bytes.len().saturating_sub(32));
        let payloads = [first, second];
        for (kind, payload) in steps.into_iter().zip(payloads) {
            let Ok(step) = side.receive(kind, payload) else { break };
            assert_eq!(step.peer, None, "a lane opened without the token");
        }
    }
}

/// A header that is taken is one that is written, and its segment stays within its memory.
fn segments(bytes: &[u8], repair: bool) {
    let Some(raw) = bytes.first_chunk::<{ segment::HEADER_BYTES }>() else { return };
    let mut raw = *raw;
    if repair {
        let checksum = crc32c::crc32c(&raw[..36]);
        raw[36..].copy_from_slice(&checksum.to_le_bytes());
    }
    let Ok(segment) = Segment::decode(&raw) else { return };
    assert_eq!(segment.encode(), raw);
    let mut memory = vec![0; 4096];
    if let Ok(part) = segment.part_of(&mut memory) {
        assert_eq!(part.len(), segment.bytes as usize);
    }
}

/// A note that is taken is one that is written.
fn notes(bytes: &[u8], repair: bool) {
    let mut raw = bytes.to_vec();
    if repair && raw.len() >= segment::HEADER_BYTES {
        let (header, payload) = raw.split_at_mut(segment::HEADER_BYTES);
        header[..4].copy_from_slice(b"PLNT");
        header[32..36].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let checksum = crc32c::crc32c(&header[..36]);
        header[36..].copy_from_slice(&checksum.to_le_bytes());
    }
    if let Ok(note) = Note::decode(&raw) {
        assert_eq!(note.encode(), raw);
    }
}
