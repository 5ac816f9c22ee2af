//! With which files etcd is reached encrypted. The daemon, the pool daemon and the command decide
//! it from the same settings.
//!
//! An etcd with an authority of its own (`pool_etcd_ca`) is shown the certificate that is set for
//! it, if one is. Any other is taken to be of the pool's authority (`pool_tls_ca`), and is shown
//! that of the node unless another is set; the pool's list of revoked certificates holds for it.

use std::path::PathBuf;

/// The settings that it is decided from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdSettings {
    /// `pool_etcd_ca`, `pool_etcd_cert` and `pool_etcd_key`.
    pub etcd: CertificateFiles,
    /// `pool_tls_ca`, `pool_tls_cert` and `pool_tls_key`.
    pub pool: CertificateFiles,
    /// `pool_tls_crl`.
    pub revoked: Option<PathBuf>,
}

/// An authority, a certificate and its key, as far as they are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate of the authority.
    pub authority: Option<PathBuf>,
    /// The certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// The files with which etcd is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdFiles {
    /// The certificate of the authority of etcd.
    pub authority: PathBuf,
    /// The certificate that etcd is shown, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// The list of revoked certificates.
    pub revoked: Option<PathBuf>,
}

/// Settings that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct BadEtcdFiles {
    /// The setting.
    pub setting: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What a certificate is of no use without.
const TOGETHER: &str = "pool_etcd_cert and pool_etcd_key are set together";

impl EtcdFiles {
    /// Those of an etcd that is reached encrypted, or in clear; then there are none.
    pub fn of(is_encrypted: bool, given: EtcdSettings) -> Result<Option<Self>, BadEtcdFiles> {
        let bad = |setting, why| Err(BadEtcdFiles { setting, why });
        let EtcdSettings { etcd, pool, revoked } = given;
        if !is_encrypted {
            let given = [
                ("pool_etcd_ca", etcd.authority.is_some()),
                ("pool_etcd_cert", etcd.certificate.is_some()),
                ("pool_etcd_key", etcd.key.is_some()),
            ];
            return match given.iter().find(|(_, is_given)| *is_given) {
                Some((setting, _)) => bad(
                    setting,
                    "etcd would be reached in clear all the same: its address is etcd://, and \
                     https:// for an etcd with TLS",
                ),
                None => Ok(None),
            };
        }
        let own = match (etcd.certificate, etcd.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (None, Some(_)) => return bad("pool_etcd_cert", TOGETHER),
            (Some(_), None) => return bad("pool_etcd_key", TOGETHER),
        };
        if let Some(authority) = etcd.authority {
            return Ok(Some(Self { authority, own, revoked: None }));
        }
        match pool.authority {
            Some(authority) => {
                let own = own.or_else(|| pool.certificate.zip(pool.key));
                Ok(Some(Self { authority, own, revoked }))
            }
            None => bad(
                "pool_etcd_ca",
                "an etcd that is reached by https:// needs the certificate of the authority that \
                 signs those of etcd",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> CertificateFiles {
        let file =
            |kind: &str| text.contains(kind).then(|| PathBuf::from(format!("{text}/{kind}")));
        CertificateFiles { authority: file("a"), certificate: file("c"), key: file("k") }
    }

    fn of(is_encrypted: bool, etcd: &str, pool: &str) -> Result<Option<EtcdFiles>, &'static str> {
        let revoked = (!pool.is_empty()).then(|| PathBuf::from("crl"));
        let given = EtcdSettings { etcd: files(etcd), pool: files(pool), revoked };
        EtcdFiles::of(is_encrypted, given).map_err(|bad| bad.setting)
    }

    #[test]
    fn an_etcd_without_an_authority_of_its_own_has_that_of_the_pool() {
        let found = |authority: &str, own: Option<&str>, revoked: Option<&str>| {
            let own = own.map(|of| (format!("{of}/c").into(), format!("{of}/k").into()));
            let (authority, revoked) = (authority.into(), revoked.map(PathBuf::from));
            Ok(Some(EtcdFiles { authority, own, revoked }))
        };
        assert_eq!(of(true, "ack", ""), found("ack/a", Some("ack"), None));
        assert_eq!(of(true, "a", ""), found("a/a", None, None));
        assert_eq!(of(true, "a", "cak"), found("a/a", None, None), "the pool's is not shown to it");
        assert_eq!(of(true, "", "cak"), found("cak/a", Some("cak"), Some("crl")));
        assert_eq!(of(true, "ck", "cak"), found("cak/a", Some("ck"), Some("crl")));
        assert_eq!(of(false, "", "cak"), Ok(None));
        assert_eq!(of(false, "", ""), Ok(None));
    }

    #[test]
    fn what_would_not_encrypt_is_refused() {
        for (is_encrypted, etcd, setting) in [
            (true, "", "pool_etcd_ca"),
            (true, "ck", "pool_etcd_ca"),
            (true, "ac", "pool_etcd_key"),
            (true, "ak", "pool_etcd_cert"),
            (false, "a", "pool_etcd_ca"),
            (false, "ck", "pool_etcd_cert"),
            (false, "k", "pool_etcd_key"),
        ] {
            assert_eq!(of(is_encrypted, etcd, ""), Err(setting), "{etcd}");
        }
    }
}
