//! Letting go of memory while the client idles.
//!
//! The kernel frees no pages of an extent that is sealed against writers while any process has it
//! mapped, so the daemon cannot reuse its memory before its readers have unmapped it. A client
//! does that with its next operation; an idle client has this thread for it. It sleeps on
//! a word of the channel and is started when the first such extent is mapped: a client of a store
//! of level shared that reads no strict objects has none.
//!
//! ```text
//! daemon: extent off the registry ─► completion ─► event `gone`
//! thread: set the event ─► unmap what is gone ─► sleep until it wakes
//! ```
//!
//! The daemon gets no answer. It asks the kernel whether the memory is still mapped.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plasmon_shm::edge::{self, Mutation};

use crate::connection::Connection;
use crate::session::Session;

/// Bytes of the thread's stack.
const STACK_BYTES: usize = 512 << 10;

/// The longest sleep: a daemon that is killed between two steps sends no wake-up.
const LOOK_AROUND: Duration = Duration::from_secs(10);

/// This client has memory mapped that stays until it unmaps it: from now on it does so also
/// while it idles.
pub(crate) fn start_idle_thread(connection: &Connection) {
    let sleeps_on = edge::is_broken(Mutation::SleepOn);
    if sleeps_on || connection.idle_thread.swap(true, Ordering::AcqRel) {
        return;
    }
    let weak = Weak::clone(&connection.me);
    let spawned = edge::start_thread("plasmon-memory", STACK_BYTES, move || run(&weak));
    if let Err(error) = spawned {
        connection.idle_thread.store(false, Ordering::Release);
        tracing::warn!(%error, "memory of deleted objects stays until the next operation");
    }
}

impl Session {
    /// Has the thread look around, because there is another session or no process any more.
    pub(crate) fn wake_idle_thread(&self) {
        let woken = self.channel().map(|it| it.reader.channel().gone().wake());
        if let Some(Err(error)) = woken {
            tracing::warn!(%error, "cannot wake the thread that unmaps memory");
        }
    }
}

fn run(connection: &Weak<Connection>) {
    while let Some(current) = connection.upgrade() {
        let session = Arc::clone(current.session());
        let Some(channel) = session.channel() else { return };
        let event = channel.reader.channel().gone().set();
        current.sessions().for_each(|session| session.let_go());
        // Not held while asleep: the last handle ends the process's connection, and wakes us.
        drop(current);
        if let Err(error) = event.sleep(LOOK_AROUND) {
            tracing::warn!(%error, "the thread that unmaps memory cannot wait for work");
            edge::sleep(LOOK_AROUND);
        }
    }
}
