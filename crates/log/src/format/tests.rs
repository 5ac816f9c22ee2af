//! The bytes of the format: golden ones, and what is refused.

use plasmon_proto::object::{Attributes, ObjectMeta, Sizes};
use plasmon_proto::{Name, ObjectId};
use plasmon_spill::FileMeta;

use super::*;

const PLACE: FramePlace = FramePlace { log: LogId([1; 16]), segment: 3, offset: 8192 };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn an_object() -> FileMeta {
    let sizes = Sizes { data: 5, ..Sizes::default() };
    let meta = ObjectMeta { sizes, created_ms: 1000, ..ObjectMeta::default() };
    let name = Name::new("ns", "x").ok();
    FileMeta::new(ObjectId::new([7; 20]), 0, meta, Attributes { name, ..Attributes::default() })
}

fn a_put() -> PutRecord {
    let description = describe(&an_object()).unwrap();
    let mut put = PutRecord {
        lsn: 258,
        id: ObjectId::new([7; 20]),
        offset: 192,
        bytes: 5,
        crc: 0,
        chunks: Vec::new(),
        description,
    };
    put.set_chunks(vec![crc32c::crc32c(b"hello")]);
    put
}

fn a_dead() -> DeadRecord {
    DeadRecord { lsn: 259, of: 258, id: ObjectId::new([7; 20]) }
}

#[test]
fn the_bytes_of_records_and_heads_are_these() {
    let mut records = Vec::new();
    Record::Put(a_put()).encode(&mut records);
    Record::Dead(a_dead()).encode(&mut records);
    assert_eq!(hex(&records), GOLDEN_RECORDS);
    let head = FrameHead {
        batch: 9,
        index: 1,
        records: 2,
        frame_bytes: 4096,
        records_bytes: records.len() as u32,
        records_crc: crc32c::crc32c(&records),
    };
    assert_eq!(hex(&head.encode(FrameCopy::Front, PLACE)), GOLDEN_HEAD);
    let back = head.encode(FrameCopy::Back, PLACE);
    assert_eq!(FrameHead::decode(&back, FrameCopy::Back, PLACE), Some(head));
    assert_eq!(FrameHead::decode(&back, FrameCopy::Front, PLACE), None);
    assert_eq!(FrameHead::claimed_bytes(&back), Some(4096));
    let decoded = Record::decode_all(&records, 2).unwrap();
    assert_eq!(decoded, [Record::Put(a_put()), Record::Dead(a_dead())]);
    assert_eq!(decode_object(&a_put()), Some(an_object()));
}

#[test]
fn a_head_counts_only_at_its_place() {
    let head = FrameHead {
        batch: 9,
        index: 0,
        records: 0,
        frame_bytes: 4096,
        records_bytes: 0,
        records_crc: 0,
    };
    let bytes = head.encode(FrameCopy::Front, PLACE);
    let decode = |place| FrameHead::decode(&bytes, FrameCopy::Front, place);
    assert_eq!(decode(PLACE), Some(head));
    for other in [
        FramePlace { log: LogId([2; 16]), ..PLACE },
        FramePlace { segment: 4, ..PLACE },
        FramePlace { offset: 4096, ..PLACE },
    ] {
        assert_eq!(decode(other), None);
    }
    for at in 0..HEAD_BYTES {
        let mut damaged = bytes;
        damaged[at] ^= 0x10;
        assert_eq!(FrameHead::decode(&damaged, FrameCopy::Front, PLACE), None, "byte {at}");
    }
}

#[test]
fn the_bytes_of_a_summary_and_a_superblock_are_these() {
    let mut rows = Vec::new();
    encode_row(0, &Record::Put(a_put()), &mut rows);
    encode_row(4096, &Record::Dead(a_dead()), &mut rows);
    let mut summary = vec![0xff; summary_bytes(rows.len() as u64) as usize];
    seal_summary(PLACE, 2, &rows, &mut summary);
    assert_eq!(hex(&summary[..HEAD_BYTES]), GOLDEN_SUMMARY);
    let decoded = decode_summary(PLACE, &summary).unwrap();
    assert_eq!((decoded.len(), decoded[1].frame), (2, 4096));
    for at in 0..HEAD_BYTES + rows.len() {
        summary[at] ^= 1;
        assert_eq!(decode_summary(PLACE, &summary), None, "byte {at}");
        summary[at] ^= 1;
    }

    let sealed =
        SegmentRow { number: 1, bytes: 12_288, end: Some(8192), summary_bytes: 4096, records: 2 };
    let open = SegmentRow { number: 2, bytes: 65_536, end: None, summary_bytes: 0, records: 0 };
    let superblock = Superblock {
        log: LogId([1; 16]),
        generation: 5,
        next_segment: 3,
        next_lsn: 260,
        segments: vec![sealed, open],
    };
    let mut bytes = superblock.encode();
    assert_eq!(hex(&bytes[..144]), GOLDEN_SUPERBLOCK);
    assert_eq!(Superblock::decode(&bytes), Ok(superblock));
    for at in 0..144 {
        bytes[at] ^= 1;
        assert!(Superblock::decode(&bytes).is_err(), "byte {at}");
        bytes[at] ^= 1;
    }
}

#[test]
fn a_payload_of_several_chunks_has_a_table() {
    let mut put = a_put();
    put.bytes = 2 * CHUNK_BYTES + 1;
    assert!(!put.has_chunks());
    put.set_chunks(vec![1, 2, 3]);
    assert!(put.has_chunks());
    assert_eq!((put.chunk_crc(2), put.chunk_crc(3)), (Some(3), None));
    let mut bytes = Vec::new();
    Record::Put(put.clone()).encode(&mut bytes);
    assert_eq!(bytes.len() as u64, PutRecord::encoded_bytes(put.description.len(), put.bytes));
    assert_eq!(Record::decode_all(&bytes, 1), Some(vec![Record::Put(put.clone())]));
    put.chunks[1] = 9;
    assert!(!put.has_chunks());
}

const GOLDEN_RECORDS: &str = concat!(
    "01000000260000000201000000000000c00000000000000005000000000000004cbb719a0000000007070707",
    "0707070707070707070707070707070707070707070707070707070707070707070707070005000000000001",
    "026e7301780000e8070002000000000000000301000000000000020100000000000007070707070707070707",
    "07070707070707070707",
);
const GOLDEN_HEAD: &str = concat!(
    "504c534d4c4f47460900000000000000010000000200000000100000000000008e000000b80db45c00000000",
    "00000000000000000000000000000000bf1345fa",
);
const GOLDEN_SUMMARY: &str = concat!(
    "504c534d4c4f47539e000000000000000200000043dfe1a00000000000000000000000000000000000000000",
    "0000000000000000000000000000000027541713",
);
const GOLDEN_SUPERBLOCK: &str = concat!(
    "504c534d4c4f4700010000000200000001010101010101010101010101010101050000000000000003000000",
    "00000000040100000000000000000000b0de6b07010000000000000000300000000000000020000000000000",
    "0010000000000000020000000000000002000000000000000000010000000000ffffffffffffffff00000000",
    "000000000000000000000000",
);
