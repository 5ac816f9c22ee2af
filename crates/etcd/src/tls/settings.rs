//! Which files connections are encrypted with.

use std::path::PathBuf;

/// What `https://` endpoints are reached with: files in PEM, which every new connection reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of the authorities that sign those of etcd.
    pub authority: PathBuf,
    /// What this client shows to an etcd that asks for it.
    pub own: Option<OwnCertificate>,
    /// Lists of certificates that are not valid any more.
    pub revoked: Option<PathBuf>,
}

/// A certificate of a client of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCertificate {
    /// The certificate, then those between it and the authority.
    pub certificate: PathBuf,
    /// Its key, which no other user may read.
    pub key: PathBuf,
}
