//! Objects from lease to view: everything that a client does in place.

use std::os::fd::AsFd;
use std::sync::Arc;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::object::{ObjectMeta, Sizes, Traits};
use plasmon_proto::ring::Completion;

use super::*;
use crate::channel::ChannelDaemon;
use crate::control::ControlDaemon;
use crate::index::IndexWriter;
use crate::map::Populate;
use crate::memfd::Memfd;
use crate::slot::HashKey;
use crate::writer::WriteExtent;

const EXTENT: ExtentId = ExtentId::new(3, 9);

fn id(number: u8) -> ObjectId {
    ObjectId::new([number; 20])
}

/// What the index says of an object without content.
fn image_at(number: u8, offset: u64) -> SlotImage {
    SlotImage {
        serial: u64::from(number),
        id: id(number),
        placement: Placement { extent: EXTENT, offset },
        meta: ObjectMeta::default(),
        record: u32::from(number),
    }
}

struct Node {
    control: ControlDaemon,
    index: IndexWriter,
    channel: ChannelDaemon,
    extent: Arc<WriteExtent>,
    reader: Arc<Reader>,
}

impl Node {
    fn new() -> Self {
        let control = ControlDaemon::create().unwrap();
        let index = IndexWriter::create(1, 64, HashKey::EXAMPLE).unwrap();
        control.set_table(1);
        let channel = ChannelDaemon::create().unwrap();
        let memfd = Memfd::create("plasmon-test", 8192).unwrap();
        let reader = Reader::new(
            ControlReader::new(control.memfd().read_only().unwrap()).unwrap(),
            IndexReader::new(index.memfd().read_only().unwrap(), 1, 64).unwrap(),
            ChannelClient::new(channel.memfd().duplicate().unwrap()).unwrap(),
        );
        let extent = WriteExtent::new(memfd.into_fd(), Populate::Yes).unwrap();
        Self {
            control,
            index,
            channel,
            extent: Arc::new(extent),
            reader: Arc::new(reader.unwrap()),
        }
    }

    /// Publishes an object of these parts at `offset`.
    fn publish(&mut self, number: u8, offset: u64, data: &[u8], metadata: &[u8]) {
        let mut span = self.extent.lease(offset, (data.len() + metadata.len()) as u64).unwrap();
        span.fill(0, &[data, metadata], 1);
        self.index.insert(&SlotImage {
            serial: u64::from(number),
            id: id(number),
            placement: Placement { extent: EXTENT, offset },
            meta: ObjectMeta {
                sizes: Sizes {
                    data: data.len() as u64,
                    metadata: metadata.len() as u64,
                    ..Sizes::default()
                },
                traits: Traits { tag: 7, ..Traits::default() },
                ..ObjectMeta::default()
            },
            record: u32::from(number),
        });
    }

    fn image(&self, number: u8) -> SlotImage {
        self.index.image(self.index.find(&id(number)).unwrap())
    }

    fn map_extent(&self) {
        let map = ReadMap::new(self.extent.memfd(), 8192, Populate::No).unwrap();
        self.reader.map_extent(EXTENT, map).unwrap();
    }

    fn pins(&self) -> usize {
        self.channel.pins_count()
    }
}

#[test]
fn an_object_is_read_where_it_was_written() {
    let mut node = Node::new();
    node.publish(1, 64, b"data", b"metadata");
    node.publish(2, 128, b"", b"");
    let reader = node.reader.clone();
    let ReadOutcome::Unmapped(held) = reader.get(&id(1)).unwrap() else { panic!("not mapped yet") };
    assert_eq!(
        (held.image().placement.extent, node.pins()),
        (EXTENT, 1),
        "it is pinned all the same"
    );
    let held = held.view().expect_err("still not mapped");
    node.map_extent();
    let view = held.view().expect("now it is");
    assert_eq!((view.data(), view.metadata()), (&b"data"[..], &b"metadata"[..]));
    assert_eq!((view.image().meta.traits.tag, node.pins()), (7, 1));
    drop(view);
    assert_eq!(node.pins(), 0);
    let ReadOutcome::Object(empty) = reader.get(&id(2)).unwrap() else { panic!("it is there") };
    assert!(empty.data().is_empty() && empty.metadata().is_empty());
    assert!(matches!(reader.get(&id(3)).unwrap(), ReadOutcome::Missing));
    assert_eq!(reader.contains(&id(1)), Some(true));
    assert_eq!(reader.contains(&id(3)), Some(false));
}

#[test]
fn attributes_follow_the_content_and_are_read_within_the_mapping_alone() {
    let mut node = Node::new();
    node.map_extent();
    // The content of the second one ends with its extent.
    for (number, offset, expected) in [(1, 64, Some(&b"at"[..])), (2, 8192 - 64, None)] {
        let content = [number; 64];
        node.extent.lease(offset, 64).unwrap().fill(0, &[&content], 1);
        if expected.is_some() {
            node.extent.lease(offset + 64, 2).unwrap().fill(0, &[b"at"], 1);
        }
        let mut image = image_at(number, offset);
        image.meta.sizes = Sizes { data: 60, metadata: 4, attributes: 2 };
        node.index.insert(&image);
        let ReadOutcome::Object(view) = node.reader.get(&id(number)).unwrap() else {
            panic!("it is there");
        };
        assert_eq!((view.content(), view.attributes()), (&content[..], expected));
    }
}

#[test]
fn an_owned_view_outlives_the_borrow_and_releases_from_any_thread() {
    let mut node = Node::new();
    node.publish(1, 0, b"data", b"");
    node.map_extent();
    let ReadOutcome::Object(view) = node.reader.get(&id(1)).unwrap() else { panic!("it is there") };
    let owned = view.into_owned(node.reader.clone());
    assert_eq!(node.pins(), 1);
    std::thread::spawn(move || assert_eq!(owned.data(), b"data")).join().unwrap();
    assert_eq!(node.pins(), 0);
}

#[test]
fn a_hold_that_is_given_up_releases_its_pin() {
    let mut node = Node::new();
    node.publish(1, 0, b"data", b"");
    assert!(matches!(node.reader.get(&id(1)).unwrap(), ReadOutcome::Unmapped(_)));
    assert_eq!(node.pins(), 0);
}

/// A client whose connection had broken unnoticed went on pinning, and the daemon did not look.
#[test]
fn what_is_pinned_after_the_daemon_parted_is_given_up() {
    let mut node = Node::new();
    node.publish(1, 0, b"data", b"");
    node.map_extent();
    let earlier = node.reader.get_mapped(&id(1)).unwrap();
    node.channel.set_parted(true);
    assert!(node.reader.get_mapped(&id(1)).is_none());
    assert!(matches!(node.reader.get(&id(1)), Ok(ReadOutcome::Parted)));
    let mut pins = Vec::new();
    node.channel.pins(|serial| pins.push(serial));
    assert_eq!(pins, [1], "what was pinned before stays");
    drop(earlier);
    assert_eq!(node.channel.pins_count(), 0);
    node.channel.set_parted(false);
    assert!(node.reader.get_mapped(&id(1)).is_some());
}

#[test]
fn an_extent_that_is_gone_is_unmapped() {
    let mut node = Node::new();
    node.map_extent();
    assert!(node.reader.has_extent(EXTENT));
    let lease =
        Completion::Lease { position: 1, range: Range { extent: EXTENT, offset: 0, bytes: 64 } };
    assert!(node.channel.complete(&lease));
    assert!(node.channel.complete(&Completion::ExtentGone(EXTENT)));
    assert_eq!(node.reader.next_completion(), Some(lease));
    assert!(node.reader.has_extent(EXTENT));
    assert_eq!(node.reader.next_completion(), Some(Completion::ExtentGone(EXTENT)));
    assert_eq!((node.reader.has_extent(EXTENT), node.reader.extents()), (false, 0));
    assert_eq!(node.reader.next_completion(), None);
}

#[test]
#[should_panic(expected = "the view's own reader")]
fn a_view_does_not_go_to_another_reader() {
    let mut node = Node::new();
    node.publish(1, 0, b"data", b"");
    node.map_extent();
    let other = Node::new();
    if let ReadOutcome::Object(view) = node.reader.get(&id(1)).unwrap() {
        view.into_owned(other.reader.clone());
    }
}

#[test]
fn spans_are_cut_filled_and_kept_within_their_extent() {
    let node = Node::new();
    assert!(node.extent.lease(8192, 1).is_none());
    assert!(node.extent.lease(u64::MAX, 2).is_none());
    let mut lease = node.extent.lease(4096, 4096).unwrap();
    let mut first = lease.take(100).unwrap();
    assert_eq!((first.offset(), first.len(), lease.offset(), lease.len()), (4096, 100, 4196, 3996));
    assert!(lease.take(3997).is_none());
    first.fill(10, &[b"abc", b"", b"de"], 4);
    assert_eq!(&first[9..16], b"\0abcde\0");
    first.write(20, &[b"xyz"]).unwrap();
    assert_eq!(&first[20..23], b"xyz");
    assert!(first.write(98, &[b"xyz"]).is_err());
    first[0] = 5;
    let map = ReadMap::new(node.extent.memfd().as_fd(), 8192, Populate::No).unwrap();
    let mut read = [0; 16];
    assert!(map.copy_out(4096, &mut read));
    assert_eq!(read[..], first[..16]);
}

#[test]
#[should_panic(expected = "fit a span")]
fn a_span_is_not_filled_beyond_its_end() {
    let node = Node::new();
    node.extent.lease(0, 64).unwrap().fill(60, &[b"12345"], 1);
}

#[test]
fn a_strict_object_cannot_be_changed_even_by_its_writer() {
    let memfd = Memfd::create_sealable("plasmon-test", 4096).unwrap();
    let extent = WriteExtent::new(memfd.duplicate().unwrap(), Populate::No).unwrap();
    assert!(extent.memfd().seal_write().is_err(), "the mapping is still there");
    let memfd = extent.into_memfd();
    memfd.seal_write().unwrap();
    assert!(WriteExtent::new(memfd.into_fd(), Populate::No).is_err());
}

/// A client that slept missed what it was told: the completion ring holds so much and no more. It
/// kept the mappings of extents that were gone, for good.
#[test]
fn what_the_client_was_not_notified_of_it_finds_on_the_control_page() {
    let node = Node::new();
    node.control.set_writer(EXTENT, 5);
    node.map_extent();
    let other = ExtentId::new(4, 10);
    node.control.set_writer(other, 5);
    let map = ReadMap::new(node.extent.memfd(), 8192, Populate::No).unwrap();
    node.reader.map_extent(other, map).unwrap();
    node.control.forget_extent(EXTENT);
    node.reader.forget_gone();
    assert_eq!((node.reader.has_extent(EXTENT), node.reader.has_extent(other)), (false, true));
    // Another extent at the same index is not the one that was mapped.
    node.control.forget_extent(other);
    node.control.set_writer(ExtentId::new(4, 11), 5);
    node.reader.forget_gone();
    assert_eq!(node.reader.extents(), 0);
}

/// A slot that says more than its extent holds is an error of the daemon, and no way to read what
/// lies past the end of the mapping.
#[test]
fn an_object_beyond_its_mapping_is_not_shown() {
    let mut node = Node::new();
    node.publish(1, 8192 - 64, &[1; 64], b"");
    node.publish(2, 64, b"data", b"");
    node.map_extent();
    let reader = node.reader.clone();
    assert!(matches!(reader.get(&id(1)).unwrap(), ReadOutcome::Object(_)));
    let image = node.image(1);
    let sizes = Sizes { data: 65, ..image.meta.sizes };
    let longer = ObjectMeta { sizes, ..image.meta };
    node.index.insert(&SlotImage { serial: 3, id: id(3), meta: longer, ..image });
    let placement = Placement { offset: 1 << 37, ..image.placement };
    node.index.insert(&SlotImage { serial: 4, id: id(4), placement, ..image });
    for number in [3, 4] {
        assert!(reader.get_mapped(&id(number)).is_none());
        let ReadOutcome::Unmapped(held) = reader.get(&id(number)).unwrap() else {
            panic!("within")
        };
        assert!(held.view().is_err());
    }
    assert_eq!(node.pins(), 0);
}
