//! `plasmond`: the process that owns a node's store, and the keeper that outlives it.
//!
//! ```text
//! settings ──► startup ──► core (one thread around plasmon_store::Store)
//!                 │          ├── sessions, peers, outbox     clients and what waits for them
//!                 │          ├── directory, extents          what is shared with them
//!                 │          └── workers                     memory and files, in the background
//!                 └── recovery, with plasmon_keeper          kill -9 loses nothing that was sealed
//! ```
//!
//! Everything here is the edge: sockets, clocks, descriptors, threads. What the store decides is
//! decided in `plasmon_store`.
//!
//! ```
//! use plasmon_daemon::settings::{self, Config};
//!
//! let flags = [("capacity_bytes", "1g".to_owned()), ("socket", "/tmp/store.sock".to_owned())];
//! let loaded = settings::load(None, |_| None, &flags)?;
//! let config = Config::new(&loaded.settings)?;
//! assert_eq!(config.capacity_bytes, 1 << 30);
//! # Ok::<(), settings::BadStart>(())
//! ```
//!
//! # Rules
//!
//! 1. Before it answers any socket message it drains **every** ring with something in it (so that a
//!    miss reported over the socket is final). It looks at those that are awake and at those whose
//!    doorbell rang (`rings.rs`).
//! 2. Events of a client reach the store in the order ring first, then socket message.
//! 3. A disconnect drains the client's ring first. If the process still lives (pidfd), its ledger
//!    stays in the scan until it is dead or resumes; a dead client's ledger is dropped.
//! 4. An extent's index is used again only after the daemon dropped it, with another birth number;
//!    an identity is never used again. Dropping = taking it off the control page's registry +
//!    `Completion::ExtentGone` to every client with a channel + taking its pages away, or keeping
//!    it (`shm::dropped_extents`, and in the keeper) until the kernel reports that no other process
//!    has it; then closing the daemon's descriptors, and the keeper's, which says when it has. A
//!    client that lost completions unmaps what the registry does not list. A lease whose completion
//!    did not fit goes back to the store at once.
//! 5. The keeper holds, labelled: the listening socket, control with the wake page, index table(s),
//!    extents, channels. After kill -9 the new daemon adopts them: same control page (epoch + 1),
//!    same index table mapped writable again, same channels (rings drained at once, in case the
//!    client pushed what the old daemon had not read), ledgers still count. Slots in state
//!    `writing` are dropped; `hidden` ones stay hidden until unpinned. Extents whose registered
//!    writer token belongs to a live channel are quarantined until that client resumes (it reports
//!    its leases and creations) or dies.
//!
//! # Starting, and what clients may rely on
//!
//! * **Start.** `plasmond [--config FILE] [--SETTING VALUE]...` serves in the foreground.
//!   `--daemonize` starts a detached one and returns when that serves (its exit code is passed on).
//!   `--ready-fd N`: one line with the socket's path is written to pipe `N` when connections are
//!   accepted; nothing else is ever written to standard output. Read the line, do not wait for the
//!   end of the pipe (the keeper inherits it). Exit codes: 0 stopped cleanly, 1 failed, 2 wrong
//!   usage or settings, 3 another daemon serves the socket, 4 the machine is out of memory,
//!   descriptors or the like. `--log-file FILE` logs there instead of standard error.
//! * **Socket.** `--socket`, `PLASMON_SOCKET`, else `$XDG_RUNTIME_DIR/plasmon/store.sock`, else
//!   `$TMPDIR/plasmon-UID/store.sock`. The locked file beside it (`.lock`) stays after the end on
//!   purpose.
//! * **Refusals before hello** (user not admitted, or no connection left for it, user or process
//!   with as many connections as the settings allow, more than 256 silent connections of one user,
//!   daemon has no descriptors, no hello within 5 s, a malformed first frame) are `Reply::Failed`
//!   with request number **0**, then the end of the connection. A refused hello (version, name too
//!   long) is answered under its own number, then the connection ends. An expelled client gets
//!   `BadRequest` under number 0 with the reason as detail, if its socket takes it.
//! * **Stop.** SIGTERM, SIGINT, SIGHUP or `Shutdown`: exit code 0, socket file and spill files
//!   removed, keeper ended.
//! * **Flow control.** A client with 64 unread frames is not read from until it reads. A client
//!   must therefore read replies and pushes while it has requests under way.
//! * **Resume.** Only the same process (pid and user, as the kernel says) resumes a token, with
//!   `channel` as before. The daemon drains the client's ring *before* it applies `Resume`, so
//!   `leases` lists what is still to be carved when hello is sent, without what was submitted
//!   already. A client without a connection, after a restart or because the connection broke, is
//!   *away*: still a client for the store, with what was lent to it and what it creates, and its
//!   ring is applied, until it resumes or is gone (ADR 46). A `LeaseWanted` of it is refused with
//!   `Cancelled`: ask again. The welcome says what of the named memory is lost (`lost`); write
//!   nothing there. Submit nothing between saying hello and that.
//! * **`Lease` and `Created`** carry the extent's own writable descriptor. `Extents { write: true
//!   }` is answered only to the extent's registered writer, else `NotOwner`.
//! * **A broken connection.** A get sends no message, so a client may not notice that the daemon
//!   closed its session. The daemon says so in the channel; a client looks there after each pin,
//!   gives the pin up and connects again. Sessions of a living process are kept to be resumed, for
//!   their pins and for what is lent to them; beyond 512 the oldest that hold nothing are
//!   forgotten, and a process that left 512 that do gets no further session (`limit_reached`).
//! * **Hanging.** A daemon that does not answer its keeper for `hang_timeout_ms` is killed and
//!   replaced. `SIGSTOP` counts as hanging, a debugger does not.
//! * **Panics** of any thread end the process (abort), and the keeper starts another; no thread
//!   waits for one that is gone.
//! * **Log.** Lines go through a queue; what finds no room is counted and lost. Each place in the
//!   program logs 20 lines a second at most.
//! * **Process death** ends a client also when a forked child still has the socket open.
//! * **Who keeps what.** The keeper holds the listener with its lock, control page, current table,
//!   extents, and for every session the process (pidfd) and the channel. What a client *without* a
//!   channel pinned is known to the daemon alone and ends with it.
//!
//! # The path of a put
//!
//! * The daemon takes at most 64 records out of a ring at a time, fetches their index slots (and
//!   the ones after them, where most probes for an absent id end) ahead, applies them, and moves
//!   the ring's head. So many stay in the nearest cache. A client that sleeps for room is woken at
//!   half a ring and at the end. The store's time is read once for a batch.
//! * An event that carries no attributes and asks for no effects moves nothing and allocates
//!   nothing: `Extras` is boxed, `Store::step` tells submissions apart first, `Core::feed` queues
//!   only what comes up while effects are carried out.
//! * The locked instruction after a record waits until the stores of the copy before it have
//!   reached the cache. Hence leases of at most 4 MiB (a busy client goes round in three; with 32
//!   MiB a put of 1 KiB took 200 ns, with 4 MiB 150) and `Span::prefetch` of the place of the next
//!   object.
//! * A copy of 256 KiB or more streams past the caches: 52 us for 1 MiB here, wherever it goes. A
//!   plain copy takes 38 us into a target that stays in the second-level cache, 50 us in turn into
//!   two such targets, and 92 us into 64 MiB.
//! * A table of 8 MiB or more gets huge pages after the index grew (`workers/tables.rs`). Until
//!   then, and while it happens, gets are slower, not wrong.
//!
//! # The system calls of the loop, and why none of them waits
//!
//! One thread serves all clients (`crates/daemon/src/core`). These are its system calls; a new one
//! needs a line here.
//!
//! * `epoll_wait` (`poll`, `rings`): it waits for events, which is its purpose; for doorbells with
//!   a time of 0
//! * `epoll_ctl` (`poll`): the kernel's own lists
//! * `accept4`, `getsockopt`, `setsockopt`, `ioctl(FIONBIO, TIOCOUTQ)` (`acceptor`, `handshake`,
//!   `outbox`): the listener does not block; the rest only looks
//! * `recvmsg`, `sendmsg` to clients (`requests`, `outbox`): `MSG_DONTWAIT`. Descriptors are
//!   refused (`SO_PASSRIGHTS`) or received whole and closed elsewhere, never dropped within the
//!   call
//! * `sendmsg`, `recvmsg` with the keeper (`keeper::handle`): `MSG_DONTWAIT`; what does not go is
//!   said later
//! * `close` of a connection (`disconnect`): nothing of a client's lies in it; where the kernel
//!   takes descriptors, or replies are unsent, a thread closes it (`closer`)
//! * `close` of a session: pidfd, doorbell, channel with its mapping (`disconnect`): done by a
//!   thread (`closer`)
//! * `open` of `/proc/self/fd/N` (`Memfd::read_only`, `writable`): `O_NONBLOCK`, and our descriptor
//!   counts as a writer, so there is no lease to wait for
//! * `memfd_create`, `ftruncate`, `fcntl(F_ADD_SEALS)`, `mmap` of a new channel or index table
//!   (`handshake`, `directory`): no other process has them yet
//! * `fcntl(F_SETLEASE)` of a dropped extent (`extent_release`): the kernel's own counts; 256 in
//!   one turn at most, a few microseconds each
//! * `fstat` of extents (`effects::completed`): the kernel's own counts; 1024 for one status at
//!   most
//! * `fcntl(F_GET_SEALS)`; `fcntl(F_ADD_SEALS, F_SEAL_FUTURE_WRITE)` of an extent that only the
//!   daemon writes (`effects`): looking takes no lock. Adding waits for a `fallocate` or `write`
//!   that runs on the same memfd, so what clients write they seal themselves, and what they have
//!   not sealed is not published
//! * `eventfd`, `pidfd_open`, `SO_PEERPIDFD` (`handshake`): make a descriptor
//! * `lstat` of the socket, every 2 s; `mkdir`, `open`, `flock(LOCK_NB)`, `bind`, `chmod`, a
//!   `connect` that does not wait, when it is gone (`acceptor`): names in the folder of the socket,
//!   which is local; the lock is tried
//! * `futex(FUTEX_WAKE)` (`submissions`, `flush`): wakes
//! * `poll` of a pidfd (`Session::is_dead`): a time of 0
//! * `pread` of attributes (`extents`): memory that was reserved; the page cache of a memfd is not
//!   read from a disk unless it was swapped out
//! * `read` of the workers' doorbell and the signal pipe (`workers`, `mod`): ours alone, and
//!   non-blocking
//! * `fcntl(F_DUPFD)`, any call that makes a descriptor (`startup`): before there are threads the
//!   table of descriptors is made as large as it will be; growing it later takes 10 to 20 ms
//! * `clone` for a thread (`workers`, `closer`): a new thread; the keeper is started and collected
//!   in one
//! * `write` of the log (`log`): done by a thread; a full queue loses the line and counts it
//! * `unlink` of the socket, `waitpid` of the keeper (`end`): the store is over; the keeper has 5 s
//!
//! What is left: memory that was swapped out is read from a disk. The keeper's watchdog covers all
//! of it.

#![forbid(unsafe_code)]

mod acceptor;
mod clock;
mod closer;
mod connection_limits;
mod core;
mod descriptors_in_flight;
mod directory;
mod durable_start;
mod extents;
mod log;
mod outbox;
mod peers;
mod poll;
mod pool_daemon;
mod program;
mod recovery;
mod rings;
mod sessions;
pub mod settings;
#[cfg(feature = "sim")]
pub mod simulated;
mod starter;
mod startup;
mod workers;

pub use program::run;

/// A key for the index that cannot be predicted.
fn random_key() -> std::io::Result<plasmon_shm::HashKey> {
    let words: [u8; 32] = plasmon_shm::edge::random()?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| words[at * 8 + byte]));
    Ok(plasmon_shm::HashKey([0, 1, 2, 3].map(word)))
}

/// A random number.
fn random_word() -> std::io::Result<u64> {
    plasmon_shm::edge::random().map(u64::from_le_bytes)
}
