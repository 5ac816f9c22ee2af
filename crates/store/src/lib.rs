//! One node's object store as a pure state machine: an event and the time go in, effects come out.
//!
//! There are no sockets, clocks, threads, files or randomness here, so a seed replays any run. The
//! daemon carries the effects out. Two things are asked and answered at once instead, through the
//! [`ports::Directory`]: the shared index and the pins that clients hold in their ledgers. The
//! daemon gives the real ones, tests give doubles.

#![forbid(unsafe_code)]

pub mod effect;
pub mod event;
pub mod ports;
