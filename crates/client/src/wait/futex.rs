//! Sleeping until an object is sealed, woken by the client that seals it.
//!
//! ```text
//! asked the daemon ─► set three events ─► look: answered? listed? ── yes ─► awake
//!                          ▲                        │ no
//!                          │                      sleep
//!                          │                        ▼
//!                          └── not listed ◄── look at the index (for longer if it was hinted)
//! ```
//!
//! The events are that of the object in the wake page, the mail of this client (the daemon has
//! answered) and the changes of this process (another thread read the socket). The first one is a
//! hint: it may wake long before the daemon publishes, in vain, or not at all. The question that
//! was asked over the socket is answered in any case.

use std::time::Duration;

use plasmon_proto::ObjectId;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::{edge, wake_page};

use crate::connection::{ALIVE, Connection};
use crate::error::Result;
use crate::interrupt;
use crate::wait::poll::WAITING;

/// For how long a thread that was woken by a hint looks at the index before it sleeps again. It ran
/// a few microseconds' wake-up after the seal; the daemon needs about as long to publish.
const SPIN_HINTED: Duration = Duration::from_micros(20);

/// Sleeps until the index lists the object, which is `true`, or until the answer to request
/// `number`, a wait for the object, reports another state.
pub(crate) fn sleep_until_listed(
    connection: &Connection,
    id: &ObjectId,
    number: u64,
    deadline: Deadline,
) -> Result<bool> {
    let session = connection.session();
    let Some((channel, page)) = session.channel().and_then(|it| Some((it, it.wakes()?))) else {
        return Ok(false);
    };
    let (hint, mail, changes) =
        (page.event(id), channel.reader.channel().mail(), connection.rpc().changes());
    loop {
        let set = [hint.set(), mail.set(), changes.set()];
        // Also takes the answers in that earlier waits of this process left behind because they
        // found their objects themselves: unread they would fill the socket in time.
        if connection.rpc().look(number) || !connection.is_current(session) {
            return Ok(false);
        }
        if channel.reader.contains(id) == Some(true) {
            break;
        }
        let left = deadline.left();
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        if let Err(error) = interrupt::check(WAITING) {
            connection.abandon_request(number);
            return Err(error);
        }
        // No process wakes an event when the daemon is killed.
        if wake_page::sleep(set, left.map_or(ALIVE, |left| left.min(ALIVE))).is_err() {
            // A kernel without this call: the socket wakes as well.
            return Ok(false);
        }
        let woken = edge::now();
        let mut listed = channel.reader.contains(id);
        while listed == Some(false) && hint.was_for_this() && edge::since(woken) < SPIN_HINTED {
            std::hint::spin_loop();
            listed = channel.reader.contains(id);
        }
        match listed {
            Some(true) => break,
            Some(false) => {}
            // The daemon moved to another table. Its answer says when to look there.
            None => return Ok(false),
        }
    }
    // A thread that saw this one read the socket left it to this one.
    connection.rpc().wake_sleepers();
    Ok(true)
}
