//! Writes into the memory of other processes and machines, over libfabric where it is installed.
//!
//! ```text
//!      target                                       writer
//!   Endpoint ── open_window(memory) ─► Window         │
//!                              │ Grant {base, key} ─►  │  told over another connection
//!                              │                   Endpoint::write(place, source)
//!                              ◄══════ bytes ═════════ │
//!                              │                     Completion: they are there
//!   Window::close ─► memory    ◄── "written" ────────  │  told over that connection
//! ```
//!
//! * `abi`, `library`: libfabric's interface, declared here and found at run time. A program with
//!   this crate is built without its headers and starts without it ([`installed`]).
//! * `found`, `object`, `objects`: its objects. `shared`, `queue`: what an endpoint and its thread
//!   do with them. `sources`: what a provider wants registered of the memory that is sent from.
//! * `signals`: how they are handled stays as it was.
//! * [`Endpoint`]: opens windows, writes into those of others. [`Window`]: memory that may be
//!   written.
//! * [`open`]: the endpoints that a node is to have ([`Choice`]), each tested.
//! * [`prepare`]: what has to be in the environment of a program that uses cards.
//! * [`end_process`]: the last resort, where an endpoint cannot be closed.
//! * [`machine`]: whether two processes can use `shm` between them.
//!
//! The rules: only what is in a window can be written, only while the window is open, and only by a
//! peer that was told its key. The memory of a window is the window's until it is closed; after a
//! peer was lost in the middle of a write only the end of the whole endpoint makes that safe
//! ([`Endpoint::close`]). The side that writes keeps what it writes from until that is over. This
//! crate has unsafe code, like `plasmon-shm`: what is above it has none.
//!
//! Deliberately absent: reads (a card answers them more slowly than it takes writes), messages,
//! and any trust in a completion: the side that was written to compares checksums.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::mpsc::channel;
//!
//! use plasmon_fabric::{Choice, Endpoint, Place, Provider, Sink, installed};
//!
//! let choice: Choice = "shm;tcp".parse()?;
//! assert_eq!(choice.providers(), [Provider::Shm]);
//! if installed().is_err() {
//!     return Ok(()); // There is no libfabric here.
//! }
//! let (sender, done) = channel();
//! let sink: Sink = Arc::new(move |completion| _ = sender.send(completion));
//! let target = Endpoint::open(Provider::Shm, None, sink.clone())?;
//! let writer = Endpoint::open(Provider::Shm, None, sink)?;
//!
//! let opened = target.open_window(Box::new(vec![0_u8; 100]), Vec::as_mut_slice);
//! let window = opened.map_err(|(_, error)| error)?;
//! let peer = writer.peer(target.name())?;
//! let to = Place { peer, window: window.grant(), offset: 10 };
//! writer.write(to, Arc::new(*b"hello"), |source| source.as_slice(), 7)?;
//!
//! let completion = done.recv()?;
//! assert_eq!((completion.token, completion.result), (7, Ok(())));
//! assert_eq!(window.close()?[10..15], *b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abi;
mod endpoint;
mod environment;
mod error;
mod exit;
mod found;
mod library;
mod machine;
mod object;
mod objects;
mod open;
mod queue;
mod shared;
mod signals;
mod sources;
mod version;
mod window;

pub use endpoint::{Endpoint, Peer, Place, SourceMemory};
pub use environment::{ENVIRONMENT, prepare};
pub use error::{Error, PEERS_MAX, WRITES_MAX};
pub use exit::end_process;
pub use library::installed;
pub use machine::{MACHINE_BYTES_MAX, machine};
pub use open::{Opened, open};
pub use plasmon_proto::fabric::{BadChoice, Choice, Provider};
pub use queue::Completion;
pub use shared::Sink;
pub use sources::SourceCounts;
pub use version::Version;
pub use window::{Grant, Window};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("plasmon-fabric needs Linux with 64-bit addresses: it declares that ABI alone");
