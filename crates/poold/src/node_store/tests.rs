//! What the store of a node answers by itself.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use plasmon_pool::Birth;
use plasmon_proto::Code;
use plasmon_proto::extent::{ExtentId, Placement};
use plasmon_proto::frame::{decode_request, encode_reply};
use plasmon_proto::limits::SEGMENT_BYTES;
use plasmon_proto::message::{
    Access, Failure, Hello, IndexTable, MissingClaims, Reply, Request, SpillFile, Welcome,
};
use plasmon_proto::object::{
    Attributes, Durability, Level, ObjectMeta, ObjectState, PoolAttributes,
};
use plasmon_shm::control::ControlDaemon;
use plasmon_shm::index::IndexWriter;
use plasmon_shm::map::Populate;
use plasmon_shm::memfd::Memfd;
use plasmon_shm::socket::Listener;
use plasmon_shm::writer::WriteExtent;
use plasmon_shm::{ChannelDaemon, Connection, HashKey, SlotImage};
use plasmon_testkit::pattern;

use super::*;

/// That of a client without a channel.
fn welcome() -> Welcome {
    Welcome {
        client: 1,
        token: 1,
        store: STORE,
        epoch: 1,
        resumed: false,
        lost: MissingClaims::default(),
        channel: false,
        wake_page: false,
        access: Access::ReadWrite,
        level: Level::Leased,
        capacity_bytes: 1 << 20,
        durable: false,
        log_closed: false,
        index: IndexTable { number: 1, slots: 64 },
    }
}

/// A copy that was wanted before the node had its slot was never answered, so the opening stayed.
#[test]
fn a_copy_that_is_wanted_before_the_node_has_a_slot_is_not_here() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let listener = Listener::bind(&socket, 0o600).unwrap();
    let daemon = std::thread::spawn(move || {
        let client = listener.accept().unwrap();
        let mut bytes = Vec::new();
        let received = client.recv(&mut bytes, true).unwrap();
        let (number, hello) = decode_request(&bytes[..received.bytes]).unwrap();
        assert!(matches!(hello, Request::Hello(_)));
        let reply = Reply::Welcome(welcome());
        client.send(&encode_reply(number, &reply).unwrap(), &[]).unwrap();
        client
    });
    let connection = StoreConnection::connect(&socket).unwrap();
    let client = daemon.join().unwrap();
    let mut store = NodeStore::new(&connection, || {});
    let birth = Birth { slot: Slot(1), boot: 1, serial: 1 };
    store.open(7, &ObjectId::pooled([1; 12], None), birth);
    let mut bytes = Vec::new();
    let received = client.recv(&mut bytes, true).unwrap();
    let (number, request) = decode_request(&bytes[..received.bytes]).unwrap();
    assert!(matches!(request, Request::Get { .. }));
    let reply = Reply::Located(vec![Err(ObjectState::Absent)]);
    client.send(&encode_reply(number, &reply).unwrap(), &[]).unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        assert!(store.receive(&mut events));
    }
    assert!(matches!(events[..], [StoreEvent::Opened(7, None)]));
    drop(client);
    while store.receive(&mut events) {}
    assert_eq!(events.len(), 1);
}

/// A store that shows objects in an index, as a daemon does, and says what the test has it say.
struct ShownStore {
    control: ControlDaemon,
    index: IndexWriter,
    channel: ChannelDaemon,
    extent: Arc<WriteExtent>,
    client: Connection,
}

const EXTENT: ExtentId = ExtentId::new(3, 9);
const EXTENT_BYTES: u64 = 4 << 20;
const HERE: Slot = Slot(4);
const STORE: u64 = 9;

impl ShownStore {
    /// The store, and the node's side of the connection, which has taken its seat.
    fn new() -> (Self, NodeStore) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("store.sock");
        let listener = Listener::bind(&socket, 0o600).unwrap();
        let daemon = std::thread::spawn(move || Self::welcome(listener.accept().unwrap()));
        let connection = StoreConnection::connect(&socket).unwrap();
        let this = daemon.join().unwrap();
        let mut store = NodeStore::new(&connection, || {});
        store.begin(HERE);
        assert!(matches!(this.hear().1, Request::Agent { token: STORE, slot: HERE }));
        (this, store)
    }

    fn welcome(client: Connection) -> Self {
        let control = ControlDaemon::create().unwrap();
        control.set_table(1);
        let extent = Memfd::create("plasmon-test", EXTENT_BYTES).unwrap().into_fd();
        let this = Self {
            control,
            index: IndexWriter::create(1, 64, HashKey::EXAMPLE).unwrap(),
            channel: ChannelDaemon::create().unwrap(),
            extent: Arc::new(WriteExtent::new(extent, Populate::Yes).unwrap()),
            client,
        };
        let (number, hello) = this.hear();
        assert!(matches!(hello, Request::Hello(Hello { channel: true, .. })));
        let fds = [
            this.control.memfd().read_only().unwrap(),
            this.index.memfd().read_only().unwrap(),
            this.channel.memfd().duplicate().unwrap(),
        ];
        this.answer(number, &Reply::Welcome(Welcome { channel: true, ..welcome() }), &fds);
        this
    }

    fn hear(&self) -> (u64, Request) {
        let mut bytes = Vec::new();
        let received = self.client.recv(&mut bytes, true).unwrap();
        decode_request(&bytes[..received.bytes]).unwrap()
    }

    /// What was asked, if anything was by now.
    fn hear_now(&self) -> Option<Request> {
        let mut bytes = Vec::new();
        let received = self.client.recv(&mut bytes, false).ok()?;
        Some(decode_request(&bytes[..received.bytes]).unwrap().1)
    }

    fn answer(&self, number: u64, reply: &Reply, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        self.client.send(&encode_reply(number, reply).unwrap(), &fds).unwrap();
    }

    /// Shows an object that was made here with this serial.
    fn show(&mut self, number: u8, serial: u64, data: &[u8]) {
        let (copies, copies_min, class) = (1, 1, Durability::Memory);
        let pool = PoolAttributes {
            copies,
            copies_min,
            class,
            origin: None,
            serial,
            ..PoolAttributes::ONE
        };
        let attributes = Attributes { pool: Some(pool), ..Attributes::default() }.encode();
        let offset = u64::from(number) * 256;
        let bytes = (data.len() + attributes.len()) as u64;
        self.extent.lease(offset, bytes).unwrap().fill(0, &[data, &attributes], 1);
        let attributes = attributes.len() as u64;
        self.index.insert(&SlotImage {
            serial: u64::from(number),
            id: pooled(number),
            placement: Placement { extent: EXTENT, offset },
            meta: ObjectMeta {
                sizes: Sizes { data: data.len() as u64, metadata: 0, attributes },
                ..ObjectMeta::default()
            },
            record: u32::from(number),
        });
    }

    /// Answers the question for the extent.
    fn pass_extent(&self) {
        let (number, request) = self.hear();
        let wanted = Request::Extents { extents: vec![EXTENT], write: false };
        assert_eq!(request, wanted);
        let fd = self.extent.memfd().read_only().unwrap();
        self.answer(number, &Reply::Extents(vec![Some(EXTENT_BYTES)]), &[fd]);
    }
}

fn pooled(number: u8) -> ObjectId {
    ObjectId::pooled([number; 12], None)
}

fn born(serial: u64) -> Birth {
    Birth { slot: HERE, boot: STORE, serial }
}

/// The data of a copy that was opened.
fn data_of(event: Option<StoreEvent>, number: u64, bytes: usize) -> Vec<u8> {
    let Some(StoreEvent::Opened(opened, Some(source))) = event else { panic!("{event:?}") };
    assert_eq!(opened, number);
    source.part(0, source.bytes() as usize)[..bytes].to_vec()
}

fn next_event(store: &mut NodeStore) -> Option<StoreEvent> {
    let mut events = Vec::new();
    while events.is_empty() {
        assert!(store.receive(&mut events));
    }
    events.pop()
}

/// To ask for each copy took two changes of threads on the way to its first reader.
#[test]
fn a_copy_that_the_store_shows_is_opened_without_a_question() {
    let (mut daemon, mut store) = ShownStore::new();
    daemon.show(1, 11, b"first");
    daemon.show(2, 12, b"second");
    store.open(1, &pooled(1), born(11));
    assert!(store.answer().is_none(), "its memory is not mapped yet");
    daemon.pass_extent();
    assert_eq!(data_of(next_event(&mut store), 1, 5), b"first");
    store.open(2, &pooled(2), born(12));
    let opened = store.answer();
    assert_eq!(daemon.channel.pins_count(), 1, "it stays as long as it is read");
    assert_eq!(data_of(opened, 2, 6), b"second");
    assert_eq!(daemon.channel.pins_count(), 0);
    assert_eq!(daemon.hear_now(), None, "nothing was asked");
}

/// What is read again and again from where it lies ends with the last whole segment: after it comes
/// what is sent from elsewhere, with other attributes than those in the extent.
#[test]
fn the_memory_of_a_copy_is_that_of_its_whole_segments() {
    let (mut daemon, mut store) = ShownStore::new();
    let segments = 2 * SEGMENT_BYTES as usize;
    let data = pattern(5, segments + 100);
    daemon.show(1, 11, &data);
    store.open(1, &pooled(1), born(11));
    daemon.pass_extent();
    let event = next_event(&mut store);
    let Some(StoreEvent::Opened(1, Some(source))) = event else { panic!("{event:?}") };
    assert!(source.memory() == &data[..segments]);
    assert_eq!(source.memory().as_ptr(), source.part(0, 1).as_ptr());
    assert!(source.part(segments as u64, 100) == &data[segments..]);
}

#[test]
fn what_the_index_does_not_show_is_asked_for() {
    let (mut daemon, mut store) = ShownStore::new();
    daemon.show(1, 11, b"first");
    store.open(1, &pooled(1), born(11));
    daemon.pass_extent();
    drop(next_event(&mut store));
    let asks_for = |store: &mut NodeStore, number: u64, id: ObjectId, serial: u64| {
        store.open(number, &id, born(serial));
        assert!(store.answer().is_none());
        let (asked, request) = daemon.hear();
        assert_eq!(request, Request::Get { ids: vec![id] });
        daemon.answer(asked, &Reply::Located(vec![Err(ObjectState::Absent)]), &[]);
        let event = next_event(store);
        assert!(matches!(event, Some(StoreEvent::Opened(of, None)) if of == number));
    };
    // One that is withheld, and another incarnation of one that is shown.
    asks_for(&mut store, 2, pooled(2), 12);
    asks_for(&mut store, 3, pooled(1), 13);
    assert_eq!(daemon.channel.pins_count(), 0);
    // An extent that went meanwhile.
    daemon.show(4, 14, b"gone");
    let elsewhere = ExtentId::new(4, 1);
    let slot = daemon.index.find(&pooled(4)).unwrap();
    let mut image = daemon.index.image(slot);
    daemon.index.hide(&[slot]);
    daemon.index.remove(slot);
    image.placement.extent = elsewhere;
    daemon.index.insert(&image);
    store.open(5, &pooled(4), born(14));
    let (number, request) = daemon.hear();
    assert_eq!(request, Request::Extents { extents: vec![elsewhere], write: false });
    daemon.answer(number, &Reply::Extents(vec![None]), &[]);
    let mut events = Vec::new();
    let asked = loop {
        assert!(store.receive(&mut events) && events.is_empty());
        if let Some(asked) = daemon.hear_now() {
            break asked;
        }
    };
    assert_eq!(asked, Request::Get { ids: vec![pooled(4)] });
}

/// The file of an object that was made here with this serial, and what the store says of it.
fn spilled(serial: u64, content: &[u8]) -> (SpillFile, OwnedFd) {
    let (copies, copies_min, class) = (1, 1, Durability::Memory);
    let pool =
        PoolAttributes { copies, copies_min, class, origin: None, serial, ..PoolAttributes::ONE };
    let attributes = Attributes { pool: Some(pool), ..Attributes::default() }.encode();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[b"head", content, &attributes].concat()).unwrap();
    let (data, attributes) = (content.len() as u64, attributes.len() as u64);
    let sizes = Sizes { data, metadata: 0, attributes };
    let about = SpillFile { serial: 1, offset: 4, sizes, traits: Traits::default() };
    (about, file.into())
}

#[test]
fn a_spilled_copy_is_read_in_its_file() {
    let (daemon, mut store) = ShownStore::new();
    let mut open = |number: u64, serial: u64, answer: (Reply, Vec<OwnedFd>)| {
        store.open_in_place(number, &pooled(1), born(serial));
        let (asked, request) = daemon.hear();
        assert_eq!(request, Request::OpenSpilled { id: pooled(1) });
        daemon.answer(asked, &answer.0, &answer.1);
        if matches!(answer.0, Reply::SpillFile(_)) {
            return next_event(&mut store);
        }
        // It was brought back, is withheld, or cannot be opened: the store is asked for it.
        let mut events = Vec::new();
        let asked = loop {
            assert!(store.receive(&mut events) && events.is_empty());
            if let Some(asked) = daemon.hear_now() {
                break asked;
            }
        };
        assert_eq!(asked, Request::Get { ids: vec![pooled(1)] });
        None
    };
    let file = |serial, content: &[u8]| {
        let (about, file) = spilled(serial, content);
        (Reply::SpillFile(about), vec![file])
    };
    let source = |event| match event {
        Some(StoreEvent::Opened(7, Some(source))) => source,
        other => panic!("{other:?}"),
    };
    let copy = source(open(7, 11, file(11, b"content")));
    assert!(!copy.is_in_memory() && copy.part(0, 1).is_empty());
    let mut bytes = Vec::new();
    assert!(copy.gather(2, 3, &mut bytes));
    assert_eq!(bytes, b"nte");
    assert!(!copy.gather(2, copy.bytes() as usize, &mut bytes), "beyond its end");
    // Of another incarnation nothing is read, nor from a file that is too short.
    assert!(!source(open(7, 12, file(11, b"content"))).gather(0, 1, &mut bytes));
    let (about, _) = spilled(11, b"content");
    let short = (Reply::SpillFile(about), vec![spilled(11, b"").1]);
    assert!(!source(open(7, 11, short)).gather(0, 1, &mut bytes));
    for reply in [
        Reply::States(vec![ObjectState::Sealed]),
        Reply::States(vec![ObjectState::Absent]),
        Reply::Failed(Failure::of(Code::LimitReached)),
    ] {
        assert!(open(7, 11, (reply, Vec::new())).is_none());
    }
}

#[test]
fn the_next_table_of_the_index_is_fetched_when_the_store_moved_there() {
    let (mut daemon, mut store) = ShownStore::new();
    daemon.index = IndexWriter::create(2, 64, HashKey::EXAMPLE).unwrap();
    daemon.control.set_table(2);
    daemon.show(1, 11, b"first");
    store.open(1, &pooled(1), born(11));
    let (number, request) = daemon.hear();
    assert_eq!(request, Request::Index);
    let table = IndexTable { number: 2, slots: 64 };
    daemon.answer(number, &Reply::Index(table), &[daemon.index.memfd().read_only().unwrap()]);
    let (number, request) = daemon.hear();
    assert_eq!(request, Request::Get { ids: vec![pooled(1)] });
    daemon.answer(number, &Reply::Located(vec![Err(ObjectState::Absent)]), &[]);
    assert!(matches!(next_event(&mut store), Some(StoreEvent::Opened(1, None))));
    store.open(2, &pooled(1), born(11));
    daemon.pass_extent();
    assert_eq!(data_of(next_event(&mut store), 2, 5), b"first");
}

#[test]
fn a_connection_that_is_closed_says_that_it_left() {
    let (daemon, store) = ShownStore::new();
    store.connection.close();
    assert!(daemon.channel.has_left());
}
