//! A disk that is full, with what a pool daemon keeps on it.

#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plasmon_testkit::{Etcd, until};

use crate::machines::{check, put_in_time};
use crate::node::Node;

/// Bytes of the file system that the node has for itself.
const DISK_BYTES: usize = 64 << 10;

/// The words that begin a command that has a small file system of its own at this path.
fn on_small_disk(path: &Path) -> Option<Vec<String>> {
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} none '{}'", path.display());
    let words = ["unshare", "--mount", "sh", "-c"].map(str::to_owned);
    let probe = Command::new(&words[0]).args(&words[1..]).arg(&mount).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root may mount a small file system");
        return None;
    }
    let script = format!("{mount} && exec \"$@\"");
    Some([&words[..], &[script, "sh".to_owned()]].concat())
}

/// A pool daemon whose disk was full when it started again did not start: it wrote its identity,
/// which was there already.
#[test]
fn a_pool_daemon_whose_disk_is_full_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let Some(inside) = on_small_disk(&path) else { return };
    let Some(etcd) = Etcd::start() else { return };
    let flags = ["--pool-folder", path.to_str().unwrap()];
    let nodes =
        [Node::start_inside(&inside, &etcd, "node0", &flags), Node::start(&etcd, "node1", &[])];
    nodes.iter().for_each(Node::wait_until_joined);

    // The node's view of the folder, which this process does not have.
    let root = PathBuf::from(format!("/proc/{}/root", nodes[0].client.status().unwrap().pid));
    let seen = root.join(path.strip_prefix("/").unwrap());
    let identity = fs::read_to_string(seen.join("node")).unwrap();
    let filled = fs::write(seen.join("other"), vec![0; 2 * DISK_BYTES]).unwrap_err();
    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull, "{filled}");

    for number in 0..2 {
        nodes[0].kill_pool_daemon();
        let object = put_in_time(&nodes[0], &format!("@prod:{number}"), 2, 10_000);
        nodes.iter().for_each(|node| check(node, &object, "with a full disk"));
    }
    assert_eq!(fs::read_to_string(seen.join("node")).unwrap(), identity);
    fs::remove_file(seen.join("other")).unwrap();
    nodes[0].kill_pool_daemon();
    until("its lease is written again", || {
        fs::read_to_string(seen.join("lease")).is_ok_and(|text| !text.is_empty())
    });
    let object = put_in_time(&nodes[1], "@prod:later", 2, 10_000);
    nodes.iter().for_each(|node| check(node, &object, "with room again"));
}
