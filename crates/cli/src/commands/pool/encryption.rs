//! What `plasmon pool status` and `plasmon doctor` say of the encryption between nodes.

use std::time::SystemTime;

use plasmon_net::tls::date;
use plasmon_proto::pool_status::{NodeState, PoolNode};
use serde_json::{Value, json};

use crate::commands::check::{Check, Verdict, check};
use crate::output::count;

const DAY_SECONDS: u64 = 86_400;

/// From so many days before the end of a certificate on it is noted.
const SOON_DAYS: u64 = 30;

/// The encryption of a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Encryption<'a> {
    /// Live nodes that encrypt their messages.
    messages: Vec<&'a str>,
    /// Those of them that encrypt content.
    data: Vec<&'a str>,
    /// Live nodes that encrypt nothing.
    nothing: Vec<&'a str>,
    /// The node whose certificate ends first, and when it does.
    first_end: Option<(&'a str, u64)>,
}

impl<'a> Encryption<'a> {
    /// What these nodes say.
    pub(super) fn of(nodes: &'a [PoolNode]) -> Self {
        let mut found = Self::default();
        let is_live = |node: &&PoolNode| !matches!(node.state, NodeState::Down | NodeState::Out);
        for node in nodes.iter().filter(is_live) {
            let name = node.name.as_str();
            let Some(encryption) = &node.encryption else {
                found.nothing.push(name);
                continue;
            };
            found.messages.push(name);
            if encryption.data {
                found.data.push(name);
            }
            let end = encryption.not_after;
            if found.first_end.is_none_or(|(_, first)| end < first) {
                found.first_end = Some((name, end));
            }
        }
        found
    }

    /// How it is, in words.
    pub(super) fn text(&self, now: u64) -> (Verdict, String) {
        let Some((name, end)) = self.first_end else {
            return (Verdict::Good, "nothing between nodes".to_owned());
        };
        let all = self.data.len() == self.messages.len();
        let mut text = match &self.data[..] {
            [] => "messages between nodes, and no content".to_owned(),
            _ if all => "messages and content between nodes".to_owned(),
            some => format!("messages between nodes, and content from and to {}", some.join(", ")),
        };
        let days = end.saturating_sub(now) / DAY_SECONDS;
        let mut verdict = if days < SOON_DAYS { Verdict::Note } else { Verdict::Good };
        if end <= now {
            verdict = Verdict::Bad;
            text.push_str(&format!("; the certificate of {name} has ended on {}", date(end)));
        } else {
            let days = count(days, "day");
            text.push_str(&format!(
                "; certificates are valid for {days}, first ends that of {name}"
            ));
        }
        if !self.nothing.is_empty() {
            verdict = Verdict::Bad;
            let others = self.nothing.join(", ");
            text.push_str(&format!("; {others} encrypt nothing, and are not connected with them"));
        }
        (verdict, text)
    }

    /// The same for programs; null when nothing is encrypted.
    pub(super) fn document(&self, now: u64) -> Value {
        let Some((name, end)) = self.first_end else { return Value::Null };
        json!({
            "messages": self.messages,
            "content": self.data,
            "nothing": self.nothing,
            "first_end": { "node": name, "not_after": end },
            "days_left": end.saturating_sub(now) / DAY_SECONDS,
        })
    }
}

/// How etcd is reached, in words. Nodes that encrypt what they say to each other, and not what they
/// say to etcd, are noted.
pub(super) fn etcd_text(nodes: &Encryption<'_>, is_encrypted: bool) -> (Verdict, &'static str) {
    match (is_encrypted, nodes.messages.is_empty()) {
        (true, _) => (Verdict::Good, "reached encrypted"),
        (false, true) => (Verdict::Good, "reached in clear"),
        (false, false) => (Verdict::Note, "reached in clear; https:// names an etcd with TLS"),
    }
}

/// What `doctor` says of it.
pub(super) fn encryption_checks(nodes: &[PoolNode], is_etcd_encrypted: bool) -> [Check; 2] {
    let found = Encryption::of(nodes);
    let (verdict, text) = found.text(now_seconds());
    let between_nodes = check("encryption", verdict, text).advise(
        "`plasmon pool init-certs` makes certificates; nodes read them again when their files are \
         replaced",
    );
    let (verdict, text) = etcd_text(&found, is_etcd_encrypted);
    let to_etcd = check("etcd encryption", verdict, text).advise(
        "`plasmon pool init-certs --etcd HOST` makes certificates for etcd; start it with \
         --cert-file and --key-file, and the nodes with https:// in --cluster",
    );
    [between_nodes, to_etcd]
}

/// This moment, in seconds since 1970.
pub(super) fn now_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use plasmon_proto::pool_status::NodeEncryption;

    use super::super::doubles;
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn node(name: &str, state: NodeState, encryption: Option<(bool, u64)>) -> PoolNode {
        let encryption = encryption
            .map(|(data, days)| NodeEncryption { data, not_after: NOW + days * DAY_SECONDS + 5 });
        PoolNode { state, encryption, ..doubles::node(0, name) }
    }

    #[test]
    fn what_is_encrypted_and_for_how_long_is_said() {
        use NodeState::{Down, Draining, Up};
        let plain = node("p", Up, None);
        let down = node("d", Down, None);
        let (messages, data) =
            (node("m", Up, Some((false, 90))), node("x", Draining, Some((true, 80))));
        let soon = node("s", Up, Some((true, 3)));
        for (nodes, verdict, words) in [
            (vec![plain.clone(), down.clone()], Verdict::Good, vec!["nothing between nodes"]),
            (vec![messages.clone(), down.clone()], Verdict::Good, vec!["no content", "90 days"]),
            (vec![data.clone()], Verdict::Good, vec!["messages and content", "80 days"]),
            (vec![messages.clone(), data.clone()], Verdict::Good, vec!["from and to x", "of x"]),
            (vec![data.clone(), soon], Verdict::Note, vec!["3 days", "that of s"]),
            (vec![data.clone(), plain], Verdict::Bad, vec!["p encrypt nothing"]),
        ] {
            let (found, text) = Encryption::of(&nodes).text(NOW);
            assert!(found == verdict, "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        let nodes = [data];
        let (found, text) = Encryption::of(&nodes).text(NOW + 90 * DAY_SECONDS);
        assert!(found == Verdict::Bad && text.contains("has ended on"), "{text}");
        assert_eq!(Encryption::of(&nodes).document(NOW)["days_left"], 80);
        assert_eq!(Encryption::of(&[down]).document(NOW), Value::Null);
    }

    #[test]
    fn an_etcd_in_clear_below_nodes_that_encrypt_is_noted() {
        let (plain, secure) =
            (node("p", NodeState::Up, None), node("s", NodeState::Up, Some((false, 90))));
        for (nodes, is_encrypted, is_good, words) in [
            (vec![plain.clone()], false, true, "in clear"),
            (vec![plain.clone()], true, true, "reached encrypted"),
            (vec![secure.clone(), plain], false, false, "in clear; https://"),
            (vec![secure], true, true, "reached encrypted"),
        ] {
            let (verdict, text) = etcd_text(&Encryption::of(&nodes), is_encrypted);
            assert!((verdict == Verdict::Good) == is_good && text.contains(words), "{text}");
        }
    }
}
