//! The data of a dataset, wherever it is kept.

pub(crate) mod source;
pub(crate) mod staging;

use std::io;

use plasmon_hdf5_model::{Columns, Run, Table, WrittenChunks};

/// The open data of a dataset.
pub(crate) trait Data: Send + Sync {
    /// The columns, to be read and written.
    fn columns(&self) -> Columns<'_>;

    /// Writes beside the data the names of the columns and the dataset's attributes, if
    /// there is room for it.
    fn describe(&self, table: &Table, attributes: &[(String, String)]) -> io::Result<()>;

    /// The name of the first column.
    fn first_column(&self) -> io::Result<String>;

    /// Gives a table that grows another number of rows. New ones hold `fill`.
    fn resize(&self, _table: &Table, _rows: u64, _fill: &[Vec<u8>]) -> io::Result<()> {
        Err(io::Error::other("the rows of data that is kept here cannot change"))
    }

    /// Removes the room after the last row.
    fn settle(&self, _table: &Table) -> io::Result<()> {
        Ok(())
    }

    /// The dimensions of the chunks that the program set.
    fn chunk(&self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// The chunks that were written; `None` when all of them are there.
    fn written(&self) -> io::Result<Option<WrittenChunks>> {
        Ok(None)
    }

    /// Notes which chunks were written.
    fn tell_written(&self, _written: &WrittenChunks) -> io::Result<()> {
        Ok(())
    }

    /// Waits until the data is on the disk, if there is one.
    fn sync(&self) -> io::Result<()>;

    /// Takes what was written so far for what a new dataset begins with.
    fn begin_filled(&self) {}

    /// Whether what is written is seen by others only when it is committed.
    fn stages(&self) -> bool {
        false
    }

    /// Whether there is something to commit.
    fn is_staged(&self) -> bool {
        false
    }

    /// Lets others see what was written: everything, or only if no byte is missing. After an error
    /// that is lost, and what was committed before is as it was.
    fn commit(&self, _everything: bool) -> Result<(), String> {
        Ok(())
    }

    /// The same number for all handles of this process on data that stages.
    fn identity(&self) -> usize {
        0
    }
}

impl dyn Data {
    /// Remembers that the chunks of these elements were written.
    pub(crate) fn note_written(
        &self,
        table: &Table,
        chunk: &[u64],
        runs: &[Run],
    ) -> io::Result<()> {
        let Some(mut written) = self.written()? else { return Ok(()) };
        let is_new = written.insert_runs(table, chunk, runs);
        if is_new { self.tell_written(&written) } else { Ok(()) }
    }

    /// Forgets the chunks that no row of a table is in.
    pub(crate) fn forget_written(&self, now: &Table, chunk: &[u64]) -> io::Result<()> {
        let end: Option<u64> = now.grid(chunk).map(|grid| grid.iter().product());
        let (Some(mut written), Some(end)) = (self.written()?, end) else { return Ok(()) };
        if written.truncate(end) { self.tell_written(&written) } else { Ok(()) }
    }
}
