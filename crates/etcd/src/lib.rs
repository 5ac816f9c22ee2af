//! A small client of etcd that blocks: keys, transactions, leases, watches, and nothing else.
//!
//! It speaks JSON to the gateway that etcd has built in since 3.4 (`docs/adr/0091`), so there is
//! no gRPC, no generated code and no async runtime. One [`Client`] belongs to one thread.
//!
//! ```text
//!   Client ── call ──► endpoint 1 ── no answer in time ──► endpoint 2 ── ..   (client)
//!     │                 answered: it is asked first from now on
//!     ├─ list, get, transact                                                  (kv)
//!     ├─ grant, keep_alive, revoke                                            (lease)
//!     └─ watch(prefix, revision) ──► Watch: changes, until it ends            (watch)
//! ```
//!
//! * Every call has a time limit at each endpoint, a call that fails names all of them, and a watch
//!   ends when nothing has come for a while: an etcd that hangs is noticed by both.
//! * A call that failed may have been carried out. All that is used here can be repeated: a put and
//!   a delete by their keys, a transaction by its conditions; a lease that is not known ends.
//! * Endpoints that are `https://` are reached by TLS ([`Tls`]); the certificates are read for each
//!   new connection, and what is wrong with them is [`Error::Encryption`].
//! * [`Client::call`] makes any other call of the gateway.
//!
//! ```
//! use plasmon_etcd::{Client, Condition, Error, Operation, Options};
//!
//! let mut etcd = Client::new(Options::new(vec!["127.0.0.1:1".to_owned()]))?;
//! let is_new = [Condition::Made(b"/a".to_vec(), 0)];
//! let put = [Operation::Put(b"/a".to_vec(), b"value".to_vec(), None)];
//! // There is no etcd on this port.
//! assert!(matches!(etcd.transact(&is_new, &put), Err(Error::Unavailable { .. })));
//! # Ok::<(), Error>(())
//! ```

#![forbid(unsafe_code)]

mod client;
mod error;
mod json;
mod kv;
mod lease;
mod tls;
mod watch;

pub use client::{ANSWER_BYTES_MAX, Client, Credentials, Options};
pub use error::Error;
pub use kv::{Condition, KeyValue, LeaseId, Listing, Operation, Outcome};
pub use lease::Granted;
pub use tls::{OwnCertificate, Tls};
pub use watch::{Change, MESSAGE_BYTES_MAX, Seen, Watch};
