//! Writing rests while the connection is restored.
//!
//! ```text
//! resume: told to the daemon ──► suspended ──► resumed: what is lost is known ──► go_on
//!                                   │ carving, submitting: wait here
//! ```
//!
//! Copies that are under way go on: their memory was named to the daemon, which has given it to no
//! other.

use std::sync::MutexGuard;

use plasmon_proto::Code;
use plasmon_proto::extent::Range;
use plasmon_proto::message::Request;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::session::{Session, WriteState};

/// Waits until the connection is back, and the daemon has said what is left of the leases. The
/// range of an object that is about to be submitted stays known meanwhile.
pub(crate) fn await_resumption<'a>(
    connection: &Connection,
    session: &'a Session,
    mut writing: MutexGuard<'a, WriteState>,
    range: Option<Range>,
) -> Result<MutexGuard<'a, WriteState>> {
    const RESUMING: &str = "waiting for the connection to the daemon";
    while writing.leases.is_suspended() {
        range.into_iter().for_each(|range| writing.leases.opened(range));
        drop(writing);
        let resumed = if connection.is_current(session) {
            // Answered on the next connection and on none before.
            connection.ask(RESUMING, Request::Sync).map(drop)
        } else {
            Err(Error::new(Code::Disconnected, RESUMING)
                .with_detail("the daemon restarted and does not know of earlier submissions"))
        };
        writing = session.writing();
        if let Some(range) = range {
            writing.close_again(range, resumed.is_ok())?;
        }
        resumed?;
    }
    Ok(writing)
}
