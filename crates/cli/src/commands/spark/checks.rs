//! `plasmon spark doctor`: checks exactly what `plasmon spark submit` would use.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arguments::{Arguments, SparkDoctor};
use crate::commands::check::{Check, Verdict, check};

use super::archive::Archive;
use super::command_line::CommandLine;
use super::installation::{Java, defaults, java, java_program, spark_submit, spark_version};
use super::jar::{JAVA_WANTED, PACKAGE, jar};
use super::settings::{Settings, own};
use super::store;

/// The oldest line of Spark whose shuffle may outlive its executors.
const SPARK_WANTED: (u32, u32) = (3, 5);

/// The longest path of the temporary directory that leaves room for the name of a socket in it.
const TEMPORARY_BYTES_MAX: usize = 68;

/// All checks, in the order in which `submit` would meet the faults.
pub(super) fn checks(arguments: &Arguments, doctor: &SparkDoctor) -> Vec<Check> {
    let (java_check, java) = java_check();
    let program = spark_submit();
    let found = settings(arguments, doctor, program.as_deref().ok());
    let mut checks = vec![java_check, spark_check(program), jar_check()];
    match found {
        Ok(found) => checks.extend(store::checks(arguments, &found)),
        Err(error) => checks.push(
            check("settings", Verdict::Bad, format!("{error:#}"))
                .advise("make the file readable, or name another folder with SPARK_CONF_DIR"),
        ),
    }
    checks.push(temporary_check(java.as_ref()));
    checks
}

/// The settings of an application that `submit` starts with the same options.
fn settings(
    arguments: &Arguments,
    doctor: &SparkDoctor,
    program: Option<&Path>,
) -> Result<Settings> {
    let mut words = Vec::new();
    let file = doctor.properties_file.as_ref().map(|file| file.display().to_string());
    for (option, values) in [
        ("--master", doctor.master.iter().collect::<Vec<_>>()),
        ("--properties-file", file.iter().collect()),
        ("--conf", doctor.conf.iter().collect()),
    ] {
        words.extend(values.into_iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    let line = CommandLine::parse(&words);
    let files = program.map_or_else(|| Ok(BTreeMap::new()), |program| defaults(program, &line))?;
    let own = own(arguments.socket.as_deref(), &doctor.shuffle)?;
    let master = env::var("MASTER").ok().filter(|master| !master.is_empty());
    Ok(Settings::new(files, own, &line, master))
}

fn java_check() -> (Check, Option<Java>) {
    let advice = format!("install Java {JAVA_WANTED} or later and set JAVA_HOME to its folder");
    match java_program().and_then(|program| Ok((java(&program)?, program))) {
        Ok((java, program)) => {
            let verdict = if java.major >= JAVA_WANTED { Verdict::Good } else { Verdict::Bad };
            let found = format!("{} ({})", java.version, program.display());
            (check("java", verdict, found).advise(&advice), Some(java))
        }
        Err(error) => (check("java", Verdict::Bad, format!("{error:#}")).advise(&advice), None),
    }
}

fn spark_check(program: Result<PathBuf>) -> Check {
    let program = match program {
        Ok(program) => program,
        Err(error) => {
            return check("spark", Verdict::Bad, error.to_string())
                .advise("set SPARK_HOME to Spark's folder, or install pyspark");
        }
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

fn jar_check() -> Check {
    match jar() {
        Err(error) => check("jar", Verdict::Bad, error.to_string()),
        Ok(jar) => match whole(&jar) {
            Ok(()) => check("jar", Verdict::Good, jar.display().to_string()),
            Err(error) => check("jar", Verdict::Bad, format!("{}: {error:#}", jar.display()))
                .advise("build it for this machine with `make spark` in Plasmon's sources"),
        },
    }
}

/// Whether a jar is ours, of this version, and for this machine.
fn whole(jar: &Path) -> Result<()> {
    let archive = Archive::open(jar)?;
    let manager = format!("{}/PlasmonShuffleManager.class", PACKAGE.replace('.', "/"));
    if !archive.holds(&manager) {
        bail!("it is not Plasmon's jar: it holds no {manager}");
    }
    let text = archive.text("META-INF/maven/org.plasmon/plasmon-spark/pom.properties")?;
    let version = text.lines().find_map(|line| line.strip_prefix("version="));
    let (version, wanted) = (version.unwrap_or("unknown").trim(), env!("CARGO_PKG_VERSION"));
    if version != wanted {
        bail!("it is of version {version}, and this command of {wanted}");
    }
    let machine = format!("linux-{}", env::consts::ARCH);
    for name in ["libplasmon_jni.so", "plasmond"] {
        if !archive.holds(&format!("META-INF/native/{machine}/{name}")) {
            bail!("it holds no {name} for this machine, {machine}");
        }
    }
    Ok(())
}

/// The driver puts its store's socket into Java's temporary directory.
fn temporary_check(java: Option<&Java>) -> Check {
    let options = env::var("SPARK_SUBMIT_OPTS").unwrap_or_default();
    let mut set =
        options.split_whitespace().filter_map(|word| word.strip_prefix("-Djava.io.tmpdir="));
    let folder = set.next_back().or(java.map(|java| java.temporary.as_str())).unwrap_or("/tmp");
    let long = folder.len() > TEMPORARY_BYTES_MAX;
    let verdict = if long { Verdict::Note } else { Verdict::Good };
    check("temporary folder", verdict, folder).advise(
        "its path is too long for a socket in it: pass \
         --driver-java-options -Djava.io.tmpdir=/tmp",
    )
}
