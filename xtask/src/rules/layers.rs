//! The imports between crates. They run strictly downward; client and daemon never meet but in what
//! both build on. The picture is in `ARCHITECTURE.md`.

use crate::finding::Finding;
use crate::tree::{TextFile, Tree};

const RULE: &str = "layers";

/// How many packages from elsewhere a pure crate may build on.
const PURE_DEPENDENCIES_MAX: usize = 5;

/// Has no code, only dependencies, so it lies below whatever is built from packages of others.
const FEATURES: &str = "plasmon-features";

/// What tests share; built from as many crates as the features ask for that a test names.
const TESTKIT: &str = "plasmon-testkit";

/// A crate's place among the others.
struct Place {
    /// Its folder.
    folder: &'static str,
    /// The crates of this repository that it may import.
    below: &'static [&'static str],
    /// Whether it has no input and output of its own.
    pure: bool,
}

const fn place(folder: &'static str, below: &'static [&'static str]) -> Place {
    Place { folder, below, pure: false }
}

/// The table of layers, from the base up.
const PLACES: &[Place] = &[
    place("crates/features", &[]),
    Place { pure: true, ..place("crates/proto", &[]) },
    place("crates/shm", &["plasmon-proto"]),
    Place { pure: true, ..place("crates/store", &["plasmon-proto"]) },
    place("crates/spill", &["plasmon-proto"]),
    place("crates/log", &["plasmon-proto", "plasmon-shm", "plasmon-spill"]),
    Place { pure: true, ..place("crates/cluster", &["plasmon-proto"]) },
    place("crates/secrets", &[]),
    place("crates/certs", &[]),
    // In its tests.
    place("crates/net", &["plasmon-certs"]),
    place("crates/fabric", &["plasmon-proto"]),
    // The certificates in its tests.
    place("crates/etcd", &["plasmon-secrets", "plasmon-certs"]),
    place("crates/membership", &["plasmon-proto", "plasmon-cluster", "plasmon-etcd"]),
    Place { pure: true, ..place("crates/pool", &["plasmon-proto", "plasmon-cluster"]) },
    place(
        "crates/poold",
        &[
            "plasmon-proto",
            "plasmon-shm",
            "plasmon-cluster",
            "plasmon-secrets",
            "plasmon-certs",
            "plasmon-net",
            "plasmon-fabric",
            "plasmon-etcd",
            "plasmon-membership",
            "plasmon-pool",
        ],
    ),
    Place { pure: true, ..place("crates/plo", &[]) },
    place("crates/client", &["plasmon-proto", "plasmon-shm"]),
    place("crates/scatter", &[]),
    Place { pure: true, ..place("crates/arrow-ipc", &[]) },
    place("crates/sort", &["plasmon-scatter", "plasmon-arrow-ipc"]),
    place("crates/sort-store", &["plasmon-proto", "plasmon-shm", "plasmon-client", "plasmon-sort"]),
    place("crates/columns", &["plasmon-proto", "plasmon-client", "plasmon-arrow-ipc"]),
    place("crates/files", &[]),
    place("crates/keeper", &["plasmon-proto", "plasmon-shm"]),
    place(
        "crates/daemon",
        &[
            "plasmon-proto",
            "plasmon-secrets",
            "plasmon-shm",
            "plasmon-store",
            "plasmon-spill",
            "plasmon-log",
            "plasmon-keeper",
        ],
    ),
    place("crates/arrow-c", &["plasmon-columns"]),
    place(
        "crates/capi",
        &["plasmon-proto", "plasmon-client", "plasmon-columns", "plasmon-arrow-c"],
    ),
    place("crates/jni", &["plasmon-client"]),
    place(
        "crates/cli",
        &[
            "plasmon-proto",
            "plasmon-client",
            "plasmon-columns",
            "plasmon-cluster",
            "plasmon-net",
            "plasmon-certs",
            "plasmon-etcd",
            "plasmon-membership",
            "plasmon-files",
            "plasmon-sort",
            "plasmon-sort-store",
        ],
    ),
    place("hdf5/sys", &[]),
    place("hdf5/model", &["plasmon-scatter", "plasmon-arrow-ipc"]),
    place(
        "hdf5/store",
        &["plasmon-proto", "plasmon-client", "plasmon-columns", "plasmon-hdf5-model"],
    ),
    place("hdf5/plugin", &["plasmon-hdf5-sys", "plasmon-hdf5-model", "plasmon-hdf5-store"]),
    place("python/arrow", &["plasmon-arrow-c", "plasmon-columns"]),
    place("python/cpython", &[]),
    place("python/objects", &["plasmon-cpython", "plasmon-plo", "plasmon-python-arrow"]),
    place(
        "python",
        &[
            "plasmon-proto",
            "plasmon-plo",
            "plasmon-client",
            "plasmon-columns",
            "plasmon-files",
            "plasmon-sort",
            "plasmon-sort-store",
            "plasmon-cpython",
            "plasmon-python-arrow",
            "plasmon-python-objects",
        ],
    ),
    place("crates/testkit", &["plasmon-proto", "plasmon-client", "plasmon-store"]),
    place(
        "bench/native",
        &[
            "plasmon-proto",
            "plasmon-shm",
            "plasmon-certs",
            "plasmon-client",
            "plasmon-cluster",
            "plasmon-columns",
            "plasmon-etcd",
            "plasmon-fabric",
            "plasmon-log",
            "plasmon-spill",
        ],
    ),
    place(
        "tests/cluster",
        &[
            "plasmon-certs",
            "plasmon-client",
            "plasmon-cluster",
            "plasmon-net",
            "plasmon-etcd",
            "plasmon-testkit",
        ],
    ),
    place(
        "tests/soak",
        &[
            "plasmon-proto",
            "plasmon-shm",
            "plasmon-client",
            "plasmon-cluster",
            "plasmon-etcd",
            "plasmon-membership",
            "plasmon-testkit",
        ],
    ),
    place(
        "tests/pool",
        &[
            "plasmon-proto",
            "plasmon-store",
            "plasmon-cluster",
            "plasmon-pool",
            "plasmon-etcd",
            "plasmon-membership",
            "plasmon-testkit",
        ],
    ),
    place("tests/power", &["plasmon-proto", "plasmon-log", "plasmon-spill"]),
    place("tests/rdma", &["plasmon-fabric"]),
    place("tests/faults", &["plasmon-proto", "plasmon-shm", "plasmon-client", "plasmon-testkit"]),
    place(
        "tests/sim",
        &["plasmon-proto", "plasmon-shm", "plasmon-client", "plasmon-daemon", "plasmon-testkit"],
    ),
    place("xtask", &["plasmon-proto"]),
    place(
        "fuzz",
        &[
            "plasmon-certs",
            "plasmon-proto",
            "plasmon-shm",
            "plasmon-store",
            "plasmon-spill",
            "plasmon-log",
            "plasmon-cluster",
            "plasmon-net",
            "plasmon-pool",
            "plasmon-poold",
            "plasmon-etcd",
            "plasmon-plo",
            "plasmon-client",
            "plasmon-columns",
            "plasmon-daemon",
            "plasmon-hdf5-model",
            "plasmon-testkit",
        ],
    ),
];

/// Checks the dependencies of every crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    manifests.filter(|file| file.path != "Cargo.toml").flat_map(check_manifest).collect()
}

fn check_manifest(file: &TextFile) -> Vec<Finding> {
    let complain = |message: String| Finding::of(&file.path, RULE, message);
    let folder = file.path.trim_end_matches("/Cargo.toml");
    let Some(place) = PLACES.iter().find(|place| place.folder == folder) else {
        return vec![complain("this crate has no place in the table of xtask's layers".to_owned())];
    };
    let manifest: toml::Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![complain(format!("not TOML: {error}"))],
    };
    let mut findings = Vec::new();
    let imports = dependencies(&manifest, "dependencies");
    for name in imports.iter().filter(|name| name.starts_with("plasmon-")) {
        let features = name == FEATURES && !place.pure;
        if !place.below.contains(&name.as_str()) && !features {
            findings.push(complain(format!("{folder} must not import {name}")));
        }
    }
    for name in dependencies(&manifest, "dev-dependencies") {
        let may = name == TESTKIT || place.below.contains(&name.as_str());
        if name.starts_with("plasmon-") && !may {
            findings.push(complain(format!("the tests of {folder} must not import {name}")));
        }
    }
    let foreign = imports.iter().filter(|name| !name.starts_with("plasmon-")).count();
    if place.pure && foreign > PURE_DEPENDENCIES_MAX {
        findings.push(complain(format!(
            "{foreign} packages from elsewhere; a pure crate has {PURE_DEPENDENCIES_MAX} at most"
        )));
    }
    findings
}

/// The names in a section, also for single targets.
fn dependencies(manifest: &toml::Table, section: &str) -> Vec<String> {
    let names = |table: &toml::Table| -> Vec<String> {
        let section = table.get(section).and_then(toml::Value::as_table);
        section.map(|section| section.keys().cloned().collect()).unwrap_or_default()
    };
    let mut all = names(manifest);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    for target in targets.into_iter().flatten() {
        all.extend(target.1.as_table().map(names).unwrap_or_default());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn downward_imports_pass() {
        let text = "[dependencies]\nplasmon-proto.workspace = true\nlibc = '0.2'\n\
                    [dev-dependencies]\nplasmon-shm.workspace = true\n";
        assert!(findings("crates/client/Cargo.toml", text).is_empty());
    }

    #[test]
    fn upward_and_sideways_imports_are_refused() {
        let upward = "[dependencies]\nplasmon-store.workspace = true\n";
        assert_eq!(
            findings("crates/shm/Cargo.toml", upward),
            ["crates/shm must not import plasmon-store"]
        );
        let sideways = "[target.'cfg(unix)'.dependencies]\nplasmon-daemon.workspace = true\n";
        assert_eq!(findings("crates/client/Cargo.toml", sideways).len(), 1);
        let in_tests = "[dev-dependencies]\nplasmon-daemon.workspace = true\n";
        assert_eq!(findings("crates/client/Cargo.toml", in_tests).len(), 1);
    }

    #[test]
    fn an_unknown_crate_and_a_heavy_pure_one_are_refused() {
        assert_eq!(findings("crates/new/Cargo.toml", "[dependencies]\n").len(), 1);
        let heavy = "[dependencies]\na = '1'\nb = '1'\nc = '1'\nd = '1'\ne = '1'\nf = '1'\n";
        assert_eq!(findings("crates/store/Cargo.toml", heavy).len(), 1);
        assert!(findings("crates/spill/Cargo.toml", heavy).is_empty());
    }
}
