//! The folder of a skeleton's data: taking away what no dataset names.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// The ending of files of data.
const ENDING: &str = "arrow";
/// How names of drafts begin, which a killed process leaves in the folder.
pub(crate) const DRAFT: &str = ".plasmon-draft-";

/// Removes all files of data, and then the folders that are empty. Other files stay.
///
/// # Errors
///
/// The system's error; a folder that is not there is none.
pub fn clear(folder: &Path) -> io::Result<()> {
    keep_only(folder, &HashSet::new()).map(drop)
}

/// Removes the files of data that are not in a list, and then the folders that are empty. Returns
/// what was removed.
///
/// # Errors
///
/// The system's error; a folder that is not there is none.
pub fn keep_only(folder: &Path, wanted: &HashSet<PathBuf>) -> io::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    // A link in its place leads to files that are not this skeleton's.
    if std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
        return Ok(removed);
    }
    sweep(folder, wanted, &mut removed)?;
    Ok(removed)
}

fn sweep(folder: &Path, wanted: &HashSet<PathBuf>, removed: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            sweep(&path, wanted, removed)?;
            continue;
        }
        let draft = entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes());
        let data = path.extension().is_some_and(|ending| ending == ENDING);
        if (data || draft) && !wanted.contains(&path) {
            std::fs::remove_file(&path)?;
            removed.push(path);
        }
    }
    // Only an empty folder can be removed; any other stays.
    let _ = std::fs::remove_dir(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_that_no_skeleton_names_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("x.h5.arrow");
        std::fs::create_dir_all(data.join("g/empty")).expect("folders");
        for name in ["a.arrow", "g/b.arrow", "g/.plasmon-draft-1-0", "g/notes.txt"] {
            std::fs::write(data.join(name), "x").expect("a file");
        }
        let wanted = HashSet::from([data.join("a.arrow")]);
        assert_eq!(keep_only(&data, &wanted).expect("swept").len(), 2);
        assert!(data.join("a.arrow").exists() && data.join("g/notes.txt").exists());
        assert!(!data.join("g/empty").exists());
        clear(&data).expect("cleared");
        assert!(!data.join("a.arrow").exists() && data.join("g/notes.txt").exists());
        clear(&data.join("nothing")).expect("nothing to do");
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (others, link) = (folder.path().join("others"), folder.path().join("x.h5.arrow"));
        std::fs::create_dir(&others).expect("a folder");
        std::fs::write(others.join("a.arrow"), "x").expect("a file");
        std::os::unix::fs::symlink(&others, &link).expect("a link");
        clear(&link).expect("nothing to do");
        assert!(others.join("a.arrow").exists());
    }
}
