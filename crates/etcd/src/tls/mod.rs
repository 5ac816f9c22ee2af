//! Connections to `https://` endpoints: what they are encrypted with, how, and why they are not.
//!
//! ```text
//!   new connection ──► files are read ──► handshake ──► etcd's certificate is checked
//!                         (files)        (connector)        │
//!        a sentence for each way in which it fails  ◄───────┘  (fault)
//! ```
//!
//! Each connection reads the files again, so a certificate that was renewed is used without a
//! restart; connections that are up go on. TLS 1.3 alone is spoken. No session is resumed: each
//! connection checks etcd's certificate.

mod connector;
mod fault;
mod files;
mod settings;

pub(crate) use self::connector::TlsConnector;
pub(crate) use self::fault::Fault;
pub use self::settings::{OwnCertificate, Tls};
