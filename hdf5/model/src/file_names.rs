//! Where the file of a dataset is.
//!
//! A dataset `/run 1/x` of `sim.h5` is in `sim.h5.arrow/run 1/x.arrow`. What a file's name cannot
//! hold, or what would lead out of the folder, is written in hexadecimal after a percent sign;
//! names too long for a file end in a hash of themselves.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::data_id::Mark;

/// The most bytes that a part of a path may have, leaving room for endings and numbers.
const PART_BYTES_MAX: usize = 200;
/// The most parts of a path that become folders; deeper ones are put into one name.
const DEPTH_MAX: usize = 24;
/// The most bytes of a file's name in the name of an object.
const FILE_BYTES_MAX: usize = 64;
pub(crate) const ENDING: &str = ".arrow";
/// The name of the file of a dataset that has no name yet.
const UNNAMED: &str = "unnamed";

/// The folder of a file's data, beside it.
#[must_use]
pub fn data_directory(file: &OsStr) -> OsString {
    let mut name = file.to_owned();
    name.push(ENDING);
    name
}

/// Where a dataset's file goes within the folder of data. `copy` is 0, or counts further up when
/// that file is there already: a dataset that was moved keeps its file.
#[must_use]
pub fn relative_path(dataset: &[u8], copy: u32) -> PathBuf {
    let mut parts: Vec<String> =
        dataset.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(safe).collect();
    let mut last = parts.pop().unwrap_or_else(|| UNNAMED.to_owned());
    if parts.len() >= DEPTH_MAX {
        last = shortened(&format!("{}%{last}", parts.split_off(DEPTH_MAX - 1).join("%")));
    }
    if copy > 0 {
        last = format!("{last}~{copy}");
    }
    let folder: PathBuf = parts.iter().map(Path::new).collect();
    folder.join(format!("{last}{ENDING}"))
}

/// Whether a file of data, from its folder, is called as that of a dataset without a name.
#[must_use]
pub fn is_unnamed(file: &Path) -> bool {
    let stem = file.to_str().and_then(|name| name.strip_suffix(ENDING)?.strip_prefix(UNNAMED));
    stem.is_some_and(|copy| {
        let number = copy.strip_prefix('~').unwrap_or("0");
        (copy.is_empty() || copy.starts_with('~')) && number.parse::<u32>().is_ok()
    })
}

/// The name of a dataset's object in a store: `x.h5-<number of the data>/<path>`. `copy`
/// counts as in [`relative_path`].
#[must_use]
pub fn object_name(file: &Path, data: Mark, dataset: &[u8], copy: u32) -> String {
    let within = relative_path(dataset, copy);
    let within = within.to_string_lossy();
    let within = within.strip_suffix(ENDING).unwrap_or(&within);
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    format!("{}-{data}/{}", cut(&safe(name), FILE_BYTES_MAX), cut(within, 160))
}

/// Which data an object is part of; `None` for names of before, which have a hash of the file's
/// path, and for those that the connector does not give.
#[must_use]
pub fn object_data(object: &str) -> Option<Mark> {
    let (file, dataset) = object.split_once('/')?;
    let (_, data) = file.rsplit_once('-')?;
    Mark::of_text(data).filter(|_| !dataset.is_empty())
}

/// The prefix of the names of a file's objects before data had numbers.
fn objects_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    let folder = hash(file.as_os_str().as_encoded_bytes());
    format!("{}-{}/", cut(&safe(name), FILE_BYTES_MAX), &folder[..8])
}

/// Whether an object without a number is called after a file: one that a skeleton names may be
/// another file's, and is not to be deleted or renamed then.
#[must_use]
pub fn is_object_of(file: &Path, object: &str) -> bool {
    object.strip_prefix(&objects_of(file)).is_some_and(|dataset| !dataset.is_empty())
}

/// A part of a path that is the name of a file.
fn safe(part: &[u8]) -> String {
    let text = String::from_utf8_lossy(part);
    let clean = std::str::from_utf8(part).is_ok();
    let mut out = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let hidden = at == 0 && letter == '.';
        let tilde = letter == '~';
        if letter.is_control() || letter == '%' || hidden || tilde || !clean && letter > '\u{7f}' {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(letter);
        }
    }
    // A folder that ends like a file would be mixed up with one.
    if let Some(stem) = out.strip_suffix(ENDING) {
        out = format!("{stem}%2Earrow");
    }
    if clean { shortened(&out) } else { shortened(&format!("{out}%{}", hash(part))) }
}

/// The name itself, or its beginning with a hash.
fn shortened(name: &str) -> String {
    cut(name, PART_BYTES_MAX)
}

fn cut(name: &str, bytes_max: usize) -> String {
    if name.len() <= bytes_max {
        return name.to_owned();
    }
    let mut end = bytes_max - 20;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}%{}", &name[..end], hash(name.as_bytes()))
}

fn hash(bytes: &[u8]) -> String {
    // Stable for one build is enough: the skeleton holds the name that was chosen.
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> String {
        relative_path(name.as_bytes(), 0).to_string_lossy().into_owned()
    }

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(path("/x"), "x.arrow");
        assert_eq!(path("/run 1/läuft/x"), "run 1/läuft/x.arrow");
        assert_eq!(relative_path(b"/x", 2), PathBuf::from("x~2.arrow"));
    }

    #[test]
    fn no_name_leads_out_of_the_folder_or_hides() {
        assert_eq!(path("/../../etc/passwd"), "%2E./%2E./etc/passwd.arrow");
        assert_eq!(path("/./.x"), "%2E/%2Ex.arrow");
        assert_eq!(path("a\u{1}%b"), "a%01%25b.arrow");
        assert_eq!(path(""), "unnamed.arrow");
        // A group and a dataset beside it must not meet.
        assert_eq!(path("/a.arrow/b"), "a%2Earrow/b.arrow");
        assert_eq!(path("/a~1"), "a%7E1.arrow");
    }

    #[test]
    fn long_deep_and_broken_names_are_distinct_and_short() {
        let long = |end: &str| path(&format!("{}{end}", "x".repeat(4096)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() < 255);
        assert_ne!(relative_path(b"\xff", 0), relative_path(b"\xfe", 0));
        let deep = relative_path("/g".repeat(1000).as_bytes(), 0);
        assert!(deep.components().count() <= DEPTH_MAX);
    }

    #[test]
    fn files_of_datasets_without_a_name_are_known() {
        for copy in [0, 1, 12] {
            assert!(is_unnamed(&relative_path(b"", copy)), "{copy}");
        }
        for other in ["unnamed~.arrow", "unnamed~x.arrow", "g/unnamed.arrow", "unnamed2.arrow"] {
            assert!(!is_unnamed(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn objects_are_called_after_file_and_dataset() {
        let name = |path: &str, dataset: &str| {
            object_name(Path::new(path), Mark(0x3f2a), dataset.as_bytes(), 0)
        };
        let one = name("/data/x.h5", "/run 1/x");
        assert_eq!(one, "x.h5-0000000000003f2a/run 1/x");
        let long = name(&format!("/{}", "f".repeat(255)), &"/very long".repeat(400));
        assert!(long.len() <= 240, "{}", long.len());
        assert!(object_name(Path::new("/x.h5"), Mark(1), b"a", 2).ends_with("/a~2"));
    }

    #[test]
    fn the_number_in_an_object_is_read() {
        for file in ["/x.h5", "/a-b", "/", "/a\u{1}-0000000000000001"] {
            for dataset in ["/x", "/run-1/x", ""] {
                let name = object_name(Path::new(file), Mark(7), dataset.as_bytes(), 1);
                assert_eq!(object_data(&name), Some(Mark(7)), "{name}");
            }
        }
        for other in ["", "x", "x.h5-1f001f00/x", "x-0000000000000007", "x-0000000000000007/"] {
            assert_eq!(object_data(other), None, "{other}");
        }
    }

    #[test]
    fn objects_of_before_are_distinguished_from_foreign_ones() {
        let (ours, others) = (Path::new("/data/x.h5"), Path::new("/elsewhere/x.h5"));
        for dataset in ["/x", "/run 1/x", "../up", ""] {
            let name = format!("{}{dataset}.", objects_of(ours));
            assert!(is_object_of(ours, &name) && !is_object_of(others, &name), "{name}");
            assert_eq!(object_data(&name), None, "{name}");
        }
        for strange in ["", "/", "payroll", "x.h5-00000000/x", &objects_of(ours)] {
            assert!(!is_object_of(ours, strange), "{strange}");
        }
    }
}
