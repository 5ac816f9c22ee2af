//! The files that hold the data.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::bytes::Columns;
use crate::image::Image;
use crate::naming::relative_path;
use crate::table::Table;

/// How many names are tried for a dataset whose file's name is taken.
const COPIES_MAX: u32 = 10_000;

/// The longest foot that is read.
const FOOT_BYTES_MAX: u32 = 16 << 20;

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
    /// Where each column lies in the file.
    columns: Vec<u64>,
}

impl DataFile {
    /// Makes the file of a dataset within the folder of data. Its body reads as zeros, and takes
    /// no room yet.
    ///
    /// The file is complete before it has its name, so that a process that is killed leaves no
    /// half of one. Returns the path within the folder, too.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn create(
        folder: &Path,
        dataset: &[u8],
        table: &Table,
        image: &Image,
    ) -> Result<(Self, PathBuf), FileError> {
        std::fs::create_dir_all(folder).map_err(|error| FileError::System(folder.into(), error))?;
        let draft = draft_path(folder);
        let file = write_draft(&draft, image).map_err(|error| {
            // The draft has no other name: nobody can miss it.
            let _ = std::fs::remove_file(&draft);
            FileError::System(draft.clone(), error)
        })?;
        match place(&draft, folder, dataset) {
            Ok(within) => {
                let columns = column_offsets(table, image.body_offset());
                Ok((Self { file, path: folder.join(&within), columns }, within))
            }
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                Err(error)
            }
        }
    }

    /// Opens the file of a dataset and checks that it is the one.
    ///
    /// # Errors
    ///
    /// It is not there, not that file, or the system refuses.
    pub fn open(
        path: &Path,
        table: &Table,
        body_offset: u64,
        writable: bool,
    ) -> Result<Self, FileError> {
        let file = OpenOptions::new().read(true).write(writable).open(path);
        let file = file.map_err(|error| FileError::of(path, error))?;
        let foreign = |why: String| FileError::Foreign(path.to_owned(), why);
        let mut magic = [0; 8];
        let bytes = file.metadata().map_err(|error| FileError::of(path, error))?.len();
        if file.read_exact_at(&mut magic, 0).is_err() || &magic != b"ARROW1\0\0" {
            return Err(foreign("it does not begin like an Arrow file".to_owned()));
        }
        let wanted = body_offset + table.body_bytes();
        if bytes <= wanted {
            return Err(foreign(format!("it has {bytes} bytes and should have above {wanted}")));
        }
        let known = Image::of(table, &[]);
        check_head(&file, &known, body_offset).map_err(foreign)?;
        let columns = column_offsets(table, body_offset);
        Ok(Self { file, path: path.to_owned(), columns })
    }

    /// Says in the file what the columns are called, if there is room for it before the body.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn describe(&self, table: &Table, more: &[(String, String)]) -> io::Result<()> {
        let Some(body_offset) = self.columns.first() else { return Ok(()) };
        let Some(image) = Image::fitting(table, more, *body_offset) else { return Ok(()) };
        let mut known = vec![0; image.foot.len()];
        let foot_offset = image.body_offset() + image.body_bytes;
        let same_length = self.file.metadata()?.len() == image.file_bytes();
        if same_length
            && self.file.read_exact_at(&mut known, foot_offset).is_ok()
            && known == image.foot
        {
            return Ok(());
        }
        // Readers of files look at the foot, those of streams at the head.
        self.file.write_all_at(&image.foot, image.body_offset() + image.body_bytes)?;
        self.file.set_len(image.file_bytes())?;
        self.file.write_all_at(&image.head, 0)
    }

    /// What the first column is called.
    ///
    /// # Errors
    ///
    /// What the system says, or that the file does not end like an Arrow file.
    pub fn first_column(&self) -> io::Result<String> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let bytes = self.file.metadata()?.len();
        let mut end = [0; 10];
        let end_at = bytes.checked_sub(end.len() as u64).ok_or_else(invalid)?;
        self.file.read_exact_at(&mut end, end_at)?;
        let length = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
        let foot_at = end_at.checked_sub(u64::from(length)).ok_or_else(invalid)?;
        if &end[4..] != b"ARROW1" || length > FOOT_BYTES_MAX {
            return Err(invalid());
        }
        let mut foot = vec![0; length as usize];
        self.file.read_exact_at(&mut foot, foot_at)?;
        let footer = arrow_ipc::root_as_footer(&foot).map_err(|_| invalid())?;
        let fields = footer.schema().and_then(|schema| schema.fields()).ok_or_else(invalid)?;
        let name = fields.iter().next().and_then(|field| field.name());
        name.map(str::to_owned).ok_or_else(invalid)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The columns in the file.
    #[must_use]
    pub fn columns(&self) -> Columns<'_> {
        Columns { bytes: &self.file, offsets: &self.columns }
    }

    /// Waits until what was written, and the file's name, is on the disk.
    ///
    /// # Errors
    ///
    /// What the system says.
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

/// Gives the file of a dataset the name that another path asks for. Returns the path within the
/// folder.
///
/// # Errors
///
/// What the system says.
pub fn rename_data(old: &Path, folder: &Path, dataset: &[u8]) -> Result<PathBuf, FileError> {
    place(old, folder, dataset)
}

/// Copies the file of a dataset for another one. Returns the path within the folder.
///
/// # Errors
///
/// What the system says.
pub fn copy_data(old: &Path, folder: &Path, dataset: &[u8]) -> Result<PathBuf, FileError> {
    std::fs::create_dir_all(folder).map_err(|error| FileError::System(folder.into(), error))?;
    let draft = draft_path(folder);
    let copied = std::fs::copy(old, &draft).map_err(|error| FileError::of(old, error));
    let placed = copied.and_then(|_| place(&draft, folder, dataset));
    if placed.is_err() {
        // The draft has no other name: nobody can miss it.
        let _ = std::fs::remove_file(&draft);
    }
    placed
}

/// Gives a file the first name for a dataset that is not taken.
fn place(old: &Path, folder: &Path, dataset: &[u8]) -> Result<PathBuf, FileError> {
    let first = folder.join(relative_path(dataset, 0));
    let parent = first.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|error| FileError::System(parent.into(), error))?;
    for copy in 0..COPIES_MAX {
        let within = relative_path(dataset, copy);
        let path = folder.join(&within);
        match renameat_with(CWD, old, CWD, &path, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(within),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(FileError::System(path, error.into())),
        }
    }
    Err(FileError::System(first, io::ErrorKind::AlreadyExists.into()))
}

fn column_offsets(table: &Table, body_offset: u64) -> Vec<u64> {
    table.places().iter().map(|place| body_offset + place.offset).collect()
}

/// A name for a file that has none yet; hidden, so that no reader takes it for data.
fn draft_path(parent: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    parent.join(format!(".plasmon-draft-{}-{number}", std::process::id()))
}

fn write_draft(path: &Path, image: &Image) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(&image.head, 0)?;
    file.write_all_at(&image.foot, image.body_offset() + image.body_bytes)?;
    Ok(file)
}

/// Checks that the record batch in front of the body is the table's. The schema before it may
/// have other metadata, so only the end of the head is compared.
fn check_head(file: &File, known: &Image, body_offset: u64) -> Result<(), String> {
    let batch = known.batch();
    let start = body_offset.checked_sub(batch.len() as u64).ok_or("its body begins too early")?;
    let mut found = vec![0; batch.len()];
    file.read_exact_at(&mut found, start).map_err(|error| error.to_string())?;
    if found != batch {
        return Err("its rows or columns are others than the dataset's".to_owned());
    }
    Ok(())
}
