//! Where the data of a dataset is, and what the process may do with it.

use std::fmt;
use std::path::{Path, PathBuf};

use plasmon_hdf5_model::{Place, ViewOf, data_directory, is_object_of, object_data};
use plasmon_hdf5_store as store;

use crate::info::Settings;
use crate::tie::{Tie, data_of};

/// Where the data of a dataset is, for this process.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// An Arrow file.
    File {
        /// The skeleton's folder.
        folder: PathBuf,
        /// The path from there.
        within: PathBuf,
        /// Whether it is the skeleton's to change.
        own: bool,
    },
    /// An Arrow file of a skeleton that was opened without a path.
    Pathless {
        /// The path from its folder.
        within: PathBuf,
    },
    /// An object of a store.
    Object {
        /// The store's socket.
        socket: PathBuf,
        /// The object's name.
        name: String,
        /// Whether it is the skeleton's to delete and rename.
        own: bool,
    },
    /// An object of a store that only the skeleton names.
    Unlisted {
        /// The store's socket.
        socket: String,
        /// The object or file there.
        what: String,
        /// What the tools call it.
        kind: &'static str,
    },
    /// A column of data that others wrote.
    View {
        /// Whose.
        of: ViewOf,
        /// The column's name.
        column: String,
    },
}

impl Source {
    /// The source that a skeleton names, under the program's settings. The skeleton is
    /// untrusted: it chooses neither the store that this process connects to, nor what is deleted
    /// there.
    pub(crate) fn new(place: &Place, skeleton: &Path, settings: &Settings) -> Self {
        let is_listed = |store: &str| is_listed(settings, Path::new(store));
        match place {
            Place::File(path) if skeleton.as_os_str().is_empty() => {
                Self::Pathless { within: PathBuf::from(path) }
            }
            Place::File(path) => {
                let folder = skeleton.parent().unwrap_or(Path::new("/")).to_owned();
                let within = PathBuf::from(path);
                let own = is_own(skeleton, &within);
                Self::File { folder, within, own }
            }
            Place::Object { store, name } => match &settings.store {
                None if !is_listed(store) => Self::Unlisted {
                    socket: store.clone(),
                    what: format!("hdf5:{name} in the store {store}"),
                    kind: "store",
                },
                socket => Self::Object {
                    socket: socket.clone().unwrap_or_else(|| PathBuf::from(store)),
                    name: name.clone(),
                    // With a number the container tells, which knows the skeleton's.
                    own: object_data(name).is_none() && is_object_of(skeleton, name),
                },
            },
            Place::View { of: of @ ViewOf::Object { store, .. }, column } if !is_listed(store) => {
                let (socket, what) = (store.clone(), format!("column {column:?} of {of}"));
                Self::Unlisted { socket, what, kind: "view" }
            }
            Place::View { of, column } => Self::View { of: of.clone(), column: column.clone() },
        }
    }

    /// The same, where it is now, after a look whether it is what its skeleton was written for.
    pub(crate) fn checked(&self, tie: Option<&Tie>) -> Result<Self, String> {
        match (self, tie) {
            (Self::File { folder, within, own }, Some(tie)) => {
                let (folder, own) = (folder.clone(), *own);
                Ok(Self::File { within: tie.check(within)?, folder, own })
            }
            (Self::Object { name, .. }, Some(tie)) => {
                tie.check_object(name)?;
                Ok(self.clone())
            }
            _ => Ok(self.clone()),
        }
    }

    /// Whether it may be written through this skeleton: not another skeleton's file.
    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self, Self::File { own: false, .. } | Self::Pathless { .. })
    }

    /// What the tools call it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::Pathless { .. } => "arrow",
            Self::Object { .. } => "store",
            Self::Unlisted { kind, .. } => kind,
            Self::View { .. } => "view",
        }
    }

    /// Removes data that no skeleton names. If this fails, the data takes room and does no other
    /// harm.
    pub(crate) fn remove(&self) {
        match self {
            Self::File { folder, within, own: true } => {
                let _ = std::fs::remove_file(folder.join(within));
            }
            Self::Object { socket, name, own: true } => store::remove(socket, name),
            // It is not ours.
            Self::File { .. }
            | Self::Pathless { .. }
            | Self::Object { .. }
            | Self::Unlisted { .. }
            | Self::View { .. } => {}
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { folder, within, .. } => folder.join(within).display().fmt(f),
            Self::Pathless { within } => within.display().fmt(f),
            Self::Object { socket, name, .. } => {
                write!(f, "hdf5:{name} in the store {}", socket.display())
            }
            Self::Unlisted { what, .. } => f.write_str(what),
            Self::View { of, column } => write!(f, "column {column:?} of {of}"),
        }
    }
}

/// Whether the data at a path, from the skeleton's folder, may be the skeleton's to change. Data
/// with a number is looked at closely when it is opened and before it is changed. In layouts of
/// before it is the skeleton's if it is in its folder of data, or in one that no skeleton has, as
/// after the skeleton was renamed.
fn is_own(skeleton: &Path, within: &Path) -> bool {
    if data_of(within).is_some() {
        return true;
    }
    let (Some(name), Some(folder)) = (skeleton.file_name(), skeleton.parent()) else {
        return false;
    };
    let Some(data) = within.iter().next() else { return false };
    let owner = Path::new(data).file_stem().unwrap_or_default();
    data == data_directory(name) || !folder.join(owner).exists()
}

/// Whether this user, and not only a skeleton, names the store: in the connector's settings, or as
/// the user's own store.
fn is_listed(settings: &Settings, socket: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let own = store::default_socket().ok();
    let mut listed = settings.store.iter().chain(&own);
    listed
        .any(|listed| std::path::absolute(listed).is_ok_and(|listed| real(&listed) == real(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_another_skeleton_is_not_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, other) = (folder.path().join("x.h5"), folder.path().join("other.h5"));
        std::fs::write(&ours, "").expect("a file");
        let own = |within: &str| is_own(&ours, Path::new(within));
        assert!(own("x.h5.arrow/g/y.arrow"));
        // The skeleton was called otherwise when it was written.
        assert!(own("other.h5.arrow/y.arrow"));
        std::fs::write(&other, "").expect("a file");
        assert!(!own("other.h5.arrow/y.arrow"));
        assert!(own("x.h5.arrow/g/y.arrow") && !own(""));
    }
}
