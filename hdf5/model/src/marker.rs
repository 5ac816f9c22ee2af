//! What the skeleton says of a dataset's data, as the name of HDF5's external storage.
//!
//! ```text
//! x.h5.arrow/g/x.arrow                                  HDF5 alone reads the same bytes
//! x.h5.arrow/g/x.arrow (needs the plasmon connector)    it does not: there is no such file
//! hdf5:x.h5-1f00/g/x in the store /run/store.sock (needs the plasmon connector)
//! ```

use crate::naming::ENDING;

/// Behind the name of what HDF5 must not read by itself.
const NEEDS: &str = " (needs the plasmon connector)";

/// What the places of objects begin with.
const OBJECT: &str = "hdf5:";
/// Between an object and its store.
const STORE: &str = " in the store ";

/// Where the data of a dataset is, as the skeleton knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A file, from the skeleton's folder.
    File(String),
    /// An object of a store.
    Object {
        /// The store's socket.
        store: String,
        /// The object's name in the namespace `hdf5`.
        name: String,
    },
}

/// What the skeleton says of a dataset's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Where it is.
    pub place: Place,
    /// Whether HDF5 without the plugin reads the same bytes. If not, the name in the skeleton is
    /// that of a file that does not exist, so that reading fails instead of giving wrong values.
    pub plain: bool,
}

impl Marker {
    /// As the skeleton holds it.
    #[must_use]
    pub fn to_name(&self) -> String {
        let name = self.place.to_name();
        if self.plain { name } else { format!("{name}{NEEDS}") }
    }

    /// Reads a name of external storage; `None` when it is none of ours.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (name, plain) = name.strip_suffix(NEEDS).map_or((name, true), |name| (name, false));
        let place = Place::of_name(name)?;
        // Only files can be read by HDF5 itself.
        (!plain || matches!(place, Place::File(_))).then_some(Self { place, plain })
    }
}

impl Place {
    fn to_name(&self) -> String {
        match self {
            Self::File(path) => path.clone(),
            Self::Object { store, name } => format!("{OBJECT}{name}{STORE}{store}"),
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        if let Some(object) = name.strip_prefix(OBJECT) {
            let (name, store) = object.rsplit_once(STORE)?;
            let (name, store) = (name.to_owned(), store.to_owned());
            return (!name.is_empty() && store.starts_with('/'))
                .then_some(Self::Object { store, name });
        }
        let folder = name.split('/').next()?;
        let ours = folder.ends_with(ENDING)
            && folder.len() > ENDING.len()
            && name.len() > folder.len()
            && name.ends_with(ENDING)
            && !name.split('/').any(|part| part == ".." || part.is_empty());
        ours.then(|| Self::File(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_from_other_external_files() {
        for plain in [true, false] {
            let marker = Marker { place: Place::File("a b.h5.arrow/g/x.arrow".to_owned()), plain };
            assert_eq!(Marker::of_name(&marker.to_name()), Some(marker));
        }
        let (store, name) = ("/run/a b.sock".to_owned(), "x.h5-1/in the store /x".to_owned());
        let marker = Marker { place: Place::Object { store, name }, plain: false };
        assert_eq!(Marker::of_name(&marker.to_name()), Some(marker));
        for foreign in ["hdf5:x", "hdf5:x in the store y", "hdf5: in the store /y"] {
            assert_eq!(Marker::of_name(&format!("{foreign}{NEEDS}")), None, "{foreign}");
        }
        for foreign in [
            "hdf5:x in the store /y",
            "raw.bin",
            "p.arrow",
            "/abs.arrow/x.arrow",
            "a.arrow/../x.arrow",
            "",
        ] {
            assert_eq!(Marker::of_name(foreign), None, "{foreign}");
        }
    }
}
