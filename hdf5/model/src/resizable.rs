//! Datasets whose number of rows changes.
//!
//! The file has the rows before the skeleton counts them, and loses them after the skeleton does:
//! so whenever the process is killed, what the skeleton names is there. Arrow's foot stands after
//! room for more rows, so that adding rows changes one message only, most of the time; the room is
//! a hole in the file and takes no space on the disk.

use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

use crate::file::DataFile;
use crate::image::{Image, batch};
use crate::layout::{Extent, extents};
use crate::schema;
use crate::table::Table;

/// How many bytes of room there are at least after the rows of a single column.
const ROOM_BYTES: u64 = 1 << 16;
/// How many zeros are written at once.
const ZEROS: usize = 1 << 16;

impl DataFile {
    /// Gives a table, which must be one that grows, another number of rows. New ones hold `fill`,
    /// a value for each column.
    ///
    /// # Errors
    ///
    /// The system's error; the rows that were there stay.
    pub fn resize(&self, table: &Table, rows: u64, fill: &[Vec<u8>]) -> io::Result<()> {
        let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
        let now = table.with_rows(rows).ok_or_else(too_large)?;
        if rows < table.rows() {
            return self.cut(&now);
        }
        if self.rows_in_file(table)? != Some(table.rows()) {
            // A process that was killed, or HDF5 without the plugin, added or took away rows.
            self.cut(table)?;
        }
        self.grow(table, &now, fill)
    }

    /// Removes the room after the last row.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn settle(&self, table: &Table) -> io::Result<()> {
        let image = self.image(table, 0)?;
        let bytes = self.file().metadata()?.len();
        if bytes == image.file_bytes() && self.rows_in_file(table)? == Some(table.rows()) {
            return Ok(());
        }
        self.write_frame(&image)
    }

    fn grow(&self, table: &Table, now: &Table, fill: &[Vec<u8>]) -> io::Result<()> {
        let bytes = self.file().metadata()?.len();
        let foot_at = schema::foot_at(self.file(), bytes)?.unwrap_or(bytes);
        let row = now.row_bytes().max(1);
        let single = now.columns().len() == 1;
        let held = foot_at.saturating_sub(self.body_at()) / row;
        let fits = if single {
            now.rows() <= held
        } else {
            self.extents(now).len() == self.extents(table).len()
        };
        if fits {
            self.columns().fill(now, table.rows(), fill)?;
            let capacity = if single { held } else { 0 };
            return self.tell(table, now, capacity);
        }
        let room = (now.rows() / 2).max(ROOM_BYTES / row);
        let image = self.image(now, now.rows().saturating_add(room))?;
        // The new foot comes first: a reader in between finds the rows that were there.
        self.file().write_all_at(&image.foot, image.foot_at())?;
        self.erase(foot_at, bytes.min(image.foot_at()))?;
        self.columns().fill(now, table.rows(), fill)?;
        self.write_frame(&image)
    }

    /// Writes the number of rows into the messages that have it.
    fn tell(&self, table: &Table, now: &Table, capacity: u64) -> io::Result<()> {
        for extent in extents(now, self.body_at(), capacity).iter() {
            if extent.rows(table) != extent.rows(now) {
                self.file().write_all_at(&batch(now, &extent), extent.message_at)?;
            }
        }
        Ok(())
    }

    /// Removes all rows after those of a table.
    fn cut(&self, table: &Table) -> io::Result<()> {
        let image = self.image(table, 0)?;
        let last = self.extents(table).last();
        self.file().set_len(last.end().min(self.file().metadata()?.len()))?;
        let used = last.rows(table) * table.row_elements();
        for (at, column) in last.columns(table).iter().zip(table.columns()) {
            let place = used * column.bytes() as u64;
            let end = last.capacity * table.row_elements() * column.bytes() as u64;
            self.erase(at + place, at + end)?;
        }
        if table.columns().len() == 1 {
            self.file().set_len(self.used_end(table))?;
        }
        self.write_frame(&image)
    }

    /// The bytes around the bodies of a table in its present state.
    fn image(&self, table: &Table, capacity: u64) -> io::Result<Image> {
        let known = schema::read(self.file())?;
        let table = table.clone().renamed(&known.first);
        Image::fitting(&table, &known.metadata, self.body_at(), capacity)
            .ok_or_else(|| io::Error::other("there is no room for the schema"))
    }

    /// How many rows the file claims, as far as it can be read.
    fn rows_in_file(&self, table: &Table) -> io::Result<Option<u64>> {
        let bytes = self.file().metadata()?.len();
        if schema::foot_at(self.file(), bytes)?.is_none() {
            return Ok(None);
        }
        let rows = |extent: &Extent| {
            let length = usize::try_from(extent.body_at - extent.message_at).unwrap_or(0);
            let mut message = vec![0; length];
            self.file().read_exact_at(&mut message, extent.message_at)?;
            Ok::<_, io::Error>(schema::batch_rows(&message))
        };
        let last = self.extents(table).last();
        let single = table.columns().len() == 1;
        // After the last extent there is the foot, and not another extent.
        if !single && schema::foot_at(self.file(), bytes)? != Some(last.end()) {
            return Ok(None);
        }
        Ok(rows(&last)?.map(|(rows, _)| last.first + rows))
    }

    /// Makes bytes read as zeros; those after the end of the file do anyway.
    fn erase(&self, from: u64, to: u64) -> io::Result<()> {
        let to = to.min(self.file().metadata()?.len());
        if from >= to {
            return Ok(());
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(self.file(), hole, from, to - from).is_ok() {
            return Ok(());
        }
        // Not every file system knows holes.
        let zeros = vec![0; ZEROS];
        let mut at = from;
        while at < to {
            let now = usize::try_from(to - at).unwrap_or(ZEROS).min(ZEROS);
            self.file().write_all_at(&zeros[..now], at)?;
            at += now as u64;
        }
        Ok(())
    }
}
