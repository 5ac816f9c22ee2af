//! What a node shows, what it trusts, and what is revoked.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, TrustAnchor, UnixTime,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy,
};

use super::certified::{Certified, subject_of};
use super::date::date;
use super::fault::Fault;
use super::names::parse_uri;
use super::provider::provider;

/// The year 10000: later than the last second of every certificate.
const FAR_SECONDS: u64 = 253_402_300_800;

/// The contents of the files of a node, in PEM.
#[derive(Clone, Copy)]
pub struct Pem<'a> {
    /// The certificate of the node, then those between it and the authority.
    pub certificate: &'a [u8],
    /// The key of the certificate.
    pub key: &'a [u8],
    /// The certificates of the authorities that sign those of nodes.
    pub authority: &'a [u8],
    /// The lists of certificates that are revoked.
    pub revoked: Option<&'a [u8]>,
}

impl std::fmt::Debug for Pem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is not shown.
        f.debug_struct("Pem").finish_non_exhaustive()
    }
}

/// Why certificates cannot be used: replace the file that the setting names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct BadCredentials {
    /// The setting.
    pub setting: &'static str,
    /// What is wrong with its file.
    pub why: String,
}

fn bad(setting: &'static str, why: impl ToString) -> BadCredentials {
    BadCredentials { setting, why: why.to_string() }
}

/// What a node shows, what it trusts, and what is revoked.
#[derive(Debug)]
pub struct Credentials {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) shown: Arc<SingleCertAndKey>,
    chain: Vec<CertificateDer<'static>>,
    anchors: Vec<TrustAnchor<'static>>,
    revoked: Vec<CertRevocationList<'static>>,
    cluster: String,
}

impl Credentials {
    /// Those in these files, for this node of this cluster. Whether their time has come, and is not
    /// over, [`not_current`](Self::not_current) says.
    pub fn new(
        pem: Pem<'_>,
        cluster: &str,
        node: &str,
        now_seconds: u64,
    ) -> Result<Self, BadCredentials> {
        let chain = certificates("pool_tls_cert", pem.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(pem.key)
            .map_err(|error| bad("pool_tls_key", pem_problem("private key", &error)))?;
        let provider = provider();
        let key = CertifiedKey::from_der(chain.clone(), key, &provider).map_err(|error| {
            bad("pool_tls_key", format!("it is no key of the certificate: {error}"))
        })?;
        let mut anchors = Vec::new();
        for certificate in certificates("pool_tls_ca", pem.authority)? {
            let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|error| {
                bad("pool_tls_ca", format!("a certificate is damaged: {error}"))
            })?;
            anchors.push(anchor.to_owned());
        }
        let revoked = revocation_lists(pem.revoked.unwrap_or_default(), &anchors)?;
        if pem.revoked.is_some() && revoked.is_empty() {
            return Err(bad("pool_tls_crl", "the file has no list (X509 CRL)"));
        }
        let (shown, cluster) = (Arc::new(SingleCertAndKey::from(key)), cluster.to_owned());
        let credentials = Self { provider, shown, chain, anchors, revoked, cluster };
        credentials.check_own(node, now_seconds)?;
        Ok(credentials)
    }

    /// Whether peers will take the certificate of this node, but for its time.
    fn check_own(&self, node: &str, now_seconds: u64) -> Result<(), BadCredentials> {
        let cluster = &self.cluster;
        let wanted = format!("and not for node {node} of pool {cluster}");
        let wrong = |why: String| Err(bad("pool_tls_cert", why));
        match self.own(now_seconds) {
            Ok(own) if !own.is_for(cluster, node) => wrong(format!("it is for {own}, {wanted}")),
            Ok(_) | Err(Fault::Expired { .. } | Fault::NotYetValid { .. }) => Ok(()),
            Err(Fault::OtherPool { subject, .. }) => {
                wrong(format!("it is for {subject}, {wanted}"))
            }
            Err(Fault::Foreign { .. }) => {
                wrong("no authority in the file of pool_tls_ca signed it".to_owned())
            }
            Err(Fault::Revoked { .. }) => {
                wrong("it is revoked, says the list in the file of pool_tls_crl".to_owned())
            }
            Err(Fault::Unusable { why, .. }) => wrong(why),
            Err(other) => wrong(other.to_string()),
        }
    }

    /// Why peers refuse the certificate of this node at this time; `None` when its time has come
    /// and is not over.
    pub fn not_current(&self, now_seconds: u64) -> Option<BadCredentials> {
        let why = match self.own(now_seconds).err()? {
            Fault::Expired { not_after, .. } => format!("it has expired on {}", date(not_after)),
            Fault::NotYetValid { not_before, .. } => {
                format!("it is not valid before {}; is the clock wrong?", date(not_before))
            }
            _ => return None,
        };
        Some(bad("pool_tls_cert", why))
    }

    /// The last second of the certificate of this node, since 1970.
    pub fn not_after(&self) -> Option<u64> {
        match self.own(FAR_SECONDS) {
            Err(Fault::Expired { not_after, .. }) => Some(not_after),
            _ => None,
        }
    }

    fn own(&self, now_seconds: u64) -> Result<Certified, Fault> {
        let (first, between) = self.chain.split_first().ok_or(Fault::NoCertificate)?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_seconds));
        // Nodes connect and accept.
        self.check(first, between, now, KeyUsage::client_auth())?;
        self.check(first, between, now, KeyUsage::server_auth())
    }

    /// Checks the certificate of a peer.
    pub(super) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<Certified, Fault> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|error| Fault::Unusable {
            subject: "unknown".to_owned(),
            why: format!("it cannot be read: {error}"),
        })?;
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Ignore)
                .build()
        });
        let algorithms = self.provider.signature_verification_algorithms.all;
        parsed
            .verify_for_usage(algorithms, &self.anchors, between, now, usage, revocation, None)
            .map_err(|error| fault_of(subject_of(&parsed), &error))?;
        let is_ours = |uri: &&str| parse_uri(uri).is_some_and(|(of, _)| of == self.cluster);
        let uris: Vec<String> =
            parsed.valid_uri_names().filter(is_ours).map(str::to_owned).collect();
        if uris.is_empty() {
            let (subject, cluster) = (subject_of(&parsed), self.cluster.clone());
            return Err(Fault::OtherPool { subject, cluster });
        }
        Ok(Certified::new(uris, certificate.clone().into_owned()))
    }

    /// Whether the certificate of a peer that is connected is revoked by now.
    pub fn revoked(&self, peer: &Certified) -> Option<Fault> {
        let parsed = EndEntityCert::try_from(peer.certificate()).ok()?;
        let lists = self.revoked.iter().filter(|list| list.issuer() == parsed.issuer());
        let is_on = |list: &CertRevocationList<'_>| {
            // A list whose entries cannot be read revokes what it may name.
            !matches!(list.find_serial(parsed.serial()), Ok(None))
        };
        lists.into_iter().any(is_on).then(|| Fault::Revoked { subject: peer.to_string() })
    }
}

/// Why a certificate is not taken.
fn fault_of(subject: String, error: &webpki::Error) -> Fault {
    match error {
        webpki::Error::CertExpired { not_after, .. } => {
            Fault::Expired { subject, not_after: not_after.as_secs() }
        }
        webpki::Error::CertNotValidYet { not_before, .. } => {
            Fault::NotYetValid { subject, not_before: not_before.as_secs() }
        }
        webpki::Error::CertRevoked => Fault::Revoked { subject },
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            Fault::Foreign { subject }
        }
        other => Fault::Unusable { subject, why: other.to_string() },
    }
}

/// All certificates in a file, of which there is one at least.
fn certificates(
    setting: &'static str,
    file: &[u8],
) -> Result<Vec<CertificateDer<'static>>, BadCredentials> {
    let found: Result<Vec<CertificateDer<'static>>, pem::Error> =
        CertificateDer::pem_slice_iter(file).collect();
    let found = found.map_err(|error| bad(setting, pem_problem("certificate", &error)))?;
    if found.is_empty() { Err(bad(setting, "the file has no certificate")) } else { Ok(found) }
}

fn revocation_lists(
    file: &[u8],
    anchors: &[TrustAnchor<'_>],
) -> Result<Vec<CertRevocationList<'static>>, BadCredentials> {
    let wrong = |why: String| bad("pool_tls_crl", why);
    let mut lists = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(file) {
        let list = list.map_err(|error| wrong(pem_problem("list", &error)))?;
        let list = OwnedCertRevocationList::from_der(list.as_ref())
            .map_err(|error| wrong(format!("a list cannot be read: {error}")))?;
        let list = CertRevocationList::from(list);
        // One of another authority would revoke nothing, and look as if it did.
        if !anchors.iter().any(|anchor| anchor.subject.as_ref() == list.issuer()) {
            return Err(wrong("a list is of no authority in the file of pool_tls_ca".to_owned()));
        }
        lists.push(list);
    }
    Ok(lists)
}

fn pem_problem(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => format!("the file has no {what}"),
        other => format!("the file is no PEM with a {what}: {other}"),
    }
}
