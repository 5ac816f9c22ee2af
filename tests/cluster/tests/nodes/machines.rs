//! A pool whose nodes are on machines of their own, with etcd on another one.

use plasmon_client::{Buffer, Code, Error, Name, ObjectId, PutOptions};
use plasmon_testkit::{Etcd, pattern, until};

use crate::network::Network;
use crate::node::{LONG, NOW, Node};

/// The machine of etcd; node `n` is on machine `n + 1`.
const ETCD: usize = 0;

/// Nodes on machines of their own. All of it ends with the value.
pub(crate) struct Machines {
    pub(crate) nodes: Vec<Node>,
    pub(crate) etcd: Etcd,
    pub(crate) network: Network,
}

/// What an object is made of.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) id: ObjectId,
    pub(crate) data: Vec<u8>,
}

impl Machines {
    /// So many nodes, which have joined one after the other: node `n` has the slot `n`. `None`
    /// where there is no etcd or there are no namespaces.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_with(count, &[])
    }

    /// The same, of nodes with these flags.
    pub(crate) fn start_with(count: usize, flags: &[&str]) -> Option<Self> {
        let network = Network::start(count + 1)?;
        let etcd = Etcd::start_at(network.address(ETCD), network.inside(ETCD))?;
        let start = |at| {
            let name = format!("node{at}");
            let node = Node::start_inside(&network.inside(at + 1), &etcd, &name, flags);
            node.wait_until_joined();
            node
        };
        let nodes: Vec<Node> = (0..count).map(start).collect();
        nodes.iter().for_each(|node| node.wait_until_it_reaches(count));
        Some(Self { nodes, etcd, network })
    }

    /// The machine of a node.
    pub(crate) fn machine(&self, node: usize) -> usize {
        node + 1
    }

    /// Puts an object of so many bytes, which has two copies, on `node` and not on `without`.
    pub(crate) fn put_without(&self, node: usize, without: usize, bytes: usize) -> Put {
        // The primary of the name is preferred for the second copy.
        for number in 0.. {
            let put = put(&self.nodes[node], &format!("@prod:{bytes}.{number}"), 2, bytes).unwrap();
            // A node does not show its copy before it hears that the object is published.
            until("both copies are shown", || {
                self.nodes.iter().filter(|node| has(node, &put.id)).count() == 2
            });
            if !has(&self.nodes[without], &put.id) {
                return put;
            }
            assert_eq!(self.nodes[node].client.delete(&[put.id]).unwrap(), [None]);
        }
        unreachable!("there is always another name")
    }
}

/// Puts an object with so many copies, and is content with no fewer.
pub(crate) fn put(node: &Node, text: &str, copies: u8, bytes: usize) -> Result<Put, Error> {
    let name = Name::new("", text).unwrap();
    let data = pattern(bytes as u64, bytes);
    let options =
        PutOptions { name: Some(name), copies, copies_min: copies, ..PutOptions::default() };
    let id = node.client.put(&data, &options)?;
    Ok(Put { id, data })
}

/// Puts an object as soon as there are nodes for its copies, under a name that begins with this.
pub(crate) fn put_in_time(node: &Node, text: &str, copies: u8, bytes: usize) -> Put {
    // A name whose put ended as unreachable may be taken by it.
    let mut names = (0..).map(|number| format!("{text}.{number}"));
    let mut made = None;
    until("there are nodes for every copy", || {
        made = put(node, &names.next().unwrap(), copies, bytes).ok();
        made.is_some()
    });
    made.unwrap()
}

/// Whether there is a copy that is shown.
pub(crate) fn has(node: &Node, id: &ObjectId) -> bool {
    node.client.get_now(id).is_some() || node.keeps(id)
}

/// Gets an object, which must be there.
pub(crate) fn check(node: &Node, put: &Put, what: &str) {
    let found = node.client.get(&put.id, LONG).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found.data() == put.data, "{what}: wrong bytes");
}

/// How a get ends that may wait for long.
pub(crate) fn code_of(got: Result<Buffer, Error>) -> Option<Code> {
    got.map(drop).err().map(|error| error.code())
}

/// Waits until a get on a node says that the object was deleted.
pub(crate) fn wait_until_gone(node: &Node, put: &Put) {
    until("what was deleted is gone", || {
        node.client.get_now(&put.id).is_none()
            && matches!(code_of(node.client.get(&put.id, NOW)), Some(Code::Absent | Code::Deleted))
    });
}

/// Waits until a get on a node succeeds.
pub(crate) fn wait_until_there(node: &Node, put: &Put) {
    until("the object is reached again", || match node.client.get(&put.id, LONG) {
        Ok(found) => {
            assert!(found.data() == put.data, "wrong bytes");
            true
        }
        Err(error) => {
            assert_eq!(error.code(), Code::Unreachable, "{error}");
            false
        }
    });
}
