//! Where objects are spilled when the setting leaves that to the daemon (`spill_dir=auto`).
//!
//! `/tmp` is no such place: it may lie in memory, and programs tidy up what is old there.
//! `/var/tmp` is for large files that are kept; the state folder of the user comes after it.

use std::env;
use std::path::{Path, PathBuf};

use plasmon_spill::folder::is_in_memory;
use rustix::fs::{Access, access};

use super::bad_start::BadStart;

/// The value that leaves the choice to the daemon.
const AUTO: &str = "auto";

const KEY: &str = "spill_dir";

/// The folder in place of `auto`; `None` for any other setting or value.
pub(super) fn chosen(key: &str, value: &str) -> Result<Option<String>, BadStart> {
    if (key, value) != (KEY, AUTO) {
        return Ok(None);
    }
    let places = places(env::var_os("XDG_STATE_HOME").map(PathBuf::from), env::home_dir());
    let wrong = || BadStart::Value {
        key: KEY,
        what: "neither /var/tmp nor this user's state folder is a writable folder on a disk; \
               name one that is"
            .to_owned(),
    };
    let place = places.iter().find(|place| can_be_used(place)).ok_or_else(wrong)?;
    place.to_str().map(|text| Some(text.to_owned())).ok_or_else(wrong)
}

/// The places, the best first.
fn places(state_home: Option<PathBuf>, home: Option<PathBuf>) -> Vec<PathBuf> {
    // The specification has relative paths ignored.
    let state_home = state_home.filter(|path| path.is_absolute());
    let state = state_home.or_else(|| home.map(|home| home.join(".local/state")));
    let state = state.map(|state| state.join("plasmon"));
    [Some(PathBuf::from("/var/tmp")), state].into_iter().flatten().collect()
}

/// Whether the folder is on a disk, and can be written to or made.
fn can_be_used(place: &Path) -> bool {
    let there = place.ancestors().find(|path| path.exists());
    let is_writable =
        there.is_some_and(|path| access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok());
    is_writable && !is_in_memory(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_follow_the_rules_of_the_system() {
        let path = |text: &str| Some(PathBuf::from(text));
        let text = |places: Vec<PathBuf>| -> Vec<String> {
            places.iter().map(|place| place.display().to_string()).collect()
        };
        let at_home = ["/var/tmp", "/home/x/.local/state/plasmon"];
        assert_eq!(text(places(None, path("/home/x"))), at_home);
        assert_eq!(text(places(path("relative"), path("/home/x"))), at_home);
        assert_eq!(text(places(path("/s"), path("/home/x"))), ["/var/tmp", "/s/plasmon"]);
        assert_eq!(text(places(None, None)), ["/var/tmp"]);
    }

    #[test]
    fn a_place_in_memory_or_without_write_permission_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        if !is_in_memory(folder.path()) {
            assert!(can_be_used(&folder.path().join("to/be/made")));
        }
        assert!(!can_be_used(Path::new("/proc/1")));
        assert!(!can_be_used(Path::new("/dev/shm/x")));
    }

    #[test]
    fn only_the_word_is_replaced() {
        assert_eq!(chosen("spill_dir", "").unwrap(), None);
        assert_eq!(chosen("spill_dir", "./auto").unwrap(), None);
        assert_eq!(chosen("log", "auto").unwrap(), None);
    }
}
