//! How the parts of a virtual dataset are named and counted.
//!
//! A virtual dataset has *mappings*: a selection of its elements, the name of a file, that of a
//! dataset there, and a selection of as many elements of that. A name with `%b` stands for many,
//! one for each block of the selection. A selection along whose unlimited dimension more may come
//! is cut off where its dataset ends, and both sides of a mapping at the same slice.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Whether a name stands for many: one for each block.
#[must_use]
pub fn is_numbered(name: &str) -> bool {
    let mut rest = name;
    while let Some(at) = rest.find('%') {
        match rest.as_bytes().get(at + 1) {
            Some(b'b') => return true,
            Some(b'%') => rest = &rest[at + 2..],
            _ => rest = &rest[at + 1..],
        }
    }
    false
}

/// The name for a block: `%b` is its number, `%%` is one `%`.
#[must_use]
pub fn numbered(name: &str, block: u64) -> String {
    let (mut built, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(at) = rest.find('%') {
        built.push_str(&rest[..at]);
        let (with, bytes) = match rest.as_bytes().get(at + 1) {
            Some(b'b') => (block.to_string(), 2),
            Some(b'%') => ("%".to_owned(), 2),
            _ => ("%".to_owned(), 1),
        };
        built.push_str(&with);
        rest = &rest[at + bytes..];
    }
    built + rest
}

/// Where HDF5 looks for the source files of a virtual dataset.
#[derive(Clone, Copy, Debug)]
pub struct SourceFolders<'a> {
    /// `HDF5_VDS_PREFIX`, folders with colons between.
    pub environment: Option<&'a OsStr>,
    /// The prefix that the program, or the environment, gave the virtual dataset.
    pub prefix: Option<&'a Path>,
    /// The folder of the virtual dataset's file, under the name that it was opened by.
    pub named: &'a Path,
    /// The folder that the file is in, without links.
    pub real: &'a Path,
}

impl SourceFolders<'_> {
    /// The paths under which a source file may be, the first one first.
    #[must_use]
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        use std::os::unix::ffi::OsStrExt;

        let (mut paths, mut name) = (Vec::new(), Path::new(name));
        if name.is_absolute() {
            paths.push(name.to_owned());
            // A file that was moved is looked for by its last name.
            let Some(last) = name.file_name() else { return paths };
            name = Path::new(last);
        }
        let listed = self.environment.map(OsStrExt::as_bytes).unwrap_or_default();
        let listed = listed.split(|byte| *byte == b':').filter(|folder| !folder.is_empty());
        paths.extend(listed.map(|folder| Path::new(OsStr::from_bytes(folder)).join(name)));
        paths.extend(self.prefix.map(|prefix| prefix.join(name)));
        paths.extend([self.named.join(name), name.to_owned(), self.real.join(name)]);
        paths
    }
}

/// A selection along its unlimited dimension: blocks, from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Where the first one begins.
    pub start: u64,
    /// From the begin of one to that of the next.
    pub stride: u64,
    /// How long each is; none for a single one without an end.
    pub block: Option<u64>,
}

impl Blocks {
    /// How many slices lie within the first `extent` ones.
    #[must_use]
    pub fn slices(&self, extent: u64) -> u64 {
        let room = extent.saturating_sub(self.start);
        match self.block {
            None => room,
            Some(block) if self.stride == 0 => room.min(block),
            Some(block) => {
                (room / self.stride).saturating_mul(block) + (room % self.stride).min(block)
            }
        }
    }

    /// Slices from the first on: how many whole blocks, and how long the last one is that
    /// is not whole.
    #[must_use]
    pub fn divided(&self, slices: u64) -> (u64, u64) {
        match self.block {
            None | Some(0) => (0, slices),
            Some(block) => (slices / block, slices % block),
        }
    }

    /// The numbers of the blocks that may have slices between two, the second one included.
    #[must_use]
    pub fn between(&self, first: u64, last: u64) -> std::ops::Range<u64> {
        if last < self.start || self.stride == 0 {
            return 0..u64::from(last >= self.start);
        }
        (first.saturating_sub(self.start) / self.stride)..((last - self.start) / self.stride + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_number_of_the_block() {
        for (name, is, built) in [
            ("f.h5", false, "f.h5"),
            ("f-%b.h5", true, "f-12.h5"),
            ("%b%b", true, "1212"),
            ("100%%b", false, "100%b"),
            ("%%%b", true, "%12"),
            ("5%-%", false, "5%-%"),
            ("ä%bö", true, "ä12ö"),
        ] {
            assert_eq!((is_numbered(name), &*numbered(name, 12)), (is, built), "{name}");
        }
    }

    #[test]
    fn files_are_looked_for_where_hdf5_does() {
        let folders = SourceFolders {
            environment: Some(OsStr::new("/e1::e2")),
            prefix: Some(Path::new("/prefix")),
            named: Path::new("/links"),
            real: Path::new("/real"),
        };
        let relative = ["/e1/s/x.h5", "e2/s/x.h5", "/prefix/s/x.h5", "/links/s/x.h5", "s/x.h5"];
        let paths = |name| folders.paths(name).into_iter().map(|path| path.display().to_string());
        assert_eq!(
            paths("s/x.h5").collect::<Vec<_>>(),
            [&relative[..], &["/real/s/x.h5"]].concat()
        );
        let moved = ["/gone/x.h5", "/e1/x.h5", "e2/x.h5", "/prefix/x.h5", "/links/x.h5", "x.h5"];
        assert_eq!(paths("/gone/x.h5").collect::<Vec<_>>(), [&moved[..], &["/real/x.h5"]].concat());
    }

    #[test]
    fn slices_are_counted_as_far_as_the_extent_goes() {
        let blocks = Blocks { start: 2, stride: 5, block: Some(3) };
        // Slices 2 3 4, 7 8 9, 12 ...
        for (extent, slices) in [(0, 0), (2, 0), (3, 1), (5, 3), (7, 3), (8, 4), (10, 6), (13, 7)] {
            assert_eq!(blocks.slices(extent), slices, "{extent}");
        }
        assert_eq!(blocks.divided(7), (2, 1));
        assert_eq!(blocks.divided(6), (2, 0));
        let all = Blocks { start: 2, stride: 1, block: None };
        assert_eq!((all.slices(9), all.divided(7)), (7, (0, 7)));
    }

    #[test]
    fn blocks_are_found_by_their_slices() {
        let blocks = Blocks { start: 2, stride: 5, block: Some(3) };
        for (first, last, wanted) in
            [(0, 1, 0..0), (0, 2, 0..1), (4, 7, 0..2), (7, 11, 1..2), (0, 13, 0..3)]
        {
            assert_eq!(blocks.between(first, last), wanted, "{first} to {last}");
        }
        let once = Blocks { start: 2, stride: 0, block: Some(3) };
        assert_eq!((once.between(0, 9), once.between(0, 1)), (0..1, 0..0));
    }
}
