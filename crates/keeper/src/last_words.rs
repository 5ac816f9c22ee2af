//! The messages of a keeper that gives the store up: it has no log.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::restart_policy::Death;

/// How the flag begins that names the daemons' log.
const LOG_FLAG: &[u8] = b"--log-file=";

/// Says on standard error, and in the daemons' log, that the store has ended and why.
pub(super) fn say(flags: &[OsString], death: Death) {
    let why = match death {
        Death::Starting => "no daemon gets as far as serving clients",
        Death::Shortage => {
            "for minutes the machine has lacked the memory or descriptors that a daemon needs to \
             start"
        }
        Death::Serving(_) => "daemons die immediately after they start",
    };
    let text = format!(
        "plasmond: the keeper gives up, and the objects in memory are lost: {why}; the lines \
         above say what failed\n"
    );
    // Without either there is no reader for the message.
    let _ = io::stderr().write_all(text.as_bytes());
    if let Some(path) = log_file(flags) {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().append(true).custom_flags(flags).open(path);
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

fn log_file(flags: &[OsString]) -> Option<&OsStr> {
    flags
        .iter()
        .rev()
        .find_map(|flag| flag.as_bytes().strip_prefix(LOG_FLAG))
        .map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_in_the_log_that_the_flags_name() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("store.log");
        std::fs::write(&log, "before\n").unwrap();
        let flag = format!("--log-file={}", log.display());
        say(&["--capacity-bytes=1".into(), flag.into()], Death::Shortage);
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.starts_with("before\nplasmond: the keeper gives up"), "{said}");
        assert!(said.contains("that a daemon needs to start"), "{said}");
        assert_eq!(log_file(&["--spill-dir=a".into()]), None);
    }
}
