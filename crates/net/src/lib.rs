//! How the nodes of a pool talk: lanes of two kinds between each two of them.
//!
//! A *control lane* carries messages: short, numbered, in classes of urgency. *Bulk lanes* carry
//! the content of objects in segments, from memory or a file of the sending node straight into
//! memory of the receiving one. They are connections of their own, so that no message ever waits
//! for a segment. What the messages mean, and what the content belongs to, is not known here.
//!
//! ```text
//!                     Link                 life of the peer: up, slow, down
//!                      │
//! Greeting ──► ControlLane    BulkLane     messages, segments            (transport)
//! Handshake        │              │
//!     └─────── FramedControl  FramedBulk   frames, checksums, queues     (frame, segment)
//!                  └──────┬───────┘
//!                      Stream              bytes in order, never waiting
//!                 ┌───────┴───────┐
//!              TcpStream      FakeStream   sockets, or virtual time; SecureStream over either
//! ```
//!
//! * [`frame`] and [`segment`]: the bytes of both kinds of lanes (`docs/formats/pool-frames.md`).
//! * [`note`]: what is said on a bulk lane about content that does not come over it.
//! * [`handshake`]: which node is at the other end, and whether it has the token of the pool. A
//!   [`Greeting`] does it over a stream, with a deadline; [`Admission`] limits how many are under
//!   way.
//! * [`transport`]: what every transport does. [`FramedControl`] and [`FramedBulk`] do it over any
//!   [`Stream`]: [`tcp`], or [`fake`] for tests and the simulator.
//! * [`tls`]: a stream over another one that is encrypted, or not.
//! * [`Link`]: the control lane to a peer, and whether the peer lives.
//!
//! The rules: nothing waits, and nothing but TLS has a clock or random numbers of its own; these
//! are given. Whatever a peer sends ends its lane at worst. Everything has a limit, a named
//! constant beside what it limits. There is no unsafe code.
//!
//! Deliberately absent: connecting again, which needs the map of the pool.
//!
//! ```
//! use std::sync::Arc;
//!
//! use plasmon_net::fake::{FakeNet, FakeNode, FakeOptions};
//! use plasmon_net::frame::Class;
//! use plasmon_net::handshake::{
//!     Cluster, Encryption, KnownPeers, Lane, Local, NodeIdentity, ProtocolRange, Purpose, Token,
//! };
//! use plasmon_net::{FramedControl, Greeting, Link, LinkEvent};
//!
//! let local = |number: u8| {
//!     Arc::new(Local {
//!         cluster: Cluster::new("prod", [7; 16]).unwrap(),
//!         node: NodeIdentity {
//!             uuid: [number; 16],
//!             slot: number.into(),
//!             boot: number.into(),
//!             incarnation: 1,
//!         },
//!         protocols: ProtocolRange::new(1, 1).unwrap(),
//!         token: Token::new(b"what both nodes were given").unwrap(),
//!         encryption: Encryption::Nothing,
//!         peers: KnownPeers::default(),
//!     })
//! };
//! let (net, now) = (FakeNet::new(FakeOptions::default()), std::time::Duration::ZERO);
//! net.listen(FakeNode(2));
//! let stream = net.connect(FakeNode(1), FakeNode(2))?;
//! let purpose = Purpose { lane: Lane::Control, node: Some([2; 16]) };
//! let mut one = Greeting::connect(stream, local(1), purpose, [1; 32], now);
//! let (stream, _) = net.accept(FakeNode(2)).unwrap();
//! let mut two = Greeting::accept(stream, local(2), [2; 32], now);
//!
//! let (mut at_one, mut at_two) = (None, None);
//! while at_one.is_none() || at_two.is_none() {
//!     at_one = one.drive(now)?;
//!     at_two = two.drive(now)?;
//! }
//! let mut one = Link::new(FramedControl::new(one.into_stream()), at_one.unwrap(), now);
//! let mut two = Link::new(FramedControl::new(two.into_stream()), at_two.unwrap(), now);
//!
//! one.send(Class::Normal, b"hello")?;
//! while one.next_event(now).is_some() {}
//! let events = std::iter::from_fn(|| two.next_event(now));
//! let messages = events.filter_map(|event| match event {
//!     LinkEvent::Message(_, payload) => Some(payload),
//!     _ => None,
//! });
//! assert_eq!(messages.collect::<Vec<_>>(), [b"hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod admission;
mod bulk;
mod control;
mod error;
pub mod fake;
pub mod frame;
mod greeting;
pub mod handshake;
mod link;
pub mod note;
pub mod segment;
mod stream;
pub mod tcp;
pub mod tls;
pub mod transport;

pub use admission::{Admission, UNAUTHENTICATED_MAX};
pub use bulk::{FramedBulk, NOTES_BYTES_MAX};
pub use control::FramedControl;
pub use error::Error;
pub use greeting::{Admitted, Greeting, HANDSHAKE_TIMEOUT};
pub use link::{BEAT_EVERY, BEATS_MISSED_MAX, Link, LinkEvent};
pub use stream::{FileRange, Stream};
pub use transport::{BulkLane, ControlLane};
