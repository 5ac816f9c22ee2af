//! Why a connection that is to be encrypted is not, in sentences.

use std::io;

use rustls::{AlertDescription, Error as TlsError};

use crate::handshake::Refusal;
use crate::tls::date::date;

/// Why a connection that is to be encrypted is not. It ends that connection and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The time of the peer's certificate is over: make it a new one.
    #[error("the certificate of the peer ({subject}) has expired on {}", date(*.not_after))]
    Expired {
        /// What it is for.
        subject: String,
        /// Its last second, since 1970.
        not_after: u64,
    },
    /// The time of the peer's certificate has not come: look at the clocks.
    #[error(
        "the certificate of the peer ({subject}) is not valid before {}; is a clock wrong?",
        date(*.not_before)
    )]
    NotYetValid {
        /// What it is for.
        subject: String,
        /// Its first second, since 1970.
        not_before: u64,
    },
    /// The peer's certificate is on the list of those that are not valid any more.
    #[error("the certificate of the peer ({subject}) is revoked")]
    Revoked {
        /// What it is for.
        subject: String,
    },
    /// Another authority signed the peer's certificate.
    #[error("the certificate of the peer ({subject}) is not of the authority in pool_tls_ca")]
    Foreign {
        /// What it is for.
        subject: String,
    },
    /// The peer's certificate is for no node of this pool.
    #[error("the certificate of the peer is for {subject}, and for no node of pool {cluster}")]
    OtherPool {
        /// What it is for.
        subject: String,
        /// The name of this pool.
        cluster: String,
    },
    /// The peer's certificate cannot be used.
    #[error("the certificate of the peer ({subject}) cannot be used: {why}")]
    Unusable {
        /// What it is for.
        subject: String,
        /// What is wrong.
        why: String,
    },
    /// The peer shows no certificate.
    #[error("the peer shows no certificate")]
    NoCertificate,
    /// The peer does not speak TLS where it has to.
    #[error("the peer does not encrypt the connection, or is no node of a pool")]
    NotTls,
    /// The peer begins TLS, and this node has no certificate.
    #[error("the peer begins TLS, and this node has no certificate (setting pool_tls_cert)")]
    NotConfigured,
    /// The peer refuses the certificate of this node.
    #[error("the peer refuses the certificate of this node: {why}")]
    RefusedByPeer {
        /// What it says.
        why: &'static str,
    },
    /// The peer refuses the lane before it is encrypted.
    #[error("the peer refused this node: to the peer, {0}")]
    RefusedInClear(Refusal),
    /// Something else is wrong with what the peer sends.
    #[error("the encryption of the connection failed: {why}")]
    Protocol {
        /// What TLS says.
        why: String,
    },
}

impl Fault {
    /// What TLS says, where the peer's certificate is not the matter.
    pub(super) fn of(error: &TlsError) -> Self {
        match error {
            TlsError::NoCertificatesPresented => Self::NoCertificate,
            TlsError::AlertReceived(alert) => match refused_certificate(*alert) {
                Some(why) => Self::RefusedByPeer { why },
                None => Self::Protocol { why: format!("the peer ended it with {alert:?}") },
            },
            other => Self::Protocol { why: other.to_string() },
        }
    }
}

/// What a peer says that refuses a certificate.
fn refused_certificate(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateExpired => {
            "it has expired, or is not valid yet by the clock of the peer"
        }
        AlertDescription::CertificateRevoked => "it is revoked",
        AlertDescription::UnknownCA => "another authority signed it",
        AlertDescription::AccessDenied => "it is for no node of the peer's pool",
        AlertDescription::CertificateRequired => "there is none",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it cannot be used; the log of the peer says why",
        _ => return None,
    })
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn faults_are_told_through_streams_in_their_own_words() {
        let subject = "node a of pool prod".to_owned();
        let expired = Fault::Expired { subject, not_after: 1_000_000_000 };
        let text = "the certificate of the peer (node a of pool prod) has expired on \
                    2001-09-09 01:46:40 UTC";
        assert_eq!(expired.to_string(), text);
        let told = Error::from(io::Error::from(expired.clone()));
        assert!(matches!(&told, Error::Tls(fault) if *fault == expired), "{told}");
        assert_eq!(told.to_string(), text);
        assert!(told.is_about_encryption());
        let clear = Error::from(io::Error::from(Fault::RefusedInClear(Refusal::NoCertificate)));
        assert!(matches!(clear, Error::RefusedByPeer(Refusal::NoCertificate)), "{clear}");
        let cut = Error::from(io::Error::from(io::ErrorKind::UnexpectedEof));
        assert!(matches!(cut, Error::Closed { midway: true }), "{cut}");
        assert!(!cut.is_about_encryption());
    }

    #[test]
    fn what_peers_say_of_certificates_is_not_what_they_say_of_anything_else() {
        for (alert, word) in [
            (AlertDescription::CertificateExpired, "expired"),
            (AlertDescription::CertificateRevoked, "revoked"),
            (AlertDescription::UnknownCA, "authority"),
            (AlertDescription::CertificateRequired, "there is none"),
            (AlertDescription::AccessDenied, "no node"),
        ] {
            let fault = Fault::of(&TlsError::AlertReceived(alert));
            assert!(matches!(fault, Fault::RefusedByPeer { .. }));
            assert!(fault.to_string().contains(word), "{fault}");
        }
        let other = Fault::of(&TlsError::AlertReceived(AlertDescription::DecodeError));
        assert!(matches!(other, Fault::Protocol { .. }), "{other}");
    }
}
