//! Where a pool is: the etcd that its nodes meet in, and its name there.
//!
//! ```text
//!   etcd://HOST:PORT[,HOST:PORT ..][/NAME]      etcd is reached in clear
//!   https://HOST:PORT[,HOST:PORT ..][/NAME]     etcd is reached encrypted
//! ```
//!
//! The scheme may stand before further hosts, too, as in the addresses that etcd's own tools take.

use core::net::Ipv6Addr;
use std::fmt;
use std::str::FromStr;

use crate::limits::{CLUSTER_HOSTS_MAX, CLUSTER_NAME_BYTES_MAX};

/// The name of a pool whose address names none.
pub const CLUSTER_NAME_DEFAULT: &str = "default";

/// The scheme of an etcd that is reached in clear, and of one that is reached encrypted.
const CLEAR: &str = "etcd://";
const ENCRYPTED: &str = "https://";

/// The address of a pool. Printed, it is read again as the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAddress {
    /// The members of etcd as `host:port`, at least one, in the order in which they are tried. An
    /// IPv6 host is in brackets.
    pub hosts: Vec<String>,
    /// Whether they are reached encrypted.
    pub is_encrypted: bool,
    /// The name of the pool in that etcd.
    pub name: String,
}

/// Why a string is not the address of a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClusterAddress {
    /// It does not begin with the scheme.
    #[error("\"{found}\" is neither etcd://HOST:PORT nor, for an etcd with TLS, https://HOST:PORT")]
    Scheme {
        /// The string.
        found: String,
    },
    /// A host is not one with a port.
    #[error("\"{host}\" is not HOST:PORT; an IPv6 address is written in brackets, [::1]:2379")]
    Host {
        /// What stands in place of a host.
        host: String,
    },
    /// One host is reached in another way than the first one.
    #[error(
        "\"{host}\" begins otherwise than the first host: all of an etcd are reached encrypted, \
         https://, or none"
    )]
    Mixed {
        /// The host, with its scheme.
        host: String,
    },
    /// There are too many hosts.
    #[error("{found} hosts are named, {CLUSTER_HOSTS_MAX} at most are allowed")]
    Hosts {
        /// How many there are.
        found: usize,
    },
    /// The name of the pool cannot be one.
    #[error(
        "\"{name}\" cannot be the name of a pool: it has 1 to {CLUSTER_NAME_BYTES_MAX} letters, \
         digits, \".\", \"_\" and \"-\""
    )]
    Name {
        /// The name.
        name: String,
    },
}

impl FromStr for ClusterAddress {
    type Err = BadClusterAddress;

    fn from_str(text: &str) -> Result<Self, BadClusterAddress> {
        let scheme = [CLEAR, ENCRYPTED].into_iter().find(|scheme| text.starts_with(scheme));
        let scheme = scheme.ok_or_else(|| BadClusterAddress::Scheme { found: text.to_owned() })?;
        let (hosts, name) = split(text, scheme)?;
        if let Some(host) = hosts.iter().find(|host| !is_host_with_port(host)) {
            return Err(BadClusterAddress::Host { host: host.clone() });
        }
        if hosts.len() > CLUSTER_HOSTS_MAX {
            return Err(BadClusterAddress::Hosts { found: hosts.len() });
        }
        if !is_cluster_name(name) {
            return Err(BadClusterAddress::Name { name: name.to_owned() });
        }
        Ok(Self { hosts, is_encrypted: scheme == ENCRYPTED, name: name.to_owned() })
    }
}

impl ClusterAddress {
    /// The members of etcd as a client of it takes them: with `https://`, if they are reached so.
    pub fn endpoints(&self) -> Vec<String> {
        let scheme = if self.is_encrypted { ENCRYPTED } else { "" };
        self.hosts.iter().map(|host| format!("{scheme}{host}")).collect()
    }
}

/// The hosts and the name, of which this is the scheme.
fn split<'a>(text: &'a str, scheme: &str) -> Result<(Vec<String>, &'a str), BadClusterAddress> {
    let (mut hosts, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.strip_prefix(scheme).unwrap_or(rest);
        let end = rest.find([',', '/']).unwrap_or(rest.len());
        let (host, after) = rest.split_at(end);
        if after.starts_with("//") {
            let host = rest.split(',').next().unwrap_or_default().to_owned();
            return Err(BadClusterAddress::Mixed { host });
        }
        hosts.push(host.to_owned());
        match after.split_at_checked(1) {
            Some((",", next)) => rest = next,
            Some((_, name)) => return Ok((hosts, name)),
            None => return Ok((hosts, CLUSTER_NAME_DEFAULT)),
        }
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { ENCRYPTED } else { CLEAR };
        write!(f, "{scheme}{}/{}", self.hosts.join(","), self.name)
    }
}

/// Whether a pool can have this name. It is a part of paths: in etcd, and of the folders of nodes.
pub fn is_cluster_name(name: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    (1..=CLUSTER_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_letter)
        && !matches!(name, "." | "..")
}

fn is_host_with_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match inner {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
            !host.is_empty() && host.bytes().all(is_letter)
        }
    };
    is_port && is_host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<String>, String), BadClusterAddress> {
        text.parse::<ClusterAddress>().map(|address| (address.hosts, address.name))
    }

    #[test]
    fn hosts_and_the_name_are_read_and_printed() {
        for (text, hosts, name) in [
            ("etcd://h:2379", &["h:2379"][..], "default"),
            ("etcd://a:1,b:2,10.0.0.3:65535/prod", &["a:1", "b:2", "10.0.0.3:65535"], "prod"),
            ("etcd://[::1]:2379,[fe80::2]:1/A.b_c-9", &["[::1]:2379", "[fe80::2]:1"], "A.b_c-9"),
            ("etcd://etcd-0.etcd.svc:2379/default", &["etcd-0.etcd.svc:2379"], "default"),
        ] {
            let (found, named) = read(text).unwrap();
            assert_eq!(
                (found, named.as_str()),
                (hosts.iter().map(|h| (*h).into()).collect(), name)
            );
            let address: ClusterAddress = text.parse().unwrap();
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn an_etcd_that_is_reached_encrypted_has_another_scheme() {
        let plain: ClusterAddress = "etcd://a.example:1,etcd://b.example:2/prod".parse().unwrap();
        assert_eq!(plain.to_string(), "etcd://a.example:1,b.example:2/prod");
        assert_eq!(plain.endpoints(), ["a.example:1", "b.example:2"]);
        for text in
            ["https://a.example:1,b.example:2", "https://a.example:1,https://b.example:2/default"]
        {
            let address: ClusterAddress = text.parse().unwrap();
            assert!(address.is_encrypted && !plain.is_encrypted);
            assert_eq!(address.hosts, ["a.example:1", "b.example:2"]);
            assert_eq!(address.endpoints(), ["https://a.example:1", "https://b.example:2"]);
            assert_eq!(address.to_string(), "https://a.example:1,b.example:2/default");
        }
        for (text, host) in [
            ("https://a.example:1,etcd://b.example:2,c:3/p", "etcd://b.example:2"),
            ("etcd://a.example:1,https://b.example:2/p", "https://b.example:2/p"),
            ("https://a.example:1,http://b.example:2", "http://b.example:2"),
        ] {
            assert_eq!(read(text), Err(BadClusterAddress::Mixed { host: host.into() }), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in ["", "h:2379", "tcp://h:2379", "http://localhost:1", "etcd:/h:1", "ETCD://h:1"]
        {
            assert!(matches!(read(text), Err(BadClusterAddress::Scheme { .. })), "{text}");
        }
        for (host, text) in [
            ("", "etcd://"),
            ("", "etcd://h:1,"),
            ("h", "etcd://h"),
            ("h:", "etcd://h:"),
            ("h:0", "etcd://h:0"),
            ("h:+1", "etcd://h:+1"),
            ("h:65536", "etcd://h:65536"),
            (":2379", "etcd://:2379"),
            ("u@h:1", "etcd://u@h:1"),
            ("::1:2379", "etcd://::1:2379"),
            ("[::1]", "etcd://[::1]"),
            ("[h]:1", "etcd://[h]:1"),
            ("b", "etcd://a:1,b/prod"),
        ] {
            assert_eq!(read(text), Err(BadClusterAddress::Host { host: host.into() }), "{text}");
        }
        for name in ["", ".", "..", "a/b", "a b", "a\u{e4}", "a?b"] {
            let text = format!("etcd://h:1/{name}");
            assert_eq!(read(&text), Err(BadClusterAddress::Name { name: name.into() }));
        }
    }

    #[test]
    fn hosts_and_names_have_limits() {
        let hosts = |count: usize| format!("etcd://{}", vec!["h:1"; count].join(","));
        assert!(read(&hosts(CLUSTER_HOSTS_MAX)).is_ok());
        let found = CLUSTER_HOSTS_MAX + 1;
        assert_eq!(read(&hosts(found)), Err(BadClusterAddress::Hosts { found }));
        let name = "n".repeat(CLUSTER_NAME_BYTES_MAX);
        assert!(is_cluster_name(&name) && !is_cluster_name(&format!("{name}n")));
    }
}
