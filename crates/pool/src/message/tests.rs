//! The bytes of messages are a format: nodes of different versions must agree on them.

use plasmon_proto::pool::{Keeping, WantedCopies};
use plasmon_proto::pool_checksum::{
    BegunChecksum, CHECKSUMS_PER_PAGE, CopyChecksum, CopyFault, CopyRepair,
};
use plasmon_proto::pool_listing::ListedObject;
use plasmon_proto::{Name, ObjectId};

use super::*;
use crate::record::{Found, State};
use crate::tally::NodeTally;

fn id() -> ObjectId {
    ObjectId::pooled([1; 12], None)
}

fn birth() -> Birth {
    Birth { slot: Slot(2), boot: 3, serial: 4 }
}

fn content() -> Content {
    Content {
        data_bytes: 5,
        metadata_bytes: 6,
        attributes_bytes: 8,
        tag: 9,
        table_crc: 7,
        keeping: Keeping::Spread,
        durable: Some(WantedCopies { copies: 3, copies_min: 2 }),
    }
}

fn record() -> Record {
    let (birth, content, state) = (birth(), content(), State::Live);
    Record { birth, content, copies: 2, copies_min: 1, holders: vec![Slot(2), Slot(8)], state }
}

/// One of each, in the order of their numbers.
fn messages() -> Vec<Message> {
    let (id, birth, content) = (id(), birth(), content());
    let (question, transfer, since) = (QuestionNo(9), TransferNo(10), Epoch(11));
    let version = Version { since, number: 12 };
    let groups = vec![(GroupNo::of(&id), since)];
    let sources = vec![Slot(8)];
    let entry = CopyEntry { id, birth, content, standing: Standing::Held, kept: true };
    vec![
        Message::Commit { id, birth, content, copies: 2, copies_min: 1 },
        Message::Committed { id, birth, outcome: CommitOutcome::InUse(Slot(1)) },
        Message::Find { id, question, watch: true },
        Message::Answered {
            id,
            question,
            answer: Answer::Found { birth, content, sources: sources.clone(), keeps: true },
        },
        Message::Unwatch { id },
        Message::Delete { id, birth },
        Message::Deleted { id, birth },
        Message::Record { since, id, version, record: Some(record()) },
        Message::Recorded { since, id, version },
        Message::Hold { id, birth, content, sources, live: true },
        Message::Held { id, birth, outcome: HoldOutcome::NoRoom },
        Message::Publish { id, birth },
        Message::Drop { id, birth, existed: true },
        Message::Gone { id, birth },
        Message::Open { id, question },
        Message::Opened { id, question, copy: Some((birth, content)) },
        Message::Read { transfer, id, birth, ranges: vec![SegmentRange { first: 1, count: 2 }] },
        Message::ReadRefused { transfer, refusal: ReadRefusal::Busy },
        Message::EndRead { transfer },
        Message::Yield { groups: groups.clone() },
        Message::Yielded { groups: groups.clone() },
        Message::Survey { groups: groups.clone() },
        Message::Inventory { groups, copies: vec![entry], more: false },
        Message::Missing { id, birth, holder: Slot(1) },
        Message::Unheard { group: GroupNo::of(&id), since, version, nodes: vec![Slot(13)] },
        Message::UnheardRecorded { group: GroupNo::of(&id), since, version },
        Message::Whole { transfer, bytes: InlineBytes(vec![7, 8]) },
        Message::Where { id, question },
        Message::Place { id, question, place: place() },
        Message::List { question, query: query() },
        Message::Listed { question, page: page() },
        Message::Release { id, birth },
        Message::Verify { question },
        Message::Verified { question, tally: tally(1) },
        Message::Watch { question, on: true },
        Message::Watching { question },
        Message::Noticed { notices: vec![notice()] },
        Message::Locate { id, question },
        read_parts(1),
        Message::Region { question, request: region_write(2) },
        Message::RegionAnswered { question, reply: RegionReply::Open { bytes: 300 } },
        Message::RegionOver { id: region_id() },
        gather(1),
        Message::GatherRefused { transfer, missing: vec![0, 300] },
        Message::Noted { id, birth },
        Message::Checksum { question, query: checksum_query() },
        Message::Checksummed { question, page: checksum_page(1) },
        Message::Demote { ids: vec![id] },
        Message::RemoveTombstone { id, birth },
        Message::Discard { id, birth },
        Message::Repair { copy: CopyRepair { id, birth, fault: CopyFault::Record } },
    ]
}

fn checksum_query() -> ChecksumQuery {
    let begun = BegunChecksum { id: id(), birth: birth(), bytes: 300, crc: 5 };
    ChecksumQuery { after: None, begun: Some(begun), until: None }
}

fn checksum_page(copies: usize) -> ChecksumPage {
    let (bytes, crc, name, logged) = (300, Some(5), None, Some(true));
    let copy = CopyChecksum { id: id(), birth: birth(), bytes, crc, name, logged };
    ChecksumPage { copies: vec![copy; copies], next: Some(checksum_query()) }
}

fn region_id() -> ObjectId {
    ObjectId::pooled([1; 12], Some(2))
}

fn region_write(bytes: usize) -> RegionRequest {
    RegionRequest::Write { id: region_id(), offset: 300, bytes: InlineBytes(vec![7; bytes]) }
}

fn query() -> ListQuery {
    ListQuery { namespace: "@n".into(), prefix: "t".into(), after: Some(id()) }
}

fn page() -> ListedPage {
    let object = ListedObject {
        id: id(),
        text: "t".into(),
        data_bytes: 300,
        metadata_bytes: 1,
        tag: 3,
        created_ms: 2,
        copies: 1,
    };
    ListedPage { objects: vec![object], next: None }
}

fn notice() -> PoolNotice {
    PoolNotice {
        id: id(),
        birth: birth(),
        name: Name { namespace: "@n".into(), text: "t".into() },
        data_bytes: 300,
        metadata_bytes: 1,
        is_born: true,
    }
}

fn tally(nodes: usize) -> Tally {
    let node = NodeTally { slot: Slot(6), copies: 7, bytes: 8, missing: 9, unrecorded: 10 };
    Tally { groups: 1, objects: 2, short: 3, unreachable: 4, lost: 5, nodes: vec![node; nodes] }
}

fn place() -> Place {
    let (holders, caches) = (vec![Slot(2)], vec![Slot(8)]);
    let (birth, content) = (birth(), content());
    let found = Found { birth, content, copies: 2, copies_min: 1, holders, caches };
    let standing = plasmon_proto::pool_admin::Standing::Live;
    Place { standing, found: Some(found), primary: Some(Slot(1)) }
}

fn read_parts(count: u64) -> Message {
    let (id, birth, transfer) = (id(), birth(), TransferNo(10));
    let spans = (0..count).map(|at| Span { offset: 3 + at * 300, bytes: 300 }).collect();
    Message::ReadParts {
        transfer,
        id,
        birth,
        spans,
        ranges: vec![SegmentRange { first: 1, count: 2 }],
    }
}

fn gather(count: usize) -> Message {
    let spans = vec![Span { offset: 3, bytes: 300 }];
    let parts = vec![ObjectParts { id: id(), birth: birth(), spans }; count];
    Message::Gather { transfer: TransferNo(10), parts }
}

fn envelope(messages: Vec<Message>) -> Envelope {
    Envelope { epoch: Epoch(300), from: Slot(2), incarnation: 1, messages }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_of_messages_stay_as_they_are() {
    let bytes = |message| hex(&envelope(vec![message]).encode().unwrap());
    let head = "0600ac02020101";
    let id = "010101010101010101010101ffff40706f6f6c00";
    let region = "010101010101010101010101020040706f6f6c00";
    let golden = [
        format!("00{id}02030405060809070101030202") + "01",
        format!("01{id}0203040401"),
        format!("02{id}0901"),
        format!("03{id}0900020304050608090701010302010801"),
        format!("04{id}"),
        format!("05{id}020304"),
        format!("06{id}020304"),
        format!("070b{id}0b0c0102030405060809070101030202010202") + "0801",
        format!("080b{id}0b0c"),
        format!("09{id}020304050608090701010302010801"),
        format!("0a{id}02030401"),
        format!("0b{id}020304"),
        format!("0c{id}02030401"),
        format!("0d{id}020304"),
        format!("0e{id}09"),
        format!("0f{id}0901020304050608090701010302"),
        format!("100a{id}020304010102"),
        "110a01".to_owned(),
        "120a".to_owned(),
        "130191020b".to_owned(),
        "140191020b".to_owned(),
        "150191020b".to_owned(),
        format!("160191020b01{id}02030405060809070101030201") + "0100",
        format!("17{id}02030401"),
        "1891020b0b0c010d".to_owned(),
        "1991020b0b0c".to_owned(),
        "1a0a020708".to_owned(),
        format!("1b{id}09"),
        format!("1c{id}09020102030405060809070101030202010102") + "01080101",
        format!("1d0902406e017401{id}"),
        format!("1e0901{id}0174ac020103020100"),
        format!("1f{id}020304"),
        "2009".to_owned(),
        "210901020304050106070809".to_owned() + "0a",
        "220901".to_owned(),
        "2309".to_owned(),
        format!("2401{id}02030402406e0174ac020101"),
        format!("25{id}09"),
        format!("260a{id}0203040103ac02010102"),
        format!("270901{region}ac02020707"),
        "280902ac02".to_owned(),
        format!("29{region}"),
        format!("2a0a01{id}0203040103ac02"),
        "2b0a0200ac02".to_owned(),
        format!("2c{id}020304"),
        format!("2d090001{id}020304ac020500"),
        format!("2e0901{id}020304ac0201050001010100") + "01" + id + "020304ac020500",
        format!("2f01{id}"),
        format!("30{id}020304"),
        format!("31{id}020304"),
        format!("32{id}02030401"),
    ];
    assert_eq!(messages().len(), golden.len());
    for (message, golden) in messages().into_iter().zip(golden) {
        assert_eq!(bytes(message.clone()), format!("{head}{golden}"), "{message:?}");
    }
}

#[test]
fn answers_are_numbered_in_order() {
    let (birth, content, sources) = (birth(), content(), Vec::new());
    let found = Answer::Found { birth, content, sources, keeps: false };
    let others = [Answer::Absent, Answer::Deleted, Answer::Lost(birth), Answer::Damaged(birth)];
    for (number, answer) in [found].into_iter().chain(others).enumerate() {
        assert_eq!(postcard::to_allocvec(&answer).unwrap()[0], number as u8, "{answer:?}");
    }
}

#[test]
fn outcomes_are_numbered_in_order() {
    use {CommitOutcome as Commit, HoldOutcome as Hold};
    let in_use = Commit::InUse(Slot(1));
    let commits = [Commit::Done, Commit::Exists, Commit::NotEnoughNodes, Commit::StoreFull, in_use];
    let later = [Commit::Waiting, Commit::Moving, Commit::NotEnoughLogs];
    let commits = commits.into_iter().chain(later);
    for (number, outcome) in commits.enumerate() {
        assert_eq!(postcard::to_allocvec(&outcome).unwrap()[0], number as u8, "{outcome:?}");
    }
    let holds = [Hold::Held, Hold::NoRoom, Hold::Absent, Hold::Withdrawn, Hold::Cached];
    let later = [Hold::Arriving, Hold::Hidden, Hold::NoLog, Hold::Unlogged, Hold::Damaged];
    for (number, outcome) in holds.into_iter().chain(later).enumerate() {
        assert_eq!(postcard::to_allocvec(&outcome).unwrap(), [number as u8], "{outcome:?}");
    }
}

#[test]
fn the_bytes_of_places_stay_as_they_are() {
    use plasmon_proto::pool_admin::Standing::{Absent, Dead, Live, Lost, Pending, Unreachable};
    let standings = [Absent, Pending, Live, Dead, Lost, Unreachable];
    for (number, standing) in standings.into_iter().enumerate() {
        let place = Place { standing, found: None, primary: None };
        assert_eq!(postcard::to_allocvec(&place).unwrap(), [number as u8, 0, 0], "{place:?}");
    }
}

#[test]
fn every_message_survives_its_bytes() {
    let before = envelope(messages());
    let bytes = before.encode().unwrap();
    assert_eq!(Envelope::decode(&bytes), Ok(before));
    for end in 0..bytes.len() {
        assert!(Envelope::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(Envelope::decode(&longer), Err(BadEnvelope::Malformed));
}

#[test]
fn hostile_bytes_are_refused() {
    let mut dice = plasmon_testkit::Random::new(1);
    let bytes = envelope(messages()).encode().unwrap();
    for _ in 0..20_000 {
        let mut bytes = bytes.clone();
        for _ in 0..=dice.below(3) {
            let at = dice.size_below(bytes.len());
            bytes[at] = dice.below(256) as u8;
        }
        // It ends in an envelope or in an error; what is decoded keeps the limits.
        if let Ok(envelope) = Envelope::decode(&bytes) {
            assert_eq!(envelope.check(), Ok(()));
        }
    }
    let mut other = bytes.clone();
    other[0] = 1;
    assert_eq!(Envelope::decode(&other), Err(BadEnvelope::Version { found: 1 }));
    let long = vec![1; ENVELOPE_BYTES_MAX + 1];
    assert!(matches!(Envelope::decode(&long), Err(BadEnvelope::TooLong { .. })));
}

#[test]
fn lists_and_numbers_at_and_past_their_limits() {
    let check = |message| envelope(vec![message]).check();
    let (id, birth) = (id(), birth());
    let hold = |count| Message::Hold {
        id,
        birth,
        content: content(),
        sources: vec![Slot(1); count],
        live: false,
    };
    assert_eq!(check(hold(COPIES_MAX)), Ok(()));
    assert_eq!(check(hold(COPIES_MAX + 1)), Err(BadEnvelope::Limit { index: 0 }));
    let ranges = |count| vec![SegmentRange { first: 0, count: 1 }; count];
    let read = |count| Message::Read { transfer: TransferNo(1), id, birth, ranges: ranges(count) };
    assert_eq!(check(read(READ_RANGES_MAX)), Ok(()));
    assert!(check(read(READ_RANGES_MAX + 1)).is_err());
    let most = plasmon_proto::limits::PARTS_SPANS_MAX as u64;
    assert_eq!(check(read_parts(most)), Ok(()));
    assert!(check(read_parts(most + 1)).is_err());
    assert_eq!(check(gather(GATHER_READS_MAX)), Ok(()));
    assert!(check(gather(GATHER_READS_MAX + 1)).is_err());
    assert!(check(gather(0)).is_err());
    let refused =
        |count| Message::GatherRefused { transfer: TransferNo(1), missing: vec![0; count] };
    assert_eq!(check(refused(GATHER_READS_MAX)), Ok(()));
    assert!(check(refused(GATHER_READS_MAX + 1)).is_err());
    let commit =
        |id, copies| Message::Commit { id, birth, content: content(), copies, copies_min: 1 };
    assert_eq!(check(commit(id, 8)), Ok(()));
    assert!(check(commit(id, 9)).is_err());
    assert!(check(commit(ObjectId::new([0; 20]), 1)).is_err(), "not a pooled id");
    let region = |request| Message::Region { question: QuestionNo(1), request };
    let most = plasmon_proto::region::REGION_PIECE_BYTES_MAX;
    assert_eq!(check(region(region_write(most))), Ok(()));
    assert!(check(region(region_write(most + 1))).is_err());
    assert!(check(region(RegionRequest::Seal { id })).is_err(), "an id without a home");
    let verified = |nodes| Message::Verified { question: QuestionNo(1), tally: tally(nodes) };
    assert_eq!(check(verified(NODES_MAX)), Ok(()));
    assert!(check(verified(NODES_MAX + 1)).is_err());
    let checksums = |copies| {
        let page = checksum_page(copies);
        Message::Checksummed { question: QuestionNo(1), page }
    };
    assert_eq!(check(checksums(CHECKSUMS_PER_PAGE)), Ok(()));
    assert!(check(checksums(CHECKSUMS_PER_PAGE + 1)).is_err());
    let query = ChecksumQuery { after: Some(id), ..checksum_query() };
    assert!(check(Message::Checksum { question: QuestionNo(1), query }).is_err());
    let demote = |ids| check(Message::Demote { ids });
    assert_eq!(demote(vec![id; REQUEST_IDS_MAX]), Ok(()));
    assert!(demote(vec![id; REQUEST_IDS_MAX + 1]).is_err());
    assert!(demote(vec![ObjectId::new([0; 20])]).is_err(), "not a pooled id");
    let most = envelope(vec![Message::Unwatch { id }; MESSAGES_MAX]);
    assert_eq!(most.check(), Ok(()));
    let more = envelope(vec![Message::Unwatch { id }; MESSAGES_MAX + 1]);
    assert!(matches!(more.check(), Err(BadEnvelope::Messages { .. })));
}
