//! The settings of a node's certificates. What is in the files is read by the pool daemon; here it
//! is checked that they are there.

use std::path::PathBuf;

use super::bad_start::BadStart;
use super::files;

/// What a certificate is of no use without.
const TOGETHER: &str = "pool_tls_cert, pool_tls_key and pool_tls_ca are set together";

/// The files of the settings.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) authority: Option<PathBuf>,
    pub(super) revoked: Option<PathBuf>,
}

/// What the lanes of a node are encrypted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate of the node.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificate of the authority.
    pub authority: PathBuf,
    /// The list of revoked certificates.
    pub revoked: Option<PathBuf>,
    /// Whether the content of objects is encrypted, too.
    pub encrypts_data: bool,
}

impl Tls {
    /// Checks the settings; `None` for a node that encrypts nothing.
    pub(super) fn of(given: Given, encrypts_data: bool) -> Result<Option<Self>, BadStart> {
        let Given { certificate, key, authority, revoked } = given;
        match (certificate, key, authority) {
            (Some(certificate), Some(key), Some(authority)) => {
                Ok(Some(Self { certificate, key, authority, revoked, encrypts_data }))
            }
            (None, None, None) => {
                let needs = "it needs a certificate: set pool_tls_cert as well";
                match (revoked, encrypts_data) {
                    (Some(_), _) => Err(wrong("pool_tls_crl", needs.to_owned())),
                    (None, true) => Err(wrong("pool_encrypt_data", needs.to_owned())),
                    (None, false) => Ok(None),
                }
            }
            (None, ..) => Err(wrong("pool_tls_cert", TOGETHER.to_owned())),
            (_, None, _) => Err(wrong("pool_tls_key", TOGETHER.to_owned())),
            (_, _, None) => Err(wrong("pool_tls_ca", TOGETHER.to_owned())),
        }
    }

    /// Checks that the files can be read, and that the key is for its owner alone.
    pub(super) fn check(&self) -> Result<(), BadStart> {
        let Self { certificate, key, authority, revoked, .. } = self;
        files::check(&[
            ("pool_tls_cert", Some(certificate)),
            ("pool_tls_key", Some(key)),
            ("pool_tls_ca", Some(authority)),
            ("pool_tls_crl", revoked.as_deref()),
        ])
    }
}

fn wrong(key: &'static str, what: String) -> BadStart {
    BadStart::Value { key, what }
}
