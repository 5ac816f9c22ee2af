//! `plasmon pool init-certs`: the certificates of a pool's nodes.

use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use plasmon_certs::{
    Authority, Folder, Made, Node, SERVER_PREFIX, Server, Subject, Validity, is_host,
};
use plasmon_net::tls::{Credentials, Pem, date, uri_of};
use plasmon_proto::ClusterAddress;
use plasmon_proto::cluster_address::is_cluster_name;
use plasmon_proto::limits::NODE_NAME_BYTES_MAX;
use serde_json::{Value, json};

use crate::arguments::PoolInitCerts;
use crate::output::{Output, count};

const DAY_SECONDS: u64 = 86_400;

/// What was done.
#[derive(Debug, Default)]
struct Done<'a> {
    made: Vec<(&'a str, Made)>,
    /// Servers of etcd, by their first hosts.
    servers: Vec<(&'a str, Made)>,
    revoked: Vec<(&'a str, usize)>,
}

/// Makes and revokes what was asked for, and says what to copy where.
pub(super) fn init_certs(certs: &PoolInitCerts, output: &Output) -> Result<()> {
    let cluster = cluster_of(&certs.cluster)?;
    for name in &certs.node {
        check_name(name)?;
    }
    for name in &certs.revoke {
        check_name(name.strip_prefix(SERVER_PREFIX).unwrap_or(name))?;
    }
    let servers = certs.etcd.iter().map(|hosts| hosts_of(hosts)).collect::<Result<Vec<_>>>()?;
    let now = now_seconds();
    let mut folder = Folder::open(&certs.folder, &cluster, now)?;
    check_authority(folder.authority(), &cluster, now).with_context(|| {
        let folder = certs.folder.display();
        format!("the authority in {folder} is not that of pool {cluster}; choose another folder")
    })?;
    let mut done = Done::default();
    for name in &certs.revoke {
        done.revoked.push((name.as_str(), folder.revoke(name, now)?));
    }
    let seconds = u64::from(certs.days) * DAY_SECONDS;
    for name in &certs.node {
        let uri = uri_of(&cluster, name);
        let node = Node { subject: Subject { name, uri: &uri }, seconds };
        done.made.push((name.as_str(), folder.issue(&node, now)?));
    }
    for hosts in &servers {
        let made = folder.issue_server(&Server { hosts, seconds }, now)?;
        done.servers.push((hosts[0], made));
    }
    folder.write_list(now)?;
    let document = document(certs, &cluster, &folder, &done);
    output.value(&document, || text(certs, &cluster, &folder, &done))
}

/// The name of a pool, given as such or with its etcd.
fn cluster_of(text: &str) -> Result<String> {
    if text.contains("://") {
        return Ok(text.parse::<ClusterAddress>()?.name);
    }
    if !is_cluster_name(text) {
        bail!("\"{text}\" is not the name of a pool: 1 to 64 letters, digits, ., _ and -");
    }
    Ok(text.to_owned())
}

/// The hosts of a server, of which there is one at least.
fn hosts_of(text: &str) -> Result<Vec<&str>> {
    let hosts: Vec<&str> = text.split(',').collect();
    match hosts.iter().find(|host| !is_host(host)) {
        Some(host) => bail!(
            "\"{host}\" in --etcd {text} is no host: a name or an address by which clients reach \
             etcd, without a port"
        ),
        None => Ok(hosts),
    }
}

/// It is the name of a folder as well.
fn check_name(name: &str) -> Result<()> {
    let is_name = !name.contains('/')
        && !matches!(name, "" | "." | "..")
        && name.len() <= NODE_NAME_BYTES_MAX
        && !name.chars().any(char::is_control);
    if !is_name {
        bail!("\"{name}\" is not a name of at most {NODE_NAME_BYTES_MAX} bytes without a \"/\"");
    }
    Ok(())
}

/// Whether nodes of this pool take what the authority signs.
fn check_authority(authority: &Authority, cluster: &str, now: u64) -> Result<()> {
    let subject = Subject { name: "check", uri: &uri_of(cluster, "check") };
    let validity = Validity { from: now.saturating_sub(60), until: now + DAY_SECONDS };
    let issued = authority.issue(&subject, validity)?;
    let list = authority.revoke(&[], now, validity)?;
    let pem = Pem {
        certificate: issued.certificate.as_bytes(),
        key: issued.key.as_bytes(),
        authority: authority.certificate().as_bytes(),
        revoked: Some(list.as_bytes()),
    };
    Credentials::new(pem, cluster, "check", now)?;
    Ok(())
}

fn now_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

fn document(certs: &PoolInitCerts, cluster: &str, folder: &Folder, done: &Done<'_>) -> Value {
    let told = |what: &str, name: &str, made: &Made| {
        json!({
            what: name,
            "folder": made.folder.display().to_string(),
            "not_after": made.until,
            "renewed": made.is_renewed,
        })
    };
    let made = done.made.iter().map(|(node, made)| told("node", node, made));
    let servers = done.servers.iter().map(|(host, made)| told("host", host, made));
    let revoked = done.revoked.iter();
    let revoked = revoked.map(|(node, count)| json!({ "node": node, "certificates": count }));
    json!({
        "cluster": cluster,
        "folder": certs.folder.display().to_string(),
        "authority_made": folder.is_new(),
        "nodes": made.collect::<Vec<_>>(),
        "etcd": servers.collect::<Vec<_>>(),
        "revoked": revoked.collect::<Vec<_>>(),
    })
}

fn text(certs: &PoolInitCerts, cluster: &str, folder: &Folder, done: &Done<'_>) -> String {
    let place = certs.folder.display();
    let mut lines = Vec::new();
    if folder.is_new() {
        lines.push(format!(
            "the authority of pool {cluster} was made in {place}; {place}/ca.key signs for every \
             node: keep it off the machines of the pool"
        ));
    }
    let nodes = done.made.iter().map(|(node, made)| ("node", node, made));
    let servers = done.servers.iter().map(|(host, made)| ("etcd", host, made));
    for (kind, name, made) in nodes.chain(servers) {
        let (what, from) =
            (if made.is_renewed { "renewed" } else { "made" }, made.folder.display());
        lines.push(format!(
            "{kind} {name}: {what}, valid until {}; copy {from} to its machine",
            date(made.until)
        ));
    }
    for (name, found) in &done.revoked {
        let certificates = count(*found as u64, "certificate");
        let kind = if name.starts_with(SERVER_PREFIX) { "" } else { "node " };
        lines.push(format!(
            "{kind}{name}: {certificates} revoked; copy {place}/revoked.crl to every machine"
        ));
    }
    if !done.made.is_empty() {
        lines.push(
            "each node is started with --pool-tls-cert cert.pem --pool-tls-key key.pem \
             --pool-tls-ca ca.pem --pool-tls-crl revoked.crl, from its folder; files that are \
             replaced while it runs are read again"
                .to_owned(),
        );
    }
    if let Some((host, _)) = done.servers.first() {
        let host = if host.contains(':') { format!("[{host}]") } else { (*host).to_owned() };
        lines.push(format!(
            "etcd is started with --cert-file cert.pem --key-file key.pem --client-cert-auth \
             --trusted-ca-file ca.pem, from its folder, and with https:// in its client URLs; \
             nodes with --cluster https://{host}:2379/{cluster}"
        ));
    }
    if done.made.is_empty() && done.servers.is_empty() && done.revoked.is_empty() {
        lines.push("no certificate was made: name nodes with --node".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_named_by_their_name_or_address() {
        assert_eq!(cluster_of("prod").unwrap(), "prod");
        assert_eq!(cluster_of("etcd://h:2379/prod").unwrap(), "prod");
        assert_eq!(cluster_of("etcd://h:2379").unwrap(), "default");
        for other in ["", "a b", "a/b", "etcd://"] {
            assert!(cluster_of(other).is_err(), "{other}");
        }
    }

    #[test]
    fn hosts_of_etcd_are_names_and_addresses() {
        assert_eq!(hosts_of("etcd-0,10.0.0.7,::1").unwrap(), ["etcd-0", "10.0.0.7", "::1"]);
        for other in ["", "a,", "a b", "a:2379", "10.0.0.7:2379", "a/b", "etcd://a"] {
            assert!(hosts_of(other).is_err(), "{other}");
        }
    }

    #[test]
    fn an_authority_of_another_pool_is_seen() {
        let now = now_seconds();
        let validity = Validity { from: now - 10, until: now + DAY_SECONDS };
        let made = Authority::make("prod", validity).unwrap();
        assert!(check_authority(&made, "prod", now).is_ok());
        let (certificate, key) = (made.certificate().to_owned(), made.key());
        let opened = Authority::open("test", certificate, &key).unwrap();
        assert!(check_authority(&opened, "test", now).is_err());
    }
}
