//! The place of a dataset's data, kept in the skeleton as the name of HDF5's external storage.
//!
//! ```text
//! x.h5.arrow/g/x.arrow                                  HDF5 alone reads the same bytes
//! x.h5.arrow/g/x.arrow (needs the plasmon connector)    it does not: there is no such file
//! hdf5:x.h5-1f00/g/x in the store /run/store.sock (needs the plasmon connector)
//! view:x of file /data/part.parquet (needs the plasmon connector)
//! view:x of object ns:name in the store /run/store.sock (needs the plasmon connector)
//! ```

use std::fmt;

use crate::file_names::ENDING;

/// Follows the name of what HDF5 must not read without the connector.
const NEEDS: &str = " (needs the plasmon connector)";

/// The prefix of the places of objects.
const OBJECT: &str = "hdf5:";
/// Between an object and its store.
const STORE: &str = " in the store ";
/// The prefix of the places of views.
const VIEW: &str = "view:";
/// Between a column, whose spaces and percent signs are written in hexadecimal, and its data.
const OF: &str = " of ";

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
    /// A column of data that others wrote.
    View {
        /// Whose.
        of: ViewOf,
        /// The column's name; empty for an array.
        column: String,
    },
}

/// Data that others wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ViewOf {
    /// An Arrow, Feather or Parquet file, by its absolute path.
    File(String),
    /// An object of a store.
    Object {
        /// The store's socket.
        store: String,
        /// The name's namespace.
        namespace: String,
        /// The name's text.
        name: String,
    },
}

impl fmt::Display for ViewOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {path}"),
            Self::Object { store, namespace, name } => {
                write!(f, "object {namespace}:{name}{STORE}{store}")
            }
        }
    }
}

impl ViewOf {
    fn of_text(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("file ") {
            return path.starts_with('/').then(|| Self::File(path.to_owned()));
        }
        let (name, store) = text.strip_prefix("object ")?.rsplit_once(STORE)?;
        let (namespace, name) = name.split_once(':')?;
        let [store, namespace, name] = [store, namespace, name].map(str::to_owned);
        (!name.is_empty() && store.starts_with('/')).then_some(Self::Object {
            store,
            namespace,
            name,
        })
    }
}

/// The skeleton's record of a dataset's data.
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

    /// Reads a name of external storage; `None` when it is not one of ours.
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
            Self::View { of, column } => {
                let column = column.replace('%', "%25").replace(' ', "%20");
                format!("{VIEW}{column}{OF}{of}")
            }
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        if let Some(object) = name.strip_prefix(OBJECT) {
            let (name, store) = object.rsplit_once(STORE)?;
            let (name, store) = (name.to_owned(), store.to_owned());
            return (!name.is_empty() && store.starts_with('/'))
                .then_some(Self::Object { store, name });
        }
        if let Some(view) = name.strip_prefix(VIEW) {
            let (column, of) = view.split_once(OF)?;
            let column = column.replace("%20", " ").replace("%25", "%");
            return Some(Self::View { of: ViewOf::of_text(of)?, column });
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
    fn markers_are_distinguished_from_other_external_files() {
        for plain in [true, false] {
            let marker = Marker { place: Place::File("a b.h5.arrow/g/x.arrow".to_owned()), plain };
            assert_eq!(Marker::of_name(&marker.to_name()), Some(marker));
        }
        let (store, name) = ("/run/a b.sock".to_owned(), "x.h5-1/in the store /x".to_owned());
        let marker = Marker { place: Place::Object { store, name }, plain: false };
        assert_eq!(Marker::of_name(&marker.to_name()), Some(marker));
        let object = |store: &str| ViewOf::Object {
            store: store.to_owned(),
            namespace: String::new(),
            name: "a: b in the store c".to_owned(),
        };
        for of in [ViewOf::File("/a of b.parquet".to_owned()), object("/run/s.sock")] {
            let place = Place::View { of, column: "a b%20 of file c".to_owned() };
            let marker = Marker { place, plain: false };
            assert_eq!(Marker::of_name(&marker.to_name()), Some(marker));
        }
        for foreign in [
            "hdf5:x",
            "view:x",
            "view:x of a",
            "view:x of file a",
            "hdf5:x in the store y",
            "hdf5: in the store /y",
        ] {
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
