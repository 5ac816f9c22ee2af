//! Why no pool daemon answers for a store: it said so in the log of the store, and nowhere else.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use plasmon_client::{Client, Code, Error};

/// How much of the end of a log is looked at.
const TAIL_BYTES: u64 = 64 * 1024;

/// What a pool daemon says when it cannot come up, before the reason.
const MARKS: [&str; 2] = ["the pool daemon ends: ", "the pool cannot be joined, trying again: "];

/// What it says when it is up.
const UP: &str = "INFO listening on ";

/// Why the pool daemon of this store did not answer, in words.
pub(super) fn unanswered(store: &Client, error: &Error) -> String {
    let words = match error.code() {
        Code::Unreachable => tail(&store.socket().with_extension("log")).ok(),
        _ => None,
    };
    match words.as_deref().and_then(reason_in) {
        Some(reason) => format!("its pool daemon does not come up: {reason}"),
        None => error.to_string(),
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut found = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut found)?;
    Ok(String::from_utf8_lossy(&found).into_owned())
}

/// The last reason in a log, unless a pool daemon came up after it.
fn reason_in(log: &str) -> Option<&str> {
    let mut lines = log.lines().rev().take_while(|line| !line.contains(UP));
    lines.find_map(|line| MARKS.iter().find_map(|mark| Some(line.split_once(mark)?.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reason_counts_unless_a_pool_daemon_came_up_after_it() {
        let ends =
            "2026-11-27T15:39:16Z ERROR the pool daemon ends: pool_tls_cert c.pem: it is bad\n";
        let again = "2026-11-27T15:39:16Z  WARN the pool daemon has ended and is started again\n";
        let away = "2026-11-27T15:39:17Z  WARN the pool cannot be joined, trying again: no etcd\n";
        let up = "2026-11-27T15:39:18Z  INFO listening on 127.0.0.1:1 as a\n";
        for (log, reason) in [
            (String::new(), None),
            ([ends, again].concat(), Some("pool_tls_cert c.pem: it is bad")),
            ([ends, again, away].concat(), Some("no etcd")),
            ([ends, away, up, again].concat(), None),
            ([up, again, ends].concat(), Some("pool_tls_cert c.pem: it is bad")),
        ] {
            assert_eq!(reason_in(&log), reason, "{log}");
        }
    }
}
