//! One version for everything: the workspace's.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "versions";

/// Compares every place that names the version with the workspace's.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(version) = workspace_version(tree) else {
        return vec![Finding::of("Cargo.toml", RULE, "no workspace.package.version")];
    };
    let mut findings = check_python(tree, &version);
    for header in tree.files.iter().filter(|file| file.name() == "plasmon.h") {
        let wanted = format!("\"{version}\"");
        let named = header.text.lines().any(|line| {
            line.trim_start().starts_with("#define PLASMON_VERSION ") && line.contains(&wanted)
        });
        if !named {
            let message = format!("does not define PLASMON_VERSION as {wanted}");
            findings.push(Finding::of(&header.path, RULE, message));
        }
    }
    findings
}

fn workspace_version(tree: &Tree) -> Option<String> {
    let manifest: toml::Table = tree.file("Cargo.toml")?.text.parse().ok()?;
    let version = manifest.get("workspace")?.get("package")?.get("version")?;
    version.as_str().map(str::to_owned)
}

/// The Python package names the same version, or takes it from the Rust one.
fn check_python(tree: &Tree, version: &str) -> Vec<Finding> {
    let path = "pyproject.toml";
    let Some(file) = tree.file(path) else { return Vec::new() };
    let complain = |message: String| vec![Finding::of(path, RULE, message)];
    let project: toml::Table = match file.text.parse() {
        Ok(project) => project,
        Err(error) => return complain(format!("not TOML: {error}")),
    };
    let project = project.get("project");
    let dynamic = project
        .and_then(|project| project.get("dynamic")?.as_array())
        .is_some_and(|names| names.iter().any(|name| name.as_str() == Some("version")));
    match project.and_then(|project| project.get("version")?.as_str()) {
        Some(found) if found == version => Vec::new(),
        Some(found) => complain(format!("version {found} instead of {version}")),
        None if dynamic => Vec::new(),
        None => complain("names no version and does not take it from Cargo".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARGO: &str = "[workspace.package]\nversion = \"1.2.3\"\n";

    fn findings(pyproject: &str, header: &str) -> usize {
        let files = [
            ("Cargo.toml", CARGO),
            ("pyproject.toml", pyproject),
            ("crates/capi/include/plasmon.h", header),
        ];
        check(&Tree::of(&files)).len()
    }

    #[test]
    fn equal_versions_pass() {
        let header = "#define PLASMON_VERSION \"1.2.3\"\n";
        assert_eq!(findings("[project]\nversion = \"1.2.3\"\n", header), 0);
        assert_eq!(findings("[project]\ndynamic = [\"version\"]\n", header), 0);
    }

    #[test]
    fn every_other_version_is_refused() {
        let header = "#define PLASMON_VERSION \"1.2.3\"\n";
        assert_eq!(findings("[project]\nversion = \"1.2.4\"\n", header), 1);
        assert_eq!(findings("[project]\nname = \"x\"\n", header), 1);
        assert_eq!(findings("[project]\nversion = \"1.2.3\"\n", "#define A 1\n"), 1);
        assert_eq!(check(&Tree::of(&[("Cargo.toml", "[workspace]\n")])).len(), 1);
    }
}
