//! Where the file of a dataset is.
//!
//! A dataset `/run 1/x` of `sim.h5` is in `sim.h5.arrow/run 1/x.arrow`. What a file's name cannot
//! hold, or what would lead out of the folder, is written in hexadecimal behind a percent sign;
//! names too long for a file end in a hash of themselves.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The most bytes that a part of a path may have, leaving room for endings and numbers.
const PART_BYTES_MAX: usize = 200;
/// The most parts of a path that become folders; deeper ones are put into one name.
const DEPTH_MAX: usize = 24;
pub(crate) const ENDING: &str = ".arrow";

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
    let mut last = parts.pop().unwrap_or_else(|| "unnamed".to_owned());
    if parts.len() >= DEPTH_MAX {
        last = shortened(&format!("{}%{last}", parts.split_off(DEPTH_MAX - 1).join("%")));
    }
    if copy > 0 {
        last = format!("{last}~{copy}");
    }
    let folder: PathBuf = parts.iter().map(Path::new).collect();
    folder.join(format!("{last}{ENDING}"))
}

/// What the object of a dataset is called in a store: `x.h5-<hash of the file's path>/<path>`.
/// `copy` counts as in [`relative_path`].
#[must_use]
pub fn object_name(file: &Path, dataset: &[u8], copy: u32) -> String {
    let within = relative_path(dataset, copy);
    let within = within.to_string_lossy();
    let within = within.strip_suffix(ENDING).unwrap_or(&within);
    format!("{}{}", objects_of(file), cut(within, 160))
}

/// What the names of a file's objects begin with.
fn objects_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    let folder = hash(file.as_os_str().as_encoded_bytes());
    format!("{}-{}/", cut(&safe(name), 64), &folder[..8])
}

/// Whether an object is called as [`object_name`] calls those of a file: an object that a skeleton
/// names may be another file's, and is not to be deleted or renamed then.
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
    fn objects_are_called_after_file_and_dataset() {
        let name = |path: &str, dataset: &str| object_name(Path::new(path), dataset.as_bytes(), 0);
        let one = name("/data/x.h5", "/run 1/x");
        assert!(one.starts_with("x.h5-") && one.ends_with("/run 1/x"), "{one}");
        assert_ne!(one, name("/elsewhere/x.h5", "/run 1/x"));
        let long = name(&format!("/{}", "f".repeat(255)), &"/very long".repeat(400));
        assert!(long.len() <= 240, "{}", long.len());
        assert!(object_name(Path::new("/x.h5"), b"a", 2).ends_with("/a~2"));
    }

    #[test]
    fn the_objects_of_a_file_are_told_from_those_of_others() {
        let (ours, others) = (Path::new("/data/x.h5"), Path::new("/elsewhere/x.h5"));
        for dataset in ["/x", "/run 1/x", "../up", ""] {
            let name = object_name(ours, dataset.as_bytes(), 3);
            assert!(is_object_of(ours, &name) && !is_object_of(others, &name), "{name}");
        }
        for strange in ["", "/", "payroll", "x.h5-00000000/x", &objects_of(ours)] {
            assert!(!is_object_of(ours, strange), "{strange}");
        }
    }
}
