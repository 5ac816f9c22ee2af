//! The channel: one memfd between one client and the daemon.
//!
//! It holds a ring of submissions, a ring of completions, a ring of touches (what the client read
//! lately) and the client's ledger of pins. The client may write all of it, so the daemon keeps its
//! own cursors in private memory and checks whatever it copies out.

mod client;
mod daemon;
mod layout;
mod pages;
#[cfg(test)]
mod tests;

pub use client::{ChannelClient, InFlight};
pub use daemon::{ChannelDaemon, ProtocolViolation};
pub use layout::CHANNEL_BYTES;
