//! `plasmon spark`: what Apache Spark is told so that its shuffle goes through the store.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::arguments::{Arguments, Spark};
use crate::output::Output;

use super::doctor::{Check, Verdict, check, report};

const JAR: &str = "plasmon-spark.jar";
const PACKAGE: &str = "org.apache.spark.shuffle.plasmon";

/// The oldest Java that the jar runs on.
const JAVA_WANTED: u32 = 17;

/// The oldest line of Spark whose shuffle may outlive its executors.
const SPARK_WANTED: (u32, u32) = (3, 5);

/// How long the temporary directory's path may be, so that a socket in it still has a name.
const TEMPORARY_BYTES_MAX: usize = 68;

/// Runs one of the commands.
pub(super) fn run(arguments: &Arguments, command: &Spark, output: &Output) -> Result<()> {
    match command {
        Spark::Jar => {
            let jar = jar()?;
            output.value(&json!({ "jar": jar }), || jar.display().to_string())
        }
        Spark::Conf => {
            let conf = conf(arguments.socket.as_deref())?;
            output.value(&json!(conf), || lines(&conf))
        }
        Spark::Submit { arguments: rest } => submit(arguments.socket.as_deref(), rest),
        Spark::Doctor => report(&[java(), spark(), jar_check(), temporary()], output),
    }
}

/// Where the jar is: `PLASMON_SPARK_JAR`, beside this command, where an installation puts it, or
/// where the build of this repository does.
fn jar() -> Result<PathBuf> {
    if let Some(jar) = env::var_os("PLASMON_SPARK_JAR").filter(|value| !value.is_empty()) {
        let jar = PathBuf::from(jar);
        if !jar.is_file() {
            bail!("PLASMON_SPARK_JAR names {}, which is no file", jar.display());
        }
        return Ok(jar);
    }
    let exe = env::current_exe().context("this command does not know where it is")?;
    let folder = exe.parent().unwrap_or(Path::new("/"));
    let places = ["", "../share/plasmon", "../../spark/target"];
    let found = places.iter().map(|place| folder.join(place).join(JAR)).find(|jar| jar.is_file());
    let jar = found.with_context(|| {
        format!(
            "there is no {JAR} for this command ({}); run `make spark PREFIX={}` in Plasmon's \
             sources (it needs Java {JAVA_WANTED} and Maven), or name a jar with PLASMON_SPARK_JAR",
            exe.display(),
            folder.parent().unwrap_or(folder).display()
        )
    })?;
    Ok(jar.canonicalize().unwrap_or(jar))
}

/// Everything that Spark has to be told.
fn conf(socket: Option<&Path>) -> Result<BTreeMap<&'static str, String>> {
    let jar = jar()?.display().to_string();
    let mut conf = BTreeMap::from([
        ("spark.shuffle.manager", format!("{PACKAGE}.PlasmonShuffleManager")),
        ("spark.shuffle.sort.io.plugin.class", format!("{PACKAGE}.PlasmonShuffleDataIO")),
        ("spark.driver.extraClassPath", jar.clone()),
        ("spark.executor.extraClassPath", jar),
    ]);
    if let Some(socket) = socket {
        conf.insert("spark.plasmon.store", socket.display().to_string());
    }
    Ok(conf)
}

fn lines(conf: &BTreeMap<&str, String>) -> String {
    let lines: Vec<String> = conf.iter().map(|(key, value)| format!("{key} {value}")).collect();
    lines.join("\n")
}

/// Replaces this process by spark-submit.
fn submit(socket: Option<&Path>, rest: &[String]) -> Result<()> {
    let program = spark_submit()?;
    let mut command = Command::new(&program);
    for (key, value) in conf(socket)? {
        command.arg("--conf").arg(format!("{key}={value}"));
    }
    let error = command.args(rest).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// Spark's command: of `SPARK_HOME`, or in `PATH`.
fn spark_submit() -> Result<PathBuf> {
    const NAME: &str = "spark-submit";
    if let Some(home) = env::var_os("SPARK_HOME").filter(|value| !value.is_empty()) {
        let program = PathBuf::from(home).join("bin").join(NAME);
        if !program.is_file() {
            bail!("SPARK_HOME is set, but there is no {}", program.display());
        }
        return Ok(program);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(NAME)).find(|file| file.is_file());
    found.context("there is no spark-submit in PATH; set SPARK_HOME, or install pyspark")
}

fn java() -> Check {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let program = home.filter(|java| java.is_file()).unwrap_or_else(|| PathBuf::from("java"));
    let advice = format!("install Java {JAVA_WANTED} or later, or set JAVA_HOME");
    let Ok(told) = Command::new(&program).arg("-version").output() else {
        return check("java", Verdict::Bad, "not found").advise(&advice);
    };
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    let version = text.split('"').nth(1).unwrap_or("unknown").to_owned();
    let major = version.split('.').next().and_then(|number| number.parse::<u32>().ok());
    let good = major.is_some_and(|major| major >= JAVA_WANTED);
    let verdict = if good { Verdict::Good } else { Verdict::Bad };
    check("java", verdict, version).advise(&advice)
}

fn spark() -> Check {
    let program = match spark_submit() {
        Ok(program) => program,
        Err(error) => return check("spark", Verdict::Bad, error.to_string()),
    };
    let Some(version) = spark_version(&program) else {
        return check("spark", Verdict::Note, format!("{}, of unknown version", program.display()))
            .advise("`spark-submit --version` tells it; 3.5 and 4.x are supported");
    };
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let line = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let verdict = if line >= SPARK_WANTED { Verdict::Good } else { Verdict::Bad };
    check("spark", verdict, format!("{version} ({})", program.display()))
        .advise("Spark 3.5 or later is needed")
}

/// The version in the name of Spark's jar, in the distribution that a command belongs to: of a
/// tarball `bin/../jars`, of pip `bin/../lib/python*/site-packages/pyspark/jars`.
fn spark_version(program: &Path) -> Option<String> {
    let root = program.canonicalize().ok()?.parent()?.parent()?.to_owned();
    let pythons = fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    let pip = pythons.map(|entry| entry.path().join("site-packages/pyspark/jars"));
    let folders = [root.join("jars")].into_iter().chain(pip);
    let mut names = folders
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let core = names.find(|name| name.starts_with("spark-core_"))?;
    Some(core.strip_suffix(".jar")?.split_once('-')?.1.split_once('-')?.1.to_owned())
}

fn jar_check() -> Check {
    match jar() {
        Ok(jar) => check("jar", Verdict::Good, jar.display().to_string()),
        Err(error) => check("jar", Verdict::Bad, error.to_string()),
    }
}

/// The driver puts its store's socket into the temporary directory.
fn temporary() -> Check {
    let folder = env::temp_dir();
    let long = folder.as_os_str().len() > TEMPORARY_BYTES_MAX;
    let verdict = if long { Verdict::Note } else { Verdict::Good };
    check("temporary folder", verdict, folder.display().to_string()).advise(
        "its path is too long for a socket in it: pass \
         --driver-java-options -Djava.io.tmpdir=/tmp",
    )
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

    #[test]
    fn the_settings_are_lines_of_a_defaults_file() {
        let conf = BTreeMap::from([("spark.a", "1".to_owned()), ("spark.b", "x y".to_owned())]);
        assert_eq!(lines(&conf), "spark.a 1\nspark.b x y");
    }
}
