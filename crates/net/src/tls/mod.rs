//! TLS for lanes: both sides show a certificate of one authority, for a node of this pool.
//!
//! ```text
//! Credentials ── what this node shows, what it trusts, what is revoked
//!      │
//!      ▼
//! SecureStream ── its first byte says what an accepted connection is
//!      ├── plain: bytes pass
//!      └── Session: TLS 1.3 ──► Verifier ──► Certified, or a Fault in a sentence
//! ```
//!
//! A certificate names the nodes that it is for ([`uri_of`]). Whether the peer is that node is
//! compared in the [`handshake`](crate::handshake), which goes on inside.
//!
//! Only TLS 1.3 is spoken, and nothing is resumed: each connection checks the certificates that are
//! current. A connection that is up goes on with those that it began with; [`Credentials::revoked`]
//! says whether it may.
//!
//! Unlike the rest of this crate it asks a clock and draws random numbers, inside the library that
//! carries out TLS. It reads no file.

mod certified;
mod credentials;
mod date;
mod fault;
mod names;
mod provider;
mod session;
mod stream;
mod verifier;

pub use certified::Certified;
pub use credentials::{BadCredentials, Credentials, Pem};
pub use date::date;
pub use fault::Fault;
pub use names::{parse_uri, uri_of};
pub use stream::SecureStream;

#[cfg(test)]
mod tests;
