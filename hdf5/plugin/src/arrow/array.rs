//! A dataset whose data is ours.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use plasmon_hdf5_model::{
    Convert, Member, Memory as Bytes, NoConversion, Place, Records, Run, Table, WrittenChunks,
    transfer,
};
use plasmon_hdf5_sys::arguments::dataset;
use plasmon_hdf5_sys::{DEFAULT, Hid, KIND_DATASET, Ptr, SPACE_ALL, UNLIMITED};

use crate::arrow::eligibility;
use crate::arrow::members;
use crate::arrow::selection::Selection;
use crate::arrow::transfer::{Call, Memory};
use crate::backend;
use crate::container::Container;
use crate::data::Data;
use crate::data::source::Source;
use crate::host::Host;
use crate::id::Id;
use crate::skeleton::creation_list::{external, marker};
use crate::skeleton::{file_name, get};
use crate::tie::{SkeletonFile, Tie};

/// A dataset that is Arrow.
pub(crate) struct Array {
    host: &'static Host,
    table: Table,
    source: Source,
    body_offset: u64,
    writable: bool,
    /// Whether other processes write into the same file at the same time.
    shared: bool,
    /// Whether HDF5 without the plugin reads the same bytes.
    pub(crate) plain: bool,
    data: OnceLock<Result<Arc<dyn Data>, String>>,
    /// The dimensions of its chunks, once they were asked for.
    chunk: OnceLock<Vec<u64>>,
    /// The file that it was reached through; none for what is only read.
    container: Option<Arc<Container>>,
    /// The tie of the skeleton to its data, if that is in files.
    tie: Option<Arc<Tie>>,
    /// Whether something was written through this object.
    pub(crate) dirty: AtomicBool,
    /// Whether rows were added or taken away through this object.
    resized: AtomicBool,
}

impl Array {
    /// The Arrow data of an open dataset of the native connector, if it has any.
    pub(crate) fn of_dataset(
        host: &'static Host,
        under: Ptr,
        container: &Arc<Container>,
    ) -> Option<Self> {
        let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
        let (marker, body_offset) = marker(host, dcpl.get())?;
        let skeleton = container.path_of(&file_name(host, under, KIND_DATASET)?);
        let source = Source::new(&marker.place, &skeleton, &container.settings);
        let tie = match &source {
            Source::File { .. } | Source::Object { .. } => container.tie_of(host, &skeleton),
            _ => None,
        };
        if matches!(marker.place, Place::Object { .. }) {
            container.expect_objects();
        }
        let array = Self::of_source(host, under, source, body_offset)?;
        let writable = container.writable && array.source.is_writable();
        let container = Some(Arc::clone(container));
        Some(Self { writable, plain: marker.plain, container, tie, ..array })
    }

    /// The data of a dataset, for reading.
    pub(crate) fn of_source(
        host: &'static Host,
        under: Ptr,
        source: Source,
        body_offset: u64,
    ) -> Option<Self> {
        let kind = Id::of_type(host, get(host, under, dataset::GET_TYPE)?)?;
        let space = Id::of_space(host, get(host, under, dataset::GET_SPACE)?)?;
        let columns = eligibility::columns(host, kind.get(), "").ok()?;
        let (shape, _) = eligibility::shape(host, space.get())?;
        let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
        let (_, _, bytes) = external(host, dcpl.get())?;
        Some(Self {
            host,
            table: Table::new(shape, columns)?.chunked(Vec::new(), bytes == UNLIMITED),
            source,
            body_offset,
            writable: false,
            shared: false,
            plain: true,
            data: OnceLock::new(),
            chunk: OnceLock::new(),
            container: None,
            tie: None,
            dirty: AtomicBool::new(false),
            resized: AtomicBool::new(false),
        })
    }

    /// Whether the number of rows may change.
    pub(crate) fn grows(&self) -> bool {
        self.table.grows()
    }

    /// The table with as many rows as the skeleton has now.
    pub(crate) fn now(&self, under: Ptr) -> Result<Table, String> {
        if !self.table.grows() {
            return Ok(self.table.clone());
        }
        let space = get(self.host, under, dataset::GET_SPACE);
        let space = space.and_then(|id| Id::of_space(self.host, id));
        let shape = space.and_then(|space| eligibility::shape(self.host, space.get()));
        let rows = shape.and_then(|(now, _)| now.first().copied());
        rows.and_then(|rows| self.table.with_rows(rows))
            .ok_or_else(|| "the dataset has no dimensions".to_owned())
    }

    /// Gives data that has the rows of a table another number of them. New ones hold `fill`.
    pub(crate) fn resize(
        &self,
        under: Ptr,
        table: &Table,
        rows: u64,
        fill: &[Vec<u8>],
    ) -> Result<(), String> {
        let data = self.data(under)?;
        self.before_change(under)?;
        self.resized.store(true, Ordering::Relaxed);
        self.dirty.store(true, Ordering::Relaxed);
        data.resize(table, rows, fill).map_err(|error| format!("{}: {error}", self.source))?;
        match table.with_rows(rows).filter(|_| rows < table.rows()) {
            Some(now) => data.forget_written(&now, self.chunk(under)),
            None => Ok(()),
        }
        .map_err(|error| format!("{}: {error}", self.source))
    }

    /// Removes what is in the data after the last row, if rows were added or removed.
    pub(crate) fn settle(&self, under: Ptr) -> Result<(), String> {
        if !self.resized.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let settled = self.data(under)?.settle(&self.now(under)?);
        settled.map_err(|error| format!("{}: {error}", self.source))
    }

    /// The dimensions of the chunks that the program set; none when there are none, or the
    /// data that says so is not there. They stay the same for this object, whatever becomes of the
    /// file: programs ask for the size of a chunk, and then read one into a buffer of that size.
    pub(crate) fn chunk(&self, under: Ptr) -> &[u64] {
        let find = || self.data(under).ok().and_then(|data| data.chunk().ok()).unwrap_or_default();
        self.chunk.get_or_init(find)
    }

    /// How many bytes the elements have, as the type of the dataset has them.
    pub(crate) fn bytes(&self, under: Ptr) -> Option<u64> {
        let kind = Id::of_type(self.host, get(self.host, under, dataset::GET_TYPE)?)?;
        // SAFETY: the type is open.
        let element = unsafe { (self.host.api.H5Tget_size)(kind.get()) } as u64;
        self.now(under).ok()?.elements().checked_mul(element)
    }

    /// Whether other processes write into the same data at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// The same, written by one process or by several at a time.
    pub(crate) fn among(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// The open data; the reason why it cannot be opened stays the same for this object.
    fn data(&self, under: Ptr) -> Result<&Arc<dyn Data>, String> {
        let open = || {
            let source = self.located()?;
            backend::open(&source, &self.now(under)?, self.body_offset, self.writable)
        };
        self.data.get_or_init(open).as_ref().map_err(String::clone)
    }

    /// Must be called before the data is changed.
    fn before_change(&self, under: Ptr) -> Result<(), String> {
        let Some(tie) = &self.tie else { return Ok(()) };
        let within = match &self.source {
            Source::File { within, .. } => within,
            Source::Object { name, .. } => Path::new(name),
            _ => return Ok(()),
        };
        let ranks = self.container.as_ref().and_then(|container| container.ranks.as_ref());
        let from = SkeletonFile { host: self.host, under, kind: KIND_DATASET, ranks };
        tie.before_change(from, within)
    }

    /// Where the data is.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The same, where it is now; the error says why it is not this dataset's.
    pub(crate) fn located(&self) -> Result<Source, String> {
        self.source.checked(self.tie.as_deref())
    }

    /// Its table.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Lets others see what was written: when the dataset is closed what is complete, and when it
    /// is flushed everything.
    pub(crate) fn commit(&self, closing: bool) -> Result<(), String> {
        let (Some(Ok(data)), Some(container)) = (self.data.get(), &self.container) else {
            return Ok(());
        };
        if !self.writable {
            return Ok(());
        }
        if closing { container.staging.close(data) } else { container.staging.commit(data, true) }
    }

    /// All values, as elements of a type.
    pub(crate) fn values(&self, under: Ptr, kind: Hid) -> Result<Vec<u8>, String> {
        let whole = Call {
            memory_type: kind,
            memory_space: SPACE_ALL,
            file_space: SPACE_ALL,
            dxpl: DEFAULT,
        };
        // SAFETY: the type is open.
        let bytes = unsafe { (self.host.api.H5Tget_size)(kind) } as u64;
        let bytes = usize::try_from(bytes.saturating_mul(self.now(under)?.elements()))
            .unwrap_or(usize::MAX);
        let mut values = Vec::new();
        values.try_reserve_exact(bytes).map_err(|_| "there is no memory for a copy of the data")?;
        values.resize(bytes, 0);
        // SAFETY: there is room for all elements.
        unsafe { self.transfer(under, &whole, Memory::Target(values.as_mut_ptr())) }?;
        Ok(values)
    }

    /// Puts entries into the schema's metadata.
    pub(crate) fn describe(&self, under: Ptr, entries: &[(String, String)]) {
        // They are a copy of what the skeleton has: without them nothing is lost.
        if let (Ok(data), Ok(table)) = (self.data(under), self.now(under))
            && let Ok(name) = data.first_column()
        {
            let _ = data.describe(&table.renamed(&name), entries);
        }
    }

    /// Gives the column the name of the dataset, which is about to get its first link. The data
    /// is opened for that, and so reading and writing goes on with it under any name.
    pub(crate) fn rename(&self, under: Ptr, name: &str) {
        // If it cannot be opened, the next transfer says why.
        if let (Ok(data), Ok(table)) = (self.data(under), self.now(under)) {
            // A column under another name has the same values.
            let _ = data.describe(&table.renamed(name), &[]);
        }
    }

    /// Moves what is selected between the file and the memory.
    ///
    /// # Safety
    ///
    /// The memory has room for, or holds, what is selected in it.
    pub(crate) unsafe fn transfer(
        &self,
        under: Ptr,
        call: &Call,
        memory: Memory,
    ) -> Result<(), String> {
        if self.host.has_transform(call.dxpl) {
            return Err("data transforms are not supported for Arrow data".to_owned());
        }
        if matches!(memory, Memory::Source(_)) && !self.writable {
            return Err("no write intent on file".to_owned());
        }
        let table = self.now(under)?;
        let mut selection =
            Selection::new(self.host, table.elements(), call.file_space, call.memory_space)?;
        if selection.selected == 0 {
            return Ok(());
        }
        if memory.is_null() {
            return Err("no buffer".to_owned());
        }
        let kind = get(self.host, under, dataset::GET_TYPE);
        let kind = kind.and_then(|id| Id::of_type(self.host, id)).ok_or("there is no type")?;
        let seen = members::seen(self.host, table.columns(), kind.get(), call.memory_type)?;
        let mut convert = members::Converter::new(self.host, &seen, memory, call.dxpl)?;
        let members: Vec<Member> = seen.iter().map(|seen| seen.member).collect();
        // SAFETY: the type is the one that the program gave.
        let stride = unsafe { (self.host.api.H5Tget_size)(call.memory_type) };
        let work = Work { table: &table, members: &members, stride };
        let mut runs = Vec::new();
        loop {
            selection.next_runs(&mut runs)?;
            let Some((first, elements)) = extent(&runs) else { return Ok(()) };
            // SAFETY: the caller promises room for what is selected, and all elements from the
            // first to the last selected one lie in the same buffer.
            unsafe {
                self.move_runs(under, &work, &runs, (memory, first, elements), &mut convert)
            }?;
        }
    }

    /// Moves runs of whole elements, without conversions, between the data and memory that begins
    /// with the first of the elements.
    ///
    /// # Safety
    ///
    /// The memory has that many elements.
    pub(crate) unsafe fn move_plainly(
        &self,
        under: Ptr,
        work: &Work<'_>,
        runs: &[Run],
        (memory, elements): (Memory, u64),
    ) -> Result<(), String> {
        // SAFETY: promised by the caller.
        unsafe { self.move_runs(under, work, runs, (memory, 0, elements), &mut NoConversion) }
    }

    /// Moves runs between the data and the elements of memory from one on.
    ///
    /// # Safety
    ///
    /// The memory has these elements.
    unsafe fn move_runs(
        &self,
        under: Ptr,
        work: &Work<'_>,
        runs: &[Run],
        (memory, first, elements): (Memory, u64, u64),
        convert: &mut dyn Convert,
    ) -> Result<(), String> {
        let data = self.data(under)?;
        let (records, columns) = (Records { first, stride: work.stride }, data.columns());
        let Some((start, bytes)) = bytes_of(first, elements, work.stride) else {
            return Err("the selected memory is larger than memory can be".to_owned());
        };
        let mut go = |runs: &[Run], piece| {
            transfer((columns, work.table), work.members, runs, piece, records, convert)
        };
        let done = match memory {
            Memory::Target(target) => {
                // SAFETY: promised by the caller.
                let piece = unsafe { std::slice::from_raw_parts_mut(target.add(start), bytes) };
                go(runs, Bytes::Target(piece))
            }
            Memory::Source(_) if !self.writable => return Err("no write intent on file".to_owned()),
            Memory::Source(source) => {
                self.before_change(under)?;
                if let Some(container) = &self.container {
                    container.staging.hold(data);
                }
                self.dirty.store(true, Ordering::Relaxed);
                // SAFETY: promised by the caller.
                let piece = unsafe { std::slice::from_raw_parts(source.add(start), bytes) };
                if self.shared {
                    // What lies between two runs may be another process's: it is not touched.
                    let mut blocks =
                        runs.iter().flat_map(|run| (0..run.blocks).map(|at| run.block(at)));
                    blocks.try_for_each(|block| go(&[block], Bytes::Source(piece)))
                } else {
                    go(runs, Bytes::Source(piece))
                }
            }
        };
        done.map_err(|error| format!("{}: {error}", self.source))?;
        match memory {
            Memory::Source(_) => self.note_written(under, work.table, runs),
            Memory::Target(_) => Ok(()),
        }
    }

    /// The chunks that were written; `None` when all of them are there.
    pub(crate) fn written(&self, under: Ptr) -> Result<Option<WrittenChunks>, String> {
        self.data(under)?.written().map_err(|error| format!("{}: {error}", self.source))
    }

    /// Remembers that the chunks of these elements were written.
    fn note_written(&self, under: Ptr, table: &Table, runs: &[Run]) -> Result<(), String> {
        if !self.grows() {
            return Ok(());
        }
        let noted = self.data(under)?.note_written(table, self.chunk(under), runs);
        noted.map_err(|error| format!("{}: {error}", self.source))
    }

    /// Waits until the data is on the disk.
    pub(crate) fn sync(&self) -> Result<(), String> {
        match self.data.get() {
            Some(Ok(data)) => data.sync().map_err(|error| format!("{}: {error}", self.source)),
            _ => Ok(()),
        }
    }
}

/// How elements lie on both sides.
pub(crate) struct Work<'a> {
    /// In the data.
    pub(crate) table: &'a Table,
    /// Which columns go where in an element of the memory.
    pub(crate) members: &'a [Member],
    /// From one element of the memory to the next, in bytes.
    pub(crate) stride: usize,
}

/// The elements of memory from the first to the last that some runs touch.
fn extent(runs: &[Run]) -> Option<(u64, u64)> {
    let first = runs.iter().map(|run| run.memory).min()?;
    let end = runs.iter().map(Run::memory_end).max()?;
    Some((first, end - first))
}

/// The bytes that elements of memory take.
fn bytes_of(first: u64, elements: u64, stride: usize) -> Option<(usize, usize)> {
    let start = usize::try_from(first).ok()?.checked_mul(stride)?;
    let bytes = usize::try_from(elements).ok()?.checked_mul(stride)?;
    isize::try_from(start.checked_add(bytes)?).ok()?;
    Some((start, bytes))
}
