//! The files that connections are encrypted with, in PEM.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};

use super::fault::Fault;
use super::settings::{OwnCertificate, Tls};

impl Tls {
    /// Reads the files.
    pub(super) fn config(&self) -> Result<ClientConfig, Fault> {
        let provider = provider();
        let bad = |error: &dyn std::fmt::Display| Fault::file(&self.authority, error);
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .with_crls(self.revocation_lists()?)
                .allow_unknown_revocation_status()
                .build()
                .map_err(|error| match &self.revoked {
                    Some(revoked) => Fault::file(revoked, error),
                    None => bad(&error),
                })?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| bad(&error))?
            .with_webpki_verifier(verifier);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(OwnCertificate { certificate, key }) => {
                let chain = certificates(certificate)?;
                let place = certificate.display();
                builder.with_client_auth_cert(chain, private_key(key)?).map_err(|error| {
                    let why = format!("it is not the key of the certificate in {place}: {error}");
                    Fault::file(key, why)
                })?
            }
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn revocation_lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, Fault> {
        let Some(path) = &self.revoked else { return Ok(Vec::new()) };
        let content = content(path)?;
        all(path, "list (X509 CRL)", CertificateRevocationListDer::pem_slice_iter(&content))
    }
}

/// What is computed with.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(default_provider())).clone()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let content = content(path)?;
    all(path, "certificate", CertificateDer::pem_slice_iter(&content))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    let content = plasmon_secrets::read_secret(path, "key");
    let content = content.map_err(|error| Fault::file(path, error))?;
    PrivateKeyDer::from_pem_slice(&content)
        .map_err(|error| Fault::file(path, pem_problem("private key", &error)))
}

/// Everything of this kind in a file, one thing at least.
fn all<T>(
    path: &Path,
    what: &str,
    found: impl Iterator<Item = Result<T, pem::Error>>,
) -> Result<Vec<T>, Fault> {
    let found = found.collect::<Result<Vec<T>, pem::Error>>();
    let found = found.map_err(|error| Fault::file(path, pem_problem(what, &error)))?;
    if found.is_empty() {
        return Err(Fault::file(path, format!("the file has no {what}")));
    }
    Ok(found)
}

fn pem_problem(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => format!("the file has no {what}"),
        other => format!("the file is no PEM with a {what}: {other}"),
    }
}

fn content(path: &Path) -> Result<Vec<u8>, Fault> {
    plasmon_secrets::read(path).map_err(|error| Fault::file(path, error))
}
