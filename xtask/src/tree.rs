//! The files of the repository: what git knows of, or would add.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file.
#[derive(Clone, Debug)]
pub(crate) struct TextFile {
    /// Its path from the root, with `/` between the parts.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

impl TextFile {
    /// The ending of the name, without the dot.
    pub(crate) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The part before the first `/`, `None` for a file in the root.
    pub(crate) fn top_folder(&self) -> Option<&str> {
        self.path.split_once('/').map(|(folder, _)| folder)
    }

    /// Whether one of its folders has this name.
    pub(crate) fn is_under(&self, folder: &str) -> bool {
        let parents = self.path.rsplit_once('/').map_or("", |(parents, _)| parents);
        parents.split('/').any(|part| part == folder)
    }
}

/// Every text file, and the paths of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The text files, sorted by path.
    pub(crate) files: Vec<TextFile>,
    /// Every path, also of pictures and the like, sorted.
    pub(crate) paths: Vec<String>,
}

impl Tree {
    /// The checkout that this program was built in.
    pub(crate) fn of_checkout() -> Result<Self, String> {
        let root = root();
        let listing = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(&root)
            .output()
            .map_err(|error| format!("git does not run: {error}"))?;
        if !listing.status.success() {
            return Err("git lists no files here: is this a checkout?".to_owned());
        }
        let listing = String::from_utf8(listing.stdout).map_err(|error| error.to_string())?;
        let mut paths: Vec<String> = listing
            .split('\0')
            .filter(|path| !path.is_empty() && root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        let text_of = |path: &String| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(TextFile { path: path.clone(), text })
        };
        Ok(Self { files: paths.iter().filter_map(text_of).collect(), paths })
    }

    /// A tree of these files, for the tests of rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Self { files, paths }
    }

    /// The file with this path.
    pub(crate) fn file(&self, path: &str) -> Option<&TextFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(&self.files[at])
    }

    /// Whether a file or a folder has this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
            || self.paths.iter().any(|known| known.starts_with(&folder))
    }

    /// The files whose names end so.
    pub(crate) fn with_extension<'a>(
        &'a self,
        extensions: &'a [&str],
    ) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(|file| extensions.contains(&file.extension()))
    }
}

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The crate that a file of Rust belongs to: its folder below the root.
pub(crate) fn crate_of(path: &str) -> &str {
    let end = ["/src/", "/tests/", "/benches/", "/examples/", "/fuzz_targets/", "/build.rs"]
        .iter()
        .filter_map(|part| path.find(part))
        .min();
    &path[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let tree = Tree::of(&[("crates/shm/src/a.rs", ""), ("README.md", "")]);
        let source = tree.file("crates/shm/src/a.rs").unwrap();
        assert_eq!((source.name(), source.extension()), ("a.rs", "rs"));
        assert_eq!(source.top_folder(), Some("crates"));
        assert!(source.is_under("src") && !source.is_under("a.rs"));
        assert_eq!(tree.file("README.md").unwrap().top_folder(), None);
        assert!(tree.has("crates/shm") && tree.has("crates/shm/") && !tree.has("crates/sh"));
        assert_eq!(tree.with_extension(&["md"]).count(), 1);
    }

    #[test]
    fn files_are_counted_to_their_crate() {
        assert_eq!(crate_of("crates/shm/src/a/b.rs"), "crates/shm");
        assert_eq!(crate_of("crates/shm/tests/stress.rs"), "crates/shm");
        assert_eq!(crate_of("tests/soak/src/main.rs"), "tests/soak");
        assert_eq!(crate_of("build.rs"), "");
    }
}
