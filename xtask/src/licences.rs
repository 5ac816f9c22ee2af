//! The licences of what is linked in, checked without network: cargo knows them of every package
//! that it has fetched. A licence that is not in the list is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::finding::Finding;
use crate::tree;

const RULE: &str = "licences";

/// Licences that an Apache-2.0 product may be linked with.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages whose major versions may stand side by side, with the package that brings the older.
const DUPLICATES: &[(&str, &str)] = &[];

/// What the Python package needs when it runs, with the licence that was looked up for each. A new
/// need fails this check until its licence is added.
const PYTHON: &[(&str, &str)] = &[
    ("cython", "Apache-2.0"),
    ("h5py", "BSD-3-Clause"),
    ("joblib", "BSD-3-Clause"),
    ("matplotlib", "PSF-2.0"),
    ("numpy", "BSD-3-Clause"),
    ("pandas", "BSD-3-Clause"),
    ("polars", "MIT"),
    ("pyarrow", "Apache-2.0"),
];

/// The programs that the HDF5 connector is tested with, and what runs them, with the licence that
/// was looked up for each.
const HDF5_TESTS: &[(&str, &str)] = &[
    ("h5py", "BSD-3-Clause"),
    ("netcdf4", "MIT"),
    ("pandas", "BSD-3-Clause"),
    ("pyarrow", "Apache-2.0"),
    ("pytest", "MIT"),
    ("pytest-xdist", "MIT"),
    ("tables", "BSD-3-Clause"),
    ("xarray", "Apache-2.0"),
];
/// Where they are pinned.
const HDF5_REQUIREMENTS: &str = "hdf5/requirements-test.txt";

/// What the reader for Java needs, with the licence that was looked up for each. Those that are not
/// among [`ALLOWED`] are for tests alone.
const JAVA: &[(&str, &str)] = &[
    ("arrow-memory-unsafe", "Apache-2.0"),
    ("arrow-vector", "Apache-2.0"),
    ("junit-jupiter", "EPL-2.0"),
    ("slf4j-nop", "MIT"),
];

/// Checks all packages and prints what was counted.
pub(crate) fn run() -> Result<bool, String> {
    let packages = packages()?;
    let mut findings: Vec<Finding> = packages.iter().filter_map(check).collect();
    let read = |path: &str| std::fs::read_to_string(tree::root().join(path)).unwrap_or_default();
    findings.extend(check_python(&read("pyproject.toml"))?);
    findings.extend(check_requirements(HDF5_REQUIREMENTS, &read(HDF5_REQUIREMENTS), HDF5_TESTS));
    findings.extend(check_java(&read("readers/java/pom.xml")));
    findings.extend(check_javascript(&read("readers/javascript/package-lock.json"))?);
    for (name, versions) in duplicates(&packages) {
        let versions = versions.join(", ");
        println!("licences: {name} is linked in several major versions: {versions}");
    }
    println!("licences: {} packages from elsewhere", packages.len());
    Ok(crate::report("licences", &findings))
}

/// One package from elsewhere.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
}

/// Every package from elsewhere that the product and its tests are built from.
fn packages() -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(tree::root())
        .output()
        .map_err(|error| format!("cargo does not run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let text = |package: &Value, key: &str| package[key].as_str().map(str::to_owned);
    let foreign = packages.iter().filter(|package| !package["source"].is_null());
    Ok(foreign
        .map(|package| Package {
            name: text(package, "name").unwrap_or_default(),
            version: text(package, "version").unwrap_or_default(),
            licence: text(package, "license"),
        })
        .collect())
}

fn check(package: &Package) -> Option<Finding> {
    let what = format!("{} {}", package.name, package.version);
    match &package.licence {
        None => Some(Finding::of(&what, RULE, "names no licence")),
        Some(expression) if is_allowed(expression) => None,
        Some(expression) => Some(Finding::of(&what, RULE, format!("has {expression}"))),
    }
}

/// Whether an SPDX expression can be met with allowed licences: one branch of each `OR`, every
/// branch of each `AND`. The older form with a slash means `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let expression = strip_outer(expression.trim());
    if let Some((left, right)) = split_at_word(expression, " OR ") {
        return is_allowed(left) || is_allowed(right);
    }
    if let Some((left, right)) = split_at_word(expression, " AND ") {
        return is_allowed(left) && is_allowed(right);
    }
    ALLOWED.contains(&expression)
}

/// Splits at the first such word outside of parentheses.
fn split_at_word<'a>(expression: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    expression.match_indices(word).find_map(|(at, _)| {
        let before = &expression[..at];
        let open = before.matches('(').count() == before.matches(')').count();
        open.then(|| (before, &expression[at + word.len()..]))
    })
}

/// Takes away parentheses around the whole.
fn strip_outer(expression: &str) -> &str {
    let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return expression;
    };
    let mut depth = 0_i32;
    for c in inner.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth < 0 {
            return expression;
        }
    }
    strip_outer(inner.trim())
}

/// Packages in several major versions, but for those that are known.
fn duplicates(packages: &[Package]) -> BTreeMap<String, Vec<String>> {
    let mut majors: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in packages {
        majors.entry(&package.name).or_default().insert(major(&package.version));
    }
    let known = |name: &str| DUPLICATES.iter().any(|(known, _)| *known == name);
    let several = majors.into_iter().filter(|(name, majors)| majors.len() > 1 && !known(name));
    several.map(|(name, majors)| (name.to_owned(), majors.into_iter().collect())).collect()
}

/// The part of a version that says what is compatible: `1`, or `0.3` below one.
fn major(version: &str) -> String {
    let parts: Vec<&str> = version.split('.').collect();
    match parts.as_slice() {
        ["0", minor, ..] => format!("0.{minor}"),
        [major, ..] => (*major).to_owned(),
        [] => String::new(),
    }
}

/// The packages that `pyproject.toml` asks for at run time, also as extras.
fn check_python(project: &str) -> Result<Vec<Finding>, String> {
    let project: toml::Table = project.parse().map_err(|error| format!("{error}"))?;
    let Some(project) = project.get("project") else { return Ok(Vec::new()) };
    let mut wanted: Vec<&toml::Value> =
        project.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten().collect();
    let extras = project.get("optional-dependencies").and_then(toml::Value::as_table);
    let run_time = extras.into_iter().flatten().filter(|(name, _)| *name != "test");
    wanted.extend(run_time.filter_map(|(_, list)| list.as_array()).flatten());
    let names = wanted.into_iter().filter_map(toml::Value::as_str).map(package_name);
    let unknown = names.filter(|name| !PYTHON.iter().any(|(known, _)| known == name));
    Ok(unknown
        .map(|name| {
            let message = format!("{name} is needed at run time and its licence is not looked up");
            Finding::of("pyproject.toml", RULE, message)
        })
        .collect())
}

/// The packages in a file of requirements: each is pinned, known, and of an allowed licence.
fn check_requirements(path: &str, text: &str, known: &[(&str, &str)]) -> Vec<Finding> {
    let lines = text.lines().map(str::trim);
    let wanted = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    wanted
        .filter_map(|requirement| {
            let name = package_name(requirement);
            let message = match known.iter().find(|(known, _)| *known == name) {
                None => format!("{name} is needed and its licence is not looked up"),
                Some((_, licence)) if !is_allowed(licence) => format!("{name} has {licence}"),
                Some(_) if !requirement.contains("==") => format!("{name} is not pinned"),
                Some(_) => return None,
            };
            Some(Finding::of(path, RULE, message))
        })
        .collect()
}

/// The packages that the reader for Java asks for.
fn check_java(pom: &str) -> Vec<Finding> {
    let path = "readers/java/pom.xml";
    let inside = |text: &str, tag: &str| -> Vec<String> {
        let (start, end) = (format!("<{tag}>"), format!("</{tag}>"));
        let parts = text.split(&start).skip(1);
        parts.filter_map(|part| part.split(&end).next().map(str::to_owned)).collect()
    };
    let mut findings = Vec::new();
    for dependency in inside(&inside(pom, "dependencies").concat(), "dependency") {
        let name = inside(&dependency, "artifactId").concat();
        let is_test = inside(&dependency, "scope") == ["test"];
        match JAVA.iter().find(|(known, _)| *known == name) {
            None => {
                let message = format!("{name} is needed and its licence is not looked up");
                findings.push(Finding::of(path, RULE, message));
            }
            Some((_, licence)) if !is_test && !is_allowed(licence) => {
                findings.push(Finding::of(path, RULE, format!("{name} has {licence}")));
            }
            Some(_) => {}
        }
    }
    findings
}

/// The packages that the reader for JavaScript and its tests are locked to; npm tells the licence
/// of each.
fn check_javascript(lock: &str) -> Result<Vec<Finding>, String> {
    let lock: Value = serde_json::from_str(lock).map_err(|error| error.to_string())?;
    let packages = lock["packages"].as_object().ok_or("package-lock.json lists no packages")?;
    let foreign = packages.iter().filter(|(path, _)| !path.is_empty());
    Ok(foreign
        .filter_map(|(path, package)| {
            check(&Package {
                name: path.trim_start_matches("node_modules/").to_owned(),
                version: package["version"].as_str().unwrap_or_default().to_owned(),
                licence: package["license"].as_str().map(str::to_owned),
            })
        })
        .collect())
}

/// The name in a requirement.
fn package_name(requirement: &str) -> String {
    let end =
        requirement.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'));
    requirement[..end.unwrap_or(requirement.len())].to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, licence: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.map(str::to_owned),
        }
    }

    #[test]
    fn expressions_that_can_be_met_pass() {
        for expression in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-2.0 OR (BSD-3-Clause AND (ISC OR GPL-2.0))",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn expressions_that_cannot_be_met_are_refused() {
        for expression in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND (GPL-2.0 OR SSPL-1.0)", "Custom"]
        {
            assert!(!is_allowed(expression), "{expression}");
        }
        assert!(check(&package("a", "1.0.0", None)).is_some());
        assert!(check(&package("a", "1.0.0", Some("ISC"))).is_none());
    }

    #[test]
    fn major_versions_side_by_side_are_found() {
        let packages = [
            package("a", "1.2.0", None),
            package("a", "1.9.1", None),
            package("b", "0.3.1", None),
            package("b", "0.4.0", None),
        ];
        let found: Vec<String> = duplicates(&packages).into_keys().collect();
        assert_eq!(found, ["b"]);
    }

    #[test]
    fn java_needs_are_looked_up() {
        let pom = |name: &str, scope: &str| {
            format!(
                "<artifactId>own</artifactId><dependencies><dependency><artifactId>{name}\
                 </artifactId>{scope}</dependency></dependencies>"
            )
        };
        assert!(check_java(&pom("arrow-vector", "")).is_empty());
        assert!(check_java(&pom("junit-jupiter", "<scope>test</scope>")).is_empty());
        assert_eq!(check_java(&pom("junit-jupiter", "")).len(), 1);
        assert_eq!(check_java(&pom("left-pad", "")).len(), 1);
    }

    #[test]
    fn locked_packages_of_javascript_name_allowed_licences() {
        let lock = |licence: &str| {
            let package = format!("\"node_modules/a\": {{\"version\": \"1.0.0\"{licence}}}");
            check_javascript(&format!("{{\"packages\": {{\"\": {{}}, {package}}}}}")).unwrap()
        };
        assert!(lock(", \"license\": \"MIT\"").is_empty());
        assert_eq!(lock(", \"license\": \"GPL-3.0\"").len(), 1);
        assert_eq!(lock("").len(), 1);
    }

    #[test]
    fn requirements_are_pinned_and_looked_up() {
        let known = &[("h5py", "BSD-3-Clause"), ("left-pad", "GPL-3.0")];
        let count = |text: &str| check_requirements("r.txt", text, known).len();
        assert_eq!(count("# tests\nh5py==3.16.0\n\n"), 0);
        assert_eq!(count("h5py>=3\n"), 1);
        assert_eq!(count("Left_Pad==1.0\nright-pad==1.0\n"), 2);
    }

    #[test]
    fn python_needs_are_looked_up() {
        let good = "[project]\ndependencies = [\"numpy>=1.24\"]\n\
                    [project.optional-dependencies]\ntest = [\"pytest\"]\narrow = [\"pyarrow\"]\n";
        assert!(check_python(good).unwrap().is_empty());
        let bad = "[project]\ndependencies = [\"Left_Pad~=1.0\"]\n";
        assert_eq!(check_python(bad).unwrap().len(), 1);
    }
}
