//! The table worker: backs large index tables with huge pages.
//!
//! A get in a table of a million objects misses the processor's address translations as surely as
//! its caches; with huge pages it misses only the caches. To collapse a table takes from a quarter
//! of a millisecond to some milliseconds for each huge page, in which everything that touches that
//! one waits, and it is done at most once for each table. That is why it has its own thread:
//! the memory worker must not keep a writer waiting for so long.
//!
//! The loop touches slots all over the table. Without a pause it would wait for one huge page after
//! the other until all are made, 80 ms of a turn with a million objects on a machine that has to
//! ask its host for memory. So the worker rests after each.

use std::sync::mpsc::{Receiver, RecvTimeoutError};

use plasmon_shm::{HugePageCollapse, Memfd, edge};

/// Tables smaller than this are left alone: the processor has translations enough for their pages.
pub(crate) const TABLE_BYTES_MIN: u64 = 8 << 20;

/// How many times as long as it took to make a huge page the worker rests before the next one.
const REST_PER_WORK: u32 = 4;

/// The worker's main loop: it ends when the last sender of tables is gone.
pub(super) fn work(tables: &Receiver<Memfd>) {
    while let Ok(first) = edge::receive(tables) {
        let mut next = Some(first);
        while let Some(table) = next {
            // While one was collapsed the index may have grown: only the last is still used.
            let table = tables.try_iter().last().unwrap_or(table);
            next = match table.collapsing() {
                Ok(collapsing) => collapse(collapsing, tables),
                Err(error) => {
                    tracing::debug!(%error, "an index table stays in small pages");
                    None
                }
            };
        }
    }
}

/// Collapses a table unless another one comes, which it gives back.
fn collapse(mut table: HugePageCollapse, tables: &Receiver<Memfd>) -> Option<Memfd> {
    loop {
        let begun = edge::now();
        match table.step() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                // Old kernels do not know how, and a machine without large free pieces cannot.
                tracing::debug!(%error, "an index table stays in small pages");
                return None;
            }
        }
        match edge::receive_within(tables, edge::since(begun) * REST_PER_WORK) {
            Ok(newer) => return Some(newer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::ObjectId;
    use plasmon_proto::extent::{ExtentId, Placement};
    use plasmon_proto::object::{ObjectMeta, Sizes};
    use plasmon_shm::{HashKey, IndexWriter, SlotImage};
    use std::sync::mpsc::channel;

    #[test]
    fn a_table_is_the_same_before_and_after() {
        let mut index =
            IndexWriter::create(1, TABLE_BYTES_MIN as usize / 64, HashKey::EXAMPLE).unwrap();
        let image = SlotImage {
            serial: 7,
            id: ObjectId::new([9; 20]),
            placement: Placement { extent: ExtentId::new(0, 1), offset: 64 },
            meta: ObjectMeta {
                sizes: Sizes { data: 100, ..Sizes::default() },
                created_ms: 5,
                ..ObjectMeta::default()
            },
            record: 3,
        };
        let slot = index.insert(&image);
        let (sender, tables) = channel();
        for _ in 0..2 {
            let table = index.memfd().duplicate().unwrap();
            sender.send(Memfd::adopt(table).unwrap()).unwrap();
        }
        drop(sender);
        // It is unknown whether the machine has huge pages to spare; the worker ends either way.
        work(&tables);
        assert_eq!((index.find(&image.id), index.image(slot)), (Some(slot), image));
        assert_eq!(index.counts().live, 1);
    }
}
