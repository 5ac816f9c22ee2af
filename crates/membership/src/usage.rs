//! What nodes have of namespaces that are limited in bytes: the value of the key `usage/LIFE`
//! (`docs/formats/cluster-map.md`), when a node writes it, and what all other nodes have. Pure.

use std::collections::BTreeMap;

use plasmon_cluster::NodeUuid;
use plasmon_etcd::LeaseId;
use plasmon_proto::limits::{NAMESPACE_BYTES_MAX, POOL_ADOPTIONS_MAX};

use crate::keys::Life;

const MAGIC: [u8; 6] = *b"PLSUSE";
const VERSION: u16 = 1;

/// A node writes its figures at most so often.
pub const WRITE_EVERY_MS: u64 = 1_000;

/// Bytes by namespace; those of which a node has nothing are not among them.
pub type Usage = BTreeMap<String, u64>;

/// The figures of all starts of nodes that hold a lease.
pub type UsageByLife = BTreeMap<Life, Usage>;

const _: () = assert!(NAMESPACE_BYTES_MAX <= u8::MAX as usize, "a length is one byte");

/// The value of the key of a node.
pub fn encode(usage: &Usage) -> Vec<u8> {
    let mut value = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    for (namespace, bytes) in usage {
        value.push(namespace.len() as u8);
        value.extend_from_slice(namespace.as_bytes());
        value.extend_from_slice(&bytes.to_le_bytes());
    }
    value
}

/// Reads it; `None` for other bytes.
pub fn decode(value: &[u8]) -> Option<Usage> {
    let mut rest = value.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let mut usage = Usage::new();
    while let Some((length, after)) = rest.split_first() {
        let (namespace, after) = after.split_at_checked(usize::from(*length))?;
        let (bytes, after) = after.split_first_chunk::<8>()?;
        let is_valid = (1..=NAMESPACE_BYTES_MAX).contains(&namespace.len());
        let namespace = std::str::from_utf8(namespace).ok().filter(|_| is_valid)?;
        let is_next = usage.last_key_value().is_none_or(|(last, _)| last.as_str() < namespace);
        if !is_next || usage.len() == POOL_ADOPTIONS_MAX {
            return None;
        }
        usage.insert(namespace.to_owned(), u64::from_le_bytes(*bytes));
        rest = after;
    }
    Some(usage)
}

/// What all other nodes have of a namespace. Of a node with two leases, as it has for a moment when
/// its pool daemon has started again, the larger figure counts.
pub fn elsewhere(usage: &UsageByLife, here: NodeUuid, namespace: &str) -> u64 {
    let mut nodes: BTreeMap<NodeUuid, u64> = BTreeMap::new();
    for (life, usage) in usage.iter().filter(|(life, _)| life.uuid != here) {
        let bytes = usage.get(namespace).copied().unwrap_or(0);
        let known = nodes.entry(life.uuid).or_default();
        *known = (*known).max(bytes);
    }
    nodes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// What a node is to do about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is as it should be.
    Rest,
    /// Write it, in so many milliseconds.
    Wait(u64),
    /// Write it now, or delete it where there is nothing to say.
    Write,
}

/// When a node writes its key.
#[derive(Debug, Default)]
pub struct UsageReports {
    /// Under which lease, and what.
    written: Option<(LeaseId, Usage)>,
    /// A write began and was not answered: it may be there or not.
    is_unknown: bool,
    /// Not again before.
    next_ms: u64,
}

impl UsageReports {
    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.written.is_none() && !self.is_unknown
    }

    /// What is to be done, now that these are the figures.
    pub fn step(&self, now_ms: u64, lease: LeaseId, usage: &Usage) -> Step {
        let is_written = match &self.written {
            Some((under, written)) if *under == lease => written == usage,
            _ => usage.is_empty(),
        };
        let is_written = is_written && !self.is_unknown;
        match self.next_ms.saturating_sub(now_ms) {
            _ if is_written => Step::Rest,
            0 => Step::Write,
            left_ms => Step::Wait(left_ms),
        }
    }

    /// A write begins. What is there is not known until one is answered.
    pub fn writes(&mut self) {
        self.is_unknown = true;
    }

    /// That is written.
    pub fn wrote(&mut self, now_ms: u64, lease: LeaseId, usage: Usage) {
        self.written = Some((lease, usage));
        self.is_unknown = false;
        self.next_ms = now_ms.saturating_add(WRITE_EVERY_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(list: &[(&str, u64)]) -> Usage {
        list.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    }

    #[test]
    fn figures_come_back_and_other_bytes_are_refused() {
        let some = usage(&[("@a", 0x0102), ("@bc", 9)]);
        let bytes = encode(&some);
        let first = [&b"PLSUSE\x01\0\x02@a"[..], &0x0102_u64.to_le_bytes()].concat();
        assert_eq!(bytes[..first.len()], first);
        assert_eq!(decode(&bytes), Some(some));
        assert_eq!(decode(&encode(&Usage::new())), Some(Usage::new()));
        for cut in (0..bytes.len()).filter(|cut| ![8, first.len()].contains(cut)) {
            assert_eq!(decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(decode(&[&first[..], &first[8..]].concat()), None, "a namespace twice");
        let long = usage(&[(&"x".repeat(NAMESPACE_BYTES_MAX + 1), 1)]);
        assert_eq!(decode(&encode(&long)), None);
        let many = |count: usize| (0..count).map(|it| (format!("@{it:05}"), 1)).collect::<Usage>();
        assert!(decode(&encode(&many(POOL_ADOPTIONS_MAX))).is_some());
        assert_eq!(decode(&encode(&many(POOL_ADOPTIONS_MAX + 1))), None);
    }

    #[test]
    fn all_other_nodes_count_each_once() {
        let life = |node: u8, incarnation| Life { uuid: NodeUuid([node; 16]), incarnation };
        let known = UsageByLife::from([
            (life(1, 1), usage(&[("@app", 1000)])),
            (life(2, 1), usage(&[("@app", 20), ("@other", 5)])),
            (life(2, 7), usage(&[("@app", 30)])),
            (life(3, 1), usage(&[("@app", 4)])),
        ]);
        let here = life(1, 9).uuid;
        assert_eq!(elsewhere(&known, here, "@app"), 34);
        assert_eq!(elsewhere(&known, life(4, 1).uuid, "@app"), 1034);
        assert_eq!((elsewhere(&known, here, "@other"), elsewhere(&known, here, "@x")), (5, 0));
        let huge = UsageByLife::from([2, 3].map(|it| (life(it, 1), usage(&[("@app", u64::MAX)]))));
        assert_eq!(elsewhere(&huge, here, "@app"), u64::MAX);
    }

    #[test]
    fn figures_are_written_when_they_change_but_not_all_the_time() {
        let (one, two) = (LeaseId(1), LeaseId(2));
        let mut reports = UsageReports::default();
        assert_eq!(reports.step(0, one, &Usage::new()), Step::Rest);
        let some = usage(&[("@app", 7)]);
        assert_eq!(reports.step(5, one, &some), Step::Write);
        reports.wrote(5, one, some.clone());
        assert_eq!(reports.step(6, one, &some), Step::Rest);
        let more = usage(&[("@app", 8)]);
        assert_eq!(reports.step(6, one, &more), Step::Wait(WRITE_EVERY_MS - 1));
        assert_eq!(reports.step(5 + WRITE_EVERY_MS, one, &more), Step::Write);
        assert_eq!(reports.step(9_000, one, &Usage::new()), Step::Write, "what was there is gone");
        // With another lease nothing is written yet.
        assert_eq!(reports.step(9_000, two, &some), Step::Write);
        assert_eq!(reports.step(9_000, two, &Usage::new()), Step::Rest);
        // A write without an answer may be there.
        reports.writes();
        assert!(!reports.is_empty());
        assert_eq!(reports.step(9_000, two, &Usage::new()), Step::Write);
        reports.wrote(9_000, two, Usage::new());
        assert_eq!(reports.step(9_001, two, &Usage::new()), Step::Rest);
    }
}
