//! `plasmon spark`: the settings with which Apache Spark's shuffle goes through the store.

mod archive;
mod checks;
mod command_line;
mod installation;
mod jar;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::arguments::{Arguments, Spark};
use crate::output::Output;

use self::command_line::CommandLine;
use self::installation::{defaults, spark_submit};
use self::jar::{PACKAGE, STORE, jar};
use super::check::report;

/// Runs one of the commands.
pub(super) fn run(arguments: &Arguments, command: &Spark, output: &Output) -> Result<()> {
    match command {
        Spark::Jar => {
            let jar = jar()?;
            output.value(&json!({ "jar": jar }), || jar.display().to_string())
        }
        Spark::Conf => {
            let conf =
                conf(arguments.socket.as_deref(), &CommandLine::default(), &BTreeMap::new())?;
            output.value(&json!(conf), || lines(&conf))
        }
        Spark::Submit { arguments: rest } => submit(arguments.socket.as_deref(), rest),
        Spark::Doctor => report(&checks::checks(arguments), output),
    }
}

/// All settings that Spark needs.
fn conf(
    socket: Option<&Path>,
    line: &CommandLine,
    defaults: &BTreeMap<String, String>,
) -> Result<BTreeMap<&'static str, String>> {
    let jar = jar()?.display().to_string();
    if jar.contains(':') {
        bail!(
            "the path of the jar, {jar}, has a colon, which ends an entry of a class path: put \
             the jar elsewhere and name it with PLASMON_SPARK_JAR"
        );
    }
    let mut conf = BTreeMap::from([
        ("spark.shuffle.manager", format!("{PACKAGE}.PlasmonShuffleManager")),
        ("spark.shuffle.sort.io.plugin.class", format!("{PACKAGE}.PlasmonShuffleDataIO")),
    ]);
    conf.extend(line.class_paths(&jar, defaults));
    if let Some(socket) = socket {
        let socket = std::path::absolute(socket)
            .with_context(|| format!("finding the socket {}", socket.display()))?;
        conf.insert(STORE, socket.display().to_string());
    }
    Ok(conf)
}

fn lines(conf: &BTreeMap<&str, String>) -> String {
    let lines: Vec<String> = conf.iter().map(|(key, value)| format!("{key} {value}")).collect();
    lines.join("\n")
}

/// Replaces this process by spark-submit, whose exit code is then that of the command.
fn submit(socket: Option<&Path>, words: &[String]) -> Result<()> {
    let program = spark_submit()?;
    let line = CommandLine::parse(words);
    let mut command = Command::new(&program);
    for (key, value) in conf(socket, &line, &defaults(&program, &line)?)? {
        command.arg("--conf").arg(format!("{key}={value}"));
    }
    let error = command.args(&line.rest).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_lines_of_a_defaults_file() {
        let conf = BTreeMap::from([("spark.a", "1".to_owned()), ("spark.b", "x y".to_owned())]);
        assert_eq!(lines(&conf), "spark.a 1\nspark.b x y");
    }
}
