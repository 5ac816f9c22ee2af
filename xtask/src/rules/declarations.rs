//! What is declared must also be there: a message that nothing answers or that is never fuzzed, a
//! setting that nothing reads, a crate that the map of the repository does not show.

use crate::finding::Finding;
use crate::rust::RustSource;
use crate::tree::{Tree, crate_of};

const RULE: &str = "declared";

const MESSAGES: &str = "crates/proto/src/message.rs";
const SETTINGS: &str = "crates/proto/src/settings.rs";
const MAP: &str = "ARCHITECTURE.md";

/// Where each request has to be, and what for.
const PLACES: &[(&[&str], &str)] = &[
    (&["crates/store", "crates/daemon"], "answered by the store or the daemon"),
    (&["crates/client"], "made by the client"),
    (&["fuzz"], "made by the fuzzed clients (fuzz/src/requests.rs)"),
];

/// Requests that one of the places does not have, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("Unsubscribe", "crates/client", "a subscription of the client ends with its connection"),
    ("Agent", "crates/client", "the pool daemon has a connection of its own"),
    ("Tell", "crates/client", "the pool daemon has a connection of its own"),
    ("TellAdoptions", "crates/client", "the pool daemon has a connection of its own"),
    ("Land", "crates/client", "the pool daemon has a connection of its own"),
    ("SealLanded", "crates/client", "the pool daemon has a connection of its own"),
    ("ListNamespace", "crates/client", "the pool daemon has a connection of its own"),
    ("Describe", "crates/client", "the pool daemon has a connection of its own"),
    ("CheckLogged", "crates/client", "the pool daemon has a connection of its own"),
    ("Shutdown", "fuzz", "the fuzzed store has no daemon that ends"),
    ("ShutdownUnused", "fuzz", "the fuzzed store has no daemon that ends"),
];

/// Checks requests, settings and crates.
pub(super) fn check(tree: &Tree, sources: &[RustSource<'_>]) -> Vec<Finding> {
    [check_requests(sources), check_settings(sources), check_crates(tree)].concat()
}

fn check_requests(sources: &[RustSource<'_>]) -> Vec<Finding> {
    let Some(messages) = source(sources, MESSAGES) else { return Vec::new() };
    let mut findings = Vec::new();
    for (line, request) in variants(messages, "pub enum Request {") {
        let named = format!("Request::{request}");
        for (crates, what) in PLACES {
            let excepted = EXCEPTIONS
                .iter()
                .any(|(name, place, _)| *name == request && crates.contains(place));
            let mut places = sources.iter().filter(|source| {
                let path = source.file.path.as_str();
                crates.contains(&crate_of(path))
                    && (path.contains("/src/") || path.contains("/fuzz_targets/"))
            });
            if !excepted && !places.any(|source| has_word(source, &named)) {
                let message = format!("{named} is declared and not {what}");
                findings.push(Finding::at(MESSAGES, line, RULE, message));
            }
        }
    }
    findings
}

fn check_settings(sources: &[RustSource<'_>]) -> Vec<Finding> {
    let Some(settings) = source(sources, SETTINGS) else { return Vec::new() };
    let daemon: Vec<_> = sources
        .iter()
        .filter(|source| crate_of(&source.file.path) == "crates/daemon")
        .filter(|source| source.file.path.contains("/src/"))
        .collect();
    keys(settings)
        .filter(|(_, key)| {
            !daemon.iter().any(|source| has_word(source, &format!("settings.{key}")))
        })
        .map(|(line, key)| {
            let message = format!("the setting {key} is declared, and the daemon does not read it");
            Finding::at(SETTINGS, line, RULE, message)
        })
        .collect()
}

/// Every crate has its folder in the map, also those that bind another language.
fn check_crates(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file(MAP) else { return Vec::new() };
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    manifests
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"))
        .filter(|folder| !map.text.contains(folder))
        .map(|folder| Finding::of(MAP, RULE, format!("does not mention the crate {folder}")))
        .collect()
}

fn source<'a>(sources: &'a [RustSource<'_>], path: &str) -> Option<&'a RustSource<'a>> {
    sources.iter().find(|source| source.file.path == path)
}

/// The variants of an enum, with their lines: what is indented once within its braces.
fn variants<'a>(source: &'a RustSource<'_>, head: &str) -> Vec<(usize, &'a str)> {
    let lines = source.product_lines().skip_while(|(_, line)| !line.starts_with(head)).skip(1);
    let inside = lines.take_while(|(_, line)| !line.starts_with('}'));
    inside
        .filter_map(|(number, line)| Some((number, name_of(line.strip_prefix("    ")?)?)))
        .collect()
}

/// The name that a line without indentation begins with.
fn name_of(line: &str) -> Option<&str> {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
    line.starts_with(|c: char| c.is_ascii_uppercase()).then(|| &line[..end])
}

/// The keys in the table of settings, with their lines: `key: Type = "default";`.
fn keys<'a>(source: &'a RustSource<'_>) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = source.product_lines().skip_while(|(_, line)| !line.starts_with("settings! {"));
    let inside = lines.skip(1).take_while(|(_, line)| !line.starts_with('}'));
    inside.filter_map(|(number, line)| Some((number, line.trim().split_once(": ")?.0)))
}

/// Whether product code has this, not as the beginning of a longer name.
fn has_word(source: &RustSource<'_>, word: &str) -> bool {
    source.product_lines().any(|(_, line)| {
        line.match_indices(word).any(|(at, _)| {
            let rest = &line[at + word.len()..];
            !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = "pub enum Request {\n    /// One.\n    Get {\n        /// Ids.\n        \
                            ids: Vec<ObjectId>,\n    },\n    GetAll,\n}\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let sources = super::super::sources(&tree);
        check(&tree, &sources).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_request_is_answered_made_and_fuzzed() {
        let all = "fn f() { (Request::Get { ids }, Request::GetAll); }\n";
        let some = "fn f() { Request::GetAll; }\n";
        let files = |store, client, fuzz| {
            [
                (MESSAGES, DECLARED),
                ("crates/store/src/dispatch.rs", store),
                ("crates/client/src/rpc.rs", client),
                ("fuzz/src/requests.rs", fuzz),
            ]
        };
        assert_eq!(findings(&files(all, all, all)), Vec::<String>::new());
        for places in [files(some, all, all), files(all, some, all), files(all, all, some)] {
            let found = findings(&places);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("Request::Get is declared and not "), "{found:?}");
        }
        let test = "#[cfg(test)]\nmod tests {\n    fn f() { Request::Get; Request::GetAll; }\n}\n";
        assert_eq!(findings(&files(test, all, all)).len(), 2, "a test answers nothing");
    }

    #[test]
    fn a_setting_is_read_by_the_daemon() {
        let settings = "settings! {\n    /// Doc.\n    spin_us: u32 = \"20\";\n}\n";
        let files = |read| [(SETTINGS, settings), ("crates/daemon/src/config.rs", read)];
        assert!(findings(&files("fn f() { settings.spin_us; }\n")).is_empty());
        let found = findings(&files("fn f() { settings.spin_us_max; }\n"));
        assert_eq!(found, ["the setting spin_us is declared, and the daemon does not read it"]);
    }

    #[test]
    fn a_crate_is_on_the_map() {
        let files = [(MAP, "# Map\n\ncrates/capi\n"), ("crates/capi/Cargo.toml", "")];
        assert!(findings(&files).is_empty());
        assert_eq!(findings(&[files[0], ("hdf5/sys/Cargo.toml", "")]).len(), 1);
    }
}
