//! How a connection checks the certificate of its peer, and what it found.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, OtherError, PeerMisbehaved, ServerConfig, ServerConnection,
    SignatureScheme,
};
use webpki::KeyUsage;

use super::certified::Certified;
use super::credentials::Credentials;
use super::fault::Fault;

/// What both sides say that they speak, so that no other protocol is taken for this one.
const PROTOCOL: &[u8] = b"plasmon-pool/1";

/// What is found is by the names in certificates; this one is never sent.
const NO_NAME: &str = "node.invalid";

/// What was found of the certificate of a peer.
pub(super) type Verdict = Mutex<Option<Result<Certified, Fault>>>;

/// Takes what was found.
pub(super) fn take(verdict: &Verdict) -> Option<Result<Certified, Fault>> {
    verdict.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The connecting side of a session.
pub(super) fn connecting(
    credentials: &Arc<Credentials>,
    verdict: &Arc<Verdict>,
) -> Result<Connection, Error> {
    let verifier = Arc::new(Verifier::new(credentials, verdict));
    let mut config = ClientConfig::builder_with_provider(credentials.provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(credentials.shown.clone());
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    let name = ServerName::try_from(NO_NAME).map_err(|error| Error::General(error.to_string()))?;
    Ok(ClientConnection::new(Arc::new(config), name)?.into())
}

/// The accepting side of a session.
pub(super) fn accepting(
    credentials: &Arc<Credentials>,
    verdict: &Arc<Verdict>,
) -> Result<Connection, Error> {
    let verifier = Arc::new(Verifier::new(credentials, verdict));
    let mut config = ServerConfig::builder_with_provider(credentials.provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(credentials.shown.clone());
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(ServerConnection::new(Arc::new(config))?.into())
}

/// Checks the certificate of one peer.
#[derive(Debug)]
struct Verifier {
    credentials: Arc<Credentials>,
    verdict: Arc<Verdict>,
}

impl Verifier {
    fn new(credentials: &Arc<Credentials>, verdict: &Arc<Verdict>) -> Self {
        Self { credentials: credentials.clone(), verdict: verdict.clone() }
    }

    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<(), Error> {
        let found = self.credentials.check(certificate, between, now, usage);
        let answer = match &found {
            Ok(_) => Ok(()),
            Err(fault) => Err(Error::InvalidCertificate(told(fault))),
        };
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        answer
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.credentials.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.credentials.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What the peer is told of its certificate.
fn told(fault: &Fault) -> CertificateError {
    match fault {
        Fault::Expired { .. } => CertificateError::Expired,
        Fault::NotYetValid { .. } => CertificateError::NotValidYet,
        Fault::Revoked { .. } => CertificateError::Revoked,
        Fault::Foreign { .. } => CertificateError::UnknownIssuer,
        Fault::OtherPool { .. } => CertificateError::ApplicationVerificationFailure,
        other => CertificateError::Other(OtherError(Arc::new(other.clone()))),
    }
}

/// Older versions than TLS 1.3 are not spoken.
fn no_older_version() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates, now, KeyUsage::server_auth())?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_older_version()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates, now, KeyUsage::client_auth())?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_older_version()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
