//! The tie of a skeleton to its data: their identities, the owner of the data, the generation.
//!
//! ```text
//! opened          the skeleton's comment is read ──► Tie
//! data is opened  the manifest is read: the same data, in the skeleton's generation?
//! data is made    no data yet: it gets a folder, a manifest and a number; the comment names it
//! data changes    the first time since the file was opened: `next` into the manifest, the comment,
//!                 the skeleton is written, `generation` into the manifest; only then the data
//! ```
//!
//! A copy of the skeleton has another inode and says an older generation as soon as the data was
//! changed. So it reads the right values, or none. It changes nothing as long as the file that the
//! data belongs to is there.

use std::collections::HashSet;
use std::ffi::{OsStr, c_int};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_hdf5_model::{
    Entry, Hold, Home, Identity, Manifest, Mark, Owner, draw, find_owner, is_unnamed, object_data,
    owner,
};
use plasmon_hdf5_sys::{KIND_FILE, KIND_GROUP, Location, Ptr};

use crate::host::Host;
use crate::mpi_processes::Ranks;
use crate::skeleton::comment;
use crate::skeleton::flush;
use crate::skeleton::walk::{self, NativeObject};

/// One skeleton, and the data that it belongs to.
#[derive(Debug)]
pub(crate) struct Tie {
    /// The skeleton.
    path: PathBuf,
    /// The skeleton's root group, in its file.
    root: [u8; 16],
    state: Mutex<State>,
}

/// An open object of the skeleton's file, and its opener.
#[derive(Clone, Copy)]
pub(crate) struct SkeletonFile<'a> {
    pub(crate) host: &'static Host,
    /// An object of the native connector.
    pub(crate) under: Ptr,
    /// What it is.
    pub(crate) kind: c_int,
    /// The processes that have the file open together, if there are several.
    pub(crate) ranks: Option<&'a Ranks>,
}

impl SkeletonFile<'_> {
    /// Lets one process do something, and gives all of them the outcome.
    fn once(&self, work: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
        match self.ranks {
            Some(ranks) => ranks.once(work),
            None => work(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// The skeleton's identity.
    identity: Option<Identity>,
    /// The data, when this skeleton may change it.
    home: Option<Home>,
    /// Says that this process may change it.
    hold: Option<Hold>,
    /// Whether a program before may have left data of datasets that never got a name.
    unnamed: bool,
    /// Whether the data got a generation since the file was opened.
    changed: bool,
    /// Files that were made since then, from the skeleton's folder: no copy knows them.
    made: HashSet<PathBuf>,
}

impl Tie {
    /// The identity in an open file, by its object of the native connector.
    pub(crate) fn of_file(host: &'static Host, under: Ptr, path: PathBuf) -> Self {
        let learn = || {
            let root = walk::info(host, under, KIND_FILE)?.token;
            Some((root, comment::get(host, under, KIND_FILE).unwrap_or_default()))
        };
        let (root, comment) = host.keeping_errors(learn).unwrap_or_default();
        let state = State { identity: Identity::of_comment(&comment).1, ..State::default() };
        Self { path, root, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the skeleton belongs to some data already.
    pub(crate) fn has_data(&self) -> bool {
        self.state().identity.is_some()
    }

    /// Where a file of data is that the skeleton names, if it is this skeleton's, as it was when
    /// the skeleton was written.
    pub(crate) fn check(&self, within: &Path) -> Result<PathBuf, String> {
        let named = data_of(within);
        let state = self.state();
        let Some(identity) = &state.identity else {
            // Layouts of before have no number; what has one belongs to a file that says so.
            return named.map_or_else(|| Ok(within.to_owned()), |_| Err(self.says_nothing(within)));
        };
        if named.is_some_and(|named| named != identity.data) {
            return Err(self.says_nothing(within));
        }
        let (home, manifest) = self.find(identity)?;
        if !manifest.fits(identity.generation) {
            return Err(self.is_old(&manifest));
        }
        match named {
            None => Ok(within.to_owned()),
            Some(_) => Ok(now_within(&home, within)),
        }
    }

    /// The same for an object of a store: it is no other file's, and what the folder of data says
    /// is not a copy, for of objects there are none.
    pub(crate) fn check_object(&self, object: &str) -> Result<(), String> {
        let named = object_data(object);
        let state = self.state();
        let Some(identity) = &state.identity else {
            return if named.is_none() { Ok(()) } else { Err(self.is_of_another(object)) };
        };
        if named.is_some_and(|named| named != identity.data) {
            return Err(self.is_of_another(object));
        }
        if self.path.as_os_str().is_empty() {
            return Err(format!(
                "the data of this dataset is the object {object}, and whether it is still this \
                 file's is said beside the HDF5 file, which was opened through an object that has \
                 no path; open it by its path, or through open(path, \"rb\"), or write one that \
                 needs nothing else: plasmon hdf5 export"
            ));
        }
        let (home, manifest) = self.find(identity)?;
        if !manifest.fits(identity.generation) {
            return Err(self.is_old(&manifest));
        }
        if named.is_some() { self.has_objects(&home, &manifest) } else { Ok(()) }
    }

    /// Whether the objects of some data belong to this folder of it.
    fn has_objects(&self, home: &Home, manifest: &Manifest) -> Result<(), String> {
        let inode = home.inode().map_err(|error| format!("{}: {error}", self.name()))?;
        if manifest.objects == Some(inode) {
            return Ok(());
        }
        Err(format!(
            "{} is a copy, made together with its folder of data, and the values in the store are \
             the original's; plasmon hdf5 export or import makes copies with values of their own",
            self.name()
        ))
    }

    /// The number that new objects are called after, once the data is [`Self::ready`].
    pub(crate) fn ready_for_objects(&self, socket: &Path) -> Result<Mark, String> {
        let state = self.state();
        let (Some(identity), Some(home)) = (&state.identity, &state.home) else {
            return Err("the data is unknown".to_owned());
        };
        let named = |error: std::io::Error| format!("{}: {error}", self.name());
        let manifest = home.read().map_err(named)?;
        if manifest.objects.is_some() {
            self.has_objects(home, &manifest)?;
        }
        let socket = socket.to_str().ok_or("the name of the store's socket is not UTF-8")?;
        if manifest.objects.is_none() || !manifest.stores.contains(socket) {
            let entries = [Entry::Objects(manifest.home), Entry::Store(socket.to_owned())];
            home.add(&entries).map_err(named)?;
        }
        Ok(identity.data)
    }

    /// Whether an object is part of this skeleton's data, which it may change.
    pub(crate) fn owns_object(&self, object: &str) -> bool {
        let state = self.state();
        let (Some(identity), Some(home)) = (&state.identity, &state.home) else { return false };
        let belongs = |manifest| self.has_objects(home, &manifest).is_ok();
        object_data(object) == Some(identity.data) && home.read().is_ok_and(belongs)
    }

    fn find(&self, identity: &Identity) -> Result<(Home, Manifest), String> {
        let found = Home::find(&self.path, identity);
        let found = found.map_err(|error| format!("{}: {error}", self.name()))?;
        found.ok_or_else(|| {
            format!(
                "the data of {} should be in {}, which is not there; copy or move the folder of \
                 data together with the HDF5 file (plasmon hdf5 cp, mv)",
                self.name(),
                self.folder().join(identity.within()).display()
            )
        })
    }

    /// The folder for new data, from the skeleton's. The skeleton gets its own data if it has
    /// none yet; the error says why data cannot be written. All processes that have the file open
    /// do this together.
    pub(crate) fn ready(&self, within: SkeletonFile<'_>) -> Result<PathBuf, String> {
        let mut state = self.state();
        if let Some(home) = &state.home {
            return Ok(home.within().to_owned());
        }
        let named = |error: std::io::Error| format!("{}: {error}", self.name());
        let home = match &state.identity {
            Some(identity) => {
                let (home, manifest) = self.find(identity)?;
                let hold = home.hold().map_err(named)?;
                within.once(|| self.own(identity).map(|_| String::new()))?;
                state.unnamed = manifest.files.iter().any(|file| is_unnamed(Path::new(file)));
                state.hold = Some(hold);
                home
            }
            None => {
                let mut hold = None;
                let make = || match Home::create(&self.path) {
                    Ok((_, identity, held)) => {
                        hold = Some(held);
                        Ok(identity.to_string())
                    }
                    Err(error) => Err(format!("{}.arrow: {error}", self.path.display())),
                };
                let said = within.once(make)?;
                let identity = Identity::of_comment(&said).1.ok_or("the data has no number")?;
                let home = self.find(&identity)?.0;
                state.hold = Some(hold.map_or_else(|| home.hold().map_err(named), Ok)?);
                self.write(within, &identity)?;
                state.identity = Some(identity);
                // No copy of the skeleton knows this data.
                state.changed = true;
                home
            }
        };
        let folder = home.within().to_owned();
        state.home = Some(home);
        Ok(folder)
    }

    /// The data, if this skeleton may change it.
    fn own(&self, identity: &Identity) -> Result<Home, String> {
        let (home, manifest) = self.find(identity)?;
        if !manifest.fits(identity.generation) {
            return Err(self.is_old(&manifest));
        }
        let named = |error: std::io::Error| format!("{}: {error}", self.name());
        let (now, inode) = (owner(&self.path).map_err(named)?, home.inode().map_err(named)?);
        if manifest.owner.is(&now) && manifest.home == inode {
            return Ok(home);
        }
        // A copied folder is owned by the file of the owner's name beside it, or by its only file.
        if manifest.home == inode || manifest.owner.name != now.name {
            let other = find_owner(&self.path, &manifest.owner).map_err(named)?;
            if let Some(other) = other.filter(|_| manifest.home == inode) {
                return Err(format!(
                    "{} is a copy of {} and shares its data, so it can only be \
                     read; plasmon hdf5 cp {} NEW makes a copy with its own data",
                    self.name(),
                    other.file_name().unwrap_or_default().display(),
                    self.name()
                ));
            }
        }
        home.add(&[Entry::Owner(now), Entry::Home(inode)]).map_err(named)?;
        Ok(home)
    }

    /// Must be called before data is changed in place. The first time since the file was opened
    /// the data gets another generation, unless the file of data was made since then.
    pub(crate) fn before_change(&self, from: SkeletonFile<'_>, file: &Path) -> Result<(), String> {
        self.ready(from)?;
        let mut state = self.state();
        if state.changed || state.made.contains(file) {
            return Ok(());
        }
        let (Some(identity), Some(home)) = (state.identity.clone(), state.home.clone()) else {
            return Err("the data is unknown".to_owned());
        };
        let named = |error: std::io::Error| format!("{}: {error}", self.name());
        let generation = from.once(|| {
            let generation = draw().map_err(named)?;
            home.add(&[Entry::Next(generation)]).map_err(named)?;
            Ok(generation.to_string())
        })?;
        let generation = Mark::of_text(&generation).ok_or("the generation is not a number")?;
        let next = Identity { generation, ..identity };
        self.write(from, &next)?;
        from.once(|| {
            home.add(&[Entry::Generation(generation)]).map_err(named)?;
            Ok(String::new())
        })?;
        state.identity = Some(next);
        state.changed = true;
        Ok(())
    }

    /// Says in the comment of the root group which data is this file's, and writes the skeleton.
    fn write(&self, from: SkeletonFile<'_>, identity: &Identity) -> Result<(), String> {
        let place = Location::with_token(from.kind, &self.root);
        // SAFETY: the object is the native connector's; the token lives as long as this.
        let root = unsafe { NativeObject::new(from.host, from.under, &place) };
        let say = |root: &NativeObject| {
            // What a program says there stays.
            let known = || comment::get(from.host, root.under, KIND_GROUP);
            // That there is none yet is no reason for what fails later.
            let comment = from.host.keeping_errors(known)?;
            let comment = identity.to_comment(Identity::of_comment(&comment).0);
            let said = comment::set(from.host, root.under, KIND_GROUP, &comment);
            (said && flush(from.host, root.under, KIND_GROUP)).then_some(())
        };
        let done = root.filter(|root| root.kind == KIND_GROUP).and_then(|root| say(&root));
        done.ok_or_else(|| format!("{} does not say which data belongs to it", self.name()))
    }

    /// Remembers that a file of data is about to be made, from the skeleton's folder.
    pub(crate) fn note_made(&self, within: &Path) -> Result<(), String> {
        let mut state = self.state();
        if let (Some(home), Some(file)) = (&state.home, within_home(&state, within)) {
            home.add(&[Entry::Made(file)]).map_err(|error| format!("{}: {error}", self.name()))?;
        }
        state.made.insert(within.to_owned());
        Ok(())
    }

    /// Remembers that a file of data is gone. If that cannot be written, something is listed that
    /// is not there, which does no harm.
    pub(crate) fn note_gone(&self, within: &Path) {
        let mut state = self.state();
        state.made.remove(within);
        if let (Some(home), Some(file)) = (&state.home, within_home(&state, within)) {
            let _ = home.add(&[Entry::Gone(file)]);
        }
    }

    /// Whether there may be data of datasets that never got a name, made now or by a program that
    /// was killed before it gave them one.
    pub(crate) fn may_have_unnamed(&self) -> bool {
        let state = self.state();
        let name = |within: &PathBuf| within.iter().skip(FOLDER_PARTS).collect::<PathBuf>();
        state.unnamed || state.made.iter().any(|within| is_unnamed(&name(within)))
    }

    /// The folder for new data, from the skeleton's, once there is one.
    pub(crate) fn folder_of_data(&self) -> Option<PathBuf> {
        self.state().home.as_ref().map(|home| home.within().to_owned())
    }

    /// The data, if it is this skeleton's to change. Must be asked while the skeleton is there: its
    /// inode tells.
    pub(crate) fn owned(&self) -> Option<Home> {
        let identity = self.state().identity.clone()?;
        self.own(&identity).ok()
    }

    /// Removes the data of a skeleton that is no more, which was [`Self::owned`], if no other file
    /// beside it says that it belongs to it: only files in that folder can name it. Returns the
    /// number of data that is removed, whose objects go as well.
    pub(crate) fn remove_data(
        &self,
        home: &Home,
        says: impl Fn(&Path) -> Option<Mark>,
    ) -> Option<Mark> {
        let identity = self.state().identity.clone()?;
        let manifest = home.read().ok()?;
        if has_copy(&self.path, identity.data, says) {
            // The copy may change it from here on.
            let unowned = Owner { inode: 0, birth: 0, name: Vec::new() };
            let _ = home.add(&[Entry::Owner(unowned)]);
            return None;
        }
        let has_objects = self.has_objects(home, &manifest).is_ok();
        // What cannot be removed takes room and does no other harm.
        let _ = home.remove();
        has_objects.then_some(identity.data)
    }

    /// The files that were written for this data and are not wanted, from the skeleton's folder;
    /// none when the data is not this skeleton's to change.
    pub(crate) fn unwanted(&self, wanted: &HashSet<PathBuf>) -> Vec<PathBuf> {
        let state = self.state();
        let Some(home) = &state.home else { return Vec::new() };
        let Ok(manifest) = home.read() else { return Vec::new() };
        // What was written before the folder of data was renamed is named as it was then.
        let wanted: HashSet<PathBuf> = wanted.iter().map(|path| now_within(home, path)).collect();
        let files = manifest.files.iter().map(|file| home.within().join(file));
        files.filter(|file| !wanted.contains(file)).collect()
    }

    fn name(&self) -> std::path::Display<'_> {
        Path::new(self.path.file_name().unwrap_or_default()).display()
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn says_nothing(&self, within: &Path) -> String {
        format!(
            "{} names {}, which was written for another file; plasmon hdf5 doctor {} says more",
            self.name(),
            within.display(),
            self.name()
        )
    }

    fn is_of_another(&self, object: &str) -> String {
        format!(
            "{} names the object {object}, which was written for another file; plasmon hdf5 \
             doctor {} says more",
            self.name(),
            self.name()
        )
    }

    fn is_old(&self, manifest: &Manifest) -> String {
        let owner = String::from_utf8_lossy(&manifest.owner.name);
        format!(
            "the data that {name} names was changed after {name} was copied (by {owner}), and its \
             own values are gone; plasmon hdf5 cp makes copies that keep theirs",
            name = self.name()
        )
    }
}

/// Whether another file in a skeleton's folder may belong to some data: it says so, or there are
/// too many to ask.
fn has_copy(skeleton: &Path, data: Mark, says: impl Fn(&Path) -> Option<Mark>) -> bool {
    let Some(Ok(entries)) = skeleton.parent().map(std::fs::read_dir) else { return true };
    let mut asked = 0;
    for entry in entries.flatten() {
        let path = entry.path();
        if path == skeleton
            || !entry.file_type().is_ok_and(|kind| kind.is_file())
            || !is_hdf5(&path)
        {
            continue;
        }
        asked += 1;
        if asked > SIBLINGS_MAX || says(&path) == Some(data) {
            return true;
        }
    }
    false
}

/// Whether a file is one of HDF5: it begins as one, or does so after a block of the user's.
fn is_hdf5(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let size = file.metadata().map_or(0, |about| about.len());
    let places = std::iter::successors(Some(0), |at: &u64| Some((2 * at).max(USER_BLOCK_MIN)));
    places.take_while(|at| *at < size).any(|at| {
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, at).is_ok() && magic == *b"\x89HDF\r\n\x1a\n"
    })
}

/// The smallest block of the user's before HDF5's own part of a file; others have twice as many
/// bytes, and so on.
const USER_BLOCK_MIN: u64 = 512;
/// How many files beside a skeleton are asked whether they are copies of it.
const SIBLINGS_MAX: usize = 1000;
/// How many parts of a path lead to the folder of some data.
const FOLDER_PARTS: usize = 2;

/// Which data a file of data is named for; none in layouts of before.
pub(crate) fn data_of(within: &Path) -> Option<Mark> {
    let parts: Vec<_> = within.iter().collect();
    let named = parts.get(1).filter(|_| parts.len() > FOLDER_PARTS)?;
    Mark::of_text(named.to_str()?)
}

/// Where a file of data is now that is named from the skeleton's folder: the folder of all data of
/// a skeleton may have been renamed since. Paths without a number, or with another one, are as they
/// are named.
fn now_within(home: &Home, named: &Path) -> PathBuf {
    let number = data_of(named).map(|data| data.to_string());
    if number.is_none() || home.within().file_name() != number.as_deref().map(OsStr::new) {
        return named.to_owned();
    }
    home.within().join(named.iter().skip(FOLDER_PARTS).collect::<PathBuf>())
}

fn within_home(state: &State, within: &Path) -> Option<String> {
    let home = state.home.as_ref()?;
    within.strip_prefix(home.within()).ok()?.to_str().map(str::to_owned)
}
