//! Checksums of the copies of one node, asked for at another.

use std::collections::BTreeSet;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::pool_checksum::ChecksumQuery;

use crate::event::{CopyPart, CopyRead, Event};
use crate::limits::CHECKSUM_MS;
use crate::message::QuestionNo;
use crate::record::Content;
use crate::time::Mono;

use super::history::Operation;
use super::world::{What, World};

/// How long a machine takes to read the copies of a page.
const READ_US: u64 = 2_500_000;

impl World {
    /// A machine reads copies: each has the number of its incarnation as its checksum.
    pub(super) fn read_copies(
        &mut self,
        at: usize,
        (peer, question): (Slot, QuestionNo),
        parts: &[CopyPart],
    ) {
        let read = |part: &CopyPart| {
            let store = &self.machines[at].store;
            let is_here = store.objects.get(&part.id).is_some_and(|it| it.birth == part.birth);
            let is_right = |damaged: &BTreeSet<ObjectId>| !damaged.contains(&part.id);
            let crc = is_right(&store.damaged).then_some(part.birth.serial as u32);
            let logged = part.is_logged.then(|| is_right(&store.log.damaged));
            is_here.then_some(CopyRead { crc, name: None, logged })
        };
        let read = Some(parts.iter().map(read).collect());
        let incarnation = self.machines[at].incarnation;
        let event = Event::CopiesRead { peer, question, read };
        self.at(Mono(self.now.0 + READ_US), What::Node { at, incarnation, event });
    }
}

#[test]
fn a_node_reads_its_copies_for_another_and_one_that_stands_still_does_not_answer() {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == 3).unwrap();
    let mut world = World::new(seed, None, 500);
    world.start_all().unwrap();
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    pass(&mut world, 3_000);
    for number in 0..4 {
        let id = ObjectId::pooled([number; 12], None);
        let content = Content { data_bytes: 100, ..Content::default() };
        let put = Operation::Put { id, content, copies: 3, copies_min: 3 };
        world.begin(0, put).unwrap();
    }
    pass(&mut world, 3_000);
    let query = ChecksumQuery::default();
    let nodes: Vec<Slot> = world.machines.iter().map(|machine| machine.slot()).collect();
    for (number, node) in (0..).zip(nodes.iter().copied()) {
        world.give(0, Event::Checksum { number, node, query }).unwrap();
    }
    // It takes longer than until the question is asked again.
    pass(&mut world, 8_000);
    for number in 0..3 {
        let page = world.checksummed.remove(&number).unwrap().expect("the node answers");
        assert_eq!((page.copies.len(), page.next), (4, None));
        let is_right = |crc: Option<u32>, serial: u64| crc == Some(serial as u32);
        assert!(page.copies.iter().all(|copy| is_right(copy.crc, copy.birth.serial)));
    }

    world.machines[2].paused = true;
    world.give(0, Event::Checksum { number: 9, node: nodes[2], query }).unwrap();
    world.give(0, Event::Checksum { number: 10, node: Slot(900), query }).unwrap();
    pass(&mut world, CHECKSUM_MS + 2_000);
    assert_eq!(
        (world.checksummed.remove(&9), world.checksummed.remove(&10)),
        (Some(None), Some(None))
    );
}
