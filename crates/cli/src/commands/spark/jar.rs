//! The jar of the shuffle, and what Spark calls things in it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::installation::variable;

const JAR: &str = "plasmon-spark.jar";
pub(super) const PACKAGE: &str = "org.apache.spark.shuffle.plasmon";

/// The oldest Java that the jar runs on.
pub(super) const JAVA_WANTED: u32 = 17;

/// Spark's name for the socket of a running store.
pub(super) const STORE: &str = "spark.plasmon.store";

/// Where the jar is: `PLASMON_SPARK_JAR`, beside this command, where an installation puts it, or
/// where the build of this repository does.
pub(super) fn jar() -> Result<PathBuf> {
    if let Some(jar) = variable("PLASMON_SPARK_JAR") {
        if !jar.is_file() {
            bail!("PLASMON_SPARK_JAR names {}, which is not a file", jar.display());
        }
        // Executors run in folders of their own, where a relative path leads nowhere.
        return std::path::absolute(&jar).with_context(|| format!("finding {}", jar.display()));
    }
    let exe = env::current_exe().context("finding the folder of this command")?;
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
