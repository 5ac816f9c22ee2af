//! What `plasmon pool status` and `plasmon doctor` say of the providers of libfabric by which nodes
//! write into each other's memory.

use std::collections::BTreeMap;

use plasmon_proto::pool_status::{NodeFabric, NodeState, PoolNode};
use serde_json::{Value, json};

use crate::commands::check::{Check, Verdict, check};
use crate::output::count;

/// The live nodes that were asked to use libfabric, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fabrics<'a>(BTreeMap<&'a str, &'a NodeFabric>);

impl<'a> Fabrics<'a> {
    /// What these nodes say.
    pub(super) fn of(nodes: &'a [PoolNode]) -> Self {
        let is_live = |node: &&PoolNode| !matches!(node.state, NodeState::Down | NodeState::Out);
        let fabric = |node: &'a PoolNode| Some((node.name.as_str(), node.fabric.as_ref()?));
        Self(nodes.iter().filter(is_live).filter_map(fabric).collect())
    }

    /// How it is, in words; `None` where no node was asked to use it.
    pub(super) fn text(&self) -> Option<(Verdict, String)> {
        if self.0.is_empty() {
            return None;
        }
        let mut by_providers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, fabric) in &self.0 {
            by_providers.entry(fabric.providers.as_str()).or_default().push(name);
        }
        let mut parts: Vec<String> = Vec::new();
        for (providers, names) in by_providers.iter().rev() {
            let providers = if providers.is_empty() { "TCP alone" } else { providers };
            parts.push(format!("{providers} on {}", names.join(", ")));
        }
        for (name, fabric) in self.0.iter().filter(|(_, fabric)| !fabric.refused.is_empty()) {
            parts.push(format!("{name}: {}", fabric.refused));
        }
        for (name, fabric) in self.0.iter().filter(|(_, fabric)| fabric.closed > 0) {
            let closed = count(u64::from(fabric.closed), "endpoint");
            parts.push(format!("{name} has closed {closed} after peers were lost"));
        }
        let is_without = |fabric: &&NodeFabric| fabric.providers.is_empty();
        let verdict = if self.0.values().any(is_without) { Verdict::Note } else { Verdict::Good };
        Some((verdict, parts.join("; ")))
    }

    /// The same for programs; null where no node was asked to use it.
    pub(super) fn document(&self) -> Value {
        let node = |(name, fabric): (&&str, &&NodeFabric)| {
            let NodeFabric { providers, refused, closed } = fabric;
            let said = json!({ "providers": providers, "refused": refused, "closed": closed });
            ((*name).to_owned(), said)
        };
        if self.0.is_empty() { Value::Null } else { self.0.iter().map(node).collect() }
    }
}

/// What `doctor` says of it, if a node was asked to use it.
pub(super) fn fabric_check(nodes: &[PoolNode]) -> Option<Check> {
    let (verdict, text) = Fabrics::of(nodes).text()?;
    Some(check("fabric", verdict, text).advise(
        "content of these nodes comes over TCP; install libfabric1 and the driver of the card, or \
         start the store with `--fabric off`",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::doubles;
    use super::*;

    fn node(name: &str, fabric: Option<(&str, &str, u32)>) -> PoolNode {
        let fabric = fabric.map(|(providers, refused, closed)| NodeFabric {
            providers: providers.to_owned(),
            refused: refused.to_owned(),
            closed,
        });
        PoolNode { fabric, ..doubles::node(0, name) }
    }

    #[test]
    fn providers_and_what_is_not_used_are_said() {
        let plain = node("p", None);
        let nodes = [plain.clone()];
        assert!(Fabrics::of(&nodes).text().is_none());
        assert_eq!(Fabrics::of(&nodes).document(), Value::Null);
        assert!(fabric_check(&nodes).is_none());

        let (a, b) = (node("a", Some(("net, shm", "", 0))), node("b", Some(("net, shm", "", 1))));
        let nodes = [plain.clone(), a.clone(), b.clone()];
        let expected = "net, shm on a, b; b has closed 1 endpoint after peers were lost";
        let (verdict, text) = Fabrics::of(&nodes).text().unwrap();
        assert!(verdict == Verdict::Good && text == expected, "{text}");

        let refused = node("c", Some(("", "libfabric is not installed", 0)));
        let down = PoolNode { state: NodeState::Down, ..node("d", Some(("", "x", 9))) };
        let nodes = [plain, refused, a, down];
        let expected = "net, shm on a; TCP alone on c; c: libfabric is not installed";
        let (verdict, text) = Fabrics::of(&nodes).text().unwrap();
        assert!(verdict == Verdict::Note && text == expected, "{text}");
        let document = Fabrics::of(&nodes).document();
        assert_eq!(document["c"]["refused"], "libfabric is not installed");
        assert_eq!(document.as_object().map(serde_json::Map::len), Some(2));
    }
}
