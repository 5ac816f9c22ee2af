//! What a certificate that was checked is for.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::names::{parse_uri, uri_of};

/// What the certificate of a peer, which was checked, is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// Its names that are of nodes of this pool.
    uris: Vec<String>,
    certificate: CertificateDer<'static>,
}

impl Certified {
    pub(super) fn new(uris: Vec<String>, certificate: CertificateDer<'static>) -> Self {
        Self { uris, certificate }
    }

    /// Whether it is for this node of this cluster.
    pub fn is_for(&self, cluster: &str, node: &str) -> bool {
        let wanted = uri_of(cluster, node);
        self.uris.contains(&wanted)
    }

    /// The certificate.
    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }
}

impl fmt::Display for Certified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(self.uris.iter().map(String::as_str)))
    }
}

/// What a certificate says that it is for, in words.
pub(super) fn subject_of(certificate: &EndEntityCert<'_>) -> String {
    in_words(certificate.valid_uri_names())
}

fn in_words<'a>(uris: impl Iterator<Item = &'a str>) -> String {
    let nodes = uris.filter_map(parse_uri);
    let nodes: Vec<String> =
        nodes.map(|(cluster, node)| format!("node {node} of pool {cluster}")).collect();
    if nodes.is_empty() { "no node of any pool".to_owned() } else { nodes.join(", ") }
}
