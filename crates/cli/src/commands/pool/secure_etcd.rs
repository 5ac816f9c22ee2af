//! With which certificates commands reach an etcd with TLS. The variables of the environment are
//! those of the store's settings, so a command beside a store that was started with them needs no
//! flag.

use std::path::PathBuf;

use plasmon_etcd::{OwnCertificate, Tls};
use plasmon_proto::ClusterAddress;
use plasmon_proto::etcd_files::{CertificateFiles, EtcdFiles, EtcdSettings};

use crate::arguments::EtcdCertificates;

/// What the etcd at this address is reached with; a sentence when it cannot be.
pub(super) fn tls_of(
    address: &ClusterAddress,
    given: &EtcdCertificates,
) -> Result<Option<Tls>, String> {
    tls_from(address, given, &|name| std::env::var_os(name).map(PathBuf::from))
}

fn tls_from(
    address: &ClusterAddress,
    given: &EtcdCertificates,
    variable: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Option<Tls>, String> {
    let named = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
    let variable = |name| named(variable(name));
    let given = EtcdSettings {
        etcd: CertificateFiles {
            authority: named(given.pool_etcd_ca.clone()),
            certificate: named(given.pool_etcd_cert.clone()),
            key: named(given.pool_etcd_key.clone()),
        },
        pool: CertificateFiles {
            authority: variable("PLASMON_POOL_TLS_CA"),
            certificate: variable("PLASMON_POOL_TLS_CERT"),
            key: variable("PLASMON_POOL_TLS_KEY"),
        },
        revoked: variable("PLASMON_POOL_TLS_CRL"),
    };
    let found = EtcdFiles::of(address.is_encrypted, given);
    let found = found.map_err(|bad| format!("--{}: {}", bad.setting.replace('_', "-"), bad.why))?;
    Ok(found.map(|EtcdFiles { authority, own, revoked }| {
        let own = own.map(|(certificate, key)| OwnCertificate { certificate, key });
        Tls { authority, own, revoked }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_before_the_variables_of_the_pool() {
        let address: ClusterAddress = "https://localhost:1".parse().unwrap();
        let authority = |given: Option<&str>, variable: &str| {
            let given =
                EtcdCertificates { pool_etcd_ca: given.map(Into::into), ..Default::default() };
            let variable = |name: &str| (name == "PLASMON_POOL_TLS_CA").then(|| variable.into());
            tls_from(&address, &given, &variable).map(|tls| tls.unwrap().authority)
        };
        assert_eq!(authority(Some("flag"), "variable"), Ok("flag".into()));
        assert_eq!(authority(Some(""), "variable"), Ok("variable".into()));
        let refused = authority(None, "").unwrap_err();
        assert!(refused.starts_with("--pool-etcd-ca: an etcd that is reached by https://"));
    }
}
