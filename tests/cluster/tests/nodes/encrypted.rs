//! Nodes that encrypt what they say to each other, and take no other node.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use plasmon_certs::{Folder, Node as CertifiedNode, Server, Subject};
use plasmon_etcd::{Client, Error as EtcdError, Options, OwnCertificate, Tls};
use plasmon_net::Error;
use plasmon_net::handshake::{Lane, Refusal};
use plasmon_net::tls::uri_of;
use plasmon_testkit::{Etcd, EtcdTls, pattern, until};
use tempfile::TempDir;

use crate::node::{LONG, Node};
use crate::stranger::{Knowledge, greet};
use crate::{name, named};

const CLUSTER: &str = "default";

fn now() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn certificate(authority: &Path, name: &str) -> PathBuf {
    let mut folder = Folder::open(authority, CLUSTER, now()).unwrap();
    let uri = uri_of(CLUSTER, name);
    let node = CertifiedNode { subject: Subject { name, uri: &uri }, seconds: 3600 };
    let made = folder.issue(&node, now()).unwrap();
    folder.write_list(now()).unwrap();
    made.folder
}

/// Starts a node with a certificate, of whose content nothing goes in clear if it says so.
fn start(etcd: &Etcd, authority: &Path, name: &str, encrypts_data: bool) -> Node {
    let folder = certificate(authority, name);
    let file =
        |flag: &str, file: &str| format!("--pool-tls-{flag}={}", folder.join(file).display());
    let mut flags = vec![
        file("cert", "cert.pem"),
        file("key", "key.pem"),
        file("ca", "ca.pem"),
        file("crl", "revoked.crl"),
    ];
    if encrypts_data {
        flags.push("--pool-encrypt-data=true".to_owned());
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Node::start(etcd, name, &flags)
}

/// What etcd has of the encryption of nodes.
fn reports(etcd: &Etcd) -> usize {
    let mut client = Client::new(Options::new(etcd.endpoints())).unwrap();
    client.list(b"/plasmon/default/encryption/").unwrap().kvs.len()
}

#[test]
fn nodes_with_certificates_move_objects_and_take_no_other_node() {
    let Some(etcd) = Etcd::start() else { return };
    let authority = TempDir::new().unwrap();
    let authority = authority.path().join("certs");
    // Only the first one wants that content is encrypted.
    let nodes: Vec<Node> = (0..3)
        .map(|number| start(&etcd, &authority, &format!("node{number}"), number == 0))
        .collect();
    for node in &nodes {
        node.wait_until_joined();
        node.wait_until_it_reaches(3);
    }
    for (number, bytes) in [5, 100_000, (3 << 20) + 7].into_iter().enumerate() {
        for from in 0..3 {
            let text = format!("@prod:{number}-{from}");
            let data = pattern(bytes as u64, bytes);
            let id = nodes[from].client.put(&data, &named(&text, 2)).unwrap();
            for node in &nodes {
                assert!(node.client.get(&id, LONG).unwrap().data() == data, "{text}");
            }
        }
    }
    until("the nodes have said what they encrypt", || reports(&etcd) == 3);

    // A program that has read all of etcd, and so knows the secret of the pool.
    let known = Knowledge::read(&etcd);
    for slot in 0..2 {
        let refused = greet(known.local(1 - slot), known.address(slot), Lane::Control);
        let Err(Error::RefusedByPeer(found)) = refused else { panic!("{refused:?}") };
        assert_eq!(found, Refusal::Unencrypted);
    }
    // Nor does that open a lane for content, though some lanes are not encrypted.
    for slot in 0..3 {
        let refused = greet(known.local((slot + 1) % 3), known.address(slot), Lane::Bulk(0));
        let Err(Error::RefusedByPeer(found)) = refused else { panic!("{refused:?}") };
        assert!(matches!(found, Refusal::Unencrypted | Refusal::Token), "{found}");
    }

    // Certificates are renewed while the nodes run, and one is revoked.
    certificate(&authority, "node1");
    let mut folder = Folder::open(&authority, CLUSTER, now()).unwrap();
    folder.revoke("node2", now()).unwrap();
    folder.write_list(now()).unwrap();
    until("the others do not talk to the node", || {
        let found = nodes[0].client.pool_participation().unwrap();
        !found.reaches_all() || found.live == 2
    });
    let id = name("@prod:0-0").id();
    for node in &nodes[..2] {
        assert_eq!(node.client.get(&id, LONG).unwrap().data(), pattern(5, 5));
    }
}

/// Certificates for an etcd on this machine; their folder.
fn server(authority: &Path) -> PathBuf {
    let mut folder = Folder::open(authority, CLUSTER, now()).unwrap();
    let server = Server { hosts: &["127.0.0.1"], seconds: 3600 };
    folder.issue_server(&server, now()).unwrap().folder
}

/// What the nodes said to etcd was in clear, also where they encrypted all else.
#[test]
fn what_nodes_say_to_etcd_is_encrypted_too() {
    let authority = TempDir::new().unwrap();
    let authority = authority.path().join("certs");
    let files = server(&authority);
    let (own, key, ca) = (files.join("cert.pem"), files.join("key.pem"), files.join("ca.pem"));
    let tls = EtcdTls { certificate: &own, key: &key, clients: Some(&ca) };
    let Some(mut etcd) = Etcd::start_encrypted(tls) else { return };
    // They show etcd the certificates that they show each other, and need no setting for that.
    let nodes = [0, 1].map(|number| start(&etcd, &authority, &format!("node{number}"), false));
    for node in &nodes {
        node.wait_until_joined();
        node.wait_until_it_reaches(2);
    }
    let data = pattern(7, 100_000);
    let id = nodes[0].client.put(&data, &named("@prod:a", 2)).unwrap();
    assert!(nodes[1].client.get(&id, LONG).unwrap().data() == data);

    // A program without a certificate of the authority sees nothing.
    let tls = Tls { authority: ca.clone(), own: None, revoked: None };
    let options = |tls| Options { tls: Some(tls), ..Options::new(etcd.endpoints()) };
    let refused = Client::new(options(tls.clone())).unwrap().list(b"/plasmon/");
    assert!(matches!(refused, Err(EtcdError::Encryption { .. })), "{refused:?}");
    let own = certificate(&authority, "look");
    let own = OwnCertificate { certificate: own.join("cert.pem"), key: own.join("key.pem") };
    let known = Client::new(options(Tls { own: Some(own), ..tls })).unwrap().list(b"/plasmon/");
    assert!(!known.unwrap().kvs.is_empty());

    // etcd comes back with a new certificate, and the nodes connect again.
    server(&authority);
    etcd.kill(0);
    etcd.restart(0);
    until("objects are put again", || nodes[1].client.put(&data, &named("@prod:b", 2)).is_ok());
    let id = name("@prod:b").id();
    assert!(nodes[0].client.get(&id, LONG).unwrap().data() == data);
}
