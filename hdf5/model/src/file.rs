//! The files that hold the data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bytes::Columns;
use crate::contained_paths;
use crate::file_names::relative_path;
use crate::image::{Image, MAGIC, batch};
use crate::layout::{Extents, extents};
use crate::schema;
use crate::table::Table;
use crate::written_chunks::{WRITTEN_BYTES, WRITTEN_KEY, WrittenChunks};

/// How many names are tried for a dataset whose file's name is taken.
const COPIES_MAX: u32 = 10_000;

/// Where a body may begin at most: places after it can still be counted.
const BODY_OFFSET_MAX: u64 = 1 << 62;

/// Why a file of data is not usable.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not there.
    #[error("the data of this dataset should be in {}, which is not there; copy or move the folder \
             of data together with the HDF5 file", .0.display())]
    Missing(PathBuf),
    /// It is not what was written for this dataset.
    #[error(
        "{path} is not the file that was written for this dataset: {why}",
        path = .0.display(),
        why = .1
    )]
    Foreign(PathBuf, String),
    /// The system refuses.
    #[error("{path}: {why}", path = .0.display(), why = .1)]
    System(PathBuf, #[source] io::Error),
}

impl FileError {
    fn of(path: &Path, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound {
            return Self::Missing(path.to_owned());
        }
        Self::System(path.to_owned(), error)
    }
}

/// The open file of a dataset.
#[derive(Debug)]
pub struct DataFile {
    file: File,
    path: PathBuf,
    /// Where each column begins in the first body.
    columns: Vec<u64>,
    /// Where the file says which chunks were written; 0 when that is not known.
    written_at: AtomicU64,
}

impl DataFile {
    /// Makes the file of a dataset in a folder of data. Its body reads as zeros, and takes no room
    /// yet.
    ///
    /// The file is complete before it has its name, so that a process that is killed leaves no
    /// half of one. Returns the path from the skeleton's folder, too.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn create(
        folder: DataFolder<'_>,
        dataset: &[u8],
        table: &Table,
        image: &Image,
        note: Note<'_>,
    ) -> Result<(Self, PathBuf), FileError> {
        let draft = folder.draft();
        let made = write_draft(folder.root, &draft, image)
            .map_err(|error| FileError::System(folder.root.join(&draft), error))
            .and_then(|file| Ok((file, place(folder, &draft, dataset, note)?)));
        let (file, within) = made.inspect_err(|_| {
            // The draft has no other name: nothing else can miss it.
            let _ = std::fs::remove_file(folder.root.join(&draft));
        })?;
        let columns = column_offsets(table, image.body_offset());
        let path = folder.root.join(&within);
        Ok((Self { file, path, columns, written_at: AtomicU64::new(0) }, within))
    }

    /// Opens the file of a dataset, whose path begins at the skeleton's folder, and checks that it
    /// is the one.
    ///
    /// # Errors
    ///
    /// It is not there, not that file, or the system refuses.
    pub fn open(
        (root, within): (&Path, &Path),
        table: &Table,
        body_offset: u64,
        writable: bool,
    ) -> Result<Self, FileError> {
        let path = &root.join(within);
        let file = contained_paths::open_file(root, within, writable);
        let file = file.map_err(|error| FileError::of(path, error))?;
        let foreign = |why: String| FileError::Foreign(path.to_owned(), why);
        let mut magic = [0; 8];
        let bytes = file.metadata().map_err(|error| FileError::of(path, error))?.len();
        if file.read_exact_at(&mut magic, 0).is_err() || &magic[..6] != MAGIC {
            return Err(foreign(
                "it does not start with the magic bytes of an Arrow file".to_owned(),
            ));
        }
        if body_offset > BODY_OFFSET_MAX {
            return Err(foreign(format!("its body would begin at {body_offset}")));
        }
        let columns = column_offsets(table, body_offset);
        let written_at = AtomicU64::new(0);
        let found = Self { file, path: path.to_owned(), columns, written_at };
        let wanted = found.used_end(table);
        if bytes < wanted || !table.grows() && bytes == wanted {
            return Err(foreign(format!("it has {bytes} bytes and should have above {wanted}")));
        }
        found.check_head(table).map_err(foreign)?;
        Ok(found)
    }

    /// Writes the names of the columns, and puts entries into the schema's metadata in the place
    /// of earlier ones of attributes, if there is room for them before the body.
    ///
    /// # Errors
    ///
    /// The system's error, or that the file has no schema.
    pub fn describe(&self, table: &Table, entries: &[(String, String)]) -> io::Result<()> {
        let mut known = schema::read(&self.file)?;
        known.metadata.retain(|(key, _)| !key.starts_with(schema::ATTRIBUTE));
        known.metadata.extend_from_slice(entries);
        self.frame(table, &known.metadata)
    }

    /// The name of the first column.
    ///
    /// # Errors
    ///
    /// The system's error, or that the file has no schema.
    pub fn first_column(&self) -> io::Result<String> {
        Ok(schema::read(&self.file)?.first)
    }

    /// The dimensions of the chunks that the program divided the dataset into.
    ///
    /// # Errors
    ///
    /// The system's error, or that the file has no schema.
    pub fn chunk(&self) -> io::Result<Vec<u64>> {
        Ok(schema::read(&self.file)?.chunk())
    }

    /// The chunks that were written; `None` when the file has no note of them, and so has all.
    ///
    /// # Errors
    ///
    /// The system's error, or that the file has no schema.
    pub fn written(&self) -> io::Result<Option<WrittenChunks>> {
        let known = self.written_at.load(Ordering::Relaxed);
        if known > 0 {
            let mut text = [0; WRITTEN_BYTES];
            self.file.read_exact_at(&mut text, known)?;
            // The entry may have moved since.
            let found = std::str::from_utf8(&text).ok().and_then(WrittenChunks::of_text);
            if found.is_some() {
                return Ok(found);
            }
        }
        let Some((at, text)) = schema::entry(&self.file, WRITTEN_KEY)? else { return Ok(None) };
        let found = WrittenChunks::of_text(&text).filter(|_| text.len() == WRITTEN_BYTES);
        self.written_at.store(if found.is_some() { at } else { 0 }, Ordering::Relaxed);
        Ok(found)
    }

    /// Writes which chunks were written, where [`Self::written`] has just read it.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn tell_written(&self, written: &WrittenChunks) -> io::Result<()> {
        match self.written_at.load(Ordering::Relaxed) {
            0 => Ok(()),
            at => self.file.write_all_at(written.to_text().as_bytes(), at),
        }
    }

    /// Writes what is around the bodies, if it is not there already.
    fn frame(&self, table: &Table, metadata: &[(String, String)]) -> io::Result<()> {
        let Some(image) = Image::fitting(table, metadata, self.body_at(), 0) else { return Ok(()) };
        let mut known = vec![0; image.foot.len()];
        let same_length = self.file.metadata()?.len() == image.file_bytes();
        if same_length
            && self.file.read_exact_at(&mut known, image.foot_at()).is_ok()
            && known == image.foot
        {
            return Ok(());
        }
        self.write_frame(&image)
    }

    /// Writes what is around the bodies. Readers of files look at the foot, those of streams at the
    /// head.
    pub(crate) fn write_frame(&self, image: &Image) -> io::Result<()> {
        self.file.write_all_at(&image.foot, image.foot_at())?;
        self.file.set_len(image.file_bytes())?;
        for (at, message) in &image.later {
            self.file.write_all_at(message, *at)?;
        }
        self.file.write_all_at(&image.head, 0)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Where the rows of a table are in this file.
    pub(crate) fn extents(&self, table: &Table) -> Extents {
        extents(table, self.body_at(), 0)
    }

    /// Where the first body begins.
    pub(crate) fn body_at(&self) -> u64 {
        self.columns.first().copied().unwrap_or(0)
    }

    /// The columns in the file.
    #[must_use]
    pub fn columns(&self) -> Columns<'_> {
        Columns { bytes: &self.file, offsets: &self.columns }
    }

    /// Where the bytes of a table's rows end.
    pub(crate) fn used_end(&self, table: &Table) -> u64 {
        let last = self.extents(table).last();
        if !table.grows() {
            return last.end();
        }
        let columns = last.columns(table);
        let (at, column) = (columns[columns.len() - 1], &table.columns()[columns.len() - 1]);
        at + last.rows(table) * table.row_elements() * column.bytes() as u64
    }

    /// Checks that the first record batch's message is the table's. The schema before it may have
    /// other metadata, so only the end of the head is compared.
    fn check_head(&self, table: &Table) -> Result<(), String> {
        let all = self.extents(table);
        let first = all.first();
        let others = || "its rows or columns are others than the dataset's".to_owned();
        if first.message_at > self.body_at() {
            return Err("its body begins too early".to_owned());
        }
        let mut found = vec![0; usize::try_from(self.body_at() - first.message_at).unwrap_or(0)];
        self.file.read_exact_at(&mut found, first.message_at).map_err(|error| error.to_string())?;
        if !table.grows() {
            return (found == batch(table, first)).then_some(()).ok_or_else(others);
        }
        // How many rows it has is the file's to say: they are there before the skeleton counts.
        let (rows, body_bytes) = schema::batch_rows(&found).ok_or_else(others)?;
        let table = table.with_rows(rows).ok_or_else(others)?;
        let capacity = body_bytes / table.row_bytes().max(1);
        let wanted = extents(&table, self.body_at(), capacity);
        (found == batch(&table, wanted.first())).then_some(()).ok_or_else(others)
    }

    /// Waits until what was written, and the file's name, is on the disk.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        // The folders up to the one that lies beside the skeleton, for they may be new.
        for folder in self.path.ancestors().skip(1) {
            File::open(folder)?.sync_all()?;
            if folder.extension().is_some_and(|ending| ending == "arrow") {
                break;
            }
        }
        Ok(())
    }
}

/// A folder of data: below the folder that its skeleton lies in.
#[derive(Clone, Copy, Debug)]
pub struct DataFolder<'a> {
    /// The skeleton's folder.
    pub root: &'a Path,
    /// The name of the folder of data in it.
    pub name: &'a Path,
}

impl DataFolder<'_> {
    /// A name for a file that has none yet; hidden, so that no reader takes it for data.
    fn draft(self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        self.name.join(format!(".plasmon-draft-{}-{number}", std::process::id()))
    }
}

/// Gives the file of a dataset the name for another path. Paths begin at the skeleton's
/// folder.
///
/// # Errors
///
/// The system's error.
pub fn rename_data(
    folder: DataFolder<'_>,
    old: &Path,
    dataset: &[u8],
    note: Note<'_>,
) -> Result<PathBuf, FileError> {
    place(folder, old, dataset, note)
}

/// Gives the file of a dataset back an earlier name. Paths begin at the skeleton's folder.
///
/// # Errors
///
/// The system's error.
pub fn rename_back(root: &Path, now: &Path, old: &Path) -> io::Result<()> {
    contained_paths::rename(root, now, old)
}

/// Copies the file of a dataset for another one. Returns the path from the skeleton's folder.
///
/// # Errors
///
/// The system's error.
pub fn copy_data(
    (root, old): (&Path, &Path),
    folder: DataFolder<'_>,
    dataset: &[u8],
    note: Note<'_>,
) -> Result<PathBuf, FileError> {
    let draft = folder.draft();
    let copied = contained_paths::open_file(root, old, false)
        .map_err(|error| FileError::of(&root.join(old), error))
        .and_then(|mut from| {
            let mut copy =
                || io::copy(&mut from, &mut contained_paths::create_file(folder.root, &draft)?);
            copy().map_err(|error| FileError::System(folder.root.join(&draft), error))
        });
    let placed = copied.and_then(|_| place(folder, &draft, dataset, note));
    placed.inspect_err(|_| {
        // The draft has no other name: nothing else can miss it.
        let _ = std::fs::remove_file(folder.root.join(&draft));
    })
}

/// Removes a file of data.
///
/// # Errors
///
/// The system's error.
pub fn remove_file(root: &Path, within: &Path) -> io::Result<()> {
    contained_paths::remove_file(root, within)
}

/// Notes that a file of data is about to get this name, from the skeleton's folder.
pub type Note<'a> = &'a dyn Fn(&Path) -> io::Result<()>;

/// Gives a file the first name for a dataset that is not taken.
fn place(
    folder: DataFolder<'_>,
    old: &Path,
    dataset: &[u8],
    note: Note<'_>,
) -> Result<PathBuf, FileError> {
    let within = |copy| folder.name.join(relative_path(dataset, copy));
    for copy in 0..COPIES_MAX {
        let within = within(copy);
        if contained_paths::is_there(folder.root, &within) {
            continue;
        }
        note(&within).map_err(|error| FileError::System(folder.root.join(&within), error))?;
        match contained_paths::rename(folder.root, old, &within) {
            Ok(()) => return Ok(within),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(FileError::System(folder.root.join(within), error)),
        }
    }
    let first = folder.root.join(within(0));
    Err(FileError::System(first, io::ErrorKind::AlreadyExists.into()))
}

fn column_offsets(table: &Table, body_offset: u64) -> Vec<u64> {
    extents(table, body_offset, 0).first().columns(table)
}

fn write_draft(root: &Path, within: &Path, image: &Image) -> io::Result<File> {
    let file = contained_paths::create_file(root, within)?;
    file.write_all_at(&image.head, 0)?;
    for (at, message) in &image.later {
        file.write_all_at(message, *at)?;
    }
    file.write_all_at(&image.foot, image.foot_at())?;
    Ok(file)
}
