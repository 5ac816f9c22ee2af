//! `plasmon pool status`: a pool as a whole.

use anyhow::Result;
use plasmon_proto::pool_status::PoolStatus;

use super::encryption::{Encryption, etcd_text, now_seconds};
use super::fabric::Fabrics;
use super::reach::Reach;
use crate::commands::check::Verdict;
use crate::output::{Output, Paint, count};

/// Prints it.
pub(super) fn status(pool: &mut Reach, output: &Output) -> Result<()> {
    let found = pool.look()?;
    let (status, nodes) = (found.status(), found.nodes());
    let (encryption, fabrics) = (Encryption::of(&nodes), Fabrics::of(&nodes));
    let mut document = serde_json::to_value(&status)?;
    document["cluster"] = pool.address.to_string().into();
    document["encryption"] = encryption.document(now_seconds());
    document["etcd_encrypted"] = pool.etcd.is_encrypted().into();
    document["fabric"] = fabrics.document();
    output.value(&document, || {
        let address = pool.address.to_string();
        let encrypted =
            [encryption_row(&encryption), etcd_row(&encryption, pool.etcd.is_encrypted())];
        let rows = rows(&address, &status).into_iter();
        let rows = rows.chain(encrypted).chain(fabric_row(&fabrics));
        let lines = rows.map(|(key, text, paint)| {
            let text = paint.map_or_else(|| text.clone(), |paint| output.paint(paint, &text));
            format!("{}  {text}", output.paint(Paint::Strong, &format!("{key:<7}")))
        });
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn encryption_row(encryption: &Encryption<'_>) -> (&'static str, String, Option<Paint>) {
    let (verdict, text) = encryption.text(now_seconds());
    ("encrypt", text, paint_of(verdict))
}

fn fabric_row(fabrics: &Fabrics<'_>) -> Option<(&'static str, String, Option<Paint>)> {
    let (verdict, text) = fabrics.text()?;
    Some(("fabric", text, paint_of(verdict)))
}

fn paint_of(verdict: Verdict) -> Option<Paint> {
    match verdict {
        Verdict::Good => None,
        Verdict::Note => Some(Paint::Note),
        Verdict::Bad => Some(Paint::Bad),
    }
}

fn etcd_row(nodes: &Encryption<'_>, is_encrypted: bool) -> (&'static str, String, Option<Paint>) {
    let (verdict, text) = etcd_text(nodes, is_encrypted);
    ("etcd", text.to_owned(), (verdict != Verdict::Good).then_some(Paint::Note))
}

fn rows(address: &str, status: &PoolStatus) -> Vec<(&'static str, String, Option<Paint>)> {
    let bad = |is_bad: bool| is_bad.then_some(Paint::Bad);
    let mut rows = vec![
        ("pool", format!("{address}, map {}", status.epoch), None),
        match &status.leader {
            Some(name) => ("leader", name.clone(), None),
            None => ("leader", "none: the map does not change".to_owned(), Some(Paint::Bad)),
        },
        ("nodes", nodes_text(status), bad(status.nodes_down > 0)),
        ("groups", groups_text(status), bad(status.groups_dead > 0)),
    ];
    if let Some(alarm) = &status.alarm {
        let advice = "`plasmon pool forget NODE` forgets one";
        rows.push(("alarm", format!("{alarm}; {advice}"), Some(Paint::Bad)));
    }
    if !status.waited_for.is_empty() {
        rows.push(("waiting", waited_for_text(&status.waited_for), Some(Paint::Bad)));
    }
    if !status.logs_failed.is_empty() {
        rows.push(("logs", logs_failed_text(&status.logs_failed), Some(Paint::Bad)));
    }
    if let Some(problem) = &status.bad_map {
        rows.push(("map", format!("cannot be used: {problem}"), Some(Paint::Bad)));
    }
    if !status.unreached.is_empty() {
        rows.push(("network", unreached_text(&status.unreached), Some(Paint::Bad)));
    }
    for refused in &status.refused {
        rows.push(("refused", refused.reason.clone(), Some(Paint::Bad)));
    }
    rows
}

/// How many nodes are in which state.
pub(super) fn nodes_text(status: &PoolStatus) -> String {
    let mut text = format!("{} live", status.nodes_live);
    for (number, what) in [
        (status.nodes_draining, "of them draining"),
        (status.nodes_down, "down"),
        (status.nodes_out, "out"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {number} {what}"));
        }
    }
    text
}

/// Which nodes groups wait for.
fn waited_for_text(nodes: &[(String, u32)]) -> String {
    let node =
        |(name, groups): &(String, u32)| format!("{name} ({})", count(u64::from(*groups), "group"));
    let nodes: Vec<String> = nodes.iter().map(node).collect();
    format!(
        "groups are not complete without {}: start these nodes, or give up one that will not come \
         back with `plasmon pool forget NODE`",
        nodes.join(", ")
    )
}

/// Which nodes have a log that has failed.
fn logs_failed_text(nodes: &[String]) -> String {
    format!(
        "the log of durable objects has failed on {}: copies there do not count; look at the disk, \
         and start the store again",
        nodes.join(", ")
    )
}

/// Which nodes do not reach each other.
pub(super) fn unreached_text(pairs: &[(String, String)]) -> String {
    let pair = |(a, b): &(String, String)| format!("{a} and {b}");
    let pairs: Vec<String> = pairs.iter().map(pair).collect();
    format!("nodes do not reach each other: {}", pairs.join("; "))
}

/// How many groups have all their records where they shall be.
pub(super) fn groups_text(status: &PoolStatus) -> String {
    let PoolStatus { groups, groups_settled, groups_dead, .. } = status;
    let mut text = format!("{groups_settled} of {groups} complete");
    if *groups_dead > 0 {
        let dead = count(u64::from(*groups_dead), "group");
        text.push_str(&format!("; {dead} without a live node, whose objects cannot be found"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_and_nothing_else() {
        let well = PoolStatus {
            epoch: 7,
            leader: Some("a".to_owned()),
            nodes_live: 3,
            groups: 1024,
            groups_settled: 1024,
            ..PoolStatus::default()
        };
        let found = rows("etcd://h:1", &well);
        let texts: Vec<&str> = found.iter().map(|(_, text, _)| text.as_str()).collect();
        assert_eq!(texts, ["etcd://h:1, map 7", "a", "3 live", "1024 of 1024 complete"]);
        assert!(found.iter().all(|(_, _, paint)| paint.is_none()));

        let ill = PoolStatus {
            leader: None,
            nodes_down: 2,
            groups_dead: 1,
            alarm: Some("2 nodes are lost".to_owned()),
            unreached: vec![("a".to_owned(), "b".to_owned())],
            waited_for: vec![("a".to_owned(), 1), ("c".to_owned(), 512)],
            logs_failed: vec!["b".to_owned()],
            ..well
        };
        let found = rows("etcd://h:1", &ill);
        assert_eq!(found.iter().filter(|(_, _, paint)| paint.is_some()).count(), 7);
        assert_eq!(found[2].1, "3 live, 2 down");
        assert!(
            found[3].1.ends_with("; 1 group without a live node, whose objects cannot be found")
        );
        assert!(found[4].1.contains("plasmon pool forget"));
        let expected = "groups are not complete without a (1 group), c (512 groups)";
        assert!(found[5].1.starts_with(expected));
        assert!(found[6].1.starts_with("the log of durable objects has failed on b:"));
        assert_eq!(found[7].1, "nodes do not reach each other: a and b");
    }
}
