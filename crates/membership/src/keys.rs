//! The keys of a pool in etcd (`docs/formats/cluster-map.md`).

use plasmon_cluster::{NodeUuid, Slot};
use plasmon_proto::cluster_address::is_cluster_name;
use plasmon_proto::limits::{CLUSTER_NAME_BYTES_MAX, NAMESPACE_BYTES_MAX};

/// What the keys of namespaces begin with.
const ADOPTED: &str = "adopted/";

/// One start of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The node.
    pub uuid: NodeUuid,
    /// Drawn at each start.
    pub incarnation: u64,
}

impl Life {
    fn text(self) -> String {
        format!("{}.{:016x}", self.uuid, self.incarnation)
    }

    /// Reads the end of a key, or the value of the key of the node that leads.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (uuid, incarnation) = std::str::from_utf8(text).ok()?.split_once('.')?;
        let is_number = incarnation.len() == 16 && !incarnation.starts_with('+');
        let incarnation = is_number.then(|| u64::from_str_radix(incarnation, 16).ok())??;
        Some(Self { uuid: uuid.parse().ok()?, incarnation })
    }
}

/// The name of the cluster cannot be used: choose another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a cluster has 1 to {CLUSTER_NAME_BYTES_MAX} letters, digits, . _ and -")]
pub struct BadClusterName;

/// The names of the keys of one pool.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The id of the cluster.
    Id,
    /// What nodes show each other to be let in, unless they have a secret of their own.
    Secret,
    /// The map.
    Map,
    /// Which node leads.
    Leader,
    /// Written with every member that joins.
    Joined,
    /// What a node says of itself.
    Member(Life),
    /// What a node reports to the leader.
    Reports(Life),
    /// What it reports of draining nodes.
    Drains(Life),
    /// How far it is with namespaces that have ended.
    Swept(Life),
    /// What it has of namespaces that are limited.
    Usage(Life),
    /// Which peers it does not reach.
    Suspects(Life),
    /// What it encrypts.
    Encryption(Life),
    /// By what others write into its memory.
    Fabric(Life),
    /// It has to stop and to end its lease, under which this is, because others do not reach it.
    Fenced(Life),
    /// Why a node takes no part.
    Refused(Life),
    /// Why no node is given up, as the node that leads says.
    Alarm,
    /// What an operator wants of a node.
    Command(Slot),
}

impl Keys {
    /// The keys of the cluster with this name.
    pub fn new(cluster: &str) -> Result<Self, BadClusterName> {
        if !is_cluster_name(cluster) {
            return Err(BadClusterName);
        }
        Ok(Self { prefix: format!("/plasmon/{cluster}/") })
    }

    /// What all of them begin with.
    pub fn prefix(&self) -> &[u8] {
        self.prefix.as_bytes()
    }

    /// The bytes of a key.
    pub fn of(&self, key: Key) -> Vec<u8> {
        let name = match key {
            Key::Id => "id".to_owned(),
            Key::Secret => "secret".to_owned(),
            Key::Map => "map".to_owned(),
            Key::Leader => "leader".to_owned(),
            Key::Joined => "joined".to_owned(),
            Key::Member(life) => format!("members/{}", life.text()),
            Key::Reports(life) => format!("reports/{}", life.text()),
            Key::Drains(life) => format!("drains/{}", life.text()),
            Key::Swept(life) => format!("swept/{}", life.text()),
            Key::Usage(life) => format!("usage/{}", life.text()),
            Key::Suspects(life) => format!("suspects/{}", life.text()),
            Key::Encryption(life) => format!("encryption/{}", life.text()),
            Key::Fabric(life) => format!("fabric/{}", life.text()),
            Key::Fenced(life) => format!("fenced/{}", life.text()),
            Key::Refused(life) => format!("refused/{}", life.text()),
            Key::Alarm => "alarm".to_owned(),
            Key::Command(slot) => format!("commands/{slot}"),
        };
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// The key of a namespace that programs adopt.
    pub fn of_namespace(&self, namespace: &str) -> Vec<u8> {
        format!("{}{ADOPTED}{namespace}", self.prefix).into_bytes()
    }

    /// The namespace whose key this is.
    pub fn namespace_of(&self, key: &[u8]) -> Option<String> {
        let name = key.strip_prefix(self.prefix())?.strip_prefix(ADOPTED.as_bytes())?;
        let is_valid = (1..=NAMESPACE_BYTES_MAX).contains(&name.len());
        String::from_utf8(name.to_vec()).ok().filter(|_| is_valid)
    }

    /// What this key is; `None` for one of a namespace, and for keys of later versions.
    pub fn parse(&self, key: &[u8]) -> Option<Key> {
        let name = key.strip_prefix(self.prefix())?;
        let life = |kind: &str| name.strip_prefix(kind.as_bytes()).map(Life::parse);
        match name {
            b"id" => Some(Key::Id),
            b"secret" => Some(Key::Secret),
            b"map" => Some(Key::Map),
            b"leader" => Some(Key::Leader),
            b"joined" => Some(Key::Joined),
            b"alarm" => Some(Key::Alarm),
            _ => life("members/")
                .map(|life| life.map(Key::Member))
                .or_else(|| life("reports/").map(|life| life.map(Key::Reports)))
                .or_else(|| life("drains/").map(|life| life.map(Key::Drains)))
                .or_else(|| life("swept/").map(|life| life.map(Key::Swept)))
                .or_else(|| life("usage/").map(|life| life.map(Key::Usage)))
                .or_else(|| life("suspects/").map(|life| life.map(Key::Suspects)))
                .or_else(|| life("encryption/").map(|life| life.map(Key::Encryption)))
                .or_else(|| life("fabric/").map(|life| life.map(Key::Fabric)))
                .or_else(|| life("fenced/").map(|life| life.map(Key::Fenced)))
                .or_else(|| life("refused/").map(|life| life.map(Key::Refused)))
                .or_else(|| {
                    name.strip_prefix(b"commands/").map(|text| slot(text).map(Key::Command))
                })?,
        }
    }
}

/// The number of a slot, as it is written.
fn slot(text: &[u8]) -> Option<Slot> {
    let text = std::str::from_utf8(text).ok()?;
    let slot = text.parse().ok().map(Slot)?;
    (slot.to_string() == text).then_some(slot)
}

impl Life {
    /// The value of the key of the node that leads.
    pub fn encode(self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_others_are_passed_over() {
        let keys = Keys::new("prod").unwrap();
        let life = Life { uuid: NodeUuid([0xab; 16]), incarnation: 7 };
        let member = format!("/plasmon/prod/members/{}.0000000000000007", "ab".repeat(16));
        assert_eq!(keys.of(Key::Member(life)), member.as_bytes());
        for key in [
            Key::Id,
            Key::Secret,
            Key::Map,
            Key::Leader,
            Key::Joined,
            Key::Member(life),
            Key::Reports(life),
            Key::Drains(life),
            Key::Swept(life),
            Key::Usage(life),
            Key::Suspects(life),
            Key::Encryption(life),
            Key::Fabric(life),
            Key::Fenced(life),
            Key::Refused(life),
            Key::Alarm,
            Key::Command(Slot(0)),
            Key::Command(Slot(65535)),
        ] {
            assert_eq!(keys.parse(&keys.of(key)), Some(key));
        }
        for other in [
            "/plasmon/prod/",
            "/plasmon/prod/members/x",
            "/plasmon/prod/later/x",
            "/plasmon/prod/commands/07",
            "/plasmon/prod/commands/65536",
        ] {
            assert_eq!(keys.parse(other.as_bytes()), None, "{other}");
        }
        for namespace in ["@app", "@a/b:c", "@ä"] {
            let key = keys.of_namespace(namespace);
            assert_eq!(keys.namespace_of(&key).as_deref(), Some(namespace));
            assert_eq!(keys.parse(&key), None);
        }
        for other in ["/plasmon/prod/adopted/", "/plasmon/prod/map", "/plasmon/x/adopted/@a"] {
            assert_eq!(keys.namespace_of(other.as_bytes()), None, "{other}");
        }
        let long = keys.of_namespace(&"x".repeat(NAMESPACE_BYTES_MAX + 1));
        assert_eq!(keys.namespace_of(&long), None);
        assert_eq!(keys.parse(b"/plasmon/production/map"), None);
        assert!(Keys::new("a/b").is_err(), "it would name the keys of another pool");
        let long = format!("/plasmon/prod/members/{}.+000000000000007", "ab".repeat(16));
        assert_eq!(keys.parse(long.as_bytes()), None);
    }
}
