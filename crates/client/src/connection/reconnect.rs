//! Reconnecting: a broken connection is replaced, with the same session or with a new one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::socket;

use super::Connection;
use crate::error::{Error, Result};
use crate::handshake::{Caller, HandshakeError, Timeouts, connect_within};
use crate::rpc::{BrokenConnection, ReconnectClaim};
use crate::session::Session;

const RECONNECTING: &str = "reconnecting to the store";

/// Connections that one daemon ended at once, one after the other, without any answer: after the
/// first number the session is not resumed any more, after the second the client gives up.
const RESUMES_MAX: u32 = 3;
const FRUITLESS_MAX: u32 = 6;

/// The same for daemons that ended at once: something else may have killed them.
const DAEMONS_RESUMED_MAX: u32 = 16;
const DAEMONS_MAX: u32 = 32;

/// A connection in place of a broken one.
struct Replacement {
    connection: socket::Connection,
    epoch: u64,
    /// Whether the store has ended, and this is another one.
    is_another_store: bool,
}

impl Connection {
    /// Mends the connection with this number, or waits while another thread does. An error: the
    /// caller was interrupted. When its time has passed, another thread goes on.
    pub(super) fn restore_connection(&self, link: u64, deadline: Deadline) -> Result<()> {
        let ReconnectClaim::Mine(broken) = self.rpc.claim_reconnect(link, deadline)? else {
            return Ok(());
        };
        match self.reconnect(link, broken, deadline) {
            Ok(renewed) => {
                self.waits_for_daemon.store(true, Ordering::Relaxed);
                if renewed.is_another_store {
                    // These requests were about objects that are gone.
                    self.store_change_unreported.store(true, Ordering::Relaxed);
                    self.rpc.fail_all(&|| self.another_store());
                }
                self.rpc.relink(renewed.connection, renewed.epoch);
                for id in self.session().go_on() {
                    self.take_back(|requests| requests.abort(id));
                }
                for request in self.adoptions.requests() {
                    self.take_back(|requests| requests.send_unanswered(request));
                }
                self.name_scopes_again();
            }
            Err(HandshakeError::Ended(error)) => {
                self.rpc.leave_reconnect();
                return if deadline.is_past() { Ok(()) } else { Err(error) };
            }
            Err(failed) => {
                let error = failed.into_error();
                // A later call tries once, so that a store that comes back is found.
                self.waits_for_daemon.store(false, Ordering::Relaxed);
                tracing::warn!(%error, "the daemon did not come back");
                self.rpc.give_up(&|| {
                    Error::new(error.code(), RECONNECTING).with_detail(error.detail())
                });
            }
        }
        Ok(())
    }

    /// What every question is answered with that was under way when its store had ended and another
    /// one had taken the socket.
    pub(crate) fn another_store(&self) -> Error {
        Error::new(Code::Disconnected, RECONNECTING).with_detail(another_store(&self.socket))
    }

    /// Replaces the connection with this number by a new one.
    fn reconnect(
        &self,
        link: u64,
        broken: BrokenConnection,
        own: Deadline,
    ) -> Result<Replacement, HandshakeError> {
        let BrokenConnection { fruitless, since } = broken;
        let waits = self.waits_for_daemon.load(Ordering::Relaxed);
        let until = if waits { self.options.reconnect_timeout } else { Duration::ZERO };
        let timeouts = Timeouts { until: Deadline::from(Some(since)).later(until), own };
        let caller = Caller::new(&self.socket, &self.options);
        // The entry itself and no copy: a new session is appended after this very one.
        let session = self.session();
        let wanted = || !self.closing.load(Ordering::Relaxed) && self.is_ours();
        if fruitless.of_daemon >= FRUITLESS_MAX || fruitless.daemons >= DAEMONS_MAX {
            return Err(HandshakeError::Permanent(
                Error::new(Code::Disconnected, RECONNECTING)
                    .with_detail("the daemon closed several connections of this client in a row"),
            ));
        }
        // A session that the daemon ends again and again is better left behind, once: what is lent
        // to it stays its own until this process ends.
        let is_left =
            fruitless.of_daemon == RESUMES_MAX || fruitless.daemons == DAEMONS_RESUMED_MAX;
        let resume = || if is_left { None } else { session.resume(link + 1) };
        let welcomed = connect_within(caller, timeouts, &mut { resume }, &wanted)?;
        let epoch = welcomed.welcome.epoch;
        if welcomed.welcome.resumed {
            let lost = &welcomed.welcome.lost;
            session.resumed(welcomed.fds, lost).map_err(HandshakeError::Permanent)?;
            tracing::info!(epoch, "resumed with the daemon");
            let connection = welcomed.connection;
            return Ok(Replacement { connection, epoch, is_another_store: false });
        }
        let is_another_store = welcomed.welcome.store != session.welcome.store;
        let fresh =
            Session::new(welcomed.welcome, welcomed.fds).map_err(HandshakeError::Permanent)?;
        session.end();
        let lost = session.unapplied();
        if lost > 0 && is_another_store {
            fresh.writing().verdicts.lose_with_store(lost, another_store(&self.socket));
        } else if lost > 0 {
            fresh.writing().verdicts.lose(lost);
        }
        if is_another_store {
            tracing::warn!(lost, "the store has ended, and another store serves its socket");
        } else {
            tracing::warn!(
                lost,
                "reconnected with a new session: the daemon did not know this client"
            );
        }
        let left = Arc::clone(session);
        self.sessions.append_after(session, Arc::new(fresh));
        left.wake_idle_thread();
        Ok(Replacement { connection: welcomed.connection, epoch, is_another_store })
    }
}

/// The message to a user whose store was replaced.
fn another_store(socket: &Path) -> String {
    format!(
        "the store that this client was connected to has ended and its objects are lost; \
         another store now serves {}, and this client is connected to it: put the objects again \
         that are still needed",
        socket.display()
    )
}
