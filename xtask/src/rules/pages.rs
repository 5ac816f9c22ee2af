//! Markdown: one heading of the first order, links and paths that lead somewhere, and a map that is
//! whole.

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};

const RULE: &str = "pages";

/// Pages that tell of the past: what they name may be gone.
const PAST: &[&str] = &["CHANGELOG.md", "docs/adr/"];

/// Paths that only a build makes.
const BUILT: &[&str] = &["spark/target"];

/// Checks every page, and that the map names every folder.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        tree.with_extension(&["md"]).flat_map(|file| check_page(tree, file)).collect();
    findings.extend(check_map(tree));
    findings
}

fn check_page(tree: &Tree, file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let headings = prose(&file.text).filter(|(_, line)| line.starts_with("# ")).count();
    if headings != 1 {
        let message = format!("{headings} headings of the first order instead of one");
        findings.push(Finding::of(&file.path, RULE, message));
    }
    for (number, line) in prose(&file.text) {
        for target in links(line) {
            if let Some(problem) = broken(tree, file, target) {
                findings.push(Finding::at(&file.path, number, RULE, problem));
            }
        }
        let gone = paths(tree, line).filter(|path| {
            !PAST.iter().any(|past| file.path.starts_with(past)) && is_gone(tree, path)
        });
        findings.extend(gone.map(|path| {
            let message = format!("names {path}, which does not exist");
            Finding::at(&file.path, number, RULE, message)
        }));
    }
    findings
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// The targets of the links in a line, without those inside of code.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, mark)| {
        if line[..at].matches('`').count() % 2 == 1 {
            return None;
        }
        let rest = &line[at + mark.len()..];
        rest.find(')').map(|end| rest[..end].split(' ').next().unwrap_or_default())
    })
}

/// What is written as code in a line and begins with a folder of the root.
fn paths<'a>(tree: &'a Tree, line: &'a str) -> impl Iterator<Item = &'a str> {
    line.split('`').skip(1).step_by(2).filter(|code| {
        let folder = code.split_once('/').map_or("", |(folder, _)| folder);
        !folder.is_empty() && tree.has(folder) && !code.contains([' ', '*', '<', '{', '$'])
    })
}

/// Whether a path names nothing. `NAME` stands for any name, `path:12` for a line.
fn is_gone(tree: &Tree, path: &str) -> bool {
    let path = path.split([':', '#']).next().unwrap_or(path).trim_end_matches('/');
    let is_record = path.strip_prefix("docs/adr/").is_some_and(|number| {
        tree.paths.iter().any(|known| known.starts_with(&format!("docs/adr/{number}-")))
    });
    !path.contains("NAME") && !BUILT.contains(&path) && !is_record && !tree.has(path)
}

/// Why a link leads nowhere, `None` when it leads somewhere or out of the repository.
fn broken(tree: &Tree, from: &TextFile, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.path.clone() } else { resolve(&from.path, path)? };
    if !tree.has(&path) {
        return Some(format!("a link to {target}, which does not exist"));
    }
    let page = tree.file(&path).filter(|page| page.extension() == "md")?;
    let known = prose(&page.text).any(|(_, line)| line.starts_with('#') && slug(line) == anchor);
    (!anchor.is_empty() && !known).then(|| format!("a link to {target}: no such heading"))
}

/// The path that a relative link names, from the root.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `ARCHITECTURE.md` names every folder of the root and every crate.
fn check_map(tree: &Tree) -> Vec<Finding> {
    let path = "ARCHITECTURE.md";
    let Some(map) = tree.file(path) else {
        return vec![Finding::of(path, RULE, "there is no map of the repository")];
    };
    let mut folders: Vec<String> = tree
        .files
        .iter()
        .filter_map(|file| {
            let top = file.top_folder().filter(|top| !top.starts_with('.'))?;
            let inner = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
            Some(inner.map_or(top.to_owned(), |(name, _)| format!("crates/{name}")))
        })
        .collect();
    folders.sort();
    folders.dedup();
    let missing = folders.into_iter().filter(|folder| !map.text.contains(folder.as_str()));
    missing.map(|folder| Finding::of(path, RULE, format!("does not mention {folder}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(page: &str) -> Vec<String> {
        let map = "# Map\n\n`docs` has the pages, `crates/shm` the floor.\n";
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", map),
            ("crates/shm/src/lib.rs", ""),
            (".ci/run", ""),
            ("docs/a.md", page),
            ("docs/formats/b.md", "# B\n\n## The `second` part, again\n"),
        ]);
        check(&tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_page_with_one_heading_and_good_links_passes() {
        let page = "# A\n\n[b](formats/b.md#the-second-part-again) [map](../ARCHITECTURE.md)\n\
                    [shm](../crates/shm/) [self](#a) [web](https://apache.org) `[no](link)`\n\
                    ```sh\n# a comment\n[not](a-link)\n```\n";
        assert_eq!(findings(page), Vec::<String>::new());
    }

    #[test]
    fn headings_and_links_are_checked() {
        assert_eq!(findings("text\n").len(), 1);
        assert_eq!(findings("# A\n\n# B\n").len(), 1);
        assert_eq!(findings("# A\n\n[gone](c.md)\n"), ["a link to c.md, which does not exist"]);
        assert_eq!(findings("# A\n\n[b](formats/b.md#third)\n").len(), 1);
        assert_eq!(findings("# A\n\n[above](../../x.md) [b](../b.md)\n").len(), 1);
    }

    #[test]
    fn paths_in_the_text_exist() {
        assert_eq!(
            findings("# A\n\n`crates/shm/src/lib.rs:3` and `docs/formats/NAME.md`\n").len(),
            0
        );
        let gone = "# A\n\n`crates/shm/src/sleep_flag.rs`\n";
        assert_eq!(findings(gone), ["names crates/shm/src/sleep_flag.rs, which does not exist"]);
        let tree = Tree::of(&[("docs/adr/0001-a.md", gone), ("crates/shm/src/lib.rs", "")]);
        assert_eq!(check(&tree).len(), 1, "the missing map, and nothing of the past");
    }

    #[test]
    fn the_map_names_every_folder() {
        let tree = Tree::of(&[("ARCHITECTURE.md", "# Map\n\ncrates/shm\n"), ("bench/a.py", "")]);
        assert_eq!(check(&tree).len(), 1);
        assert_eq!(check(&Tree::of(&[("bench/a.py", "")])).len(), 1);
    }
}
