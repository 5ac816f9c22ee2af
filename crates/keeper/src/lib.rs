//! The keeper: a tiny process that holds the store's descriptors, so that the daemon may die.
//!
//! ```text
//! plasmond ──spawns──► keeper                 daemon ── Hold(label) + descriptors ──► keeper
//!    │ kill -9           │ end of file on the socket pair, and the process is gone
//!    ✗                   └──spawns──► plasmond --role=adopting   ◄── Held(label) + descriptors
//!
//! keeper killed:         the daemon sees end of file, starts another keeper, hands everything over
//! daemon hangs:          Ask, and no answer for a while (`watchdog`): the keeper kills it
//! daemon stops cleanly:  Stop;     the keeper ends, and with it the last descriptors
//! ```
//!
//! Descriptors that are on their way live in the socket pair itself, so there is no moment at which
//! only a dying process has them. The keeper is this same program, started through `/proc/self/exe`
//! (which works after the file was replaced, too), and reads nothing but its socket: no settings,
//! no log, no clients.

#![forbid(unsafe_code)]

mod child;
mod handle;
mod last_words;
mod link;
mod process;
mod restart_policy;
mod watchdog;
mod wire;

pub use handle::{KeeperHandle, KeeperMessage};
pub use link::{HeldDescriptors, KeeperLink};
pub use process::{keep, run};
pub use wire::{FromKeeper, Label};

/// The argument that makes this program a keeper; the daemon's own flags follow it.
pub const KEEPER_ARGUMENT: &str = "--role=keeper";

/// The exit code of a daemon that could not start because the machine is out of something.
pub const EXIT_SHORTAGE: u8 = 4;
