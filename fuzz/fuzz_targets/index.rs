//! The index: a table with anything in it can be probed and taken over, and a table that the daemon
//! keeps finds exactly what was put there.

#![no_main]

use std::collections::HashMap;
use std::os::fd::AsFd;

use libfuzzer_sys::fuzz_target;
use plasmon_fuzz::{Input, poke};
use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Placement};
use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_shm::{
    ChannelClient, ChannelDaemon, ControlDaemon, ControlReader, HashKey, IndexReader, IndexWriter,
    Memfd, ReadOutcome, Reader, SlotImage, State,
};

/// A table of one page: collisions are common.
const SLOTS: usize = 64;
const NUMBER: u64 = 1;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() % 2 == 0 { hostile(&mut input) } else { model(&mut input) }
});

fn id(number: usize) -> ObjectId {
    ObjectId::new([number as u8; 20])
}

fn table() -> IndexWriter {
    let table = IndexWriter::create(NUMBER, SLOTS, HashKey::EXAMPLE);
    table.expect("there is memory for a table")
}

/// A table full of anything: nothing may panic or go on forever.
fn hostile(input: &mut Input<'_>) {
    let writer = table();
    let memfd = writer.memfd().duplicate().expect("there are descriptors");
    while !input.is_empty() {
        let slot = input.below(SLOTS) as u64;
        if input.byte() == 0 {
            // Another key: everything lies where no probe looks for it.
            poke(memfd.as_fd(), 16 + input.below(4) as u64 * 8, input.word());
        } else if input.byte() % 2 == 0 {
            // A slot whose id some probe looks for.
            let state = [State::Empty, State::Writing, State::Live, State::Hidden][input.below(4)];
            let words = image(input.below(16), input.word() >> 2).encode(state);
            words.iter().enumerate().for_each(|(at, word)| {
                poke(memfd.as_fd(), 64 + slot * 64 + at as u64 * 8, *word);
            });
        } else {
            poke(memfd.as_fd(), 64 + slot * 64 + input.below(8) as u64 * 8, input.word());
        }
    }
    probe(&writer);
    let adopted = Memfd::adopt(memfd).expect("it has its seals");
    let mut adopted = IndexWriter::adopt(adopted, NUMBER).expect("the table can be mapped");
    let counts = adopted.counts();
    assert_eq!(counts.live, adopted.live().count());
    assert_eq!(counts.hidden, adopted.hidden().count());
    let hidden: Vec<u32> = adopted.hidden().map(|(slot, _)| slot).collect();
    let live: Vec<u32> = adopted.live().map(|(slot, _)| slot).collect();
    adopted.hide(&live);
    live.iter().chain(&hidden).for_each(|slot| adopted.remove(*slot));
    assert_eq!((adopted.counts().live, adopted.counts().hidden), (0, 0));
    assert!((0..16).all(|number| adopted.find(&id(number)).is_none()));
}

/// What a client does with such a table.
fn probe(writer: &IndexWriter) {
    let control = ControlDaemon::create().expect("there is memory for a control page");
    control.set_table(NUMBER);
    let control = control.memfd().read_only().and_then(ControlReader::new).expect("it is one");
    let channel = ChannelDaemon::create().expect("there is memory for a channel");
    let channel = channel.memfd().duplicate().expect("there are descriptors");
    let channel = ChannelClient::new(channel).expect("it is one");
    let table = writer.memfd().read_only().expect("there are descriptors");
    let reader = IndexReader::new(table, NUMBER, SLOTS as u64).expect("the table can be mapped");
    let reader = Reader::new(control, reader, channel).expect("there is address space");
    for number in 0..16 {
        let listed = reader.contains(&id(number));
        match reader.get(&id(number)).expect("there are free entries") {
            // No extent is mapped here, so nothing is ever read through a made-up slot.
            ReadOutcome::Unmapped(held) => {
                assert_eq!((listed, held.image().id), (Some(true), id(number)))
            }
            ReadOutcome::Missing => assert_eq!(listed, Some(false)),
            ReadOutcome::Object(_) | ReadOutcome::TableChanged | ReadOutcome::Parted => {
                panic!("no extent, the same table, and no daemon")
            }
        }
    }
    assert_eq!(reader.channel().ledger().pins(), 0);
}

/// The daemon's own table beside a map.
fn model(input: &mut Input<'_>) {
    let mut table = table();
    let mut shown: HashMap<usize, (u32, u64)> = HashMap::new();
    let mut hidden: Vec<(u32, usize, u64)> = Vec::new();
    let mut serial = 0;
    while !input.is_empty() {
        let number = input.below(256);
        match (input.below(4), shown.get(&number).copied()) {
            (0 | 1, None) => {
                if table.wants_growth() {
                    let (next, mut slots) = (table.number() + 1, HashMap::new());
                    table = table
                        .grow(next, |record, slot| {
                            slots.insert(u64::from(record), slot);
                        })
                        .expect("there is memory for a table");
                    shown.values_mut().for_each(|(slot, serial)| *slot = slots[serial]);
                    hidden.iter_mut().for_each(|(slot, _, serial)| *slot = slots[serial]);
                }
                serial += 1;
                shown.insert(number, (table.insert(&image(number, serial)), serial));
            }
            (0 | 2, Some((slot, serial))) => {
                table.hide(&[slot]);
                shown.remove(&number);
                hidden.push((slot, number, serial));
            }
            (3, _) => {
                if let Some((slot, number, serial)) = hidden.pop() {
                    if input.byte() % 2 == 0 && !shown.contains_key(&number) {
                        table.show(slot);
                        shown.insert(number, (slot, serial));
                    } else {
                        table.remove(slot);
                    }
                }
            }
            (_, found) => assert_eq!(table.find(&id(number)), found.map(|(slot, _)| slot)),
        }
        let counts = table.counts();
        assert_eq!((counts.live, counts.hidden), (shown.len(), hidden.len()));
    }
    for (number, (slot, serial)) in shown {
        assert_eq!(table.find(&id(number)), Some(slot));
        assert_eq!(table.image(slot), image(number, serial));
    }
}

fn image(number: usize, serial: u64) -> SlotImage {
    SlotImage {
        serial: serial.max(1),
        id: id(number),
        placement: Placement { extent: ExtentId(number as u64), offset: 64 },
        meta: ObjectMeta {
            sizes: Sizes { data: serial & 0xffff_ffff_ffff, ..Sizes::default() },
            ..ObjectMeta::default()
        },
        record: serial as u32,
    }
}
