//! The authority of a pool.

use std::fmt;
use std::net::IpAddr;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevocationReason, RevokedCertParams, SanType, SerialNumber,
};
use rustix::rand::{GetRandomFlags, getrandom};
use time::OffsetDateTime;

use crate::Error;

/// Bytes of the number of a certificate.
const SERIAL_BYTES: usize = 16;

/// The longest name of a machine.
const DNS_NAME_BYTES_MAX: usize = 253;

/// From when to when something is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub from: u64,
    /// The last second.
    pub until: u64,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The name of the node. Where it can be that of a machine, the certificate has it as such.
    pub name: &'a str,
    /// The name by which nodes know it.
    pub uri: &'a str,
}

/// The number of a certificate, drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial([u8; SERIAL_BYTES]);

impl Serial {
    fn draw() -> Result<Self, Error> {
        let mut bytes = [0; SERIAL_BYTES];
        let drawn = rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()));
        if drawn != Ok(SERIAL_BYTES) {
            return Err(Error::Refused("the system gives no random numbers".to_owned()));
        }
        // A number above 0 of always the same length.
        bytes[0] = (bytes[0] & 0x3f) | 0x40;
        Ok(Self(bytes))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; SERIAL_BYTES];
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 2 * SERIAL_BYTES || !text.bytes().all(is_hex) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    /// Its number.
    pub serial: Serial,
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("serial", &self.serial).finish_non_exhaustive()
    }
}

/// A certificate that is not valid any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Its number.
    pub serial: Serial,
    /// Since when, in seconds since 1970.
    pub at: u64,
}

/// What signs the certificates of a pool.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one for this pool.
    pub fn make(cluster: &str, validity: Validity) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(refused)?;
        let mut params = params_of(cluster);
        (params.not_before, params.not_after) = moments(validity)?;
        params.serial_number = Some(SerialNumber::from_slice(&Serial::draw()?.0));
        let certificate = params.self_signed(&key).map_err(refused)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// One that was made before for this pool, from its certificate and its key. Whether they
    /// belong to each other, and to the pool, the check of what it signs shows.
    pub fn open(cluster: &str, certificate: String, key: &str) -> Result<Self, Error> {
        let key = KeyPair::from_pem(key).map_err(refused)?;
        Ok(Self { issuer: Issuer::new(params_of(cluster), key), certificate })
    }

    /// Its certificate, which all nodes trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its key, which no node needs.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Makes a certificate of a node.
    pub fn issue(&self, subject: &Subject<'_>, validity: Validity) -> Result<Issued, Error> {
        let mut names = vec![SanType::URI(text(subject.uri)?)];
        if is_dns_name(subject.name) {
            names.push(SanType::DnsName(text(subject.name)?));
        }
        self.sign(subject.name, names, validity)
    }

    /// Makes a certificate of a server that is reached by these hosts, names or addresses. It names
    /// no node, so that nodes take it for none.
    pub fn issue_server(&self, hosts: &[&str], validity: Validity) -> Result<Issued, Error> {
        let first = hosts.first().ok_or_else(|| refused("a server has a host"))?;
        let name = |host: &&str| match host.parse() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) if is_host(host) => Ok(SanType::DnsName(text(host)?)),
            Err(_) => Err(refused(format!("\"{host}\" is no host"))),
        };
        self.sign(first, hosts.iter().map(name).collect::<Result<_, _>>()?, validity)
    }

    fn sign(&self, name: &str, names: Vec<SanType>, validity: Validity) -> Result<Issued, Error> {
        let key = KeyPair::generate().map_err(refused)?;
        let serial = Serial::draw()?;
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = moments(validity)?;
        params.serial_number = Some(SerialNumber::from_slice(&serial.0));
        params.distinguished_name = named(name);
        params.subject_alt_names = names;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?.pem();
        Ok(Issued { serial, certificate, key: key.serialize_pem() })
    }

    /// Makes the list of the certificates that are not valid any more. Each list has a higher
    /// number than the one before.
    pub fn revoke(
        &self,
        revoked: &[Revocation],
        number: u64,
        validity: Validity,
    ) -> Result<String, Error> {
        let (this_update, next_update) = moments(validity)?;
        let entry = |revocation: &Revocation| {
            Ok(RevokedCertParams {
                serial_number: SerialNumber::from_slice(&revocation.serial.0),
                revocation_time: moment(revocation.at)?,
                reason_code: Some(RevocationReason::CessationOfOperation),
                invalidity_date: None,
            })
        };
        let list = CertificateRevocationListParams {
            this_update,
            next_update,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect::<Result<_, Error>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(refused)
    }
}

/// What the certificate of an authority says, which its signatures name it by.
fn params_of(cluster: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("plasmon pool {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn moments(validity: Validity) -> Result<(OffsetDateTime, OffsetDateTime), Error> {
    Ok((moment(validity.from)?, moment(validity.until)?))
}

fn moment(seconds: u64) -> Result<OffsetDateTime, Error> {
    let seconds = i64::try_from(seconds).map_err(refused)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(refused)
}

fn text(text: &str) -> Result<Ia5String, Error> {
    Ia5String::try_from(text).map_err(refused)
}

/// Whether a server can be reached by this: an address, the name of a machine, or `*.` and a name.
pub fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_dns_name(text.strip_prefix("*.").unwrap_or(text))
}

/// Whether a node's name can be that of a machine.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_address = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.len() <= DNS_NAME_BYTES_MAX && !is_address && name.split('.').all(is_label)
}

fn refused(error: impl fmt::Display) -> Error {
    Error::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Validity = Validity { from: 1_700_000_000, until: 1_800_000_000 };

    #[test]
    fn numbers_come_back_and_are_all_different() {
        let serials: Vec<Serial> = (0..100).map(|_| Serial::draw().unwrap()).collect();
        for serial in &serials {
            assert_eq!(Serial::parse(&serial.to_string()), Some(*serial));
            assert_eq!(serials.iter().filter(|other| *other == serial).count(), 1);
        }
        let text = serials[0].to_string();
        for other in ["", &text[1..], &format!("{text}0"), &text.to_uppercase().replace('A', "g")] {
            assert_eq!(Serial::parse(other), None, "{other}");
        }
    }

    #[test]
    fn an_authority_that_is_opened_again_goes_on() {
        let made = Authority::make("prod", VALIDITY).unwrap();
        let (certificate, key) = (made.certificate().to_owned(), made.key());
        let again = Authority::open("prod", certificate, &key).unwrap();
        assert_eq!(again.key(), key);
        let subject = Subject { name: "rack 1:ä", uri: "plasmon://prod/rack%201%3A%C3%A4" };
        let issued = again.issue(&subject, VALIDITY).unwrap();
        assert!(!format!("{issued:?}").contains("PRIVATE"));
        let revoked = [Revocation { serial: issued.serial, at: 1_750_000_000 }];
        for revoked in [&revoked[..], &[]] {
            let list = again.revoke(revoked, 7, VALIDITY).unwrap();
            assert!(list.starts_with("-----BEGIN X509 CRL-----"), "{list}");
        }
        assert!(Authority::open("prod", String::new(), "no key").is_err());
        let bad = Subject { name: "a", uri: "plasmon://prod/ä" };
        assert!(again.issue(&bad, VALIDITY).is_err(), "a name that is not escaped");
    }

    #[test]
    fn servers_have_hosts() {
        let made = Authority::make("prod", VALIDITY).unwrap();
        assert!(made.issue_server(&["10.0.0.7", "::1", "*.etcd", "a.example"], VALIDITY).is_ok());
        for hosts in [&[][..], &["a b"], &["a", ""], &["a/b"], &["a:1"]] {
            assert!(made.issue_server(hosts, VALIDITY).is_err(), "{hosts:?}");
        }
    }

    #[test]
    fn names_of_machines_are_told_from_others() {
        for name in ["a", "node-1", "a.example.org", "1a"] {
            assert!(is_dns_name(name), "{name}");
        }
        for name in ["", "a b", "-a", "a-", "a..b", ".a", "10.0.0.1", "ä", &"a".repeat(64)] {
            assert!(!is_dns_name(name), "{name}");
        }
    }
}
