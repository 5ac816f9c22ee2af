//! The Spark and the Java that `spark-submit` runs with, found as its scripts find them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::command_line::{CommandLine, properties};

/// How long Java may take to print its properties.
const JAVA_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer that is read.
const JAVA_BYTES_MAX: u64 = 1 << 20;

/// A variable that is set and not empty, as a path.
pub(super) fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Spark's command: of `SPARK_HOME`, or in `PATH`.
pub(super) fn spark_submit() -> Result<PathBuf> {
    const NAME: &str = "spark-submit";
    if let Some(home) = variable("SPARK_HOME") {
        let program = home.join("bin").join(NAME);
        if !program.is_file() {
            bail!("SPARK_HOME is set, but there is no {}", program.display());
        }
        return Ok(program);
    }
    in_path(NAME).context("there is no spark-submit in PATH; set SPARK_HOME, or install pyspark")
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The folder of the distribution that a command belongs to: of a tarball `bin/..`, of pip
/// `bin/../lib/python*/site-packages/pyspark`.
fn home(program: &Path) -> Option<PathBuf> {
    let root = program.canonicalize().ok()?.parent()?.parent()?.to_owned();
    if root.join("jars").is_dir() {
        return Some(root);
    }
    let pythons = fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    let mut pip = pythons.map(|entry| entry.path().join("site-packages/pyspark"));
    Some(pip.find(|folder| folder.is_dir()).unwrap_or(root))
}

/// The version in the name of Spark's jar.
pub(super) fn spark_version(program: &Path) -> Option<String> {
    let jars = fs::read_dir(home(program)?.join("jars")).ok()?;
    let mut names = jars.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let core = names.find(|name| name.starts_with("spark-core_"))?;
    Some(core.strip_suffix(".jar")?.split_once('-')?.1.split_once('-')?.1.to_owned())
}

/// The settings of the files that a command line makes Spark read; `--properties-file` wins.
pub(super) fn defaults(program: &Path, line: &CommandLine) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    if line.properties_file.is_none() || line.loads_defaults {
        let folder = variable("SPARK_CONF_DIR").or_else(|| {
            let home = variable("SPARK_HOME").or_else(|| home(program));
            Some(home?.join("conf"))
        });
        let file = folder.map(|folder| folder.join("spark-defaults.conf"));
        if let Some(file) = file.filter(|file| file.is_file()) {
            found = settings(&file)?;
        }
    }
    if let Some(file) = &line.properties_file {
        found.extend(settings(Path::new(file))?);
    }
    Ok(found)
}

fn settings(file: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(file);
    let text =
        text.with_context(|| format!("cannot read Spark's settings in {}", file.display()))?;
    Ok(properties(&text))
}

/// The properties of a Java installation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Java {
    /// As it is written in Java's own words, such as `17.0.9`.
    pub(super) version: String,
    /// The number that classes are compiled for, such as 17.
    pub(super) major: u32,
    /// Where temporary files go.
    pub(super) temporary: String,
}

/// The program that Spark starts: of `JAVA_HOME` if that is set, else in `PATH`.
pub(super) fn java_program() -> Result<PathBuf> {
    let Some(home) = variable("JAVA_HOME") else {
        return in_path("java").context("not found: JAVA_HOME is not set, and PATH has no java");
    };
    let program = home.join("bin/java");
    if !program.is_file() {
        bail!("JAVA_HOME is set, but there is no {}", program.display());
    }
    Ok(program)
}

/// Runs Java with the environment that `submit` would give it.
pub(super) fn java(program: &Path) -> Result<Java> {
    let mut command = Command::new(program);
    command.args(["-XshowSettings:properties", "-version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let stderr = child.stderr.take().context("Java has no standard error")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let outcome = stderr.take(JAVA_BYTES_MAX).read_to_end(&mut text);
        // The receiver is gone if Java took too long.
        let _ = sender.send(outcome.map(|_| text));
    });
    let Ok(text) = receiver.recv_timeout(JAVA_TIMEOUT) else {
        let stopped = child.kill().and_then(|()| child.wait());
        stopped.with_context(|| format!("{} does not answer", program.display()))?;
        bail!("{} did not answer within {JAVA_TIMEOUT:?}", program.display());
    };
    // Its standard error is closed: it ends, or is ended.
    drop(child.kill());
    child.wait().context("waiting for Java")?;
    let text = String::from_utf8_lossy(&text?).into_owned();
    parse_java(&text).with_context(|| {
        let said = text.lines().find(|line| !is_chatter(line)).unwrap_or("nothing");
        format!("{} does not print its version, but: {said}", program.display())
    })
}

/// Lines that Java prints about variables, such as `Picked up JAVA_TOOL_OPTIONS: -Da="b"`.
fn is_chatter(line: &str) -> bool {
    line.starts_with("Picked up ") || line.starts_with("NOTE: Picked up ")
}

/// Reads the properties that Java prints.
fn parse_java(text: &str) -> Option<Java> {
    let property = |name: &str| {
        let values = text.lines().filter(|line| !is_chatter(line));
        let mut values = values.filter_map(|line| line.trim().split_once(" = "));
        values.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let specification = property("java.specification.version")?;
    let major = specification.strip_prefix("1.").unwrap_or(&specification).parse().ok()?;
    let temporary = property("java.io.tmpdir").unwrap_or_else(|| "/tmp".to_owned());
    Some(Java { version: property("java.version")?, major, temporary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_distribution() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("bin/spark-submit");
        let jars = root.path().join("lib/python3.11/site-packages/pyspark/jars");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        assert_eq!(spark_version(&program), None);
        fs::create_dir_all(&jars).unwrap();
        fs::write(jars.join("spark-core_2.13-4.3.0.jar"), "").unwrap();
        assert_eq!(spark_version(&program).as_deref(), Some("4.3.0"));
    }

    /// The first quoted word was taken for the version, also that of a variable.
    #[test]
    fn lines_about_variables_are_not_the_version() {
        let parse_java =
            |text: &str| parse_java(text).map(|java| (java.version, java.major, java.temporary));
        let chatter = "Picked up JAVA_TOOL_OPTIONS: -Dx=\"99\" java.version = 3\n";
        let printed = "Property settings:\n    java.io.tmpdir = /t\n    java.version = 17.0.9\n    \
                       java.specification.version = 17\n\nopenjdk version \"17.0.9\"\n";
        let wanted = Some(("17.0.9".to_owned(), 17, "/t".to_owned()));
        assert_eq!(parse_java(&format!("{chatter}{printed}")), wanted);
        let old = "    java.version = 1.8.0_392\n    java.specification.version = 1.8\n";
        assert_eq!(parse_java(old), Some(("1.8.0_392".to_owned(), 8, "/tmp".to_owned())));
        assert_eq!(parse_java(chatter), None);
        assert_eq!(parse_java("Error: Could not create the Java Virtual Machine.\n"), None);
    }
}
