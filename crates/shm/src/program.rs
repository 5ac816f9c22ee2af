//! Where the other programs of this package are.
//!
//! A variable names a program's path; else it is in the folder of the running program, in one of
//! the folders that the caller knows, or in `PATH`.

use std::env;
use std::path::{Path, PathBuf};

/// The path of a program. What the variable names is not checked: running it says what is wrong.
pub fn find(variable: &str, name: &str, folders: &[&Path]) -> Option<PathBuf> {
    if let Some(program) = env::var_os(variable).filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(program));
    }
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    let in_path = env::var_os("PATH").unwrap_or_default();
    find_in(name, own.into_iter().chain(folders.iter().copied()), &in_path)
}

fn find_in<'a>(
    name: &str,
    folders: impl Iterator<Item = &'a Path>,
    in_path: &std::ffi::OsStr,
) -> Option<PathBuf> {
    let folders = folders.map(Path::to_path_buf).chain(env::split_paths(in_path));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_looked_through_in_their_order_and_only_for_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        for name in ["a", "b", "c"] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        std::fs::create_dir(folder("a").join("tool")).unwrap();
        let (a, b, c) = (folder("a"), folder("b"), folder("c"));
        let find = || find_in("tool", [a.as_path(), &b].into_iter(), c.as_os_str());
        assert_eq!(find(), None);
        std::fs::write(c.join("tool"), "").unwrap();
        assert_eq!(find(), Some(c.join("tool")));
        std::fs::write(b.join("tool"), "").unwrap();
        assert_eq!(find(), Some(b.join("tool")));
    }
}
