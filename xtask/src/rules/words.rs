//! Words that do not belong into the repository: notes to self, paths of one machine, and the
//! settings of one network.

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};

const RULE: &str = "words";

/// A word and the reason. They are written in two halves, so that this file passes its own rule.
const BANNED: &[(&str, &str, &str)] = &[
    ("TO", "DO", "do it, or file an issue"),
    ("FIX", "ME", "fix it, or file an issue"),
    ("X", "XX", "say what is wrong, or file an issue"),
    ("DO NOT ", "MERGE", "finish it first"),
    ("/wo", "rk/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("/home/", "runner", "a path of one machine"),
    ("index", "-url", "a package index of one network"),
    ("find", "-links", "a package index of one network"),
    ("replace", "-with", "a package index of one network"),
    ("trusted", "-host", "a package index of one network"),
];

/// Phrases that are not plain English or not the field's word, and what stands for them.
/// The history of the project keeps its own words.
const RETIRED: &[(&str, &str, &str)] = &[
    ("memory pool for Arrow", " data", "shared-memory object store for Arrow data"),
    ("truth", " value", "boolean"),
    ("truth", " values", "booleans"),
    ("something that is", " none", "say what is wrong with it"),
    ("that is", " none", "that is invalid"),
    ("makes no", " sense", "is invalid"),
    ("started", " anew", "restarted"),
    ("connected", " anew", "reconnected"),
    ("shared", " out", "divided"),
    ("turned", " away", "refused"),
    ("by and", " by", "after a while"),
    ("is no", " text", "is not UTF-8, or: is not a string"),
    ("is no", " UTF-8", "is not UTF-8"),
    ("is no", " number", "is not a number"),
    ("texts with", " commas", "strings separated by commas"),
    ("has no word", " for", "cannot express"),
    ("that no clock", " shows", "out of range"),
    ("a mistake", " of its own", "a bug"),
    ("cannot be told", " which", "cannot determine which"),
    ("whose seats", " are", "connections"),
    ("gives", " way", "is evicted, or: is stopped"),
    ("gave", " way", "was evicted, or: was stopped"),
    ("does not hear", " us", "does not read its messages"),
    ("gone", " over", "visited"),
    ("was gone", " at once", "ended at once"),
    ("knows nothing of", " this client", "does not know this client"),
    ("obitu", "aries", "recent ends"),
    ("obit", "uary", "a recent end"),
    ("every", " door", "every binding"),
    ("lon", "ely_until", "idle_deadline"),
    ("lon", "ely", "idle, or: without clients"),
    ("no hello", " came", "the client sent no hello"),
    ("cele", "brate", "notify of the seal"),
    ("mou", "rn", "notify of the end"),
    ("bu", "ry", "reclaim"),
    ("bu", "ried", "reaped, or: reclaimed"),
    ("dis", "own", "uncharge"),
    ("fare", "well", "shutdown"),
    ("kno", "ck", "connection attempt"),
    ("kno", "cks", "connection attempts"),
    ("he", "ed", "handle"),
    ("un", "held", "unattached"),
    ("UN", "HELD", "unattached"),
    ("star", "ving", "blocked"),
    ("star", "ves", "is blocked"),
    ("creat", "ings", "pending objects"),
    ("part", "ings", "disconnects"),
    ("wait_for", "_company", "arm_idle_exit"),
    ("refuse_the", "_silent", "drop_unidentified"),
    ("no", "body", "name the component: no client, no process, nothing"),
    ("No", "body", "name the component: no client, no process, nothing"),
    ("some", "body", "name the component: a client, another process"),
    ("Some", "body", "name the component: a client, another process"),
    ("every", "body", "name the components: every client, all threads"),
    ("Every", "body", "name the components: every client, all threads"),
    ("who", "ever", "name the component: the client that"),
    ("Who", "ever", "name the component: the client that"),
];

/// Where retired phrases may stay.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/adr/"];

/// The hosts that an address may name: documents that stay, this machine, and those of examples.
/// Names below `.example` are no machine's, so they may stand anywhere.
const HOSTS: &[&str] = &[
    "apache.org",
    "arrow.apache.org",
    "maven.apache.org",
    "www.apache.org",
    "keepachangelog.com",
    "semver.org",
    "127.0.0.1",
    "localhost",
    "10.0.0.1",
    "HOST",
];

/// Checks the words and addresses of every text file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let written = tree.files.iter().filter(|file| file.name() != "Cargo.lock");
    written.flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_history = HISTORY.iter().any(|path| file.path.starts_with(path));
    for (at, line) in file.text.lines().enumerate() {
        for (start, end, reason) in BANNED {
            let word = format!("{start}{end}");
            if has_word(line, &word) {
                let message = format!("\"{word}\": {reason}");
                findings.push(Finding::at(&file.path, at + 1, RULE, message));
            }
        }
        for (start, end, instead) in RETIRED.iter().filter(|_| !is_history) {
            let phrase = format!("{start}{end}");
            if has_word(line, &phrase) {
                let message = format!("\"{phrase}\" is retired: {instead}");
                findings.push(Finding::at(&file.path, at + 1, RULE, message));
            }
        }
        let is_known = |host: &&str| HOSTS.contains(host) || host.ends_with(".example");
        for host in hosts(line).filter(|host| !is_known(host)) {
            let message = format!("an address of \"{host}\", which is not among the known ones");
            findings.push(Finding::at(&file.path, at + 1, RULE, message));
        }
    }
    findings
}

/// Whether the word stands in the line and not inside a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(letter);
        let after = line[at + word.len()..].chars().next().is_some_and(letter);
        let bounded_before = !word.starts_with(letter) || !before;
        bounded_before && (!word.ends_with(letter) || !after)
    })
}

/// The hosts of the web addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(|(at, mark)| {
        let scheme = &line[..at];
        if !scheme.ends_with("http") && !scheme.ends_with("https") {
            return None;
        }
        let rest = &line[at + mark.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-'));
        let host = &rest[..end.unwrap_or(rest.len())];
        (!host.is_empty()).then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&Tree::of(&[("docs/a.md", text)])).len()
    }

    #[test]
    fn ordinary_words_and_known_addresses_pass() {
        let address = "See https://arrow.apache.org/docs, and {scheme}://{host}.";
        assert_eq!(findings("A mastodon in the framework/x; name.XXXXXX of a template."), 0);
        assert_eq!(findings(address), 0);
    }

    #[test]
    fn notes_paths_and_foreign_addresses_are_refused() {
        for (start, end, _) in BANNED {
            assert_eq!(findings(&format!("here: {start}{end} there")), 1, "{start}{end}");
        }
        let address = ["https:", "//packages.example.internal/simple"].concat();
        assert_eq!(findings(&format!("get it from {address}")), 1);
    }
}
