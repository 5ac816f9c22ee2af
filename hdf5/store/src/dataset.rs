//! A dataset in a store, as all of its handles in this process see it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_client::{Client, ObjectId, PutOptions, Writer};
use plasmon_hdf5_model::{Bytes, Columns, Stream, Table};

use crate::coverage::Coverage;
use crate::error::Error;
use crate::object::{Object, SealedVersion};

/// In how many pieces a draft may be written before its gaps are filled: what is remembered of
/// them stays small.
const PIECES_MAX: usize = 4096;

/// A dataset in a store.
#[derive(Debug)]
pub struct Dataset {
    store: Client,
    table: Table,
    /// Where each column begins.
    offsets: Vec<u64>,
    /// In which process the state was made: see [`plasmon_client::fork_generation`].
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    name: String,
    /// The version that is sealed and the newest.
    sealed: Option<SealedVersion>,
    /// The next version, which is being written.
    draft: Option<Draft>,
    /// The names of the columns, and the other entries of the schema.
    about: Description,
    /// Whether the sealed version says something else.
    about_changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Description {
    first_column: Option<String>,
    entries: Vec<(String, String)>,
}

/// A version that is being written. What was not written yet has the bytes of the version before,
/// or is zero: the memory may have been used before.
#[derive(Debug)]
struct Draft {
    writer: Writer,
    written: Coverage,
    /// Whether what was not written yet has what it is to have already.
    filled: bool,
}

impl Dataset {
    /// A new dataset, which reads as zeros. Its memory is reserved.
    pub(crate) fn new(store: &Client, name: &str, table: &Table) -> Result<Self, Error> {
        let dataset = Self::of(store, name, table, None);
        dataset.begin(&mut dataset.state())?;
        Ok(dataset)
    }

    /// A dataset whose newest version is there.
    pub(crate) fn existing(store: &Client, name: &str, table: &Table) -> Result<Self, Error> {
        let sealed = Object { store, name }.open(table)?;
        Ok(Self::of(store, name, table, Some(sealed)))
    }

    fn of(store: &Client, name: &str, table: &Table, sealed: Option<SealedVersion>) -> Self {
        let first = sealed.as_ref().and_then(|sealed| Stream::first_column(sealed.head()));
        let first_column =
            first.or_else(|| table.columns().first().map(|one| one.name().to_owned()));
        Self {
            store: store.clone(),
            offsets: table.offsets(),
            table: table.clone(),
            generation: AtomicU64::new(plasmon_client::fork_generation()),
            state: Mutex::new(State {
                name: name.to_owned(),
                sealed,
                draft: None,
                about: Description { first_column, entries: Vec::new() },
                about_changed: false,
            }),
        }
    }

    /// Its table, but for the names of columns.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The columns, to be read and written.
    pub fn columns(&self) -> Columns<'_> {
        Columns { bytes: self, offsets: &self.offsets }
    }

    /// The name of its object.
    pub fn name(&self) -> String {
        self.state().name.clone()
    }

    /// The socket of its store.
    pub fn socket(&self) -> &Path {
        self.store.socket()
    }

    /// The name of the first column.
    pub fn first_column(&self) -> Option<String> {
        self.state().about.first_column.clone()
    }

    /// Says what the columns are called and what else the schema is to say; stored by the next
    /// [`Self::commit`].
    pub fn describe(&self, table: &Table, entries: &[(String, String)]) {
        let first_column = table.columns().first().map(|column| column.name().to_owned());
        let about = Description { first_column, entries: entries.to_vec() };
        let mut state = self.state();
        let head = state.sealed.as_ref().map(SealedVersion::head);
        let same = head.is_none_or(|head| head == self.stream(&about).head);
        state.about_changed = !same;
        state.about = about;
    }

    /// Takes what was written so far for what a dataset begins with: it is not complete yet.
    pub fn begin_filled(&self) {
        let mut state = self.state();
        let bytes = self.table.body_bytes();
        let mut unwritten = Coverage::new(bytes);
        self.padding().into_iter().for_each(|gap| unwritten.add(gap));
        let Some(draft) = &mut state.draft else { return };
        // Zeros are what it begins with anyway: they need not be written now.
        if draft.written != unwritten {
            draft.complete(0..bytes, None);
            draft.written = unwritten;
            draft.filled = true;
        }
    }

    /// Whether something of it is not sealed yet.
    pub fn is_staged(&self) -> bool {
        let state = self.state();
        state.draft.is_some() || state.about_changed
    }

    /// Seals what was written, so that others see it: everything, or only if no byte is missing.
    ///
    /// # Errors
    ///
    /// The store is full, gone, or has a version of another process. What was written since the
    /// last success is lost then; the version before is still there.
    pub fn commit(&self, everything: bool) -> Result<(), Error> {
        let mut state = self.current()?;
        if let Some(draft) = &state.draft
            && (everything || draft.written.is_whole())
        {
            let sealed = self.seal(&mut state);
            state.draft = None;
            sealed?;
        }
        if state.about_changed && state.draft.is_none() {
            state.about_changed = false;
            if let Some(body) = state.sealed.as_ref().map(SealedVersion::body_id) {
                self.publish(&mut state, body)?;
            }
        }
        Ok(())
    }

    /// Calls it something else.
    pub(crate) fn rename(&self, name: &str) -> Result<(), Error> {
        let mut state = self.current()?;
        let old = std::mem::replace(&mut state.name, name.to_owned());
        let Some(sealed) = state.sealed.take() else { return Ok(()) };
        if let Err(error) = self.publish(&mut state, sealed.body_id()) {
            (state.name, state.sealed) = (old, Some(sealed));
            return Err(error);
        }
        Object { store: &self.store, name: &old }.delete();
        Ok(())
    }

    /// Another dataset with the same values, whose body is this one's until either is written.
    pub(crate) fn share(&self, name: &str) -> Result<(), Error> {
        self.commit(true)?;
        let state = self.current()?;
        let Some(sealed) = &state.sealed else { return Ok(()) };
        let stream = self.stream(&state.about);
        let object = Object { store: &self.store, name };
        object.put(sealed.body_id(), &stream, self.table.body_bytes())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if it is this process's. A forked child looks the sealed version up again, for
    /// its parent may give it back at any time.
    fn current(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.state();
        let generation = plasmon_client::fork_generation();
        if self.generation.load(Ordering::Relaxed) != generation {
            if state.draft.is_some() {
                return Err(Error::Parents(state.name.clone()));
            }
            let object = Object { store: &self.store, name: &state.name };
            let sealed = object.open(&self.table)?;
            state.sealed = Some(sealed);
            self.generation.store(generation, Ordering::Relaxed);
        }
        Ok(state)
    }

    /// Reserves memory for the next version.
    fn begin(&self, state: &mut State) -> Result<(), Error> {
        let options = PutOptions { owned: true, ..PutOptions::default() };
        let bytes = self.table.body_bytes();
        let writer = self.store.create(bytes, &options).map_err(|why| self.refused(state, why))?;
        let mut draft = Draft { writer, written: Coverage::new(bytes), filled: false };
        for gap in self.padding() {
            draft.writer[usize_range(&gap)].fill(0);
            draft.written.add(gap);
        }
        state.draft = Some(draft);
        Ok(())
    }

    /// The bytes between the columns, and after the last.
    fn padding(&self) -> Vec<Range<u64>> {
        let mut ends: Vec<u64> = self.offsets.iter().skip(1).copied().collect();
        ends.push(self.table.body_bytes());
        let elements = self.table.elements();
        let columns = self.offsets.iter().zip(self.table.columns()).zip(ends);
        let gap = |((offset, column), end): ((&u64, &plasmon_hdf5_model::Column), u64)| {
            offset + elements * column.bytes() as u64..end
        };
        columns.map(gap).filter(|gap| !gap.is_empty()).collect()
    }

    /// Seals the draft and gives it its name.
    fn seal(&self, state: &mut State) -> Result<(), Error> {
        let Some(mut draft) = state.draft.take() else { return Ok(()) };
        draft.complete(0..self.table.body_bytes(), state.sealed.as_ref());
        let body = draft.writer.seal().map_err(|why| self.refused(state, why))?;
        self.publish(state, body).inspect_err(|_| {
            // It goes with this process at the latest.
            let _ = self.store.delete(&[body]);
        })
    }

    /// Puts the next version over a sealed body, in the place of the one before.
    fn publish(&self, state: &mut State, body: ObjectId) -> Result<(), Error> {
        let object = Object { store: &self.store, name: &state.name };
        let (stream, bytes) = (self.stream(&state.about), self.table.body_bytes());
        match &state.sealed {
            Some(before) => object.replace(before, body, &stream, bytes)?,
            None => object.put(body, &stream, bytes)?,
        }
        state.about_changed = false;
        state.sealed = Some(object.open(&self.table)?);
        Ok(())
    }

    fn stream(&self, about: &Description) -> Stream {
        let table = self.table.clone();
        let table = match &about.first_column {
            Some(name) => table.renamed(name),
            None => table,
        };
        Stream::of(&table, &about.entries)
    }

    fn refused(&self, state: &State, why: plasmon_client::Error) -> Error {
        Object { store: &self.store, name: &state.name }.refused(why)
    }
}

impl Draft {
    /// Gives what was not written within a range the bytes that it has to have.
    fn complete(&mut self, within: Range<u64>, before: Option<&SealedVersion>) {
        for hole in self.written.holes(within) {
            let range = usize_range(&hole);
            match before.map(|sealed| &sealed.body()[range.clone()]) {
                _ if self.filled => {}
                Some(old) => self.writer[range].copy_from_slice(old),
                None => self.writer[range].fill(0),
            }
            self.written.add(hole);
        }
    }
}

impl Bytes for Dataset {
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let range = self.within(offset, into.len())?;
        let mut state = self.current().map_err(io::Error::other)?;
        let State { sealed, draft, .. } = &mut *state;
        if let Some(draft) = draft {
            draft.complete(range.clone(), sealed.as_ref());
            into.copy_from_slice(&draft.writer[usize_range(&range)]);
            return Ok(());
        }
        let Some(sealed) = sealed.clone() else { return Err(self.lost(&state)) };
        // What is sealed stays as it is: several threads may read at once.
        drop(state);
        into.copy_from_slice(&sealed.body()[usize_range(&range)]);
        Ok(())
    }

    fn write_all_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        let range = self.within(offset, from.len())?;
        let mut state = self.current().map_err(io::Error::other)?;
        if state.draft.is_none() {
            if state.sealed.is_none() {
                return Err(self.lost(&state));
            }
            self.begin(&mut state).map_err(io::Error::other)?;
        }
        let State { sealed, draft, name, .. } = &mut *state;
        let Some(draft) = draft else { return Ok(()) };
        draft
            .writer
            .copy_at(usize_range(&range).start, from)
            .map_err(|why| io::Error::other(Object { store: &self.store, name }.refused(why)))?;
        draft.written.add(range);
        if draft.written.pieces() > PIECES_MAX {
            draft.complete(0..self.table.body_bytes(), sealed.as_ref());
        }
        Ok(())
    }
}

impl Dataset {
    /// Bytes of the body; an error when the range is outside of it.
    fn within(&self, offset: u64, bytes: usize) -> io::Result<Range<u64>> {
        let end = offset.checked_add(bytes as u64);
        let end = end.filter(|end| *end <= self.table.body_bytes());
        end.map(|end| offset..end).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The first version could not be sealed.
    fn lost(&self, state: &State) -> io::Error {
        io::Error::other(format!(
            "object hdf5:{} could not be stored before; write the dataset again",
            state.name
        ))
    }
}

/// A range within memory that is mapped.
fn usize_range(range: &Range<u64>) -> Range<usize> {
    let count = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    count(range.start)..count(range.end)
}
