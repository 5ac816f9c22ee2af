//! What the skeleton says of a dataset's data, as the name of HDF5's external storage.
//!
//! ```text
//! x.h5.arrow/g/x.arrow                                  HDF5 alone reads the same bytes
//! x.h5.arrow/g/x.arrow (needs the plasmon connector)    it does not: there is no such file
//! ```

use crate::naming::ENDING;

/// Behind the name of what HDF5 must not read by itself.
const NEEDS: &str = " (needs the plasmon connector)";

/// Where the data of a dataset is, as the skeleton knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A file, from the skeleton's folder.
    File(String),
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
        Some(Self { place: Place::of_name(name)?, plain })
    }
}

impl Place {
    fn to_name(&self) -> String {
        match self {
            Self::File(path) => path.clone(),
        }
    }

    fn of_name(name: &str) -> Option<Self> {
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
        for foreign in ["raw.bin", "p.arrow", "/abs.arrow/x.arrow", "a.arrow/../x.arrow", ""] {
            assert_eq!(Marker::of_name(foreign), None, "{foreign}");
        }
    }
}
