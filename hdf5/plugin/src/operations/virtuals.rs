//! Virtual datasets whose sources are Arrow.
//!
//! HDF5 opens the sources of a virtual dataset by itself and asks no connector, so it would look
//! for their Arrow files from the working directory, know nothing of compounds, and check nothing.
//! When a source that a transfer needs is ours, the connector divides the transfer as HDF5 does:
//!
//! ```text
//! what is selected ─┬─ in the first mapping  ──► H5Dread of its source, opened through us
//!                   ├─ in the second one     ──► ...
//!                   └─ in none, or its source is not there ──► the fill value
//! ```
//!
//! Otherwise HDF5 does it all. Sources stay open until the virtual dataset is closed, as with HDF5
//! alone.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsString, c_int};
use std::marker::PhantomData;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plasmon_hdf5_model::SourceFolders;
use plasmon_hdf5_sys::arguments::dataset;
use plasmon_hdf5_sys::{
    ACCESS_WRITE, DEFAULT, KIND_DATASET, Ptr, SPACE_ALL, SPACE_BLOCK, SPACE_PLIST,
};

use crate::arrow::transfer::{Call, Memory};
use crate::connector::VALUE;
use crate::container::Container;
use crate::host::{Host, Lists};
use crate::id::Id;
use crate::node::{Failure, Node, Parts};
use crate::operations::mappings::{self, Mapping, Name, Part};
use crate::skeleton::creation_list::{self, LAYOUT_VIRTUAL};
use crate::skeleton::{file_name, get};

/// How deep virtual datasets may show other ones: one could show itself.
const DEPTH_MAX: u32 = 16;
/// A file stays open while anything in it is (the default, `H5F_CLOSE_STRONG`, `H5F_CLOSE_SEMI`):
/// HDF5 opens a file that is open already only in the way that it is open.
const CLOSE_DEGREES: [c_int; 3] = [0, 3, 2];
/// `H5D_FILL_VALUE_UNDEFINED`.
const FILL_UNDEFINED: c_int = 0;
/// `H5D_FILL_VALUE_USER_DEFINED`.
const FILL_OF_USER: c_int = 2;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A virtual dataset.
pub(crate) struct Virtual {
    host: &'static Host,
    /// The list that it was made with.
    dcpl: Id,
    mappings: Vec<Mapping>,
    container: Arc<Container>,
    /// The file that it is in.
    path: PathBuf,
    /// The folder of that, under the name that it was opened by.
    named: PathBuf,
    /// The prefix that the program, or the environment, gave it.
    prefix: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<Name, Arc<Source>>,
    /// Sources that HDF5 reads by itself.
    native: HashSet<Name>,
    /// Whether all sources are such.
    all_native: bool,
}

/// An open source.
struct Source {
    // Closed in this order.
    dataset: Id,
    _file: Id,
    /// Whether its data is ours, or may be: it is a virtual dataset itself.
    is_ours: bool,
}

/// A transfer between one source and the memory.
struct Job {
    source: Arc<Source>,
    memory: Id,
    selection: Id,
}

/// The selections in the virtual dataset and in the memory.
struct MappedSelections {
    file: Id,
    memory: Id,
}

impl Virtual {
    /// An open dataset of the native connector, if it is a virtual one.
    fn of_dataset(host: &'static Host, under: Ptr, container: &Arc<Container>) -> Option<Self> {
        let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
        // SAFETY: the list is open.
        let layout = unsafe { (host.api.H5Pget_layout)(dcpl.get()) };
        // HDF5 has no virtual datasets for several processes.
        if layout != LAYOUT_VIRTUAL || container.ranks.is_some() {
            return None;
        }
        let given = file_name(host, under, KIND_DATASET)?;
        Some(Self {
            host,
            mappings: mappings::of_list(host, &dcpl)?,
            dcpl,
            path: container.path_of(&given),
            named: container.given_folder(&given),
            container: Arc::clone(container),
            prefix: prefix(host, under),
            state: Mutex::default(),
        })
    }

    /// The same for a dataset that was opened through this connector.
    pub(crate) fn of_node(host: &'static Host, node: &Node) -> Option<Box<dyn Parts>> {
        let found = Self::of_dataset(host, node.native(), &node.container)?;
        Some(Box::new(found))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    ///
    /// As for [`Parts::transfer`].
    unsafe fn transfer_selected(
        &self,
        under: Ptr,
        call: &Call,
        selected: &MappedSelections,
        memory: Memory,
    ) -> Result<(), Failure> {
        let jobs = self.host.quietly(|| self.jobs(selected)).map_err(Some)?;
        let mapped: u64 = jobs.iter().map(|job| self.points(&job.memory)).sum();
        let whole = mapped >= self.points(&selected.memory);
        match memory {
            Memory::Target(target) if !target.is_null() => {
                if !whole {
                    // SAFETY: promised by the caller.
                    unsafe { self.fill(under, call, &selected.memory, target) }.map_err(Some)?;
                }
            }
            Memory::Source(source) if !source.is_null() => {
                if !whole {
                    let text = "write requested to unmapped portion of virtual dataset";
                    return Err(Some(text.to_owned()));
                }
            }
            _ => return Err(Some("no buffer".to_owned())),
        }
        for job in &jobs {
            let (api, dataset) = (&self.host.api, job.source.dataset.get());
            let (kind, space, from) = (call.memory_type, job.memory.get(), job.selection.get());
            // SAFETY: promised by the caller: what is selected for the job is a part of that.
            let done = unsafe {
                match memory {
                    Memory::Target(to) => {
                        (api.H5Dread)(dataset, kind, space, from, call.dxpl, to.cast())
                    }
                    Memory::Source(of) => {
                        (api.H5Dwrite)(dataset, kind, space, from, call.dxpl, of.cast())
                    }
                }
            };
            if done < 0 {
                return Err(None);
            }
        }
        Ok(())
    }

    /// The selections of a call, as spaces of ours; `None` where only HDF5 has them.
    fn selected(&self, under: Ptr, call: &Call) -> Option<MappedSelections> {
        let host = self.host;
        let whole = Id::of_space(host, get(host, under, dataset::GET_SPACE)?)?;
        // SAFETY: the spaces are those of the program, and open.
        let copy = |space| Id::of_space(host, unsafe { (host.api.H5Scopy)(space) });
        let file = match call.file_space {
            SPACE_ALL => mappings::copy(host, &whole)?,
            SPACE_BLOCK | SPACE_PLIST => return None,
            given => copy(given)?,
        };
        // SAFETY: the space is ours.
        if unsafe { (host.api.H5Sselect_valid)(file.get()) } <= 0 {
            return None;
        }
        let memory = match call.memory_space {
            SPACE_PLIST => return None,
            SPACE_ALL => mappings::copy(host, &file)?,
            SPACE_BLOCK => {
                let points = self.points(&file);
                // SAFETY: one dimension is given.
                let space =
                    unsafe { (host.api.H5Screate_simple)(1, &raw const points, std::ptr::null()) };
                Id::of_space(host, space)?
            }
            given => copy(given)?,
        };
        let points = self.points(&file);
        (points > 0 && points == self.points(&memory)).then_some(MappedSelections { file, memory })
    }

    fn points(&self, space: &Id) -> u64 {
        // SAFETY: the space is ours.
        let points = unsafe { (self.host.api.H5Sget_select_npoints)(space.get()) };
        u64::try_from(points).unwrap_or(0)
    }

    /// The part of one selection that is in another, within the space of the former.
    fn project(&self, selection: &Id, onto: &Id, within: &Id) -> Option<Id> {
        let [selection, onto, within] = [selection, onto, within].map(Id::get);
        let project = self.host.api.H5Sselect_project_intersection;
        // SAFETY: the spaces are ours.
        Id::of_space(self.host, unsafe { project(selection, onto, within) })
    }

    /// Whether a source that has some of what is selected is ours.
    fn is_needed(&self, selected: &MappedSelections) -> Option<bool> {
        for mapping in &self.mappings {
            for part in mapping.parts(&selected.file)? {
                if let Some(elements) = &part.elements {
                    let memory = self.project(&selected.file, &selected.memory, elements)?;
                    if self.points(&memory) == 0 {
                        continue;
                    }
                }
                if self.state().native.contains(&part.name) {
                    continue;
                }
                // HDF5 takes what it cannot open for what is not there.
                if let Ok(Some(source)) = self.source(&part.name)
                    && source.is_ours
                {
                    return Some(true);
                }
            }
        }
        let mut state = self.state();
        let is_native =
            |mapping: &Mapping| mapping.is_single() && state.native.contains(&mapping.name(0));
        state.all_native = self.mappings.iter().all(is_native);
        Some(false)
    }

    /// The transfers, in the order of the mappings.
    fn jobs(&self, selected: &MappedSelections) -> Result<Vec<Job>, String> {
        let mut jobs = Vec::new();
        let unclear = || "the parts of the virtual dataset cannot be determined".to_owned();
        for mapping in &self.mappings {
            for part in mapping.parts(&selected.file).ok_or_else(unclear)? {
                if let Some(elements) = &part.elements {
                    let memory = self.project(&selected.file, &selected.memory, elements);
                    if self.points(&memory.ok_or_else(unclear)?) == 0 {
                        continue;
                    }
                }
                if let Some(source) = self.source(&part.name)? {
                    jobs.extend(self.job(mapping, part, source, selected).ok_or_else(unclear)?);
                }
            }
        }
        Ok(jobs)
    }

    /// The transfer between one source and the memory; none when the source has none of it.
    fn job(
        &self,
        mapping: &Mapping,
        part: Part,
        source: Arc<Source>,
        selected: &MappedSelections,
    ) -> Option<Option<Job>> {
        // SAFETY: the dataset is ours.
        let extent = unsafe { (self.host.api.H5Dget_space)(source.dataset.get()) };
        let extent = Id::of_space(self.host, extent)?;
        let is_open_ended = part.elements.is_none();
        let Some((elements, of_source)) = mapping.sides(part, &selected.file, &extent) else {
            return is_open_ended.then_some(None);
        };
        let memory = self.project(&selected.file, &selected.memory, &elements)?;
        if self.points(&memory) == 0 {
            return Some(None);
        }
        let selection = self.project(&elements, &of_source, &selected.file)?;
        (self.points(&selection) == self.points(&memory)).then_some(Some(Job {
            source,
            memory,
            selection,
        }))
    }

    /// Lets all that is selected in memory hold the fill value.
    ///
    /// # Safety
    ///
    /// The memory has room for what is selected in it.
    unsafe fn fill(
        &self,
        under: Ptr,
        call: &Call,
        memory: &Id,
        target: *mut u8,
    ) -> Result<(), String> {
        let (host, dcpl) = (self.host, self.dcpl.get());
        let kind = get(host, under, dataset::GET_TYPE);
        let kind = kind.and_then(|id| Id::of_type(host, id)).ok_or("there is no type")?;
        let mut defined = FILL_UNDEFINED;
        // SAFETY: list and type are open; the value has the size of the type that it is asked for
        // in; the rest is promised by the caller.
        let done = unsafe {
            (host.api.H5Pfill_value_defined)(dcpl, &raw mut defined);
            if defined == FILL_UNDEFINED {
                return Ok(());
            }
            let mut value = vec![0_u64; (host.api.H5Tget_size)(kind.get()).div_ceil(8)];
            let value: Ptr = value.as_mut_ptr().cast();
            if defined == FILL_OF_USER && (host.api.H5Pget_fill_value)(dcpl, kind.get(), value) < 0
            {
                return Err("the fill value cannot be read".to_owned());
            }
            let value = if defined == FILL_OF_USER { value } else { std::ptr::null_mut() };
            let (from, to) = (kind.get(), call.memory_type);
            (host.api.H5Dfill)(value, from, target.cast(), to, memory.get())
        };
        if done < 0 { Err("the fill value cannot be put in".to_owned()) } else { Ok(()) }
    }

    /// A source; `None` when there is none of this name.
    fn source(&self, name: &Name) -> Result<Option<Arc<Source>>, String> {
        if let Some(known) = self.state().open.get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(file) = self.open_file(&name.file)? else { return Ok(None) };
        let Ok(dataset) = CString::new(&*name.dataset) else { return Ok(None) };
        // SAFETY: the file is open; the name ends.
        let dataset = unsafe { (self.host.api.H5Dopen2)(file.get(), dataset.as_ptr(), DEFAULT) };
        let Some(dataset) = Id::of_dataset(self.host, dataset) else { return Ok(None) };
        let is_ours = is_ours(self.host, &dataset);
        let source = Arc::new(Source { dataset, _file: file, is_ours });
        let mut state = self.state();
        if is_ours {
            state.open.insert(name.clone(), Arc::clone(&source));
        } else {
            state.native.insert(name.clone());
        }
        Ok(Some(source))
    }

    /// The source file of a name; `None` when there is none.
    fn open_file(&self, name: &str) -> Result<Option<Id>, String> {
        let environment = std::env::var_os("HDF5_VDS_PREFIX");
        let folders = SourceFolders {
            environment: environment.as_deref(),
            prefix: self.prefix.as_deref(),
            named: &self.named,
            real: self.path.parent().unwrap_or(Path::new("/")),
        };
        let paths = if name == "." { vec![self.path.clone()] } else { folders.paths(name) };
        let mut shut = None;
        for path in paths.into_iter().filter(|path| path.is_file()) {
            match self.open_path(&path) {
                Some(file) => return Ok(Some(file)),
                None => shut = shut.or(Some(path)),
            }
        }
        shut.map_or(Ok(None), |path| {
            Err(format!("{}, a source of the virtual dataset, cannot be opened", path.display()))
        })
    }

    /// Opens a file through this connector, for writing if the virtual dataset's file is.
    fn open_path(&self, path: &Path) -> Option<Id> {
        let (host, name) = (self.host, CString::new(path.as_os_str().as_bytes()).ok()?);
        let accesses = if self.container.writable { vec![ACCESS_WRITE, 0] } else { vec![0] };
        for access in accesses {
            for degree in CLOSE_DEGREES {
                let list = host.copy_list(host.default_list(Lists::FileAccess));
                let list = Id::of_list(host, list)?;
                // SAFETY: the list is ours, the connector is registered, and it has default
                // settings; the name ends.
                let opened = unsafe {
                    let own = (host.api.H5VLget_connector_id_by_value)(VALUE);
                    let own = Id::of_connector(host, own)?;
                    (host.api.H5Pset_vol)(list.get(), own.get(), std::ptr::null());
                    (host.api.H5Pset_fclose_degree)(list.get(), degree);
                    (host.api.H5Fopen)(name.as_ptr(), access, list.get())
                };
                if let Some(opened) = Id::of_file(host, opened) {
                    return Some(opened);
                }
            }
        }
        None
    }
}

impl Parts for Virtual {
    unsafe fn transfer(
        &self,
        under: Ptr,
        call: &Call,
        memory: Memory,
    ) -> Option<Result<(), Failure>> {
        if self.state().all_native {
            return None;
        }
        let _deeper = match DepthGuard::new() {
            Ok(deeper) => deeper,
            Err(error) => return Some(Err(Some(error))),
        };
        let selected = self.selected(under, call)?;
        if !self.host.quietly(|| self.is_needed(&selected))? {
            return None;
        }
        // SAFETY: promised by the caller.
        Some(unsafe { self.transfer_selected(under, call, &selected, memory) })
    }
}

/// Whether the data of a dataset is ours, or it is a virtual one, whose sources' may be.
fn is_ours(host: &'static Host, dataset: &Id) -> bool {
    // SAFETY: the dataset is open; HDF5 gives the object of the native connector.
    let under = unsafe { (host.api.H5VLobject)(dataset.get()) };
    let list = get(host, under, dataset::GET_CREATION).and_then(|list| Id::of_list(host, list));
    list.is_some_and(|list| {
        // SAFETY: the list is open.
        let layout = unsafe { (host.api.H5Pget_layout)(list.get()) };
        layout == LAYOUT_VIRTUAL || creation_list::marker(host, list.get()).is_some()
    })
}

/// The prefix for the names of source files, if the dataset was opened with one.
fn prefix(host: &'static Host, under: Ptr) -> Option<PathBuf> {
    let dapl = Id::of_list(host, get(host, under, dataset::GET_ACCESS)?)?;
    let get = |room: Option<&mut Vec<u8>>| {
        let (to, bytes) =
            room.map_or((std::ptr::null_mut(), 0), |room| (room.as_mut_ptr(), room.len()));
        // SAFETY: the list is open; without room the length is told.
        let length = unsafe { (host.api.H5Pget_virtual_prefix)(dapl.get(), to.cast(), bytes) };
        usize::try_from(length).ok().filter(|length| *length > 0)
    };
    let mut text = vec![0_u8; get(None)? + 1];
    get(Some(&mut text))?;
    text.pop();
    Some(PathBuf::from(OsString::from_vec(text)))
}

/// One virtual dataset that is shown by another one.
/// Counted on the thread that made it.
struct DepthGuard(PhantomData<*const ()>);

impl DepthGuard {
    fn new() -> Result<Self, String> {
        if DEPTH.get() >= DEPTH_MAX {
            return Err(format!("virtual datasets show each other, more than {DEPTH_MAX} deep"));
        }
        DEPTH.set(DEPTH.get() + 1);
        Ok(Self(PhantomData))
    }
}

impl Drop for DepthGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}
