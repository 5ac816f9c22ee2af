//! The unsafe floor of Plasmon: everything that two processes share.
//!
//! No crate above this one touches a raw pointer or an atomic in shared memory. Byte tables and the
//! argument why the protocols are right: `docs/formats/shared-memory.md`.
//!
//! ```text
//!              daemon                            client
//!  control     ControlDaemon  ── one page ────>  ControlReader     which index table is current
//!  index       IndexWriter    ── slots ───────>  IndexReader       where sealed objects lie
//!  channel     ChannelDaemon  <── rings, pins ─>  ChannelClient     submissions, ledger of pins
//!  extents     Memfd          ── payload ─────>  WriteExtent, ReadMap
//!  wake page   (only held)                       WakePage          waking waits for a seal
//!  socket      Listener, Connection  <───────>  Connection        descriptors, rare messages
//! ```
//!
//! A client joins its mappings in a [`Reader`], the safe interface to objects read in place; what
//! it writes goes through a [`Span`] of leased memory.
//!
//! The protocols themselves ([`slot`], [`index`], [`ledger`], [`ring`], [`sleep_flag`],
//! [`futex_event`]) work on slices of atomics and do not know where these lie, so that the models
//! in `loom_tests.rs` run the very code that runs over mapped memory. Under `cfg(loom)` only they
//! are compiled.
//!
//! Deliberately absent: what an object is, who may do what, and every policy. Those live in
//! `plasmon-store` and `plasmon-daemon`.

#![cfg_attr(loom, expect(dead_code, reason = "a model uses the protocols and not all around them"))]

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "plasmon-shm needs Linux on x86-64 or little-endian ARM64: memfds, futexes, 64-bit atomics"
);

mod disconnect_word;
pub mod futex_event;
pub mod index;
pub mod ledger;
mod lookup;
mod mapped_extent;
pub mod ring;
pub mod scan;
pub mod sleep_flag;
pub mod slot;
mod sync;
mod table;

#[cfg(not(loom))]
pub mod c_allocator;
#[cfg(not(loom))]
pub mod cgroup;
#[cfg(not(loom))]
pub mod channel;
#[cfg(not(loom))]
pub mod checksum;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod copy;
#[cfg(not(loom))]
pub mod counted_view;
#[cfg(not(loom))]
pub mod dax;
#[cfg(not(loom))]
pub mod deadline;
#[cfg(not(loom))]
pub mod dropped_extents;
#[cfg(not(loom))]
pub mod edge;
#[cfg(not(loom))]
pub mod eventfd;
#[cfg(not(loom))]
pub mod extents;
#[cfg(not(loom))]
pub mod fork;
#[cfg(not(loom))]
pub mod futex;
#[cfg(not(loom))]
pub mod growing;
#[cfg(not(loom))]
pub mod incarnation;
#[cfg(not(loom))]
mod inherited;
#[cfg(not(loom))]
pub mod last_holder;
#[cfg(not(loom))]
pub mod map;
#[cfg(not(loom))]
pub mod mappings;
#[cfg(not(loom))]
pub mod memfd;
#[cfg(not(loom))]
mod peer;
#[cfg(not(loom))]
pub mod pidfd;
#[cfg(not(loom))]
pub mod private_memory;
#[cfg(not(loom))]
pub mod program;
#[cfg(not(loom))]
pub mod reader;
#[cfg(not(loom))]
pub mod shortage;
#[cfg(not(loom))]
pub mod socket;
#[cfg(not(loom))]
pub mod socket_folder;
#[cfg(not(loom))]
pub mod wake_page;
#[cfg(not(loom))]
pub mod writer;

#[cfg(all(test, loom))]
mod loom_tests;

pub use ledger::{Ledger, TooManyPins};
pub use slot::{HashKey, SlotImage, State};

#[cfg(not(loom))]
pub use {
    channel::{ChannelClient, ChannelDaemon, ProtocolViolation},
    control::{ControlDaemon, ControlReader},
    counted_view::CountedView,
    dax::DaxMap,
    eventfd::Doorbell,
    extents::ExtentTable,
    growing::{GrowingMap, GrowingMemfd},
    index::{IndexReader, IndexWriter},
    map::{Populate, ReadMap, WriteMap},
    memfd::{HugePageCollapse, Memfd},
    private_memory::PrivateMemory,
    reader::{OwnedView, ReadOutcome, Reader, UnmappedPin, View, ViewWithReader},
    socket::{Connection, Listener, Message, Peer},
    wake_page::{FutexEvent, WakePage},
    writer::{Span, WriteExtent},
};
