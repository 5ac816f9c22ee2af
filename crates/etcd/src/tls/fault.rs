//! Why a connection to etcd is not encrypted, in sentences.

use std::path::{Path, PathBuf};

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use time::OffsetDateTime;

use super::settings::Tls;

/// Why a connection to etcd is not encrypted. It ends that connection and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// A file of this client cannot be used.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another authority signed etcd's certificate.
    #[error("its certificate is not of the authority in {}", authority.display())]
    Foreign {
        /// The file of the authority.
        authority: PathBuf,
    },
    /// The certificate is for other hosts.
    #[error(
        "its certificate is for {presented}, and not for {host}; name etcd by one of these, or \
         make a certificate for {host}"
    )]
    OtherHost {
        /// The host of the endpoint.
        host: String,
        /// The hosts of the certificate.
        presented: String,
    },
    /// The time of the certificate is over.
    #[error("its certificate has expired on {}", date(*.not_after))]
    Expired {
        /// Its last second, since 1970.
        not_after: u64,
    },
    /// The time of the certificate has not come.
    #[error("its certificate is not valid before {}; is a clock wrong?", date(*.not_before))]
    NotYetValid {
        /// Its first second, since 1970.
        not_before: u64,
    },
    /// The certificate is on a list of those that are not valid any more.
    #[error("its certificate is revoked")]
    Revoked,
    /// The certificate cannot be used.
    #[error("its certificate cannot be used: {why}")]
    Unusable {
        /// What is wrong.
        why: String,
    },
    /// The other side ends the connection where it should answer.
    #[error(
        "it ended the connection before it was encrypted, as an etcd that was started without \
         --cert-file does; such a one is named by etcd://"
    )]
    Ended,
    /// The other side speaks something else.
    #[error(
        "it does not speak TLS; an etcd that was started without --cert-file is named by etcd://"
    )]
    NotTls,
    /// etcd wants a certificate, and there is none.
    #[error(
        "it takes only clients with a certificate (--client-cert-auth): set pool_etcd_cert and \
         pool_etcd_key"
    )]
    Wanted,
    /// etcd does not take the certificate of this client.
    #[error(
        "it refuses the certificate in {}: {why}; its authority for clients is --trusted-ca-file",
        certificate.display()
    )]
    Refused {
        /// The file of the certificate.
        certificate: PathBuf,
        /// What etcd says.
        why: &'static str,
    },
    /// etcd is too old.
    #[error("it speaks no TLS 1.3: start etcd 3.4 or later, without --tls-max-version=TLS1.2")]
    Old,
    /// Something else is wrong with what the other side sends.
    #[error("the encryption failed: {why}")]
    Protocol {
        /// What TLS says.
        why: String,
    },
}

impl Fault {
    /// A file that cannot be used.
    pub(super) fn file(file: &Path, why: impl ToString) -> Self {
        Self::File { file: file.to_owned(), why: why.to_string() }
    }

    /// What TLS says, of a connection to this host.
    pub(super) fn of(error: &TlsError, tls: &Tls, host: &str) -> Self {
        match error {
            TlsError::InvalidCertificate(error) => Self::of_certificate(error, tls, host),
            TlsError::InvalidMessage(_) => Self::NotTls,
            TlsError::AlertReceived(alert) => Self::of_alert(*alert, tls),
            TlsError::PeerIncompatible(_) => Self::Old,
            other => Self::Protocol { why: other.to_string() },
        }
    }

    fn of_certificate(error: &CertificateError, tls: &Tls, host: &str) -> Self {
        match error {
            CertificateError::ExpiredContext { not_after, .. } => {
                Self::Expired { not_after: not_after.as_secs() }
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                Self::NotYetValid { not_before: not_before.as_secs() }
            }
            CertificateError::Revoked => Self::Revoked,
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::Foreign { authority: tls.authority.clone() }
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names = presented.iter().map(|name| plain_name(name));
                // Addresses of other kinds, such as those of nodes, are no hosts.
                let presented: Vec<&str> = names.filter(|name| !name.contains("://")).collect();
                let presented = match &presented[..] {
                    [] => "no host".to_owned(),
                    names => names.join(", "),
                };
                Self::OtherHost { host: host.to_owned(), presented }
            }
            other => Self::Unusable { why: other.to_string() },
        }
    }

    fn of_alert(alert: AlertDescription, tls: &Tls) -> Self {
        let why = match alert {
            AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
            AlertDescription::CertificateRevoked => "it is revoked",
            AlertDescription::UnknownCA => "another authority signed it",
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => "the log of etcd says why",
            AlertDescription::ProtocolVersion => return Self::Old,
            other => return Self::Protocol { why: format!("etcd ended it with {other:?}") },
        };
        match &tls.own {
            None => Self::Wanted,
            Some(own) => Self::Refused { certificate: own.certificate.clone(), why },
        }
    }
}

/// A name of a certificate, of which the library says what it is: `DnsName("a")`.
fn plain_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// A moment in UTC.
fn date(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok();
    let moment = moment.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let Some(moment) = moment else { return format!("second {seconds} since 1970") };
    let (hour, minute, second) = moment.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", moment.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_names_are_written_plainly() {
        assert_eq!(date(1_795_767_300), "2026-11-27 08:15:00 UTC");
        assert_eq!(plain_name("DnsName(\"a.example\")"), "a.example");
        assert_eq!(plain_name("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain_name("a"), "a");
    }
}
